"""What a restart would do to a partition directory, before anything is done.

The plan is the loader itself (log_loader.py), run on an OverlayFiles with a journal. So no rule is
written twice, and the evidence is only ever read.

    plan = plan_partition(directory, config, clean_shutdown=False, log_start_offset=0,
                          recovery_point=0)
    plan.rows()             what becomes of each file, and why
    plan.write_to(copy)     the directory as the restart would leave it

The metadata log is opened as KafkaRaftLog.createLog does (metadata_log.py), all others as
LogManager.loadLog: a broker that has just started, and knows no topic id but that in the directory.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.errors import OverLimitError
from kafka_log.clock import Clock, Scheduler, system_clock
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError, LogLoadError, TieredStorageError
from kafka_log.loading.journal import Action, Journal, JournalEntry
from kafka_log.loading.metadata_log import (
    METADATA_LOG_CONFIG,
    METADATA_TOPIC_ID,
    recover_metadata_snapshots,
)
from kafka_log.log.unified_log import PartitionLog
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    parse_directory_name,
)

if TYPE_CHECKING:
    import uuid

    from kafka_log.config.log_config import LogConfig
    from kafka_log.log.leader_epochs import LeaderEpochFileCache
    from kafka_log.producers.producer_state import ProducerStateManager
    from kafka_log.segment.log_segments import LogSegments

BYTES_PER_SECOND = 950_000_000
"""How fast Kafka's own loader reads and checks uncompressed batches (docs/performance.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition:
    """A partition as a broker holds it once it has started, and how it came to be so."""

    log: PartitionLog
    scheduler: Scheduler
    journal: Journal

    @property
    def files(self) -> Files:
        return self.log.files

    @property
    def segments(self) -> LogSegments:
        return self.log.segments

    @property
    def leader_epoch_cache(self) -> LeaderEpochFileCache:
        return self.log.leader_epoch_cache

    @property
    def producer_state_manager(self) -> ProducerStateManager:
        return self.log.producer_state_manager

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self.log.topic_id

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def recovery_point(self) -> int:
        return self.log.recovery_point

    @property
    def first_unstable_offset(self) -> int | None:
        return self.log.first_unstable_offset

    def close(self) -> None:
        """Close it as a broker that stops: unlink `.deleted` files, flush, trim indexes."""
        self.scheduler.run_all()
        self.log.flush()
        self.log.close()

    def close_handlers(self) -> None:
        """Leave the files as they lie, as a broker that dies at once."""
        self.log.close_handlers()


def load_partition(
    files: Files,
    config: LogConfig,
    *,
    clean_shutdown: bool,
    log_start_offset: int,
    recovery_point: int,
    clock: Clock = system_clock,
    topic_id: uuid.UUID | None = None,
    journal: Journal | None = None,
) -> LoadedPartition:
    """Load, and by that recover, a directory. LogLoadError where Kafka would not start with it."""
    scheduler = Scheduler(clock)
    journal = Journal() if journal is None else journal
    before = set(files.names())
    try:
        log = PartitionLog.open(
            files,
            config,
            clock,
            scheduler,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clean_shutdown=clean_shutdown,
            topic_id=topic_id,
            journal=journal,
        )
    except (LogLoadError, OverLimitError, TieredStorageError):  # Kafka may do what we may not
        raise
    except (LogError, ValueError) as error:  # a FormatError is a ValueError too
        raise LogLoadError(f"{files.directory}: Kafka cannot load it: {error}") from error
    for name in (FileKind.LEADER_EPOCH_CHECKPOINT.value, FileKind.PARTITION_METADATA.value):
        if name not in before and files.exists(name):
            journal.add(name, Action.WRITE, "missing")
        if f"{name}.tmp" in before and not files.exists(f"{name}.tmp"):
            journal.add(f"{name}.tmp", Action.DELETE, f"used to rewrite {name}")
    return LoadedPartition(log=log, scheduler=scheduler, journal=journal)


class RecoveryRow(NamedTuple):
    """What a restart does to one file of the directory, and why."""

    file: str
    """Its name before, or of a new file its name after."""
    action: str
    """created, deleted, renamed, truncated, extended, rewritten; rebuilt (same bytes), read."""
    size_before: int | None
    size_after: int | None
    renamed_to: str | None
    position: int | None
    """Where a log is cut."""
    bytes_read: int
    why: str


