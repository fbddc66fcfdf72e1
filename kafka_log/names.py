"""The grammar of file and directory names in a log directory.

Files of a partition:

    <offset>.log | .index | .timeindex | .txnindex [ .deleted | .cleaned | .swap ]
    <offset>.snapshot                              [ .deleted | .tmp ]
    <offset>-<epoch>.checkpoint                    [ .deleted ]      metadata snapshots
    <offset>-<epoch>-<random>.checkpoint.part                        ... while they are written
    leader-epoch-checkpoint, partition.metadata, quorum-state        [ .tmp ]

Files of the log directory itself: the four offset checkpoints, meta.properties,
bootstrap.checkpoint (each also with `.tmp`), `.lock`, `.kafka_cleanshutdown`. Files of its
`remote-log-index-cache`: `<offset>_<segment id>` and one of the three index endings [ .deleted |
.tmp ].

Kafka writes an offset with at least 20 digits, an epoch with at least 10. It reads what is before
the FIRST dot as an offset, with Long.parseLong: `5.log` and `5.x.log` are also offset 5. Such a
name is not `is_canonical`: a broker uses its offset, then opens the file with the proper name, and
ignores this one.

Directories of partitions:

    <topic>-<partition>
    <topic>-<partition>.<unique id>-delete | -future | -stray

The unique id is a UUID of 32 hex digits. Topics may contain dots and dashes, so the name is parsed
from its end: suffix, last dot, last dash. A live directory ends in its partition and can never look
like one with a suffix, whatever its topic is called. In `-delete` and `-stray` names the topic is
truncated so that they have at most 255 characters; the parsed topic may then be only the beginning
of the real one. `-future` names are not truncated.

Names are values: `str(parse_x(name)) == name`, for any name. Mirrors LogFileUtils, LocalLog,
org.apache.kafka.snapshot.Snapshots, RemoteIndexCache and org.apache.kafka.common.internals.Topic.
"""

import re
import uuid
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from kafka_format import java_text
from kafka_format.errors import CorruptError, Location
from kafka_format.file_kinds import REMOTE_INDEX_KINDS, SEGMENT_KINDS
from kafka_format.file_kinds import FileKind as FileKind  # noqa: PLC0414  # part of the grammar
from kafka_format.file_kinds import FileState as FileState  # noqa: PLC0414

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
REMOTE_LOG_INDEX_CACHE_DIRECTORY = "remote-log-index-cache"

_OFFSET_WIDTH = 20
_EPOCH_WIDTH = 10
_SNAPSHOT_ID_WIDTH = _OFFSET_WIDTH + 1 + _EPOCH_WIDTH
_MAX_TOPIC_LENGTH = 249
_MAX_DIRECTORY_LENGTH = 255
_TOPIC_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]*")
_UNIQUE_ID = re.compile(r"[0-9a-f]{32}")
_WHITESPACE = re.compile(r"\s", re.ASCII)


_LIVE = frozenset({FileState.LIVE})
_REPLACED = _LIVE | {FileState.TEMPORARY}
_STATES = {
    **dict.fromkeys(FileKind, _REPLACED),
    **dict.fromkeys(SEGMENT_KINDS, _LIVE | {FileState.DELETED, FileState.CLEANED, FileState.SWAP}),
    **dict.fromkeys(REMOTE_INDEX_KINDS, _REPLACED | {FileState.DELETED}),
    FileKind.PRODUCER_SNAPSHOT: _REPLACED | {FileState.DELETED},
    FileKind.METADATA_SNAPSHOT: _LIVE | {FileState.DELETED, FileState.PARTIAL},
    FileKind.CLEAN_SHUTDOWN: _LIVE,
    FileKind.LOCK: _LIVE,
    FileKind.UNKNOWN: _LIVE,
}
"""The suffixes that Kafka uses, by kind of file."""

_FIXED_NAMES = {
    kind.value: kind
    for kind in FileKind
    if kind is not FileKind.UNKNOWN
    and kind not in (*SEGMENT_KINDS, *REMOTE_INDEX_KINDS)
    and kind not in (FileKind.PRODUCER_SNAPSHOT, FileKind.METADATA_SNAPSHOT)
}


