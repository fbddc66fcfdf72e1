"""The largest size of a file of each kind: a larger one is damage, and is not read.

Logs, metadata snapshots, and offset and time indexes are opened by FileRecords and AbstractIndex,
which count positions in Java's int. A transaction index has at most one entry for each marker in
its segment, and a marker takes 78 bytes there: 61 for the batch header and 17 for its record.

A producer snapshot has 46 bytes for each producer id that wrote to the partition within
producer.id.expiration.ms, by default a day. 64 MiB hold 1.4 million ids: one partition with 16 new
producers per second, all day. Kafka reads the file into one buffer, up to 2^31 - 1 bytes, but it
keeps an object per id on its heap, and so do we: a larger file would take minutes to check.

Kafka sets no limit for text files. The reader of each kind has one (`MAX_SIZE`), and it is the
limit here, so that no file has two. The 64 MiB of a checkpoint leave room for two hundred thousand
partitions with the longest names in one log dir.
A checkpoint has at most a million rows (kafka_format.checkpoint_file.MAX_ROWS).
"""

from functools import cache

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
_PRODUCER_SNAPSHOT_MAX = 64 * 1024 * 1024

_LIMITS = {
    **dict.fromkeys(
        (
            *BATCH_FILE_KINDS,
            *OFFSET_INDEX_KINDS,
            *TIME_INDEX_KINDS,
            FileKind.UNKNOWN,
        ),
        JAVA_MAX,
    ),
    FileKind.PRODUCER_SNAPSHOT: _PRODUCER_SNAPSHOT_MAX,
    **dict.fromkeys(TRANSACTION_INDEX_KINDS, _TRANSACTION_INDEX_MAX),
}


@cache
def _text_limits() -> dict[FileKind, int]:
    """Return the limits of the readers of text files, which a dump of a log does not load."""
    from kafka_format import (
        checkpoint_file,
        clean_shutdown_file,
        leader_epoch_file,
        partition_metadata,
        properties_file,
        quorum_state,
    )

    return {
        **dict.fromkeys(FileKind, checkpoint_file.MAX_SIZE),
        FileKind.META_PROPERTIES: properties_file.MAX_SIZE,
        FileKind.PARTITION_METADATA: partition_metadata.MAX_SIZE,
        FileKind.LEADER_EPOCH_CHECKPOINT: leader_epoch_file.MAX_SIZE,
        FileKind.QUORUM_STATE: quorum_state.MAX_SIZE,
        FileKind.CLEAN_SHUTDOWN: clean_shutdown_file.MAX_SIZE,
    }


def largest_size(kind: FileKind) -> int:
    """Return the limit for `kafka_format.access.open_evidence`."""
    return _LIMITS[kind] if kind in _LIMITS else _text_limits()[kind]
