"""The largest size of a file of each kind: Kafka writes none that is larger.

Logs, metadata snapshots, and offset and time indexes are opened by FileRecords and AbstractIndex,
which count positions in Java's int. A producer snapshot is read into one buffer, with the same
limit. A transaction index has at most one entry for each marker in its segment, and a marker takes
78 bytes there: 61 for the batch header and 17 for its record.

Kafka sets no limit for text files. The reader of each kind has one (`MAX_SIZE`), and it is the
limit here, so that no file has two. The 64 MiB of a checkpoint leave room for two hundred thousand
partitions with the longest names in one log dir.
"""

from kafka_format import (
    checkpoint_file,
    clean_shutdown_file,
    leader_epoch_file,
    partition_metadata,
    properties_file,
    quorum_state,
)
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

_LIMITS = {
    **dict.fromkeys(FileKind, checkpoint_file.MAX_SIZE),
    FileKind.META_PROPERTIES: properties_file.MAX_SIZE,
    FileKind.PARTITION_METADATA: partition_metadata.MAX_SIZE,
    FileKind.LEADER_EPOCH_CHECKPOINT: leader_epoch_file.MAX_SIZE,
    FileKind.QUORUM_STATE: quorum_state.MAX_SIZE,
    FileKind.CLEAN_SHUTDOWN: clean_shutdown_file.MAX_SIZE,
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
