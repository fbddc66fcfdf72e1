"""The largest size of a file of each kind: Kafka writes none that is larger.

Logs, metadata snapshots, and offset and time indexes are opened by FileRecords and AbstractIndex,
which count positions in Java's int. A producer snapshot is read into one buffer, with the same
limit. A transaction index has at most one entry for each marker in its segment, and a marker takes
78 bytes there: 61 for the batch header and 17 for its record.

Kafka sets no limit for text files. 64 MiB leave room for two hundred thousand partitions with the
longest names in one log dir, or for two million leader epochs of one partition.
"""

from kafka_format.access import JAVA_MAX
from kafka_format.batch_layout import HEADER_SIZE
from kafka_format.file_kinds import (
    BATCH_FILE_KINDS,
    OFFSET_INDEX_KINDS,
    TIME_INDEX_KINDS,
    TRANSACTION_INDEX_KINDS,
)
from kafka_log.names import FileKind

_ABORTED_TRANSACTION_SIZE = 34
_MARKER_SIZE = HEADER_SIZE + 17
_TRANSACTION_INDEX_MAX = JAVA_MAX // _MARKER_SIZE * _ABORTED_TRANSACTION_SIZE
_TEXT_MAX = 64 * 1024 * 1024

_LIMITS = {
    **dict.fromkeys(FileKind, _TEXT_MAX),
    **dict.fromkeys(
        (
            *BATCH_FILE_KINDS,
            *OFFSET_INDEX_KINDS,
            *TIME_INDEX_KINDS,
            FileKind.PRODUCER_SNAPSHOT,
            FileKind.UNKNOWN,
        ),
        JAVA_MAX,
    ),
    **dict.fromkeys(TRANSACTION_INDEX_KINDS, _TRANSACTION_INDEX_MAX),
}


def largest_size(kind: FileKind) -> int:
    """Return the limit for `kafka_format.access.open_evidence`."""
    return _LIMITS[kind]
