"""The schema of every table, once: Spark's types, the Arrow types that follow, a comment a column.

`records` begins with the eight columns of Spark's own Kafka source, of the same names and types.
Times come twice where they matter: `…_ms` is what Kafka stored (int64, -1 for none), the other is
Spark's timestamp, null where there is none or Spark cannot hold it.

A table may have columns that are only there if `columns` names them (`ON_REQUEST`): the same long
text in every row would cost more to carry than the rest of the row.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

BINARY, BOOLEAN, INT, LONG = BinaryType(), BooleanType(), IntegerType(), LongType()
SHORT, STRING, TIMESTAMP = ShortType(), StringType(), TimestampType()
STRINGS = ArrayType(STRING)
TEXTS = MapType(STRING, STRING)
HEADERS = ArrayType(StructType([StructField("key", STRING), StructField("value", BINARY)]))

CORRUPT_RECORD = "_corrupt_record"
"""As Spark's own readers call it (columnNameOfCorruptRecord)."""
Columns = tuple[tuple[str, DataType, str], ...]

_TOPIC: Columns = (
    ("topic", STRING, "by the name of the directory"),
    ("partition", INT, "by the name of the directory; null if that is no partition's"),
)
_BASE64: Columns = (
    ("path_base64", STRING, "the bytes of a path that is no UTF-8; null of one that is"),
)
_PATH: Columns = (("path", STRING, "the file"), *_BASE64)
_FILE: Columns = (*_TOPIC, ("segment", LONG, "base offset in the file's name"), *_PATH)
_ORIGIN: Columns = (
    ("segment", LONG, "base offset of the segment the record lies in"),
    ("position", LONG, "of its batch in the .log"),
)

_BATCH_MEANING: Columns = (
    ("leader_epoch", INT, "partition leader epoch of the batch; null in magic 0 and 1"),
    ("producer_id", LONG, "null unless idempotent or transactional"),
    ("producer_epoch", SHORT, "null without a producer id"),
)