_NUMBERED_KINDS = frozenset({*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT})
_KINDS_BY_ENDING = {
    kind.ending: tuple(each for each in FileKind if each.ending == kind.ending)
    for kind in (*_NUMBERED_KINDS, *REMOTE_INDEX_KINDS, FileKind.METADATA_SNAPSHOT)
}


class FileName(NamedTuple):
    """The parts of a file name: `stem`, the ending of `kind`, the suffix of `state`."""

    kind: FileKind
    stem: str = ""
    """What is before the ending, such as the offset; or the whole of an unknown name."""
    state: FileState = FileState.LIVE

    def __str__(self) -> str:
        return f"{self.stem}{self.kind.ending}{self.state.value}"

    @property
    def offset(self) -> int | None:
        """Return the base offset of a segment, or the exclusive end offset of a snapshot."""
        if self.kind is FileKind.UNKNOWN or not self.stem:
            return None
        if self.kind is FileKind.METADATA_SNAPSHOT:
            return java_text.parse_long(self.stem[:_OFFSET_WIDTH])
        if self.kind in REMOTE_INDEX_KINDS:
            return java_text.parse_long(self.stem.partition("_")[0])
        return java_text.parse_long(self.stem.partition(".")[0])

    @property
    def epoch(self) -> int | None:
        """Return the leader epoch of a metadata snapshot's last record."""
        # Kafka splits by position, and ignores the character between offset and epoch.
        if self.kind is not FileKind.METADATA_SNAPSHOT or len(self.stem) < _SNAPSHOT_ID_WIDTH:
            return None
        return java_text.parse_int(self.stem[_OFFSET_WIDTH + 1 : _SNAPSHOT_ID_WIDTH])

    @property
    def remote_segment_id(self) -> uuid.UUID | None:
        if self.kind not in REMOTE_INDEX_KINDS:
            return None
        return java_text.parse_uuid(self.stem.partition("_")[2])

    @property
    def is_canonical(self) -> bool:
        """Whether Kafka writes exactly this name (with Western digits; its locale decides).

        A broker does not open files with other names.
        """
        offset = self.offset
        if offset is None:
            return self.kind is not FileKind.UNKNOWN
        if self.kind in _NUMBERED_KINDS:
            return self.stem == _padded(offset, _OFFSET_WIDTH)
        if self.kind is FileKind.METADATA_SNAPSHOT:
            expected = f"{_padded(offset, _OFFSET_WIDTH)}-{_padded(self.epoch or 0, _EPOCH_WIDTH)}"
            if self.state is FileState.PARTIAL:
                return self.stem.startswith(f"{expected}-")
        else:
            segment_id = self.remote_segment_id
            expected = "" if segment_id is None else f"{offset}_{java_text.uuid_text(segment_id)}"
        return self.stem == expected


def _padded(number: int, width: int) -> str:
    """Format like java.text.NumberFormat with minimum digits; a minus does not count."""
    return f"{'-' if number < 0 else ''}{abs(number):0{width}d}"


def segment_file_name(offset: int, kind: FileKind, state: FileState = FileState.LIVE) -> FileName:
    """Return the name of one of a segment's four files, or of a producer snapshot."""
    if kind not in _NUMBERED_KINDS or state not in _STATES[kind]:
        raise ValueError(f"no segment has a file of {kind} and {state}")
    return FileName(kind, _padded(offset, _OFFSET_WIDTH), state)


def metadata_snapshot_name(
    end_offset: int, epoch: int, state: FileState = FileState.LIVE, *, random: str = ""
) -> FileName:
    """Return the name of a snapshot. Random text is required if it is `PARTIAL`, else refused."""
    partial = state is FileState.PARTIAL
    if state not in _STATES[FileKind.METADATA_SNAPSHOT] or partial != bool(random):
        raise ValueError(f"no metadata snapshot has {state} and random text {random!r}")
    snapshot_id = f"{_padded(end_offset, _OFFSET_WIDTH)}-{_padded(epoch, _EPOCH_WIDTH)}"
    stem = f"{snapshot_id}-{random}" if partial else snapshot_id
    return FileName(FileKind.METADATA_SNAPSHOT, stem, state)


