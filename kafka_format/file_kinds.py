"""The kinds of files in a log directory, by the suffix of their names, and how they group.

kafka_log.names is the grammar of whole names.
"""

from enum import Enum


class FileKind(Enum):
    """What a file is; the value is the suffix of its name, or the whole name."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    METADATA_SNAPSHOT = ".checkpoint"
    REMOTE_OFFSET_INDEX = "_.index"
    REMOTE_TIME_INDEX = "_.timeindex"
    REMOTE_TRANSACTION_INDEX = "_.txnindex"
    LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
    PARTITION_METADATA = "partition.metadata"
    QUORUM_STATE = "quorum-state"
    RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
    LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
    CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
    REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
    META_PROPERTIES = "meta.properties"
    BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
    CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
    LOCK = ".lock"
    UNKNOWN = ""

    ending: str
    __hash__ = object.__hash__  # Enum's own is a call into Python

    def __init__(self, value: str) -> None:
        self.ending = value.removeprefix("_")


class FileState(Enum):
    """What is about to happen to a file; the value is the suffix that says so."""

    LIVE = ""
    DELETED = ".deleted"
    """To be deleted, now or at the next start."""
    CLEANED = ".cleaned"
    """The cleaner's unfinished output."""
    SWAP = ".swap"
    """The cleaner's finished output, about to replace its sources."""
    TEMPORARY = ".tmp"
    """Left by an atomic replacement that was never completed."""
    PARTIAL = ".part"
    """A metadata snapshot that is being written or fetched."""

    __hash__ = object.__hash__


SEGMENT_KINDS = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
)
"""The files of a segment."""
SEGMENT_INDEX_KINDS = SEGMENT_KINDS[1:]
"""The indexes of a segment, which a broker can rebuild from its `.log`."""
ALWAYS_WRITTEN_KINDS = SEGMENT_KINDS[:3]
"""The files that a broker writes for every segment."""
REMOTE_INDEX_KINDS = (
    FileKind.REMOTE_OFFSET_INDEX,
    FileKind.REMOTE_TIME_INDEX,
    FileKind.REMOTE_TRANSACTION_INDEX,
)
"""The indexes of a segment in tiered storage, in the broker's cache."""
OFFSET_INDEX_KINDS, TIME_INDEX_KINDS, TRANSACTION_INDEX_KINDS = zip(
    SEGMENT_INDEX_KINDS, REMOTE_INDEX_KINDS, strict=True
)
"""The two kinds of the same format: for a local segment and for a remote one."""
BATCH_FILE_KINDS = (FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT)
"""The files that consist of record batches."""
