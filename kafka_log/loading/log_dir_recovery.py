"""Plan what a restart would do to a log dir: the dir itself, then each partition.

    plan = plan_log_dir(path, config)
    plan.rows, plan.fatal          the dir itself, known immediately
    for each in plan.partitions()  one at a time: each.fate, each.plan (a RecoveryPlan)
    plan.checkpoints()             what the broker then writes

Only the metadata log knows which directories are stray: pass `assignments`, or a row says that it
was not checked.

Mirrors kafka.log.LogManager (loadLogs, loadLog, checkpoint…InDir) and its use by
BrokerMetadataPublisher. For a single directory use plan_replica and recover_replica; for its load
only, plan_partition and recover_in_place.
"""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from kafka_format.checkpoint_file import (
    OffsetCheckpoint,
    OffsetCheckpointEntry,
    read_offset_checkpoint,
)
from kafka_format.errors import FormatError
from kafka_log.checkpoints import LastRun, LogBounds
from kafka_log.clock import Clock, system_clock
from kafka_log.config.log_config import LogConfig
from kafka_log.inventory.directory import EntryKind, list_directory
from kafka_log.loading.partition_recovery import (
    BYTES_PER_SECOND,
    LoadedPartition,
    RecoveryPlan,
    RecoveryRow,
    load_directory,
    load_partition,
    plan_partition,
    recover_in_place,
)
from kafka_log.loading.rebuilt_files import write_rebuilt
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    DirectoryName,
    FileKind,
    parse_directory_name,
)

if TYPE_CHECKING:
    import uuid

    from kafka_log.checkpoints import Checkpointed
    from kafka_log.disk.files import Files
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import LogDir

__all__ = [
    "BYTES_PER_SECOND",
    "Assignments",
    "Fate",
    "LoadedPartition",
    "LogDirPlan",
    "LogDirRow",
    "PartitionPlan",
    "RecoveryPlan",
    "RecoveryRow",
    "fate_of",
    "load_partition",
    "plan_log_dir",
    "plan_partition",
    "plan_replica",
    "recover_in_place",
    "recover_replica",
]

ConfigFor: TypeAlias = Callable[[str], LogConfig]
"""Returns the settings of a topic."""