def remote_index_name(
    start_offset: int,
    segment_id: uuid.UUID,
    kind: FileKind,
    state: FileState = FileState.LIVE,
) -> FileName:
    """Return the name of an index in the cache of a broker with tiered storage."""
    if kind not in REMOTE_INDEX_KINDS or state not in _STATES[kind]:
        raise ValueError(f"no remote index has {kind} and {state}")
    return FileName(kind, f"{start_offset}_{java_text.uuid_text(segment_id)}", state)


def parse_file_name(name: str) -> FileName:
    """Parse any name. One that is not Kafka's is `UNKNOWN`, with the whole name as its stem."""
    for state in FileState:
        if not name.endswith(state.value):
            continue
        parsed = _parse_without_suffix(name.removesuffix(state.value), state)
        if parsed is not None and state in _STATES[parsed.kind]:
            return parsed
    return FileName(FileKind.UNKNOWN, name)


def _parse_without_suffix(name: str, state: FileState) -> FileName | None:
    if name in _FIXED_NAMES:
        return FileName(_FIXED_NAMES[name], "", state)
    stem, dot, ending = name.rpartition(".")
    for kind in _KINDS_BY_ENDING.get(dot + ending, ()):
        parsed = FileName(kind, stem, state)
        if parsed.offset is None:
            continue
        if kind in REMOTE_INDEX_KINDS and parsed.remote_segment_id is None:
            continue
        if kind is FileKind.METADATA_SNAPSHOT and parsed.epoch is None:
            continue
        return parsed
    return None


