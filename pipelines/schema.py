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

Columns = tuple[tuple[str, DataType, str], ...]

_TOPIC: Columns = (
    ("topic", STRING, "by the name of the directory"),
    ("partition", INT, "by the name of the directory; null if that is no partition's"),
)
_PATH: Columns = (("path", STRING, "the file"),)
_FILE: Columns = (*_TOPIC, ("segment", LONG, "base offset in the file's name"), *_PATH)
_RECORD: Columns = (
    *_TOPIC,
    ("offset", LONG, "in the log"),
    ("timestamp", TIMESTAMP, "of the record"),
)
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
    ("path", STRING, "the .log it lies in; only if `columns` names it"),
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
    ("node_id", INT, "by meta.properties"),
    ("cluster_id", STRING, "by meta.properties"),
    ("directory_id", STRING, "by meta.properties"),
    ("meta_properties_version", INT, "its format"),
    ("is_clean", BOOLEAN, "stopped in order; null if no broker's sign is there"),
    ("broker_epoch", LONG, "of the clean stop"),
    ("has_lock", BOOLEAN, "a .lock file is there"),
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

PRODUCER_SNAPSHOTS: Columns = (
    *_TOPIC,
    *_PATH,
    ("snapshot_offset", LONG, "in the file's name: valid up to here"),
    ("producer_id", LONG, "of the entry"),
    ("producer_epoch", SHORT, "of the entry"),
    ("last_sequence", INT, "of its last batch; -1 is none"),
    ("last_offset", LONG, "of its last batch; -1 is none"),
    ("offset_delta", INT, "of its last batch"),
    ("timestamp_ms", LONG, "of its last batch or marker"),
    ("coordinator_epoch", INT, "of its last marker; -1 is none"),
    ("current_txn_first_offset", LONG, "of the open transaction; null if none"),
)
LEADER_EPOCHS: Columns = (
    *_TOPIC,
    *_PATH,
    ("epoch", INT, "of a leader"),
    ("start_offset", LONG, "first offset of that epoch"),
)
CHECKPOINTS: Columns = (
    ("log_dir", STRING, "the log dir"),
    *_PATH,
    ("checkpoint", STRING, "the file's name"),
    *_TOPIC,
    ("offset", LONG, "as checkpointed"),
)

_COORDINATOR: Columns = (*_RECORD, *_ORIGIN)
CONSUMER_OFFSETS: Columns = (
    *_COORDINATOR,
    ("key_version", SHORT, "of the key"),
    ("value_version", SHORT, "of the value; null of a tombstone"),
    ("group_id", STRING, "whose offset"),
    ("committed_topic", STRING, "of what"),
    ("committed_partition", INT, "of what"),
    ("committed_offset", LONG, "where the group goes on; null of a tombstone"),
    ("committed_leader_epoch", INT, "null if not told"),
    ("metadata", STRING, "the client's own"),
    ("commit_timestamp_ms", LONG, "of the commit"),
    ("expire_timestamp_ms", LONG, "version 1 alone"),
    ("is_tombstone", BOOLEAN, "the commit is gone from here on"),
    ("producer_id", LONG, "of a transactional commit"),
    ("value_json", STRING, "the whole value, as kafka-dump-log writes it"),
    ("key", BINARY, "as stored"),
    ("value", BINARY, "as stored"),
    ("damage", STRING, "why it could not be decoded"),
)
_DECODED: Columns = (
    ("record_type", STRING, "the name of the key's message; null if unknown"),
    ("key_version", SHORT, "record type, or version of the key"),
    ("value_version", SHORT, "of the value; null of a tombstone"),
)
_DECODED_END: Columns = (
    ("is_tombstone", BOOLEAN, "the value is null"),
    ("key_json", STRING, "the key as kafka-dump-log writes it; null if unknown"),
    ("value_json", STRING, "the value as kafka-dump-log writes it"),
    ("key", BINARY, "as stored"),
    ("value", BINARY, "as stored"),
    ("damage", STRING, "why it could not be decoded"),
)
GROUP_METADATA: Columns = (
    *_COORDINATOR,
    *_DECODED,
    ("group_id", STRING, "the group"),
    *_DECODED_END,
)
TRANSACTION_STATE: Columns = (
    *_COORDINATOR,
    *_DECODED,
    ("transactional_id", STRING, "whose state"),
    ("producer_id", LONG, "at this time"),
    ("producer_epoch", SHORT, "at this time"),
    ("status", STRING, "Empty, Ongoing, PrepareCommit, …"),
    ("timeout_ms", INT, "of the transaction"),
    ("partitions", STRINGS, "topic-partition of those that take part"),
    ("last_update_timestamp_ms", LONG, "of the state"),
    ("start_timestamp_ms", LONG, "of the transaction"),
    *_DECODED_END,
)
SHARE_GROUP_STATE: Columns = (
    *_COORDINATOR,
    *_DECODED,
    ("group_id", STRING, "the share group"),
    ("share_topic_id", STRING, "of what"),
    ("share_partition", INT, "of what"),
    *_DECODED_END,
)
CLUSTER_METADATA: Columns = (
    *_PATH,
    ("is_snapshot", BOOLEAN, "of a .checkpoint, not of the log"),
    ("offset", LONG, "in the log, or in the snapshot"),
    ("leader_epoch", INT, "of the batch"),
    ("timestamp", TIMESTAMP, "null if there is none"),
    ("timestamp_ms", LONG, "exactly as stored"),
    ("record_type", STRING, "the message's name; null if unknown"),
    ("api_key", INT, "of the message; null of a control record"),
    ("version", SHORT, "of the message"),
    ("control_type", STRING, "of a control record"),
    ("value_json", STRING, "as kafka-dump-log writes it"),
    ("value", BINARY, "as stored"),
    ("segment", LONG, "base offset, or the snapshot's end offset"),
    ("position", LONG, "of its batch"),
    ("damage", STRING, "why it could not be decoded"),
)
FINDINGS: Columns = (
    ("id", STRING, "as in docs/findings"),
    ("severity", STRING, "error, warning or note"),
    *_TOPIC,
    *_PATH,
    ("position", LONG, "in that file"),
    ("offset", LONG, "in the log, where one is known"),
    ("found", STRING, "what is there"),
    ("expected", STRING, "what should be"),
    ("meaning", STRING, "what it means for a restart"),
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
}
ON_REQUEST: dict[str, frozenset[str]] = {"records": frozenset({"path"})}


def column_names(table: str) -> tuple[str, ...]:
    """Those a table has unless `columns` says otherwise."""
    hidden = ON_REQUEST.get(table, frozenset())
    return tuple(name for name, _, _ in COLUMNS[table] if name not in hidden)


def spark_schema(table: str, columns: Sequence[str] | None = None) -> StructType:
    """All columns but those on request, or just these, in the order in which they are named."""
    known = {name: (kind, comment) for name, kind, comment in COLUMNS[table]}
    return StructType(
        [
            StructField(name, known[name][0], nullable=True, metadata={"comment": known[name][1]})
            for name in columns or column_names(table)
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
