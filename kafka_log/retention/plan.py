"""Plan one run of retention on a directory without a broker, with a reason per segment.

The plan is the log's own deletion (log_removal.py), run on an OverlayFiles, and records each
verdict of the rules. The same deletion, run on the directory itself, applies the plan. The log is
opened as it is on disk (unloaded_log.py): retention recovers nothing.

    plan = plan_partition(directory, config, clock, high_watermark=...)
    plan.verdicts                what happens to each segment, and why
    plan.files.write_to(copy)    the directory as it would be
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kafka_log.clock import FixedClock, Scheduler
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.log.unloaded_log import (
    LARGE_SNAPSHOT,
    close_unloaded,
    live_snapshot_offsets,
    open_unloaded,
    read_end_snapshot,
    read_facts,
)
from kafka_log.names import FileKind, segment_file_name
from kafka_log.retention.breaches import LogPosition

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kafka_format.leader_epoch_file import EpochEntry
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.log.unloaded_log import LogFacts, SegmentFacts
    from kafka_log.retention.breaches import Breach, Verdict
    from kafka_log.segment.log_segment import LogSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """What happens to one segment: the rule that deletes it, or the reason that it stays."""

    facts: SegmentFacts
    end_offset: int
    breach: Breach | None
    """The rule that deletes it; None if it stays."""
    reason: str

    @property
    def is_deleted(self) -> bool:
        return self.breach is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What one run of retention does to one partition."""

    files: OverlayFiles
    """The directory as it would be afterwards."""
    facts: LogFacts
    now_ms: int
    before: LogPosition
    verdicts: tuple[SegmentVerdict, ...]
    new_log_start_offset: int
    roll_offset: int | None
    """Where an empty segment is created first, because no other would be left."""
    leader_epochs: tuple[EpochEntry, ...]
    """The epochs that remain."""
    snapshots: tuple[int, ...]
    """The offsets of the producer snapshots that remain."""

    @property
    def deleted(self) -> list[SegmentFacts]:
        return [verdict.facts for verdict in self.verdicts if verdict.is_deleted]

    def end_snapshot(self) -> bytes:
        """Return the producer snapshot that a roll leaves at the log end."""
        name = segment_file_name(self.before.log_end_offset, FileKind.PRODUCER_SNAPSHOT)
        return self.files.read(str(name), limit=LARGE_SNAPSHOT)

    @property
    def first_base_offset(self) -> int:
        """Return the base offset of the first remaining segment."""
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
    """Plan a run of retention on a directory, which is only read.

    The offsets are the checkpointed ones. Without a high watermark nothing is deleted. Raises
    LogError, FormatError or OSError.
    """
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
    facts: LogFacts | None = None,
) -> RetentionPlan:
    """Plan a run on an overlay, which afterwards shows the directory as it would be.

    `facts` describe the segments; by default they are read from the files.
    """
    known = read_facts(files) if facts is None else facts
    scheduler = Scheduler(clock)
    log = open_unloaded(
        files,
        known,
        config,
        scheduler,
        log_start_offset=log_start_offset,
        end_snapshot=partial(read_end_snapshot, files.directory, known, config),
    )
    if high_watermark is not None:
        log.update_high_watermark(high_watermark)
    before = LogPosition(log.log_start_offset, log.high_watermark, log.log_end_offset)
    reasons = _Reasons(config)
    log.delete_old_segments(on_verdict=reasons.note)
    close_unloaded(log)
    scheduler.run_all()
    active = log.active_segment.base_offset
    return RetentionPlan(
        files=files,
        facts=known,
        now_ms=clock(),
        before=before,
        verdicts=tuple(reasons.verdicts(known)),
        new_log_start_offset=log.log_start_offset,
        roll_offset=None if active == known.segments[-1].base_offset else active,
        leader_epochs=tuple(log.leader_epoch_cache.epoch_entries),
        snapshots=tuple(live_snapshot_offsets(files)),
    )


class _Reasons:
    """Collects the verdicts on each segment, step by step."""

    def __init__(self, config: LogConfig) -> None:
        self._config = config
        self._deleted: dict[int, tuple[Breach, str]] = {}
        self._kept_by: dict[int, list[str]] = {}

    def note(self, breach: Breach, verdict: Verdict[LogSegment]) -> None:
        base = verdict.segment.base_offset
        if verdict.is_deleted:
            self._deleted[base] = (breach, verdict.reason)
        elif verdict.reason not in (reasons := self._kept_by.setdefault(base, [])):
            reasons.append(verdict.reason)

    def verdicts(self, log: LogFacts) -> list[SegmentVerdict]:
        ends = [*(facts.base_offset for facts in log.segments[1:]), log.log_end_offset]
        found: list[SegmentVerdict] = []
        for facts, end in zip(log.segments, ends, strict=True):
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


def retain_in_place(plan: RetentionPlan, config: LogConfig) -> None:
    """Apply a plan to its directory. Files are unlinked without delay: no reader has them open."""
    files = DiskFiles(plan.files.directory)
    scheduler = Scheduler(FixedClock(plan.now_ms))
    delete_planned(plan, files, config, scheduler)
    files.sync_directory()
    scheduler.run_all()


def delete_planned(
    plan: RetentionPlan, files: Files, config: LogConfig, scheduler: Scheduler
) -> None:
    """Run the deletion of a plan on other files of the same directory.

    A crash between any two changes leaves a log that loads. The scheduler must have the plan's
    time; it unlinks what was renamed to `.deleted`.
    """
    log = open_unloaded(
        files,
        plan.facts,
        config,
        scheduler,
        log_start_offset=plan.before.log_start_offset,
        end_snapshot=plan.end_snapshot,
    )
    log.update_high_watermark(plan.before.high_watermark)
    log.delete_old_segments()
    close_unloaded(log)