def live_base_offsets(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the segments that a broker opens, in ascending order."""
    parsed = map(parse_file_name, names)
    return sorted(
        offset
        for name in parsed
        if name.kind is FileKind.LOG
        and name.state is FileState.LIVE
        and name.is_canonical
        and (offset := name.offset) is not None
    )


class DirectoryKind(Enum):
    """What a directory is; the value is the suffix of its name, or the whole name."""

    PARTITION = ""
    DELETE = "-delete"
    """Its topic or replica was deleted; it is removed after a minute, or at the next start."""
    FUTURE = "-future"
    """A replica that is being moved here from another log directory."""
    STRAY = "-stray"
    """It belonged to no replica of this broker when it started (KRaft)."""
    REMOTE_LOG_INDEX_CACHE = REMOTE_LOG_INDEX_CACHE_DIRECTORY
    UNKNOWN = "?"


_SUFFIXED = (DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)
_CAPPED = (DirectoryKind.DELETE, DirectoryKind.STRAY)


class DirectoryName(NamedTuple):
    """The parts of a directory name; parts that a kind does not have are empty."""

    kind: DirectoryKind
    topic: str = ""
    """For an unknown directory, its whole name."""
    partition_text: str = ""
    unique_id: str = ""

    def __str__(self) -> str:
        if self.kind is DirectoryKind.UNKNOWN:
            return self.topic
        if self.kind is DirectoryKind.REMOTE_LOG_INDEX_CACHE:
            return REMOTE_LOG_INDEX_CACHE_DIRECTORY
        partition = f"{self.topic}-{self.partition_text}"
        if self.kind is DirectoryKind.PARTITION:
            return partition
        return f"{partition}.{self.unique_id}{self.kind.value}"

    @property
    def partition(self) -> int | None:
        return java_text.parse_int(self.partition_text)

    @property
    def topic_may_be_cut(self) -> bool:
        """Whether the topic may be only the beginning of the real one."""
        return self.kind in _CAPPED and len(str(self)) == _MAX_DIRECTORY_LENGTH

    @property
    def is_canonical(self) -> bool:
        """Whether Kafka writes exactly this name; Integer.parseInt also reads `topic-+07`."""
        if self.kind in (DirectoryKind.UNKNOWN, DirectoryKind.REMOTE_LOG_INDEX_CACHE):
            return self.kind is not DirectoryKind.UNKNOWN
        return (
            self.partition_text == str(self.partition)
            and is_valid_topic(self.topic)
            and (self.kind not in _SUFFIXED or bool(_UNIQUE_ID.fullmatch(self.unique_id)))
        )


def partition_directory_name(
    topic: str,
    partition: int,
    kind: DirectoryKind = DirectoryKind.PARTITION,
    *,
    unique_id: uuid.UUID | None = None,
) -> DirectoryName:
    """Return the name of a partition's directory. A kind with a suffix needs a unique id."""
    if kind is DirectoryKind.PARTITION and unique_id is None:
        return DirectoryName(kind, topic, str(partition))
    if kind not in _SUFFIXED or unique_id is None:
        raise ValueError(f"no directory has {kind} and unique id {unique_id}")
    name = DirectoryName(kind, topic, str(partition), unique_id.hex)
    if kind in _CAPPED and (excess := len(str(name)) - _MAX_DIRECTORY_LENGTH) > 0:
        return name._replace(topic=topic[:-excess])
    return name


def parse_directory_name(name: str) -> DirectoryName:
    """Parse any name. A broker does not start with a directory that is `UNKNOWN`."""
    if name == REMOTE_LOG_INDEX_CACHE_DIRECTORY:
        return DirectoryName(DirectoryKind.REMOTE_LOG_INDEX_CACHE)
    try:
        return parse_partition_directory_name(name)
    except CorruptError:
        return DirectoryName(DirectoryKind.UNKNOWN, name)


def parse_partition_directory_name(name: str) -> DirectoryName:
    """Parse like LocalLog.parseTopicPartitionName. Error positions count characters."""
    kind = next((kind for kind in _SUFFIXED if name.endswith(kind.value)), DirectoryKind.PARTITION)
    partition_name, unique_id = name, ""
    if kind is not DirectoryKind.PARTITION:
        partition_name, unique_id = _without_suffix(name, kind)
    topic, dash, partition_text = partition_name.rpartition("-")
    if not dash:
        raise CorruptError(Location(name, 0), "no dash", "<topic>-<partition>")
    if not topic:
        raise CorruptError(Location(name, 0), "an empty topic", "<topic>-<partition>")
    if java_text.parse_int(partition_text) is None:
        location = Location(name, len(topic) + 1)
        raise CorruptError(location, f"partition {partition_text!r}", "a 32-bit integer")
    return DirectoryName(kind, topic, partition_text, unique_id)


def _without_suffix(name: str, kind: DirectoryKind) -> tuple[str, str]:
    r"""Return what is before the last dot, and what is between it and the suffix.

    Kafka first matches the pattern `(\S+)-(\S+)\.(\S+)-delete`: a dash, at least one character, a
    dot, at least one character, and no space. This is done by hand, because the pattern takes time
    in the cube of the name's length.
    """
    body = name.removesuffix(kind.value)
    dash, dot = body.find("-", 1), body.rfind(".", 0, -1)
    if dash < 0 or dot < dash + 2 or _WHITESPACE.search(body):
        location = Location(name, len(body))
        raise CorruptError(location, kind.value, f"<topic>-<partition>.<unique id>{kind.value}")
    partition_name, _, unique_id = body.rpartition(".")
    return partition_name, unique_id


def is_valid_topic(topic: str) -> bool:
    return topic_problem(topic) is None


def topic_problem(topic: str) -> str | None:
    """Return why a broker refuses the name of a new topic; None if it accepts it."""
    if not topic:
        return "the name is empty"
    if topic in (".", ".."):
        return "the name is a relative path"
    if len(topic) > _MAX_TOPIC_LENGTH:
        return f"{len(topic)} characters are more than {_MAX_TOPIC_LENGTH}"
    valid = _TOPIC_CHARACTERS.match(topic)
    if valid and valid.end() < len(topic):
        return f"{topic[valid.end()]!r} is not one of a-z A-Z 0-9 . _ -"
    return None
