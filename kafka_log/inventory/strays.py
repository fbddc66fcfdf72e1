"""What a file is by its name, and why it is not a live part of its directory."""

from enum import Enum

from kafka_format.file_kinds import REMOTE_INDEX_KINDS
from kafka_log.names import FileKind, FileName, FileState

_DESCRIPTIONS = {
    FileKind.LOG: "records of a segment",
    FileKind.OFFSET_INDEX: "offset index of a segment",
    FileKind.TIME_INDEX: "time index of a segment",
    FileKind.TRANSACTION_INDEX: "aborted transactions of a segment",
    FileKind.PRODUCER_SNAPSHOT: "producer state up to an offset",
    FileKind.METADATA_SNAPSHOT: "snapshot of the KRaft metadata",
    FileKind.REMOTE_OFFSET_INDEX: "offset index of a remote segment",
    FileKind.REMOTE_TIME_INDEX: "time index of a remote segment",
    FileKind.REMOTE_TRANSACTION_INDEX: "aborted transactions of a remote segment",
    FileKind.LEADER_EPOCH_CHECKPOINT: "start offset of each leader epoch",
    FileKind.PARTITION_METADATA: "topic id",
    FileKind.QUORUM_STATE: "vote and leader of the KRaft quorum",
    FileKind.RECOVERY_POINT_CHECKPOINT: "recovery points",
    FileKind.LOG_START_OFFSET_CHECKPOINT: "log start offsets beyond the first segment",
    FileKind.CLEANER_OFFSET_CHECKPOINT: "offsets up to which logs are cleaned",
    FileKind.REPLICATION_OFFSET_CHECKPOINT: "high watermarks",
    FileKind.META_PROPERTIES: "node, cluster and directory ids",
    FileKind.BOOTSTRAP_CHECKPOINT: "first records of the KRaft metadata",
    FileKind.CLEAN_SHUTDOWN: "marker of a clean shutdown",
    FileKind.LOCK: "lock of the broker on this directory",
    FileKind.UNKNOWN: "not a Kafka file",
}
_FATES = {
    FileState.DELETED: "marked as deleted, removed soon or at the next start",
    FileState.CLEANED: "unfinished output of the cleaner or of a split, removed at the next start",
    FileState.SWAP: "finished output of the cleaner or of a split, swapped in at the next start",
    FileState.TEMPORARY: "incomplete replacement of a file",
    FileState.PARTIAL: "incomplete snapshot",
}


class Place(Enum):
    """The kind of directory that a file is in."""

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
"""The files that belong in each place."""


def describe(name: FileName) -> str:
    """Return a short description."""
    fate = _FATES.get(name.state)
    description = _DESCRIPTIONS[name.kind]
    return description if fate is None else f"{description}: {fate}"


def why_stray(name: FileName, place: Place) -> str | None:
    """Return why a file is a stray; None for a live file in its place."""
    if name.kind is FileKind.UNKNOWN:
        return "not a Kafka file"
    if name.state is not FileState.LIVE:
        return _FATES[name.state]
    if name.kind not in KINDS[place]:
        return f"{_DESCRIPTIONS[name.kind]}: does not belong here"
    if not name.is_canonical:
        return "not a name that Kafka writes: no broker opens it"
    return None
