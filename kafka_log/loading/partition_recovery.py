"""Plan what a restart would do to a partition directory, or do it.

A plan is the loader itself (log_loader.py), run on an OverlayFiles with a journal: no rule exists
twice, and the evidence is only read.

    plan = plan_partition(directory, config, LastRun(clean_shutdown=False))
    plan.rows()             what happens to each file, and why
    plan.write_to(copy)     the directory as the restart would leave it

The metadata log is opened as in KafkaRaftLog.createLog (metadata_log.py), all others as in
LogManager.loadLog: by a broker that has just started, and knows only the topic id in the directory.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.errors import OverLimitError
from kafka_log.checkpoints import LastRun
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
    """A partition as a broker holds it after its start, and the journal of the load."""

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
        """Close it as a broker does that stops: unlink `.deleted` files, flush, trim indexes."""
        self.scheduler.run_all()
        self.log.flush()
        self.log.close()

    def close_handlers(self) -> None:
        """Close the files as they are, as a crash does."""
        self.log.close_handlers()


def load_partition(
    files: Files,
    config: LogConfig,
    last_run: LastRun,
    *,
    clock: Clock = system_clock,
    topic_id: uuid.UUID | None = None,
    journal: Journal | None = None,
) -> LoadedPartition:
    """Load a directory, which recovers it. Raises LogLoadError if Kafka cannot load it."""
    scheduler = Scheduler(clock)
    journal = Journal() if journal is None else journal
    before = set(files.names())
    try:
        log = PartitionLog.open(
            files, config, scheduler, last_run, topic_id=topic_id, journal=journal
        )
    except (LogLoadError, OverLimitError, TieredStorageError):  # Kafka may accept the last two
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
    """Its name before the restart; for a new file, its name after."""
    action: str
    """created, deleted, renamed, truncated, extended, rewritten; rebuilt (same bytes), read."""
    size_before: int | None
    size_after: int | None
    renamed_to: str | None
    position: int | None
    """Where a log is truncated."""
    bytes_read: int
    why: str


@dataclass(slots=True, kw_only=True)
class RecoveryPlan:
    """What a restart would do to a partition directory. The directory itself is not changed."""

    directory: str
    files: OverlayFiles
    journal: Journal
    loaded: LoadedPartition | None
    """None if Kafka would not load the directory."""
    error: LogError | OSError | None = None
    """Why Kafka would not load it."""

    @property
    def steps(self) -> list[JournalEntry]:
        """Return every decision in order; a file may have several."""
        return self.journal.entries

    @property
    def bytes_read(self) -> int:
        """Return how many bytes of the logs a broker must read."""
        return self.journal.bytes_read

    def estimated_seconds(self, bytes_per_second: int = BYTES_PER_SECOND) -> float:
        return self.bytes_read / bytes_per_second

    @property
    def is_needed(self) -> bool:
        """Whether a restart would change any file."""
        return any(row.action not in ("read", "rebuilt") for row in self.rows())

    def rows(self) -> list[RecoveryRow]:
        """Return one row per file that is changed, rebuilt or read, in the order of names."""
        steps = _Steps(self.steps)
        rows = []
        for change in self.files.changes():
            row = steps.row(change.name, change.action, *change[2:])
            if self.files.is_same_as_before(change.name):
                row = row._replace(action="rebuilt")
            if row.action != "rebuilt" or row.why:
                rows.append(row)
        reported = {row.file for row in rows} | {row.renamed_to for row in rows}
        for name in steps.read_names():
            if name not in reported and self.files.exists(name):
                size = self.files.size(name)
                rows.append(steps.row(name, "read", size, size, None))
        return sorted(rows, key=lambda row: (row.file, row.renamed_to or ""))

    def write_to(self, directory: str | os.PathLike[str]) -> None:
        """Write the directory as the restart would leave it into an existing, empty one.

        Files that a broker unlinks with a delay are there as `.deleted`, unless `unlink_deleted`
        was called before.
        """
        if self.error is not None:
            raise self.error
        self.files.write_to(directory)

    def unlink_deleted(self) -> None:
        """Unlink `.deleted` files, as a broker does after file.delete.delay.ms (a minute)."""
        if self.loaded is not None:
            self.loaded.scheduler.run_all()


class _Steps:
    """Decisions by a file's original name, including those made after it was renamed."""

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
    last_run: LastRun,
    *,
    clock: Clock = system_clock,
) -> RecoveryPlan:
    """Plan what a restart would do. If Kafka cannot load the directory, the plan has an error.

    The metadata log is loaded as by KafkaRaftLog, whatever `last_run` says. Raises OSError if the
    directory itself cannot be read.
    """
    files = OverlayFiles(os.fspath(directory), clock)
    journal = Journal()
    plan = RecoveryPlan(directory=files.directory, files=files, journal=journal, loaded=None)
    try:
        plan.loaded = load_directory(files, config, last_run, clock=clock, journal=journal)
    except (LogError, OSError) as error:
        plan.error = error
    return plan


def recover_in_place(
    directory: str | os.PathLike[str],
    config: LogConfig,
    last_run: LastRun,
    *,
    clock: Clock = system_clock,
    unlink_deleted: bool = False,
) -> LoadedPartition:
    """Recover the directory in place as a restart would, and close it."""
    loaded = load_directory(DiskFiles(directory), config, last_run, clock=clock)
    if unlink_deleted:
        loaded.scheduler.run_all()
    loaded.close_handlers()
    return loaded


def load_directory(
    files: Files,
    config: LogConfig,
    last_run: LastRun,
    *,
    clock: Clock,
    journal: Journal | None = None,
) -> LoadedPartition:
    """Load an ordinary partition, or the metadata log, which has its own rules."""
    name = parse_directory_name(os.path.basename(os.path.abspath(files.directory)))  # noqa: PTH100, PTH119  # no link may be followed
    if name.kind is not DirectoryKind.PARTITION or name.topic != CLUSTER_METADATA_TOPIC:
        return load_partition(files, config, last_run, clock=clock, journal=journal)
    loaded = load_partition(
        files,
        METADATA_LOG_CONFIG,
        LastRun(clean_shutdown=False),
        clock=clock,
        topic_id=METADATA_TOPIC_ID,
        journal=journal,
    )
    recover_metadata_snapshots(loaded)
    return loaded
