"""Retention of a directory that no broker serves: a plan first, with a reason for each segment.

    facts      base, size, largest timestamp of each segment (read_facts)
    plan       the rules of retention.py over them, step after step (plan_retention)
    apply      roll if nothing would be left, cut the leader epochs, rename to `.deleted`, unlink
               after file.delete.delay.ms (apply_retention); on an overlay this is a dry run

The largest timestamp is the last entry of the `.timeindex`, as for a broker after its start. Where
that cannot be trusted (the active segment, an index that is missing, torn or all zeros) the
batches are walked instead. A broker that starts may know less, and then takes the file's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.time_index import ENTRY_SIZE, decode_time_index_columns
from kafka_log.clock import Scheduler
from kafka_log.disk.files import opened
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError
from kafka_log.leader_epochs import LeaderEpochFileCache
from kafka_log.names import (
    FileKind,
    FileState,
    live_base_offsets,
    parse_file_name,
    segment_file_name,
)
from kafka_log.retention import Breach, LogPosition, breaches, iter_verdicts

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kafka_format.leader_epoch_file import EpochEntry
    from kafka_log.clock import Clock
    from kafka_log.config import LogConfig
    from kafka_log.disk.files import Files

_SEGMENT_KINDS = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
)
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_LARGE_SNAPSHOT = 1 << 30
_NO_TIMESTAMP = -1


class SegmentFacts(NamedTuple):
    """A segment as the rules see it."""

    base_offset: int
    size: int
    record_timestamp: int
    """The largest of its records, -1 if none has one."""
    modified_ms: int
    timestamp_source: str = "time index"

    def largest_timestamp(self) -> int:
        return self.modified_ms if self.record_timestamp < 0 else self.record_timestamp


class LogFacts(NamedTuple):
    segments: tuple[SegmentFacts, ...]
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """What becomes of one segment: the rule that deletes it, or what keeps it."""

    facts: SegmentFacts
    end_offset: int
    breach: Breach | None
    """Which rule deletes it; None if it stays."""
    reason: str

    @property
    def is_deleted(self) -> bool:
        return self.breach is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What one run of retention does to one partition."""

    directory: str
    now_ms: int
    before: LogPosition
    verdicts: tuple[SegmentVerdict, ...]
    new_log_start_offset: int
    roll_offset: int | None
    """Where an empty segment is made first, because no other would be left."""
    leader_epochs: tuple[EpochEntry, ...] = ()
    """Afterwards."""
    snapshots: tuple[int, ...] = ()
    """Offsets of the producer snapshots that are there afterwards."""

    @property
    def deleted(self) -> list[SegmentFacts]:
        return [verdict.facts for verdict in self.verdicts if verdict.is_deleted]

    @property
    def first_base_offset(self) -> int:
        """Of the log afterwards."""
        for verdict in self.verdicts:
            if not verdict.is_deleted:
                return verdict.facts.base_offset
        return self.before.log_end_offset


def plan_partition(
    directory: str | os.PathLike[str],
    config: LogConfig,
    clock: Clock,
    *,
    high_watermark: int | None = None,
    log_start_offset: int | None = None,
) -> RetentionPlan:
    """What a run of retention would do to a directory, which is only read."""
    return plan_on_overlay(
        OverlayFiles(directory, clock),
        config,
        clock,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
    )


def plan_on_overlay(
    files: OverlayFiles,
    config: LogConfig,
    clock: Clock,
    *,
    high_watermark: int | None = None,
    log_start_offset: int | None = None,
) -> RetentionPlan:
    """The same, and the overlay shows the directory as it would then be."""
    plan = plan_retention(
        read_facts(files),
        config,
        clock(),
        directory=files.directory,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
    )
    scheduler = Scheduler(clock)
    apply_retention(plan, files, config, scheduler)
    scheduler.run_all()
    epochs: Sequence[EpochEntry] = ()
    if files.exists(_EPOCHS):
        epochs = LeaderEpochFileCache(files, scheduler).epoch_entries
    return replace(plan, leader_epochs=tuple(epochs), snapshots=tuple(_snapshots(files)))


# ------------------------------------------------------------------------------------- facts


def read_facts(files: Files) -> LogFacts:
    """The segments of a directory, by headers alone. Raises LogError where there is none."""
    bases = live_base_offsets(files.names())
    if not bases:
        raise LogError(f"{files.directory}: found no segment, expected at least one .log file")
    active, end = _read_active(files, bases[-1])
    return LogFacts((*(_read_inactive(files, base) for base in bases[:-1]), active), end)


