"""What a restart would do to a partition directory, before anything is done.

The plan is the loader itself (log_loader.py), run on an OverlayFiles with a journal. So no rule is
written twice, and the evidence is only ever read.

    plan = plan_partition(directory, config, clean_shutdown=False, log_start_offset=0,
                          recovery_point=0)
    plan.rows()             what becomes of each file, and why
    plan.write_to(copy)     the directory as the restart would leave it

Mirrors UnifiedLog.create and its constructor, as far as they touch or refuse files; for the
metadata log also KafkaRaftLog.createLog (metadata_log.py).
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.partition_metadata import MAX_SIZE, decode_partition_metadata
from kafka_log.clock import Clock, Scheduler, system_clock
from kafka_log.errors import LogError, LogLoadError
from kafka_log.files import DiskFiles, Files
from kafka_log.leader_epochs import LeaderEpochFileCache
from kafka_log.log_loader import LoadedLogOffsets, LogLoader
from kafka_log.metadata_log import recover_metadata_snapshots
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    parse_directory_name,
)
from kafka_log.overlay_files import OverlayFiles
from kafka_log.producer_state import ProducerStateManager
from kafka_log.recovery_journal import Action, Journal, JournalEntry
from kafka_log.segments import LogSegments

if TYPE_CHECKING:
    import uuid

    from kafka_log.config import LogConfig

BYTES_PER_SECOND = 950_000_000
"""How fast Kafka's own loader reads and checks uncompressed batches (docs/performance.md)."""


@dataclass(slots=True, kw_only=True)
class LoadedPartition:
    """A partition as a broker holds it once it has started."""

    files: Files
    segments: LogSegments
    leader_epoch_cache: LeaderEpochFileCache
    producer_state_manager: ProducerStateManager
    scheduler: Scheduler
    offsets: LoadedLogOffsets
    topic_id: uuid.UUID | None
    journal: Journal
    first_unstable_offset: int | None = None

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.offsets.next_offset

    @property
    def recovery_point(self) -> int:
        """Not below the log start: what was deleted needs no flushing."""
        return max(self.offsets.recovery_point, self.offsets.log_start_offset)

    def close_handlers(self) -> None:
        """Leave the files as they lie, as a broker that dies at once."""
        self.segments.close_handlers()


def load_partition(
    files: Files,
    config: LogConfig,
    *,
    clean_shutdown: bool,
    log_start_offset: int,
    recovery_point: int,
    clock: Clock = system_clock,
    scheduler: Scheduler | None = None,
    journal: Journal | None = None,
) -> LoadedPartition:
    """Load, and by that recover, a directory. LogLoadError where Kafka would not start with it."""
    scheduler = scheduler or Scheduler(clock)
    journal = journal or Journal()
    segments = LogSegments()
    try:
        had_epochs = files.exists(FileKind.LEADER_EPOCH_CHECKPOINT.value)
        leader_epoch_cache = LeaderEpochFileCache(files, scheduler)
        if not had_epochs:
            journal.add(FileKind.LEADER_EPOCH_CHECKPOINT.value, Action.WRITE, "missing")
        producer_state_manager = ProducerStateManager(files, config, clock)
        offsets = LogLoader(
            files,
            config,
            clock,
            scheduler,
            had_clean_shutdown=clean_shutdown,
            segments=segments,
            log_start_offset_checkpoint=log_start_offset,
            recovery_point_checkpoint=recovery_point,
            leader_epoch_cache=leader_epoch_cache,
            producer_state_manager=producer_state_manager,
            journal=journal,
        ).load()
        loaded = LoadedPartition(
            files=files,
            segments=segments,
            leader_epoch_cache=leader_epoch_cache,
            producer_state_manager=producer_state_manager,
            scheduler=scheduler,
            offsets=offsets,
            topic_id=_read_topic_id(files),
            journal=journal,
        )
        loaded.first_unstable_offset = _first_unstable_offset(loaded)
    except (LogError, ValueError) as error:  # a FormatError is a ValueError too
        segments.close_handlers()
        if isinstance(error, LogLoadError):
            raise
        raise LogLoadError(f"{files.directory}: Kafka cannot load it: {error}") from error
    except OSError:
        segments.close_handlers()
        raise
    return loaded


def _read_topic_id(files: Files) -> uuid.UUID | None:
    name = FileKind.PARTITION_METADATA.value
    if not files.exists(name):
        return None
    data = files.read(name, limit=MAX_SIZE)
    return decode_partition_metadata(data, path=files.path(name)).topic_id


def _first_unstable_offset(loaded: LoadedPartition) -> int | None:
    """Where the batch of the oldest open transaction begins; a starting broker looks it up.

    So damage there is fatal. What begins before the log start counts from there.
    """
    first = loaded.producer_state_manager.first_unstable_offset()
    if first is None:
        return None
    offset = max(first, loaded.log_start_offset)
    segment = loaded.segments.floor_segment(offset)
    if segment is None or offset >= loaded.log_end_offset:
        return offset
    while segment is not None:
        found = segment.translate_offset(offset)
        if found is not None:
            return found.offset
        segment = loaded.segments.higher_segment(segment.base_offset)
    return loaded.log_end_offset


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
        return bool(self.files.changes())

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
    """A partition by its kind: an ordinary one, or the metadata log."""
    name = parse_directory_name(os.path.basename(os.path.abspath(files.directory)))  # noqa: PTH100, PTH119  # no link may be followed
    if name.kind is DirectoryKind.PARTITION and name.topic == CLUSTER_METADATA_TOPIC:
        clean_shutdown, log_start_offset, recovery_point = False, 0, 0
    loaded = load_partition(
        files,
        config,
        clean_shutdown=clean_shutdown,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        clock=clock,
        journal=journal,
    )
    if name.kind is DirectoryKind.PARTITION and name.topic == CLUSTER_METADATA_TOPIC:
        recover_metadata_snapshots(loaded, config, clock)
    return loaded