@dataclass(slots=True, kw_only=True)
class RecoveryPlan:
    """What a restart would do to a partition directory, which is left as it is."""

    directory: str
    files: OverlayFiles
    journal: Journal
    loaded: LoadedPartition | None
    """None if Kafka would not load it."""
    error: LogError | OSError | None = None
    """Why it would not."""

    @property
    def steps(self) -> list[JournalEntry]:
        """Every decision in its order; a file may have several."""
        return self.journal.entries

    @property
    def bytes_read(self) -> int:
        """What a broker must read of the logs."""
        return self.journal.bytes_read

    def estimated_seconds(self, bytes_per_second: int = BYTES_PER_SECOND) -> float:
        return self.bytes_read / bytes_per_second

    @property
    def is_needed(self) -> bool:
        """Whether a restart would change any file."""
        return any(row.action not in ("read", "rebuilt") for row in self.rows())

    def rows(self) -> list[RecoveryRow]:
        """One row a file that is changed, rebuilt or read, by name."""
        steps = _Steps(self.steps)
        rows = []
        for change in self.files.changes():
            row = steps.row(change.name, change.action, *change[2:])
            if self.files.is_same_as_before(change.name):
                row = row._replace(action="rebuilt")
            if row.action != "rebuilt" or row.why:
                rows.append(row)
        told = {row.file for row in rows} | {row.renamed_to for row in rows}
        for name in steps.read_names():
            if name not in told and self.files.exists(name):
                size = self.files.size(name)
                rows.append(steps.row(name, "read", size, size, None))
        return sorted(rows, key=lambda row: (row.file, row.renamed_to or ""))

    def write_to(self, directory: str | os.PathLike[str]) -> None:
        """A copy of the directory as the restart would leave it, into an empty one that exists.

        What a broker unlinks only after a while is there with `.deleted` unless
        `unlink_deleted` was called before.
        """
        if self.error is not None:
            raise self.error
        self.files.write_to(directory)

    def unlink_deleted(self) -> None:
        """What a broker that lives for a minute (file.delete.delay.ms) does to `.deleted` files."""
        if self.loaded is not None:
            self.loaded.scheduler.run_all()


class _Steps:
    """Decisions by a file's first name: what is told of a renamed file belongs to it too."""

    def __init__(self, entries: list[JournalEntry]) -> None:
        self._by_name: defaultdict[str, list[JournalEntry]] = defaultdict(list)
        self._first_names: dict[str, str] = {}
        for entry in entries:
            name = self._first_names.get(entry.file, entry.file)
            self._by_name[name].append(entry)
            if entry.renamed_to is not None:
                self._first_names[entry.renamed_to] = name

    def read_names(self) -> list[str]:
        return [
            name for name, steps in self._by_name.items() if any(step.bytes_read for step in steps)
        ]

    def row(
        self,
        name: str,
        action: str,
        size_before: int | None,
        size_after: int | None,
        renamed_to: str | None,
    ) -> RecoveryRow:
        steps = self._by_name.get(name) or self._by_name.get(self._first_names.get(name, name), [])
        cuts = [step.position for step in steps if step.position is not None]
        reasons = [step.why for step in steps if step.action is not Action.RESIZE]
        if not reasons or action == "extended":
            reasons += [step.why for step in steps if step.action is Action.RESIZE]
        return RecoveryRow(
            name,
            action,
            size_before,
            size_after,
            renamed_to,
            cuts[-1] if cuts else None,
            sum(step.bytes_read for step in steps),
            "; ".join(dict.fromkeys(reasons)),
        )


def plan_partition(
    directory: str | os.PathLike[str],
    config: LogConfig,
    *,
    clean_shutdown: bool,
    log_start_offset: int,
    recovery_point: int,
    clock: Clock = system_clock,
) -> RecoveryPlan:
    """What a restart would do; a directory that Kafka would refuse gives a plan with an error.

    The metadata log is loaded as KafkaRaftLog does, whatever the arguments say of its stop.
    OSError: the directory itself cannot be read.
    """
    files = OverlayFiles(os.fspath(directory), clock)
    journal = Journal()
    plan = RecoveryPlan(directory=files.directory, files=files, journal=journal, loaded=None)
    try:
        plan.loaded = load_directory(
            files,
            config,
            clean_shutdown=clean_shutdown,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clock=clock,
            journal=journal,
        )
    except (LogError, OSError) as error:
        plan.error = error
    return plan


def recover_in_place(
    directory: str | os.PathLike[str],
    config: LogConfig,
    *,
    clean_shutdown: bool,
    log_start_offset: int,
    recovery_point: int,
    clock: Clock = system_clock,
    unlink_deleted: bool = False,
) -> LoadedPartition:
    """Do to the directory itself what a restart would do, and close it."""
    loaded = load_directory(
        DiskFiles(directory),
        config,
        clean_shutdown=clean_shutdown,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        clock=clock,
    )
    if unlink_deleted:
        loaded.scheduler.run_all()
    loaded.close_handlers()
    return loaded


def load_directory(
    files: Files,
    config: LogConfig,
    *,
    clean_shutdown: bool,
    log_start_offset: int,
    recovery_point: int,
    clock: Clock,
    journal: Journal | None = None,
) -> LoadedPartition:
    """A partition by its kind: an ordinary one, or the metadata log, which has its own rules."""
    name = parse_directory_name(os.path.basename(os.path.abspath(files.directory)))  # noqa: PTH100, PTH119  # no link may be followed
    if name.kind is not DirectoryKind.PARTITION or name.topic != CLUSTER_METADATA_TOPIC:
        return load_partition(
            files,
            config,
            clean_shutdown=clean_shutdown,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clock=clock,
            journal=journal,
        )
    loaded = load_partition(
        files,
        METADATA_LOG_CONFIG,
        clean_shutdown=False,
        log_start_offset=0,
        recovery_point=0,
        clock=clock,
        topic_id=METADATA_TOPIC_ID,
        journal=journal,
    )
    recover_metadata_snapshots(loaded)
    return loaded
