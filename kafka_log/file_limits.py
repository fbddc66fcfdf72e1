"""The largest size of a file of each kind: a larger one is damage, and is not read.

Logs, metadata snapshots, and offset and time indexes are opened by FileRecords and AbstractIndex,
which count positions in Java's int. A transaction index has at most one entry for each marker in
its segment, and a marker takes 78 bytes there: 61 for the batch header and 17 for its record.

A producer snapshot has 46 bytes for each producer id that wrote to the partition within
producer.id.expiration.ms, by default a day. 64 MiB hold 1.4 million ids: one partition with 16 new
producers per second, all day. Kafka reads the file into one buffer, up to 2^31 - 1 bytes, but it
keeps an object per id on its heap, and so do we: a larger file would take minutes to judge.

Kafka sets no limit for text files. 64 MiB leave room for two hundred thousand partitions with the
longest names in one log dir. A checkpoint has at most a million rows
(kafka_format.checkpoint_file.MAX_ROWS).
"""

from kafka_format.access import JAVA_MAX
from kafka_log.names import FileKind

_ABORTED_TRANSACTION_SIZE = 34
_MARKER_SIZE = 61 + 17
_TRANSACTION_INDEX_MAX = JAVA_MAX // _MARKER_SIZE * _ABORTED_TRANSACTION_SIZE
_PRODUCER_SNAPSHOT_MAX = 64 * 1024 * 1024
_TEXT_MAX = 64 * 1024 * 1024

_LIMITS = {
    **dict.fromkeys(FileKind, _TEXT_MAX),
    **dict.fromkeys(
        (
            FileKind.LOG,
            FileKind.METADATA_SNAPSHOT,
            FileKind.BOOTSTRAP_CHECKPOINT,
            FileKind.OFFSET_INDEX,
            FileKind.REMOTE_OFFSET_INDEX,
            FileKind.TIME_INDEX,
            FileKind.REMOTE_TIME_INDEX,
            FileKind.UNKNOWN,
        ),
        JAVA_MAX,
    ),
    FileKind.PRODUCER_SNAPSHOT: _PRODUCER_SNAPSHOT_MAX,
    FileKind.TRANSACTION_INDEX: _TRANSACTION_INDEX_MAX,
    FileKind.REMOTE_TRANSACTION_INDEX: _TRANSACTION_INDEX_MAX,
}


def largest_size(kind: FileKind) -> int:
    """Return the limit for `kafka_format.access.open_evidence`."""
    return _LIMITS[kind]