RECORDS: Columns = (
    ("key", BINARY, "null is not empty"),
    ("value", BINARY, "null is a tombstone, empty is not"),
    *_TOPIC,
    ("offset", LONG, "in the log"),
    ("timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("timestampType", INT, "-1 none (magic 0), 0 CreateTime, 1 LogAppendTime"),
    ("headers", HEADERS, "null if there are none"),
    ("timestamp_ms", LONG, "exactly as stored; -1 is none"),
    *_BATCH_MEANING,
    ("sequence", INT, "of the record; null without one"),
    ("is_transactional", BOOLEAN, "part of a transaction"),
    ("control_type", STRING, "ABORT, COMMIT, … of a control record; null of data"),
    ("compression", STRING, "none, gzip, snappy, lz4 or zstd"),
    ("batch_base_offset", LONG, "of a magic 1 wrapper: the offset of its last record"),
    *_ORIGIN,
    ("magic", SHORT, "0, 1 or 2"),
    ("topic_id", STRING, "by partition.metadata; only if `columns` names it"),
    ("path", STRING, "the .log it lies in; only if `columns` names it"),
    ("path_base64", STRING, "of a path that is no UTF-8; only if `columns` names it"),
    (CORRUPT_RECORD, STRING, "of a row that stands for damage: what; null of a record"),
)

BATCHES: Columns = (
    *_FILE,
    ("position", LONG, "of its first byte in the .log"),
    ("size_in_bytes", LONG, "with its header"),
    ("base_offset", LONG, "of a legacy wrapper: the offset of its last record"),
    ("last_offset", LONG, "base offset and last offset delta"),
    ("record_count", INT, "as the header says; null in magic 0 and 1, which do not"),
    ("magic", SHORT, "0, 1 or 2"),
    ("compression", STRING, "none, gzip, snappy, lz4 or zstd"),
    ("timestampType", INT, "-1 none (magic 0), 0 CreateTime, 1 LogAppendTime"),
    ("base_timestamp_ms", LONG, "of the first record, or the delete horizon; null in magic 0, 1"),
    ("max_timestamp_ms", LONG, "of its records; -1 is none"),
    ("max_timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    *_BATCH_MEANING,
    ("base_sequence", INT, "null without one"),
    ("is_transactional", BOOLEAN, "part of a transaction"),
    ("is_control", BOOLEAN, "a marker, or another control record"),
    ("delete_horizon_ms", LONG, "when its tombstones and markers may go; null if not set"),
    ("crc", LONG, "the checksum as stored"),
    ("computed_crc", LONG, "the checksum of the bytes; null with verifyChecksums=false"),
    ("is_valid", BOOLEAN, "whether the two agree; null if nobody looked"),
    ("damage", STRING, "path@position, found, expected; null of a sound batch"),
)

LOG_DIRS: Columns = (
    ("path", STRING, "the directory"),
    *_BASE64,
    ("node_id", INT, "by meta.properties"),
    ("cluster_id", STRING, "by meta.properties"),
    ("directory_id", STRING, "by meta.properties"),
    ("meta_properties_version", INT, "its format"),
    ("is_clean", BOOLEAN, "stopped in order; null if no broker's sign is there"),
    ("broker_epoch", LONG, "of the clean stop"),
    ("has_lock", BOOLEAN, "a .lock file is there"),
    ("is_running", BOOLEAN, "another process holds .lock: a broker runs on this directory"),
    ("checkpoints", TEXTS, "state of each checkpoint file"),
    ("metadata_end_offset", LONG, "of the KRaft metadata here"),
    ("topics", INT, "how many"),
    ("partitions", INT, "how many directories"),
    ("size_in_bytes", LONG, "of all files"),
    ("strays", INT, "files that are no living part"),
)

PARTITIONS: Columns = (
    ("log_dir", STRING, "the log dir it is in"),
    *_PATH,
    *_TOPIC,
    ("state", STRING, "live, future, delete, stray or unknown"),
    ("topic_id", STRING, "by partition.metadata"),
    ("metadata_topic_id", STRING, "by the KRaft metadata, for the topic of this name"),
    ("log_start_offset", LONG, "first segment, or its checkpoint"),
    ("recovery_point", LONG, "by its checkpoint"),
    ("high_watermark", LONG, "by its checkpoint"),
    ("log_end_offset", LONG, "behind the last batch"),
    ("log_end_reason", STRING, "end_of_file, zeroed_tail, truncated_batch or corrupt_batch"),
    ("cleaner_offset", LONG, "by its checkpoint"),
    ("segments", INT, "how many live ones"),
    ("size_in_bytes", LONG, "of all files"),
    ("log_size_in_bytes", LONG, "of live .log files"),
    ("modified_ms", LONG, "of the newest .log"),
    ("strays", INT, "files that are no living part"),
)

SEGMENTS: Columns = (
    *_PATH,
    *_TOPIC,
    ("base_offset", LONG, "in the file's name"),
    ("state", STRING, "live, deleted, cleaned or swap"),
    ("size_in_bytes", LONG, "of the .log; null without one"),
    ("offset_index_size", LONG, "null without one"),
    ("time_index_size", LONG, "null without one"),
    ("transaction_index_size", LONG, "null without one"),
    ("producer_snapshot_size", LONG, "null without one"),
    ("modified_ms", LONG, "of the .log"),
    ("missing", STRINGS, "what a broker would have beside it"),
)

FILES: Columns = (
    *_PATH,
    *_TOPIC,
    ("file_kind", STRING, "what it is"),
    ("state", STRING, "live, or what its suffix says"),
    ("offset", LONG, "in its name"),
    ("size_in_bytes", LONG, "as listed"),
    ("modified_ms", LONG, "as listed"),
    ("what", STRING, "in words"),
    ("stray", STRING, "why it is no living part of where it stands"),
)

OFFSET_INDEX: Columns = (
    *_FILE,
    ("entry", INT, "from 0 on"),
    ("offset", LONG, "last offset of the batch"),
    ("position", LONG, "of that batch in the .log"),
)
TIME_INDEX: Columns = (
    *_FILE,
    ("entry", INT, "from 0 on"),
    ("timestamp", TIMESTAMP, "null if Spark cannot hold it"),
    ("timestamp_ms", LONG, "the largest of the segment up to here"),
    ("offset", LONG, "last offset of the first batch that reached it"),
)
TRANSACTION_INDEX: Columns = (
    *_FILE,
    ("entry", INT, "from 0 on"),
    ("version", SHORT, "of the entry"),
    ("producer_id", LONG, "whose transaction was aborted"),
    ("first_offset", LONG, "of its data"),
    ("last_offset", LONG, "of its ABORT marker"),
    ("last_stable_offset", LONG, "when the marker was written"),
)

_IS_VALID: Columns = (("is_valid", BOOLEAN, "false in a file that a broker refuses; see findings"),)
PRODUCER_SNAPSHOTS: Columns = (
    *_TOPIC,
    ("snapshot_offset", LONG, "in the file's name: what was written before this offset"),
    ("producer_id", LONG, "whose state"),
    ("producer_epoch", SHORT, "of the producer"),
    ("last_sequence", INT, "of its last batch; null if it wrote markers alone"),
    ("last_offset", LONG, "of its last batch; null if it wrote markers alone"),
    ("offset_delta", INT, "last less first offset of that batch; null without one"),
    ("timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("timestamp_ms", LONG, "of its last batch, or of a later marker"),
    ("coordinator_epoch", INT, "of its last marker; -1 before the first"),
    ("current_txn_first_offset", LONG, "of its open transaction; null if none is"),
    *_IS_VALID,
    *_PATH,
)
LEADER_EPOCHS: Columns = (
    *_TOPIC,
    ("epoch", INT, "of a leader"),
    ("start_offset", LONG, "first offset of that epoch"),
    *_IS_VALID,
    *_PATH,
)
CHECKPOINTS: Columns = (
    ("log_dir", STRING, "the log dir it is of"),
    ("checkpoint", STRING, "the file's name: which offsets these are"),
    ("topic", STRING, "of the row"),
    ("partition", INT, "of the row"),
    ("offset", LONG, "as checkpointed"),
    *_IS_VALID,
    *_PATH,
)

# Records of Kafka's own topics. `topic`, `partition`, `offset` and `leader_epoch` are what a record
# is about; where it lies itself is told by columns that begin with `log_`.
_LOG: Columns = (
    ("log_partition", INT, "of the internal topic"),
    ("log_offset", LONG, "of the record"),
    ("log_timestamp", TIMESTAMP, "of the record; null if there is none, or Spark cannot hold it"),
    ("log_timestamp_ms", LONG, "exactly as stored; -1 is none"),
    ("log_leader_epoch", INT, "of the record's batch"),
    ("log_producer_id", LONG, "of a transactional write; null of others"),
    ("is_transactional", BOOLEAN, "written in a transaction, which may have been aborted"),
    ("segment", LONG, "base offset of the segment, or end offset of the snapshot, it lies in"),
    ("position", LONG, "of its batch in that file"),
)
_CODED: Columns = (
    ("is_tombstone", BOOLEAN, "the value is null"),
    ("record_type", STRING, "name of the type; null if it is unknown"),
    ("type_id", SHORT, "number of the type, in the key; null without one"),
    ("value_version", SHORT, "of the value; null of a tombstone"),
)
_STORED: Columns = (
    ("key", BINARY, "as stored"),
    ("value", BINARY, "as stored"),
    ("damage", STRING, "why it could not be decoded; null of a sound record"),
)
CONSUMER_OFFSETS: Columns = (
    ("group_id", STRING, "who committed"),
    ("topic", STRING, "committed for"),
    ("partition", INT, "committed for"),
    ("offset", LONG, "where the group goes on; null of a tombstone"),
    ("leader_epoch", INT, "of the last record that was consumed; null if not told"),
    ("metadata", STRING, "the client's own text"),
    ("commit_timestamp", TIMESTAMP, "null if Spark cannot hold it"),
    ("commit_timestamp_ms", LONG, "when it was committed"),
    ("expire_timestamp_ms", LONG, "only in value version 1; null if not told"),
    ("topic_id", STRING, "only from value version 4 on; null if not told"),
    *_CODED,
    *_LOG,
    *_STORED,
)
_JSON: Columns = (
    ("key_json", STRING, "all of the key, as kafka-dump-log writes it; null if unknown"),
    ("value_json", STRING, "all of the value, as kafka-dump-log writes it; null if unknown"),
)
GROUP_METADATA: Columns = (
    ("group_id", STRING, "the group"),
    ("member_id", STRING, "the member; null of what is about the group"),
    ("epoch", INT, "generation of a classic group; else of group, assignment or member"),
    ("protocol_type", STRING, "of a classic group: consumer, connect, …"),
    ("protocol", STRING, "of a classic group: the assignor it chose"),
    ("leader", STRING, "of a classic group: the member that assigns"),
    *_JSON,
    *_CODED,
    *_LOG,
    *_STORED,
)
TOPIC_PARTITIONS = ArrayType(
    StructType([StructField("topic", STRING), StructField("partition", INT)])
)
TRANSACTION_STATE: Columns = (
    ("transactional_id", STRING, "whose state"),
    ("producer_id", LONG, "null of a tombstone"),
    ("producer_epoch", SHORT, "null of a tombstone"),
    ("status", STRING, "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, …"),
    ("partitions", TOPIC_PARTITIONS, "that take part; null if none can"),
    ("transaction_timeout_ms", INT, "as the producer asked for"),
    ("start_timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("start_timestamp_ms", LONG, "of the transaction; -1 is none"),
    ("last_update_timestamp", TIMESTAMP, "null if Spark cannot hold it"),
    ("last_update_timestamp_ms", LONG, "of this state"),
    ("previous_producer_id", LONG, "null if not told"),
    ("next_producer_id", LONG, "null if not told"),
    ("next_producer_epoch", SHORT, "null if not told"),
    ("client_transaction_version", SHORT, "null in value version 0"),
    *_CODED,
    *_LOG,
    *_STORED,
)
STATE_BATCHES = ArrayType(
    StructType(
        [
            StructField("first_offset", LONG),
            StructField("last_offset", LONG),
            StructField("delivery_state", SHORT),
            StructField("delivery_count", SHORT),
        ]
    )
)
SHARE_GROUP_STATE: Columns = (
    ("group_id", STRING, "the share group"),
    ("topic_id", STRING, "of what"),
    ("partition", INT, "of what"),
    ("snapshot_epoch", INT, "of the snapshot, or of the one that is updated"),
    ("state_epoch", INT, "of a snapshot; null of an update"),
    ("leader_epoch", INT, "of the share partition's leader"),
    ("start_offset", LONG, "first offset that is not done; -1 if not told"),
    ("delivery_complete_count", INT, "null if not told"),
    ("state_batches", STATE_BATCHES, "what was delivered, and how often"),
    ("create_timestamp_ms", LONG, "of a snapshot; null of an update"),
    ("write_timestamp_ms", LONG, "of a snapshot; null of an update"),
    *_CODED,
    *_LOG,
    *_STORED,
)
CLUSTER_METADATA: Columns = (
    ("record_type", STRING, "name of the type; null if unknown, and of control records"),
    ("api_key", SHORT, "number of the type; null of control records"),
    ("version", SHORT, "of the record"),
    ("control_type", STRING, "of what the quorum itself writes; null of metadata"),
    ("topic", STRING, "where the record names it"),
    ("topic_id", STRING, "where the record names it"),
    ("partition", INT, "of partition records"),
    ("leader", INT, "of partition records; -1 is none, null is as before"),
    ("leader_epoch", INT, "of partition records"),
    ("partition_epoch", INT, "of partition records"),
    ("replicas", ArrayType(INT), "of partition records; null is as before"),
    ("isr", ArrayType(INT), "of partition records; null is as before"),
    ("broker_id", INT, "of broker records"),
    ("broker_epoch", LONG, "of broker records"),
    ("value_json", STRING, "all of it, as kafka-dump-log writes it; null if unknown"),
    ("is_snapshot", BOOLEAN, "of a .checkpoint, not of the log"),
    *_LOG,
    *_STORED,
    *_PATH,
)
FINDINGS: Columns = (
    ("id", STRING, "which rule: a page in docs/findings each"),
    ("severity", STRING, "error, warning or note"),
    *_TOPIC,
    *_PATH,
    ("position", LONG, "in that file; null of the file itself"),
    ("offset", LONG, "in the log, where one is known"),
    ("found", STRING, "what is there"),
    ("expected", STRING, "what should be"),
    ("on_restart", STRING, "what a broker does about it when it starts"),
)
COMPACTION: Columns = (
    *_TOPIC,
    ("round", INT, "of the cleaner, from 1 on"),
    ("segment", LONG, "base offset of the segment that it was read from"),
    ("position", LONG, "of its batch in that .log"),
    ("base_offset", LONG, "of its batch"),
    ("offset", LONG, "of a record; null of a row that is about a batch"),
    ("key", BINARY, "null is not empty"),
    ("is_tombstone", BOOLEAN, "a record whose value is null"),
    ("timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("timestamp_ms", LONG, "exactly as stored, of a batch the largest; -1 is none"),
    ("producer_id", LONG, "null unless idempotent or transactional"),
    ("verdict", STRING, "kept or removed"),
    ("rule", STRING, "why: see docs/explain.md"),
    ("superseded_by", LONG, "the offset of the latest record of its key; null if not for that"),
    ("delete_horizon_ms", LONG, "when a tombstone or marker may go, as stored or as now set"),
    ("marker_offset", LONG, "of the marker that aborted its transaction"),
    ("held_until_ms", LONG, "when min.compaction.lag.ms lets the cleaner at it"),
    ("held_by", LONG, "the producer whose open transaction keeps the cleaner off"),
    ("record_count", INT, "of a row that is about a batch: how many it had"),
    ("detail", STRING, "the rule as a sentence"),
    ("path", STRING, "the partition's directory; only if `columns` names it"),
    ("path_base64", STRING, "of a path that is no UTF-8; only if `columns` names it"),
)

COLUMNS: dict[str, Columns] = {
    "records": RECORDS,
    "batches": BATCHES,
    "segments": SEGMENTS,
    "partitions": PARTITIONS,
    "log_dirs": LOG_DIRS,
    "files": FILES,
    "offset_index": OFFSET_INDEX,
    "time_index": TIME_INDEX,
    "transaction_index": TRANSACTION_INDEX,
    "producer_snapshots": PRODUCER_SNAPSHOTS,
    "leader_epochs": LEADER_EPOCHS,
    "checkpoints": CHECKPOINTS,
    "consumer_offsets": CONSUMER_OFFSETS,
    "group_metadata": GROUP_METADATA,
    "transaction_state": TRANSACTION_STATE,
    "share_group_state": SHARE_GROUP_STATE,
    "cluster_metadata": CLUSTER_METADATA,
    "findings": FINDINGS,
    "compaction": COMPACTION,
}
ON_REQUEST: dict[str, frozenset[str]] = {
    "records": frozenset({"path", "path_base64", "topic_id"}),
    "compaction": frozenset({"path", "path_base64"}),
}
WHAT_IF = frozenset({"compaction"})
"""Tables of what would be, not of what is there: those who want everything do not mean them."""


def column_names(table: str) -> tuple[str, ...]:
    """Those a table has unless `columns` says otherwise."""
    hidden = ON_REQUEST.get(table, frozenset())
    return tuple(name for name, _, _ in COLUMNS[table] if name not in hidden)


def spark_schema(
    table: str, columns: Sequence[str] | None = None, shown: Sequence[str] | None = None
) -> StructType:
    """All columns but those on request, or just these, in the order in which they are named.

    `shown` is what they are called, if that is to differ.
    """
    known = {name: (kind, comment) for name, kind, comment in COLUMNS[table]}
    names = columns or column_names(table)
    return StructType(
        [
            StructField(called, known[name][0], nullable=True, metadata={"comment": known[name][1]})
            for name, called in zip(names, shown or names, strict=True)
        ]
    )


@cache
def arrow_schema(table: str, columns: tuple[str, ...] | None = None) -> pa.Schema:
    """What Spark expects of the Arrow batches of that schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = {name: kind for name, kind, _ in COLUMNS[table]}
    plain = StructType([StructField(name, kinds[name]) for name in columns or column_names(table)])
    return to_arrow_schema(plain, timezone="UTC")


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is not known; empty if none is near."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean {by_lower[close[0]]}?)" if close else ""
