"""What is there: log dirs, their partitions and segments, with what their small files say together.

    log dir      meta.properties, .kafka_cleanshutdown, .lock, four checkpoints, KRaft metadata
    partition    partition.metadata, segments; its rows of the checkpoints
    segment      .log and what stands beside it, under one suffix

Values alone; scan.py makes them. Nothing here or there is ever opened for writing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.file_limits import largest_size
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    FileState,
    parse_file_name,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_format.properties_file import MetaProperties
    from kafka_log.directory import EntryKind
    from kafka_log.evidence.cluster_metadata import ClusterMetadata
    from kafka_log.names import DirectoryName, FileName

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_OFFSET_CHECKPOINT,
    FileKind.REPLICATION_OFFSET_CHECKPOINT,
    FileKind.CLEANER_OFFSET_CHECKPOINT,
)
SEGMENT_KINDS = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
)
_NEEDED = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
"""What a broker makes for every segment."""


class Trouble(StrEnum):
    UNREADABLE = "unreadable"
    """The disk did not let us look."""
    MALFORMED = "malformed"
    """We looked, and it is not as it should be."""


class Problem(NamedTuple):
    """Something that is not told by the rest, or not to be trusted in it."""

    path: str
    trouble: Trouble
    message: str
    kind: EntryKind | None = None
    """What stands at the path, if that is why it was not read."""
    found: str = ""
    """The same in words, of something other than a regular file."""


def unread_names(problems: Iterable[Problem]) -> dict[Problem, FileName]:
    """What was not opened because of what stands there, with its name as a file."""
    return {
        each: parse_file_name(Path(each.path).name) for each in problems if each.kind is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    path: str
    name: FileName
    offset: int | None
    """In its name."""
    size_in_bytes: int
    modified_ms: int
    stray: str | None = None
    """Why it is no living part of where it stands; None if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Files of one base offset and one suffix."""

    base_offset: int
    state: FileState
    files: Mapping[FileKind, File]
    producer_snapshot: File | None = None
    """Of what the producers had done before it."""

    @property
    def log(self) -> File | None:
        return self.files.get(FileKind.LOG)

    @property
    def is_live(self) -> bool:
        return self.state is FileState.LIVE and self.log is not None

    @property
    def missing(self) -> tuple[FileKind, ...]:
        """What a broker would have beside it; transaction indexes and snapshots come and go."""
        return tuple(kind for kind in _NEEDED if kind not in self.files)

    @property
    def size_in_bytes(self) -> int:
        """Of the records."""
        return 0 if self.log is None else self.log.size_in_bytes

    @property
    def modified_ms(self) -> int | None:
        return None if self.log is None else self.log.modified_ms


class CheckpointState(StrEnum):
    WITH_ROWS = "with rows"
    EMPTY = "empty"
    MISSING = "missing"
    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    NOT_FOLLOWED = "is a link that was not followed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One of the four checkpoint files; to a broker one that cannot be read has no rows."""

    kind: FileKind
    state: CheckpointState
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A directory of a partition, or of what is left of one."""

    path: str
    name: DirectoryName
    segments: tuple[Segment, ...] = ()
    """Those that live, by base offset."""
    leftovers: tuple[Segment, ...] = ()
    """Those with a suffix (deleted, cleaned, swapped), and indexes without a log."""
    files: tuple[File, ...] = ()
    """Every file, those of the segments too."""
    target: str = ""
    """Where the directory leads, if it is a link that was followed."""
    topic_id: uuid.UUID | None = None
    """By partition.metadata."""
    metadata_topic_id: uuid.UUID | None = None
    """By the KRaft metadata, for the topic of this name."""
    checkpointed: Mapping[FileKind, int] = field(default_factory=dict)
    """Its rows in the checkpoints; only a live or future directory has any."""
    problems: tuple[Problem, ...] = ()

    @property
    def topic(self) -> str:
        return self.name.topic

    @property
    def partition(self) -> int | None:
        """None of a directory whose name is no partition's."""
        return self.name.partition

    @property
    def state(self) -> DirectoryKind:
        return self.name.kind

    @property
    def is_kafkas(self) -> bool:
        """Whether its name, or a name in it, is Kafka's: there may be more than files."""
        names = [*(file.name for file in self.files), *unread_names(self.problems).values()]
        return self.partition is not None or any(
            each.kind is not FileKind.UNKNOWN for each in names
        )

    @property
    def strays(self) -> tuple[File, ...]:
        return tuple(file for file in self.files if file.stray is not None)

    @property
    def size_in_bytes(self) -> int:
        return sum(file.size_in_bytes for file in self.files)

    @property
    def readable_bytes(self) -> int:
        """Without files that are larger than Kafka writes them: those are not opened."""
        return sum(
            file.size_in_bytes
            for file in self.files
            if file.size_in_bytes <= largest_size(file.name.kind)
        )

    @property
    def recovery_point(self) -> int | None:
        return self.checkpointed.get(FileKind.RECOVERY_POINT_CHECKPOINT)

    @property
    def high_watermark(self) -> int | None:
        return self.checkpointed.get(FileKind.REPLICATION_OFFSET_CHECKPOINT)

    @property
    def cleaner_offset(self) -> int | None:
        """Where the next round of the cleaner begins."""
        return self.checkpointed.get(FileKind.CLEANER_OFFSET_CHECKPOINT)

    @property
    def log_start_offset(self) -> int | None:
        """The checkpoint moves it only beyond the first segment's base offset."""
        base = self.segments[0].base_offset if self.segments else None
        row = self.checkpointed.get(FileKind.LOG_START_OFFSET_CHECKPOINT)
        return max((each for each in (base, row) if each is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A directory of partition directories, as in `log.dirs`."""

    path: str
    meta: MetaProperties | None = None
    is_clean: bool | None = None
    """Stopped in order; None where nothing says that a broker had this directory at all."""
    broker_epoch: int | None = None
    """Of the clean stop."""
    has_lock: bool = False
    """The file is there; a broker leaves it behind when it is killed."""
    is_running: bool = False
    """Another process held `.lock` when we looked: a broker runs on this directory."""
    checkpoints: Mapping[FileKind, Checkpoint] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = ()
    files: tuple[File, ...] = ()
    """Its own, and those of directories that are no partition's."""
    unknown_directories: tuple[str, ...] = ()
    """Names at which a broker does not start."""
    metadata: ClusterMetadata | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def size_in_bytes(self) -> int:
        own = sum(file.size_in_bytes for file in self.files)
        return own + sum(partition.size_in_bytes for partition in self.partitions)

    @property
    def strays(self) -> tuple[File, ...]:
        return tuple(file for file in self.files if file.stray is not None)

    @property
    def has_metadata_log(self) -> bool:
        return any(partition.topic == CLUSTER_METADATA_TOPIC for partition in self.partitions)

    def rows_without_directory(self) -> Iterator[tuple[FileKind, str, int, int]]:
        """Checkpoint rows of partitions that are not here."""
        here = {
            (partition.topic, partition.partition)
            for partition in self.partitions
            if partition.state in (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
        }
        for kind, checkpoint in self.checkpoints.items():
            for (topic, number), offset in checkpoint.offsets.items():
                if (topic, number) not in here:
                    yield kind, topic, number, offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The directories of a topic, of all log dirs together."""

    name: str
    partitions: tuple[Partition, ...]

    @property
    def topic_ids(self) -> frozenset[uuid.UUID]:
        """More than one if the topic was deleted and made anew."""
        return frozenset(each.topic_id for each in self.partitions if each.topic_id is not None)

    @property
    def size_in_bytes(self) -> int:
        return sum(each.size_in_bytes for each in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The log dirs of one node, and what it knew of its cluster."""

    node_id: int | None
    cluster_id: str | None
    log_dirs: tuple[LogDir, ...]
    metadata: ClusterMetadata | None = None
    """Of one of its log dirs; else the newest of its cluster that is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    log_dirs: tuple[LogDir, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Those of no log dir in particular."""
    followed: Mapping[str, str] = field(default_factory=dict)
    """Links that were followed, and where they lead."""

    @property
    def metadata(self) -> ClusterMetadata | None:
        """Of the first broker that has any: for an inventory of one broker."""
        return next((each.metadata for each in self.log_dirs if each.metadata is not None), None)

    @property
    def node_id(self) -> int | None:
        """Of the first log dir that tells: for an inventory of one broker."""
        metas = (each.meta for each in self.log_dirs)
        return next((meta.node_id for meta in metas if meta is not None), None)

    def brokers(self) -> tuple[Broker, ...]:
        """In the order of their log dirs; one that does not tell whose it is stands alone."""
        nodes: dict[tuple[object, ...], list[LogDir]] = {}
        for log_dir in self.log_dirs:
            meta = log_dir.meta
            node = (log_dir.path,) if meta is None else (meta.cluster_id, meta.node_id)
            nodes.setdefault(node, []).append(log_dir)
        return tuple(self._broker(log_dirs) for log_dirs in nodes.values())

    def _broker(self, log_dirs: list[LogDir]) -> Broker:
        meta = log_dirs[0].meta
        cluster_id = None if meta is None else meta.cluster_id
        own = [each.metadata for each in log_dirs if each.metadata is not None]
        return Broker(
            node_id=None if meta is None else meta.node_id,
            cluster_id=cluster_id,
            log_dirs=tuple(log_dirs),
            metadata=own[0] if own else self._newest_metadata(cluster_id),
        )

    def _newest_metadata(self, cluster_id: str | None) -> ClusterMetadata | None:
        """Of a cluster; of a cluster that is not told only if there is no choice."""
        found = [
            (log_dir.meta and log_dir.meta.cluster_id, log_dir.metadata)
            for log_dir in self.log_dirs
            if log_dir.metadata is not None
        ]
        if cluster_id is not None:
            found = [(cluster, each) for cluster, each in found if cluster in (cluster_id, None)]
        if len({cluster for cluster, _ in found}) != 1:
            return None
        return max((each for _, each in found), key=lambda each: each.end_offset)

    def partitions(self) -> Iterator[tuple[LogDir, Partition]]:
        for log_dir in self.log_dirs:
            for partition in log_dir.partitions:
                yield log_dir, partition

    def topics(self) -> tuple[Topic, ...]:
        by_name: dict[str, list[Partition]] = {}
        for _, partition in self.partitions():
            by_name.setdefault(partition.topic, []).append(partition)
        return tuple(
            Topic(name=name, partitions=tuple(each)) for name, each in sorted(by_name.items())
        )

    def all_problems(self) -> Iterator[Problem]:
        yield from self.problems
        for log_dir in self.log_dirs:
            yield from log_dir.problems
            for partition in log_dir.partitions:
                yield from partition.problems
