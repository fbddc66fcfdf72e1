"""What a file is, by its name; and why it is no living part of the place where it stands."""

from enum import Enum

from kafka_format.file_kinds import REMOTE_INDEX_KINDS
from kafka_log.names import FileKind, FileName, FileState

_DESCRIPTIONS = {
    FileKind.LOG: "records of a segment",
    FileKind.OFFSET_INDEX: "offset index of a segment",
    FileKind.TIME_INDEX: "time index of a segment",
    FileKind.TRANSACTION_INDEX: "aborted transactions of a segment",
    FileKind.PRODUCER_SNAPSHOT: "state of the producers up to an offset",
    FileKind.METADATA_SNAPSHOT: "snapshot of the KRaft metadata",
    FileKind.REMOTE_OFFSET_INDEX: "offset index of a remote segment",
    FileKind.REMOTE_TIME_INDEX: "time index of a remote segment",
    FileKind.REMOTE_TRANSACTION_INDEX: "aborted transactions of a remote segment",
    FileKind.LEADER_EPOCH_CHECKPOINT: "where each leader epoch begins",
    FileKind.PARTITION_METADATA: "the topic's id",
    FileKind.QUORUM_STATE: "vote and leader of the KRaft quorum",
    FileKind.RECOVERY_POINT_CHECKPOINT: "recovery points",
    FileKind.LOG_START_OFFSET_CHECKPOINT: "log start offsets beyond the first segment's",
    FileKind.CLEANER_OFFSET_CHECKPOINT: "how far the cleaner came",
    FileKind.REPLICATION_OFFSET_CHECKPOINT: "high watermarks",
    FileKind.META_PROPERTIES: "node, cluster and directory ids",
    FileKind.BOOTSTRAP_CHECKPOINT: "first records of the KRaft metadata",
    FileKind.CLEAN_SHUTDOWN: "the broker stopped in order",
    FileKind.LOCK: "a broker has, or had, this directory",
    FileKind.UNKNOWN: "not Kafka's",
}
_FATES = {
    FileState.DELETED: "deleted, to be removed now or at the next start",
    FileState.CLEANED: "unfinished output of the cleaner or of a split, dropped at the next start",
    FileState.SWAP: "finished output that was about to replace its sources, completed at a start",
    FileState.TEMPORARY: "half of a replacement that was never completed",
    FileState.PARTIAL: "a snapshot whose writing or fetching was never completed",
}


class Place(Enum):
    """Where a file stands."""

    LOG_DIR = "log dir"
    PARTITION = "partition"
    REMOTE_CACHE = "remote log index cache"


_IN_LOG_DIR = frozenset(
    {
        FileKind.RECOVERY_POINT_CHECKPOINT,
        FileKind.LOG_START_OFFSET_CHECKPOINT,
        FileKind.CLEANER_OFFSET_CHECKPOINT,
        FileKind.REPLICATION_OFFSET_CHECKPOINT,
        FileKind.META_PROPERTIES,
        FileKind.BOOTSTRAP_CHECKPOINT,
        FileKind.CLEAN_SHUTDOWN,
        FileKind.LOCK,
    }
)
_IN_CACHE = frozenset(REMOTE_INDEX_KINDS)
_IN_PARTITION = frozenset(FileKind) - _IN_LOG_DIR - _IN_CACHE - {FileKind.UNKNOWN}
KINDS = {
    Place.LOG_DIR: _IN_LOG_DIR,
    Place.PARTITION: _IN_PARTITION,
    Place.REMOTE_CACHE: _IN_CACHE,
}
"""What belongs where."""


def describe(name: FileName) -> str:
    """In a few words."""
    fate = _FATES.get(name.state)
    description = _DESCRIPTIONS[name.kind]
    return description if fate is None else f"{description}: {fate}"


def why_stray(name: FileName, place: Place) -> str | None:
    """None for a file that lives here."""
    if name.kind is FileKind.UNKNOWN:
        return "not a file of Kafka's"
    if name.state is not FileState.LIVE:
        return _FATES[name.state]
    if name.kind not in KINDS[place]:
        return f"{_DESCRIPTIONS[name.kind]}: does not belong here"
    if not name.is_canonical:
        return "not written so by Kafka: no broker opens it by this name"
    return None
