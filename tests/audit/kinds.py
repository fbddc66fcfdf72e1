"""The kinds of files by which detection is counted, as the documentation names them."""

from pathlib import PurePosixPath

from kafka_log.names import FileKind, parse_file_name

KINDS = (
    "`.log`",
    "`.log` of a compacted topic",
    "`.log` of an internal topic",
    "`__cluster_metadata` log and snapshots",
    "`bootstrap.checkpoint`",
    "`.index`",
    "`.timeindex`",
    "`.txnindex`",
    "`.snapshot`",
    "`leader-epoch-checkpoint`",
    "`partition.metadata`",
    "`quorum-state`",
    "`meta.properties`",
    "`.kafka_cleanshutdown`",
    "recovery point, high watermark, log start and cleaner checkpoints",
)


def kind_of(file: str) -> str:
    """The kind of a file of the small pack, by its path in the log dir."""
    path = PurePosixPath(file)
    kind = parse_file_name(path.name).kind
    if kind is FileKind.LOG or path.name.endswith(".checkpoint"):
        return _log_kind(path)
    if kind.value.endswith("offset_checkpoint") or "offset-checkpoint" in path.name:
        return KINDS[-1]
    return f"`{path.suffix if path.name[0].isdigit() else path.name}`"


def _log_kind(path: PurePosixPath) -> str:
    topic = path.parent.name.rpartition("-")[0]
    if path.name == "bootstrap.checkpoint":
        return KINDS[4]
    if topic == "__cluster_metadata":
        return KINDS[3]
    if topic.startswith("__"):
        return KINDS[2]
    return KINDS[1] if topic == "compacted" else KINDS[0]