def _read_inactive(files: Files, base_offset: int) -> SegmentFacts:
    name = _name(base_offset, FileKind.LOG)
    timestamp, source = _last_index_entry(files, base_offset), "time index"
    if timestamp is None:
        timestamp, _, _ = _walk(files, base_offset)
        source = "batches"
    if timestamp < 0:
        source = "modification time"
    return SegmentFacts(base_offset, files.size(name), timestamp, files.modified_ms(name), source)


def _read_active(files: Files, base_offset: int) -> tuple[SegmentFacts, int]:
    """Its index may be preallocated, and so may itself: only its batches tell."""
    timestamp, size, end = _walk(files, base_offset)
    source = "modification time" if timestamp < 0 else "batches"
    modified_ms = files.modified_ms(_name(base_offset, FileKind.LOG))
    return SegmentFacts(base_offset, size, timestamp, modified_ms, source), end


def _last_index_entry(files: Files, base_offset: int) -> int | None:
    """The largest timestamp that the index ends with; None if it tells nothing."""
    name = _name(base_offset, FileKind.TIME_INDEX)
    try:
        with opened(files, name) as file:
            if not file.size or file.size % ENTRY_SIZE:
                return None
            last = decode_time_index_columns(file.read_at(file.size - ENTRY_SIZE, ENTRY_SIZE))[0]
    except FileNotFoundError:
        return None
    timestamp, relative_offset = int(last["timestamp"]), int(last["relative_offset"])
    is_entry = timestamp > 0 and relative_offset >= 0  # zeros are what a lost page looks like
    return timestamp if is_entry else None


def _walk(files: Files, base_offset: int) -> tuple[int, int, int]:
    """Largest timestamp (or -1), where the batches end in the file, and the offset after them."""
    from kafka_format.columnar.headers import HeaderWalk

    timestamp, size, end = _NO_TIMESTAMP, 0, base_offset
    with opened(files, _name(base_offset, FileKind.LOG)) as file:
        for batches in HeaderWalk(file.reader(), path=file.path):  # type: ignore[arg-type]
            timestamp = max(timestamp, int(batches.max_timestamp.max()))
            size = int(batches.position[-1] + batches.size_in_bytes[-1])
            end = int(batches.last_offset[-1]) + 1
    return timestamp, size, end


def _name(offset: int, kind: FileKind, state: FileState = FileState.LIVE) -> str:
    return str(segment_file_name(offset, kind, state))


def _snapshots(files: Files) -> list[int]:
    return sorted(
        offset
        for name in files.names()
        if (parsed := parse_file_name(name)).kind is FileKind.PRODUCER_SNAPSHOT
        and parsed.state is FileState.LIVE
        and (offset := parsed.offset) is not None
    )


# -------------------------------------------------------------------------------------- plan


def plan_retention(
    log: LogFacts,
    config: LogConfig,
    now_ms: int,
    *,
    directory: str = "",
    high_watermark: int | None = None,
    log_start_offset: int | None = None,
) -> RetentionPlan:
    """The three steps over facts. An unknown high watermark is the log start: nothing goes."""
    first, end = log.segments[0].base_offset, log.log_end_offset
    start = max(first, log_start_offset or 0)
    if start > end:
        raise LogError(f"{directory}: found log start {start}, expected at most its end {end}")
    watermark = max(start, min(end, start if high_watermark is None else high_watermark))
    before = LogPosition(start, watermark, end)
    planner = _Planner(log, config, now_ms, before)
    for breach in breaches(config):
        planner.take(breach)
    return RetentionPlan(
        directory=directory,
        now_ms=now_ms,
        before=before,
        verdicts=tuple(planner.verdicts()),
        new_log_start_offset=planner.position.log_start_offset,
        roll_offset=planner.roll_offset,
    )


