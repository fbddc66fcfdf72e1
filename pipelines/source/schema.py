"""The schema of every table: Spark's types, the Arrow types that follow, one comment per column.

`records` begins with the eight columns of Spark's own Kafka source, with the same names and types.
Where times matter there are two columns: `…_ms` is what Kafka stored (int64, -1 for none), the
other is Spark's timestamp, null if there is none or if Spark cannot hold it.

Some columns are only there if `columns` names them (`ON_REQUEST`): the same long text in every row
would cost more than the rest of the row.
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
"""The default of Spark's own readers (columnNameOfCorruptRecord)."""
Columns = tuple[tuple[str, DataType, str], ...]

_TOPIC: Columns = (
    ("topic", STRING, "from the directory name"),
    ("partition", INT, "from the directory name; null if that names no partition"),
)
_BASE64: Columns = (
    ("path_base64", STRING, "the bytes of a path that is not UTF-8; null for others"),
)
_PATH: Columns = (("path", STRING, "the file"), *_BASE64)
_FILE: Columns = (*_TOPIC, ("segment", LONG, "base offset in the file's name"), *_PATH)
_ORIGIN: Columns = (
    ("segment", LONG, "base offset of the segment that holds the record"),
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
    ("control_type", STRING, "ABORT, COMMIT, … of a control record; null for data"),
    ("compression", STRING, "none, gzip, snappy, lz4 or zstd"),
    ("batch_base_offset", LONG, "of a magic 1 wrapper: the offset of its last record"),
    *_ORIGIN,
    ("magic", SHORT, "0, 1 or 2"),
    ("topic_id", STRING, "from partition.metadata; only if `columns` names it"),
    ("path", STRING, "the .log that holds it; only if `columns` names it"),
    ("path_base64", STRING, "the bytes of a path that is not UTF-8; only if `columns` names it"),
    (
        CORRUPT_RECORD,
        STRING,
        "the damage that the row stands for; null for a record",
    ),
)

BATCHES: Columns = (
    *_FILE,
    ("position", LONG, "of its first byte in the .log"),
    ("size_in_bytes", LONG, "with its header"),
    ("base_offset", LONG, "of a legacy wrapper: the offset of its last record"),
    ("last_offset", LONG, "base offset and last offset delta"),
    ("record_count", INT, "from the header; null in magic 0 and 1, which have no count"),
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
    ("delete_horizon_ms", LONG, "when its tombstones and markers may be removed; null if not set"),
    ("crc", LONG, "the checksum as stored"),
    ("computed_crc", LONG, "the checksum of the bytes; null with verifyChecksums=false"),
    ("is_valid", BOOLEAN, "whether the two agree; null if not checked"),
    ("damage", STRING, "path@position, found, expected; null for a sound batch"),
)

LOG_DIRS: Columns = (
    ("path", STRING, "the directory"),
    *_BASE64,
    ("node_id", INT, "from meta.properties"),
    ("cluster_id", STRING, "from meta.properties"),
    ("directory_id", STRING, "from meta.properties"),
    ("meta_properties_version", INT, "version of its format"),
    ("is_clean", BOOLEAN, "stopped cleanly; null if no broker has used it"),
    ("broker_epoch", LONG, "of the clean shutdown"),
    ("has_lock", BOOLEAN, "a .lock file is there"),
    ("is_running", BOOLEAN, "another process holds .lock: a broker is running"),
    ("checkpoints", TEXTS, "state of each checkpoint file"),
    ("metadata_end_offset", LONG, "of the KRaft metadata here"),
    ("topics", INT, "how many"),
    ("partitions", INT, "how many directories"),
    ("size_in_bytes", LONG, "of all files"),
    ("strays", INT, "files that do not belong there"),
)

