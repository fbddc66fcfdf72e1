"""The values of an inventory: log dirs, partitions, segments, and the data of their small files.

    log dir      meta.properties, .kafka_cleanshutdown, .lock, four checkpoints, KRaft metadata
    partition    partition.metadata, segments, its rows of the checkpoints
    segment      .log and its index files, with one suffix

These are plain values; scan.py creates them. No file is ever opened for writing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.file_kinds import ALWAYS_WRITTEN_KINDS
from kafka_log.inventory.file_limits import largest_size
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
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.directory import EntryKind
    from kafka_log.names import DirectoryName, FileName

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_OFFSET_CHECKPOINT,
    FileKind.REPLICATION_OFFSET_CHECKPOINT,
    FileKind.CLEANER_OFFSET_CHECKPOINT,
)


class Trouble(StrEnum):
    """The kind of a problem."""

    UNREADABLE = "unreadable"
    """It could not be read."""
    MALFORMED = "malformed"
    """It was read, and is not valid."""


class Problem(NamedTuple):
    """A path that could not be read or is not valid."""

    path: str
    trouble: Trouble
    message: str
    kind: EntryKind | None = None
    """The kind of what is at the path, if that is why it was not read."""
    found: str = ""
    """What is at the path, in words, if it is not a regular file."""


def unread_names(problems: Iterable[Problem]) -> dict[Problem, FileName]:
    """Return the problems of files that were not opened because of their kind, with their names."""
    return {
        each: parse_file_name(Path(each.path).name) for each in problems if each.kind is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFile:
    """A file and what its name says."""

    path: str
    name: FileName
    offset: int | None
    """The offset in its name."""
    size_in_bytes: int
    modified_ms: int
    stray: str | None = None
    """Why it is not a live part of its directory; None if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The files with one base offset and one suffix."""

    base_offset: int
    state: FileState
    files: Mapping[FileKind, InventoryFile]
    producer_snapshot: InventoryFile | None = None
    """The producer state at its base offset."""

    @property
    def log(self) -> InventoryFile | None:
        return self.files.get(FileKind.LOG)

    @property
    def is_live(self) -> bool:
        return self.state is FileState.LIVE and self.log is not None

    @property
    def missing(self) -> tuple[FileKind, ...]:
        """Return the missing files that every segment has; other indexes are optional."""
        return tuple(kind for kind in ALWAYS_WRITTEN_KINDS if kind not in self.files)

    @property
    def size_in_bytes(self) -> int:
        """Return the size of the .log file."""
        return 0 if self.log is None else self.log.size_in_bytes

    @property
    def modified_ms(self) -> int | None:
        return None if self.log is None else self.log.modified_ms


class CheckpointState(StrEnum):
    """What was found of a checkpoint file."""

    WITH_ROWS = "with rows"
    EMPTY = "empty"
    MISSING = "missing"
    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    NOT_FOLLOWED = "is a link that was not followed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One of the four checkpoint files. If it cannot be read it has no rows, as in a broker."""

    kind: FileKind
    state: CheckpointState
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition directory, complete or in part."""

    path: str
    name: DirectoryName
    segments: tuple[Segment, ...] = ()
    """Live segments by base offset."""
    leftovers: tuple[Segment, ...] = ()
    """Segments with a suffix (deleted, cleaned, swap), and indexes without a log."""
    files: tuple[InventoryFile, ...] = ()
    """Every file, including those of the segments."""
    target: str = ""
    """Where the directory leads, if it is a link that was followed."""
    topic_id: uuid.UUID | None = None
    """The topic id in partition.metadata."""
    metadata_topic_id: uuid.UUID | None = None
    """The topic id in the KRaft metadata for this topic name."""
    checkpointed: Mapping[FileKind, int] = field(default_factory=dict)
    """Its rows in the checkpoints; only live and future directories have any."""
    problems: tuple[Problem, ...] = ()

    @property
    def topic(self) -> str:
        return self.name.topic

    @property
    def partition(self) -> int | None:
        """Return the number; None if the name is not that of a partition."""
        return self.name.partition

    @property
    def state(self) -> DirectoryKind:
        return self.name.kind

    @property
    def is_kafkas(self) -> bool:
        """Whether its name, or a name in it, is Kafka's, even of something that is not a file."""
        names = [*(file.name for file in self.files), *unread_names(self.problems).values()]
        return self.partition is not None or any(
            each.kind is not FileKind.UNKNOWN for each in names
        )

    @property
    def strays(self) -> tuple[InventoryFile, ...]:
        return tuple(file for file in self.files if file.stray is not None)

    @property
    def size_in_bytes(self) -> int:
        return sum(file.size_in_bytes for file in self.files)

    @property
    def readable_bytes(self) -> int:
        """Return the size without files larger than Kafka writes, which are not opened."""
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
        """Return where the next round of the cleaner begins."""
        return self.checkpointed.get(FileKind.CLEANER_OFFSET_CHECKPOINT)

    @property
    def log_start_offset(self) -> int | None:
        """Return the larger of the first base offset and the checkpointed log start."""
        base = self.segments[0].base_offset if self.segments else None
        row = self.checkpointed.get(FileKind.LOG_START_OFFSET_CHECKPOINT)
        return max((each for each in (base, row) if each is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A directory of partition directories, as in `log.dirs`."""

    path: str
    meta: MetaProperties | None = None
    is_clean: bool | None = None
    """Whether it was shut down cleanly; None if nothing shows that a broker used it."""
    broker_epoch: int | None = None
    """The broker epoch in the clean shutdown file."""
    has_lock: bool = False
    """Whether `.lock` exists; a broker that is killed leaves it there."""
    is_running: bool = False
    """Whether another process holds `.lock`: a broker is running on this directory."""
    checkpoints: Mapping[FileKind, Checkpoint] = field(default_factory=dict)
    partitions: tuple[Partition, ...] = ()
    files: tuple[InventoryFile, ...] = ()
    """Its own files, and those of directories that are not partitions."""
    unknown_directories: tuple[str, ...] = ()
    """Directories with which a broker does not start."""
    is_whole: bool = True
    """Whether all of it was selected, not only some of its directories or files."""
    metadata: ClusterMetadata | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def size_in_bytes(self) -> int:
        own = sum(file.size_in_bytes for file in self.files)
        return own + sum(partition.size_in_bytes for partition in self.partitions)

    @property
    def strays(self) -> tuple[InventoryFile, ...]:
        return tuple(file for file in self.files if file.stray is not None)

    @property
    def has_metadata_log(self) -> bool:
        return any(partition.topic == CLUSTER_METADATA_TOPIC for partition in self.partitions)

    def rows_without_directory(self) -> Iterator[tuple[FileKind, str, int, int]]:
        """Yield the checkpoint rows of partitions without a directory."""
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
    """The partition directories of a topic in all log dirs."""

    name: str
    partitions: tuple[Partition, ...]

    @property
    def topic_ids(self) -> frozenset[uuid.UUID]:
        """Return its ids; several if the topic was deleted and created again."""
        return frozenset(each.topic_id for each in self.partitions if each.topic_id is not None)

    @property
    def size_in_bytes(self) -> int:
        return sum(each.size_in_bytes for each in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The log dirs of one node, and its cluster metadata."""

    node_id: int | None
    cluster_id: str | None
    log_dirs: tuple[LogDir, ...]
    metadata: ClusterMetadata | None = None
    """The metadata in one of its log dirs, otherwise the newest of its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All log dirs that were found."""

    log_dirs: tuple[LogDir, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Problems that belong to no log dir."""
    followed: Mapping[str, str] = field(default_factory=dict)
    """Links that were followed, and their targets."""

    @property
    def metadata(self) -> ClusterMetadata | None:
        """Return the metadata of the first log dir that has any, for an inventory of one broker."""
        return next((each.metadata for each in self.log_dirs if each.metadata is not None), None)

    @property
    def node_id(self) -> int | None:
        """Return the id in the first meta.properties, for an inventory of one broker."""
        metas = (each.meta for each in self.log_dirs)
        return next((meta.node_id for meta in metas if meta is not None), None)

    def brokers(self) -> tuple[Broker, ...]:
        """Group the log dirs by node, in order; one without meta.properties is its own group."""
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
        """Return the newest metadata of a cluster; with an unknown id only if it is unambiguous."""
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