class _Planner:
    """The log between the steps."""

    def __init__(
        self, log: LogFacts, config: LogConfig, now_ms: int, position: LogPosition
    ) -> None:
        self.position = position
        self.roll_offset: int | None = None
        self._all = log.segments
        self._left = list(log.segments)
        self._config = config
        self._now_ms = now_ms
        self._deleted: dict[int, tuple[Breach, str]] = {}
        self._kept_by: dict[int, list[str]] = {}

    def take(self, breach: Breach) -> None:
        deleted = 0
        for verdict in iter_verdicts(
            breach,
            self._left,
            config=self._config,
            now_ms=self._now_ms,
            position=self.position,
        ):
            base = verdict.segment.base_offset
            if verdict.is_deleted:
                self._deleted[base] = (breach, verdict.reason)
                deleted += 1
            elif verdict.reason not in (reasons := self._kept_by.setdefault(base, [])):
                reasons.append(verdict.reason)
        if deleted:
            self._delete(deleted)

    def _delete(self, count: int) -> None:
        """UnifiedLog.deleteSegments: never all of them, and the log start follows."""
        if count == len(self._left):
            self.roll_offset = self.position.log_end_offset
            self._left.append(SegmentFacts(self.roll_offset, 0, _NO_TIMESTAMP, self._now_ms))
        del self._left[:count]
        start = max(self.position.log_start_offset, self._left[0].base_offset)
        self.position = self.position._replace(log_start_offset=start)

    def verdicts(self) -> list[SegmentVerdict]:
        ends = [*(facts.base_offset for facts in self._all[1:]), self.position.log_end_offset]
        found: list[SegmentVerdict] = []
        for facts, end in zip(self._all, ends, strict=True):
            breach, reason = self._deleted.get(facts.base_offset, (None, ""))
            if breach is None:
                reason = self._kept(facts, found)
            found.append(SegmentVerdict(facts=facts, end_offset=end, breach=breach, reason=reason))
        return found

    def _kept(self, facts: SegmentFacts, before: Sequence[SegmentVerdict]) -> str:
        if reasons := self._kept_by.get(facts.base_offset):
            return "; ".join([*self._policy(), *reasons])
        if before and not before[-1].is_deleted:
            return f"the earlier segment {before[-1].facts.base_offset} is kept"
        return "no retention limit is set"

    def _policy(self) -> list[str]:
        if self._config.delete:
            return []
        return ["cleanup.policy is compact" if self._config.compact else "cleanup.policy is empty"]


# ------------------------------------------------------------------------------------- apply


def apply_retention(
    plan: RetentionPlan, files: Files, config: LogConfig, scheduler: Scheduler
) -> None:
    """Do it, in Kafka's order: a crash anywhere between leaves a log that loads."""
    if plan.roll_offset is not None:
        _roll(plan.roll_offset, files, config)
    _cut_epochs(plan.new_log_start_offset, files, scheduler)
    marked = [
        _mark_deleted(files, facts.base_offset, kind)
        for facts in plan.deleted
        for kind in _SEGMENT_KINDS
    ]
    marked += [
        _mark_deleted(files, facts.base_offset, FileKind.PRODUCER_SNAPSHOT)
        for facts in plan.deleted
    ]

    def unlink() -> None:
        for name in marked:
            if name is not None:
                files.delete_if_exists(name)

    scheduler.schedule("delete-file", unlink, delay_ms=config.file_delete_delay_ms)


def _roll(offset: int, files: Files, config: LogConfig) -> None:
    """An empty segment behind the last one, as it lies there after the log is closed."""
    snapshot = _name(offset, FileKind.PRODUCER_SNAPSHOT)
    if not files.exists(snapshot):
        # Written before anything goes: no segment will be left to know the producers from.
        files.write(snapshot, _producers_at(offset, files, config))
    for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        files.write(_name(offset, kind), b"")


def _producers_at(offset: int, files: Files, config: LogConfig) -> bytes:
    """The snapshot at the log's end of a log that was not closed, as loading it would write it."""
    from kafka_log.loading.partition_recovery import load_partition

    overlay = OverlayFiles(files.directory)
    active = read_facts(overlay).segments[-1]
    loaded = load_partition(
        overlay,
        config,
        clean_shutdown=False,
        log_start_offset=0,
        recovery_point=active.base_offset,
    )
    loaded.close_handlers()
    if loaded.log_end_offset != offset:
        raise LogError(
            f"{files.directory}: found a log that ends at {offset} but is sound only up to"
            f" {loaded.log_end_offset}; recover it first"
        )
    return overlay.read(_name(offset, FileKind.PRODUCER_SNAPSHOT), limit=_LARGE_SNAPSHOT)


def _cut_epochs(log_start_offset: int, files: Files, scheduler: Scheduler) -> None:
    if not files.exists(_EPOCHS):
        return
    epochs = LeaderEpochFileCache(files, scheduler)
    earliest = epochs.earliest_entry
    if earliest is not None and earliest.start_offset < log_start_offset:
        epochs.truncate_from_start_async_flush(log_start_offset)


def _mark_deleted(files: Files, offset: int, kind: FileKind) -> str | None:
    name = _name(offset, kind)
    if not files.exists(name):
        return None
    marked = _name(offset, kind, FileState.DELETED)
    files.rename(name, marked)
    return marked