PARTITIONS: Columns = (
    ("log_dir", STRING, "the log dir it is in"),
    *_PATH,
    *_TOPIC,
    ("state", STRING, "live, future, delete, stray or unknown"),
    ("topic_id", STRING, "from partition.metadata"),
    ("metadata_topic_id", STRING, "from the KRaft metadata, for this topic name"),
    ("log_start_offset", LONG, "from its checkpoint, or the first segment"),
    ("recovery_point", LONG, "from its checkpoint"),
    ("high_watermark", LONG, "from its checkpoint"),
    ("log_end_offset", LONG, "the offset after the last batch"),
    ("log_end_reason", STRING, "end_of_file, zeroed_tail, truncated_batch or corrupt_batch"),
    ("cleaner_offset", LONG, "from its checkpoint"),
    ("segments", INT, "how many live ones"),
    ("size_in_bytes", LONG, "of all files"),
    ("log_size_in_bytes", LONG, "of live .log files"),
    ("modified_ms", LONG, "of the newest .log"),
    ("strays", INT, "files that do not belong there"),
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
    ("missing", STRINGS, "files that a broker would have here"),
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
    ("stray", STRING, "why it does not belong there"),
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
    ("timestamp_ms", LONG, "the largest in the segment so far"),
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
    ("snapshot_offset", LONG, "in the file name: the state before this offset"),
    ("producer_id", LONG, "whose state it is"),
    ("producer_epoch", SHORT, "of the producer"),
    ("last_sequence", INT, "of its last batch; null if it wrote only markers"),
    ("last_offset", LONG, "of its last batch; null if it wrote only markers"),
    ("offset_delta", INT, "last minus first offset of that batch; null without one"),
    ("timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("timestamp_ms", LONG, "of its last batch, or of a later marker"),
    ("coordinator_epoch", INT, "of its last marker; -1 before the first"),
    ("current_txn_first_offset", LONG, "of its open transaction; null without one"),
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
# is about; the columns that begin with `log_` say where the record itself is.
_LOG: Columns = (
    ("log_partition", INT, "of the internal topic"),
    ("log_offset", LONG, "of the record"),
    ("log_timestamp", TIMESTAMP, "of the record; null if there is none, or Spark cannot hold it"),
    ("log_timestamp_ms", LONG, "exactly as stored; -1 is none"),
    ("log_leader_epoch", INT, "of the record's batch"),
    ("log_producer_id", LONG, "of a transactional write; null for others"),
    ("is_transactional", BOOLEAN, "written in a transaction, which may have been aborted"),
    ("segment", LONG, "base offset of its segment, or end offset of its snapshot"),
    ("position", LONG, "of its batch in that file"),
)
_CODED: Columns = (
    ("is_tombstone", BOOLEAN, "the value is null"),
    ("record_type", STRING, "name of the type; null if it is unknown"),
    ("type_id", SHORT, "number of the type, in the key; null without one"),
    ("value_version", SHORT, "of the value; null for a tombstone"),
)
_STORED: Columns = (
    ("key", BINARY, "as stored"),
    ("value", BINARY, "as stored"),
    ("damage", STRING, "why it could not be decoded; null for a sound record"),
)
CONSUMER_OFFSETS: Columns = (
    ("group_id", STRING, "the group that committed"),
    ("topic", STRING, "committed for"),
    ("partition", INT, "committed for"),
    ("offset", LONG, "where the group continues; null for a tombstone"),
    ("leader_epoch", INT, "of the last record that was consumed; null if not given"),
    ("metadata", STRING, "text of the client"),
    ("commit_timestamp", TIMESTAMP, "null if Spark cannot hold it"),
    ("commit_timestamp_ms", LONG, "when it was committed"),
    ("expire_timestamp_ms", LONG, "only in value version 1; null if not given"),
    ("topic_id", STRING, "only from value version 4 on; null if not given"),
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
    ("member_id", STRING, "the member; null if the record is about the group"),
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
    ("transactional_id", STRING, "whose state it is"),
    ("producer_id", LONG, "null for a tombstone"),
    ("producer_epoch", SHORT, "null for a tombstone"),
    ("status", STRING, "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, …"),
    ("partitions", TOPIC_PARTITIONS, "that take part; null in a state without any"),
    ("transaction_timeout_ms", INT, "as the producer requested"),
    ("start_timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("start_timestamp_ms", LONG, "of the transaction; -1 is none"),
    ("last_update_timestamp", TIMESTAMP, "null if Spark cannot hold it"),
    ("last_update_timestamp_ms", LONG, "of this state"),
    ("previous_producer_id", LONG, "null if not given"),
    ("next_producer_id", LONG, "null if not given"),
    ("next_producer_epoch", SHORT, "null if not given"),
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
    ("snapshot_epoch", INT, "of the snapshot, or of the one it updates"),
    ("state_epoch", INT, "of a snapshot; null for an update"),
    ("leader_epoch", INT, "of the share partition's leader"),
    ("start_offset", LONG, "first offset that is not complete; -1 if not given"),
    ("delivery_complete_count", INT, "null if not given"),
    ("state_batches", STATE_BATCHES, "what was delivered, and how often"),
    ("create_timestamp_ms", LONG, "of a snapshot; null for an update"),
    ("write_timestamp_ms", LONG, "of a snapshot; null for an update"),
    *_CODED,
    *_LOG,
    *_STORED,
)
CLUSTER_METADATA: Columns = (
    ("record_type", STRING, "name of the type; null if unknown, and for control records"),
    ("api_key", SHORT, "number of the type; null for control records"),
    ("version", SHORT, "of the record"),
    ("control_type", STRING, "of control records of the quorum; null for metadata"),
    ("topic", STRING, "where the record names it"),
    ("topic_id", STRING, "where the record names it"),
    ("partition", INT, "of partition records"),
    ("leader", INT, "of partition records; -1 is none, null is unchanged"),
    ("leader_epoch", INT, "of partition records"),
    ("partition_epoch", INT, "of partition records"),
    ("replicas", ArrayType(INT), "of partition records; null is unchanged"),
    ("isr", ArrayType(INT), "of partition records; null is unchanged"),
    ("broker_id", INT, "of broker records"),
    ("broker_epoch", LONG, "of broker records"),
    ("value_json", STRING, "all of it, as kafka-dump-log writes it; null if unknown"),
    ("is_snapshot", BOOLEAN, "of a .checkpoint, not of the log"),
    *_LOG,
    *_STORED,
    *_PATH,
)
FINDINGS: Columns = (
    ("id", STRING, "the rule; each has a page in docs/findings"),
    ("severity", STRING, "error, warning or note"),
    *_TOPIC,
    *_PATH,
    ("position", LONG, "in that file; null if about the whole file"),
    ("offset", LONG, "in the log, where one is known"),
    ("found", STRING, "what is there"),
    ("expected", STRING, "what should be"),
    ("on_restart", STRING, "what a broker does about it when it starts"),
    ("what_to_do", STRING, "the first advice of the rule's page"),
)
COMPACTION: Columns = (
    *_TOPIC,
    ("round", INT, "of the cleaner, from 1 on"),
    ("segment", LONG, "base offset of the segment it was read from"),
    ("position", LONG, "of its batch in that .log"),
    ("base_offset", LONG, "of its batch"),
    ("offset", LONG, "of a record; null if the row is about a batch"),
    ("key", BINARY, "null is not empty"),
    ("is_tombstone", BOOLEAN, "a record whose value is null"),
    ("timestamp", TIMESTAMP, "null if there is none, or Spark cannot hold it"),
    ("timestamp_ms", LONG, "exactly as stored (of a batch: the largest); -1 is none"),
    ("producer_id", LONG, "null unless idempotent or transactional"),
    ("verdict", STRING, "kept or removed"),
    ("rule", STRING, "the reason: see docs/explain.md"),
    ("superseded_by", LONG, "the offset of the latest record of its key; null for other reasons"),
    ("delete_horizon_ms", LONG, "when a tombstone or marker may be removed, as stored or set now"),
    ("marker_offset", LONG, "of the marker that aborted its transaction"),
    ("held_until_ms", LONG, "when min.compaction.lag.ms allows cleaning"),
    ("held_by", LONG, "the producer whose open transaction blocks the cleaner"),
    ("record_count", INT, "if the row is about a batch: how many it had"),
    ("detail", STRING, "the rule as a sentence"),
    ("path", STRING, "the partition's directory; only if `columns` names it"),
    ("path_base64", STRING, "the bytes of a path that is not UTF-8; only if `columns` names it"),
)

_DIRECTORY: Columns = (
    ("directory_state", STRING, "live: other directories have no rows"),
    ("path", STRING, "the partition's directory"),
    *_BASE64,
)
TRANSACTIONS: Columns = (
    *_TOPIC,
    ("producer_id", LONG, "whose transaction it is"),
    ("producer_epoch", SHORT, "of its data; of an empty transaction, that of the marker"),
    (
        "transactional_id",
        STRING,
        "null if no record of __transaction_state here names the producer",
    ),
    ("state", STRING, "open, hanging, committed or aborted"),
    ("first_offset", LONG, "of its data; null if it is empty"),
    ("last_offset", LONG, "of its data; null if it is empty"),
    ("marker_offset", LONG, "null without a marker"),
    ("start_timestamp", LONG, "of its first record; null if that is no longer in the log"),
    ("last_timestamp", LONG, "of its last batch, or of its marker"),
    ("age_ms", LONG, "since its start; null unless it is open"),
    ("timeout_ms", INT, "of the transactional id; null if that is unknown"),
    ("records", LONG, "in its batches"),
    ("size_in_bytes", LONG, "of its batches"),
    ("is_empty", BOOLEAN, "a marker without data before it"),
    ("holds_last_stable_offset", BOOLEAN, "read_committed consumers do not get past it"),
    ("coordinator_epoch", INT, "of the marker; -1 if there is none"),
    ("reason", STRING, "why it hangs, or why that is unknown; null for others"),
    ("abort_command", STRING, "the kafka-transactions command for a hanging one; null for others"),
    *_DIRECTORY,
)
PRODUCERS: Columns = (
    *_TOPIC,
    ("producer_id", LONG, "as the broker's DescribeProducers answers"),
    ("producer_epoch", SHORT, "the last one seen"),
    ("last_sequence", INT, "of its last batch; -1 if there is none in this epoch"),
    ("last_timestamp", LONG, "of its last batch or marker; -1 if there is none"),
    ("coordinator_epoch", INT, "of its last marker; -1 before the first"),
    ("current_txn_start_offset", LONG, "of its open transaction; -1 without one"),
    ("expired", BOOLEAN, "a load at `now` drops it"),
    ("transactional_id", STRING, "null if no record of __transaction_state here names it"),
    *_DIRECTORY,
)
TRANSACTIONAL_IDS: Columns = (
    ("transactional_id", STRING, "the id"),
    ("state", STRING, "Empty, Ongoing, PrepareCommit, CompleteCommit, …"),
    ("producer_id", LONG, "its producer"),
    ("producer_epoch", SHORT, "of that producer"),
    ("timeout_ms", INT, "as the producer requested"),
    ("partitions", STRINGS, "topic-partition of each that takes part; empty if there are none"),
    ("start_timestamp", LONG, "of the transaction; -1 is none"),
    ("age_ms", LONG, "since that start; null unless it is open or ending"),
    ("last_update_timestamp", LONG, "of this state"),
    *_DIRECTORY,
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
    "transactions": TRANSACTIONS,
    "producers": PRODUCERS,
    "transactional_ids": TRANSACTIONAL_IDS,
}
ON_REQUEST: dict[str, frozenset[str]] = {
    "records": frozenset({"path", "path_base64", "topic_id"}),
    "compaction": frozenset({"path", "path_base64"}),
}
WHAT_IF = frozenset({"compaction", "transactions", "producers", "transactional_ids"})
"""Tables that depend on the time of the query: an export of everything leaves them out."""
VIEWS = {"open_transactions": ("transactions", "state IN ('open', 'hanging')")}
"""Views that are part of a table: by name, the table and the condition."""


def column_names(table: str) -> tuple[str, ...]:
    """Return the columns that a table has by default."""
    hidden = ON_REQUEST.get(table, frozenset())
    return tuple(name for name, _, _ in COLUMNS[table] if name not in hidden)


def spark_schema(
    table: str, columns: Sequence[str] | None = None, shown: Sequence[str] | None = None
) -> StructType:
    """Return the schema with the default columns, or with `columns` in the given order.

    `shown` are the names to show, if they differ.
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
    """Return the schema that Spark expects of the Arrow batches of the table."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = {name: kind for name, kind, _ in COLUMNS[table]}
    plain = StructType([StructField(name, kinds[name]) for name in columns or column_names(table)])
    return to_arrow_schema(plain, timezone="UTC")


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a hint with a known name that is similar; empty if there is none."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean {by_lower[close[0]]}?)" if close else ""