class Fate(StrEnum):
    """What a broker makes of a partition directory after it is loaded."""

    CURRENT = "current"
    FUTURE = "future"
    PROMOTED = "promoted"  # a future replica that metadata already assigns to this log dir
    DELETE = "delete"
    STRAY = "stray"
    METADATA = "metadata"

    @property
    def is_served(self) -> bool:
        """Whether the broker serves it, and therefore checkpoints its offsets."""
        return self in (Fate.CURRENT, Fate.FUTURE, Fate.PROMOTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """The replica assignments of the metadata log, by topic id and partition."""

    broker_id: int
    replicas: Mapping[tuple[uuid.UUID, int], Sequence[int]]
    directories: Mapping[tuple[uuid.UUID, int], uuid.UUID] = field(default_factory=dict)
    """The log dir of this broker's replica."""
    directory_id: uuid.UUID | None = None
    """The id of the log dir that is planned (meta.properties)."""

    @classmethod
    def from_metadata(
        cls, log_dirs: Iterable[LogDir], metadata: ClusterMetadata | None
    ) -> Self | None:
        """Read them from the metadata log; None if that or the broker's id is unknown."""
        metas = [each.meta for each in log_dirs if each.meta is not None]
        if metadata is None or not metas or metas[0].node_id is None:
            return None
        node_id = metas[0].node_id
        return cls(
            broker_id=node_id,
            replicas=metadata.replicas,
            directories=metadata.directories_of(node_id),
            directory_id=metas[0].directory_id if len(metas) == 1 else None,
        )

    def stray_reason(self, topic_id: uuid.UUID | None, partition: int) -> str | None:
        if topic_id is None:
            return "no partition.metadata: no data was ever written"
        replicas = self.replicas.get((topic_id, partition), ())
        if not replicas:
            return f"no topic has the id {topic_id} and this partition"
        if self.broker_id not in replicas:
            return f"its replicas are {list(replicas)}, not broker {self.broker_id}"
        return None

    def is_promoted(self, topic_id: uuid.UUID | None, partition: int) -> bool:
        if topic_id is None or self.directory_id is None:
            return False
        return self.directories.get((topic_id, partition)) == self.directory_id


def fate_of(
    name: DirectoryName, topic_id: uuid.UUID | None, assignments: Assignments | None
) -> tuple[Fate, str]:
    """Return what becomes of a directory that loads, and why. None: assignments are unknown."""
    if _is_metadata_log(name):
        return Fate.METADATA, "always checked completely, even after a clean shutdown"
    if name.kind is DirectoryKind.DELETE:
        return Fate.DELETE, "loaded without recovery, then deleted"
    if name.kind is DirectoryKind.STRAY:
        return Fate.STRAY, "already marked -stray"
    future = name.kind is DirectoryKind.FUTURE
    if assignments is not None:
        partition = name.partition or 0
        if reason := assignments.stray_reason(topic_id, partition):
            return Fate.STRAY, f"renamed to -stray: {reason}"
        if future and assignments.is_promoted(topic_id, partition):
            return Fate.PROMOTED, "the metadata already assigns the replica to this log dir"
    return (Fate.FUTURE if future else Fate.CURRENT), ""


class LogDirRow(NamedTuple):
    """What a restart does to a file or directory of the log dir, and why."""

    name: str
    action: str
    """delete, ignore, read; offline: Kafka takes the log dir offline; stop: no broker starts"""
    why: str


@dataclass(slots=True, kw_only=True)
class PartitionPlan:
    """What a restart would do to one directory of a log dir."""

    name: DirectoryName
    directory: str
    last_run: LastRun
    plan: RecoveryPlan
    fate: Fate
    why: str = ""


@dataclass(slots=True, kw_only=True)
class LogDirPlan:
    """What a restart would do to a log dir. The log dir itself is not changed."""

    path: str
    had_clean_shutdown: bool
    config: ConfigFor
    clock: Clock
    recovery_points: Mapping[tuple[str, int], int]
    log_start_offsets: Mapping[tuple[str, int], int]
    directories: Sequence[DirectoryName]
    rows: list[LogDirRow]
    assignments: Assignments | None = None
    _outcomes: dict[str, _Outcome] = field(default_factory=dict)

    @property
    def fatal(self) -> list[LogDirRow]:
        """Return why a broker would not start with this dir or would take it offline."""
        return [row for row in self.rows if row.action in ("stop", "offline")]

    def partitions(self) -> Iterator[PartitionPlan]:
        """Yield one plan at a time. Only the offsets of a plan are kept."""
        for name in self.directories:
            yield self.partition(name)

    def partition(self, name: DirectoryName) -> PartitionPlan:
        key = (name.topic, name.partition or 0)
        directory = os.path.join(self.path, str(name))  # noqa: PTH118
        if _is_metadata_log(name):
            last_run = LastRun(clean_shutdown=False)
        else:
            last_run = LastRun(
                clean_shutdown=self.had_clean_shutdown,
                log_start_offset=self.log_start_offsets.get(key, 0),
                recovery_point=self.recovery_points.get(key, 0),
            )
        plan = plan_partition(directory, self.config(name.topic), last_run, clock=self.clock)
        loaded = plan.loaded
        fate, why = (
            fate_of(name, None, None)
            if loaded is None
            else fate_of(name, loaded.topic_id, self.assignments)
        )
        planned = PartitionPlan(
            name=name, directory=directory, last_run=last_run, plan=plan, fate=fate, why=why
        )
        self._outcomes[str(name)] = _Outcome.from_plan(planned)
        return planned

    def checkpoints(self) -> dict[FileKind, OffsetCheckpoint]:
        """Return the checkpoints that the broker writes next: recovery points and log starts.

        A log start has a row only above the base offset of the first segment. Partitions that were
        not planned yet are planned now.
        """
        for name in self.directories:
            if str(name) not in self._outcomes:
                self.partition(name)
        outcomes = [each for each in self._outcomes.values() if each.is_checkpointed]
        return {
            FileKind.RECOVERY_POINT_CHECKPOINT: OffsetCheckpoint(
                tuple(each.entry(each.recovery_point) for each in outcomes)
            ),
            FileKind.LOG_START_OFFSET_CHECKPOINT: OffsetCheckpoint(
                tuple(
                    each.entry(each.log.log_start_offset)
                    for each in outcomes
                    if each.log.has_log_start_row
                )
            ),
        }


class _Outcome(NamedTuple):
    topic: str
    partition: int
    is_checkpointed: bool
    recovery_point: int = 0
    log: LogBounds = LogBounds(0, 0, 0)

    @classmethod
    def from_plan(cls, planned: PartitionPlan) -> _Outcome:
        name, loaded = planned.name, planned.plan.loaded
        if loaded is None:
            return cls(name.topic, name.partition or 0, is_checkpointed=False)
        first = loaded.segments.first_segment()
        return cls(
            name.topic,
            name.partition or 0,
            planned.fate.is_served,
            loaded.recovery_point,
            LogBounds(
                0 if first is None else first.base_offset,
                loaded.log_start_offset,
                loaded.log_end_offset,
            ),
        )

    def entry(self, offset: int) -> OffsetCheckpointEntry:
        return OffsetCheckpointEntry(self.topic, self.partition, offset)


def plan_log_dir(
    path: str | os.PathLike[str],
    config: LogConfig | ConfigFor,
    *,
    clock: Clock = system_clock,
    assignments: Assignments | None = None,
    clean_shutdown: bool | None = None,
) -> LogDirPlan:
    """Plan what a restart would do to a log dir. Raises OSError if it cannot be read.

    `clean_shutdown` overrides the marker file.
    """
    text = os.fspath(path)
    rows: list[LogDirRow] = []
    marker = FileKind.CLEAN_SHUTDOWN.value
    had_marker = Path(text, marker).exists()
    if had_marker:
        rows.append(LogDirRow(marker, "delete", "clean shutdown: logs are loaded without recovery"))
    else:
        rows.append(LogDirRow(marker, "ignore", "missing: every log is recovered"))
    directories = _directories(text, rows)
    rows += _duplicates(directories)
    if assignments is None and directories:
        why = "not checked: only the metadata log says which replicas belong here"
        rows.append(LogDirRow("-stray", "ignore", why))
    return LogDirPlan(
        path=text,
        had_clean_shutdown=had_marker if clean_shutdown is None else clean_shutdown,
        config=(lambda _: config) if isinstance(config, LogConfig) else config,
        clock=clock,
        recovery_points=_checkpoint(text, FileKind.RECOVERY_POINT_CHECKPOINT, rows),
        log_start_offsets=_checkpoint(text, FileKind.LOG_START_OFFSET_CHECKPOINT, rows),
        directories=directories,
        rows=rows,
        assignments=assignments,
    )


def plan_replica(
    directory: str | os.PathLike[str],
    config: LogConfig,
    checkpointed: Checkpointed,
    *,
    clean_shutdown: bool,
    clock: Clock = system_clock,
    assignments: Assignments | None = None,
) -> PartitionPlan:
    """Plan what a restart of the broker would do to one directory of a log dir."""
    path = os.path.abspath(directory)  # noqa: PTH100  # no link may be followed
    log_dir = LogDirPlan(
        path=os.path.dirname(path),  # noqa: PTH120
        had_clean_shutdown=clean_shutdown,
        config=lambda _: config,
        clock=clock,
        recovery_points={checkpointed.place: checkpointed.recovery_point or 0},
        log_start_offsets={checkpointed.place: checkpointed.log_start_offset or 0},
        directories=[],
        rows=[],
        assignments=assignments,
    )
    return log_dir.partition(parse_directory_name(os.path.basename(path)))  # noqa: PTH119


def recover_replica(
    planned: PartitionPlan, files: Files, config: LogConfig, clock: Clock = system_clock
) -> None:
    """Apply a plan to a directory, and close it as a broker does that stops.

    The files that the load rebuilds are written first, so that a kill loses no leader epoch.
    """
    write_rebuilt(planned.plan.files, planned.plan.journal, files)
    loaded = load_directory(files, config, planned.last_run, clock=clock)
    loaded.close()
    files.sync_directory()


def _checkpoint(path: str, kind: FileKind, rows: list[LogDirRow]) -> Mapping[tuple[str, int], int]:
    """Read a checkpoint. A malformed one counts as empty, and takes its log dir offline.

    LogManager continues with 0 for every partition. But its reader has added the dir to the failed
    ones: a rename in it stops the broker, and after the load the dir is taken offline.
    """
    try:
        checkpoint = read_offset_checkpoint(os.path.join(path, kind.value))  # noqa: PTH118
    except FileNotFoundError:
        rows.append(LogDirRow(kind.value, "read", "missing: taken as 0 for every partition"))
        return {}
    except FormatError as error:
        why = f"{error}; taken as 0 for every partition, then the log dir is taken offline"
        rows.append(LogDirRow(kind.value, "offline", why))
        return {}
    except OSError as error:  # a link that is not followed, no permission: Kafka may read it
        why = f"not read: {error.strerror or error}; taken as 0 for every partition"
        rows.append(LogDirRow(kind.value, "read", why))
        return {}
    return checkpoint.offsets()


def _directories(path: str, rows: list[LogDirRow]) -> list[DirectoryName]:
    found = []
    listing = list_directory(path)
    if listing.problem is not None:
        Path(path).stat()  # has the best message if the dir does not exist
        raise OSError(errno.EIO, listing.problem, path)
    for text in (each.name for each in listing.entries if each.kind is EntryKind.DIRECTORY):
        name = parse_directory_name(text)
        if name.kind is DirectoryKind.REMOTE_LOG_INDEX_CACHE:
            rows.append(LogDirRow(text, "ignore", "the index cache of tiered storage"))
        elif name.kind is DirectoryKind.UNKNOWN:
            why = "not the name of a partition directory: the broker does not start"
            rows.append(LogDirRow(text, "stop", why))
        elif name.topic == CLUSTER_METADATA_TOPIC and not _is_metadata_log(name):
            rows.append(
                LogDirRow(
                    text, "ignore", "a directory of the metadata topic, but not the metadata log"
                )
            )
        else:
            found.append(name)
    return found


def _duplicates(directories: Iterable[DirectoryName]) -> list[LogDirRow]:
    """Return a row for each partition with two directories, both current or both future."""
    by_replica: defaultdict[tuple[DirectoryKind, str, int | None], list[str]] = defaultdict(list)
    for name in directories:
        if name.kind in (DirectoryKind.PARTITION, DirectoryKind.FUTURE):
            by_replica[name.kind, name.topic, name.partition].append(str(name))
    return [
        LogDirRow(names[-1], "stop", f"the same partition as {names[0]}: the broker does not start")
        for names in by_replica.values()
        if len(names) > 1
    ]


def _is_metadata_log(name: DirectoryName) -> bool:
    return name.topic == CLUSTER_METADATA_TOPIC and name.kind is DirectoryKind.PARTITION
