"""Which part of a log may be cleaned, what blocks the rest, and whether and when it is due.

    log start      first dirty            first uncleanable          active segment    log end
        |  clean       |     cleanable         |                           |              |
        +--------------+-----------------------+---------------------------+--------------+

First dirty is what `cleaner-offset-checkpoint` says. First uncleanable is the base of the segment
that holds the smallest of three limits: the active segment's base, the last stable offset, and the
base of the first dirty segment with a record younger than `min.compaction.lag.ms`.

Mirrors LogCleanerManager.cleanableOffsets, grabFilthiestCompactedLog and LogToClean. A log that
was just loaded has its high watermark at its start: move it first.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.segment.log_segments import size_in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.log_segment import LogSegment

_LONG_MAX = 2**63 - 1


# ---------------------------------------------------------------------------------- the limits


class LimitKind(Enum):
    """What keeps the cleaner from the offsets after a limit."""

    ACTIVE_SEGMENT = "active segment"
    OPEN_TRANSACTION = "open transaction"
    HIGH_WATERMARK = "high watermark"
    COMPACTION_LAG = "min.compaction.lag.ms"


class Limit(NamedTuple):
    """The latest possible end of the cleanable part, and what sets it."""

    offset: int
    kind: LimitKind
    until_ms: int | None = None
    """When it ends; None if no clock ends it."""
    producer_id: int | None = None
    """Whose open transaction it is."""


def cleanable_limit(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> Limit:
    """Return the smallest limit.

    Of equal ones it is the active segment, then the last stable offset, then the compaction lag.
    """
    limits = [
        Limit(log.active_segment.base_offset, LimitKind.ACTIVE_SEGMENT),
        _stable_limit(log),
    ]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = _first_young_segment(log, first_dirty_offset, now_ms - lag_ms)
        if young is not None:
            until_ms = young.largest_timestamp() + lag_ms
            limits.append(Limit(young.base_offset, LimitKind.COMPACTION_LAG, until_ms))
    return min(limits, key=lambda limit: limit.offset)


def _stable_limit(log: PartitionLog) -> Limit:
    """Return the last stable offset, and what holds it: an open transaction or replication."""
    stable = log.last_stable_offset
    if stable < log.high_watermark:
        for txn in log.producer_state_manager.ongoing_txns:
            if txn.first_offset == stable:
                kind = LimitKind.OPEN_TRANSACTION
                return Limit(stable, kind, producer_id=txn.producer_id)
    return Limit(stable, LimitKind.HIGH_WATERMARK)


def _first_young_segment(log: PartitionLog, first_dirty: int, horizon_ms: int) -> LogSegment | None:
    """Return the first dirty, inactive segment with a timestamp after `horizon_ms`."""
    for segment in log.segments.non_active_log_segments_from(first_dirty):
        if segment.largest_timestamp() > horizon_ms:
            return segment
    return None


class OffsetsToClean(NamedTuple):
    first_dirty_offset: int
    first_uncleanable_dirty_offset: int
    force_update_checkpoint: bool
    """Whether the checkpoint is outside the log: then Kafka rewrites it, cleaned or not."""
    limit: Limit
    """What sets the first uncleanable offset."""


def cleanable_offsets(
    log: PartitionLog, last_clean_offset: int | None, now_ms: int
) -> OffsetsToClean:
    """Return the range to clean; `last_clean_offset` is the checkpoint's, None without one."""
    start = log.log_start_offset
    first_dirty = start if last_clean_offset is None else last_clean_offset
    is_invalid = not start <= first_dirty <= log.log_end_offset
    if is_invalid:
        first_dirty = start
    limit = cleanable_limit(log, first_dirty, now_ms)
    return OffsetsToClean(first_dirty, max(first_dirty, limit.offset), is_invalid, limit)


# ------------------------------------------------------------------------------------ is it due


class Eligibility(Enum):
    """Whether a broker would clean a log now, and why."""

    NOTHING_DIRTY = False, "nothing dirty"
    NOT_DIRTY_ENOUGH = False, "not dirty enough"
    DIRTY_RATIO = True, "above min.cleanable.dirty.ratio"
    COMPACTION_LAG = True, "dirty for longer than max.compaction.lag.ms"

    @property
    def is_eligible(self) -> bool:
        return self.value[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log that may be cleaned. A segment with the first dirty offset inside counts twice."""

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    compaction_delay_ms: int
    """For how long the oldest dirty record exceeds max.compaction.lag.ms; 0 if it does not."""
    clean_bytes: int
    cleanable_bytes: int

    @property
    def need_compaction_now(self) -> bool:
        return self.compaction_delay_ms > 0

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """Not a number for a log without bytes, as in Kafka."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else float("nan")

    @property
    def eligibility(self) -> Eligibility:
        """Decide as LogCleanerManager does: a log that is dirty for too long needs no ratio."""
        if not self.cleanable_bytes:
            return Eligibility.NOTHING_DIRTY
        if self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio:
            return Eligibility.DIRTY_RATIO
        if self.need_compaction_now:
            return Eligibility.COMPACTION_LAG
        return Eligibility.NOT_DIRTY_ENOUGH

    @property
    def is_eligible(self) -> bool:
        return self.eligibility.is_eligible


def max_compaction_delay(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> int:
    """Return for how long a record is dirty beyond `max.compaction.lag.ms`; 0 if none is."""
    earliest = min(
        (
            timestamp
            for segment in log.segments.non_active_log_segments_from(first_dirty_offset)
            if (timestamp := segment.get_first_batch_timestamp()) > 0
        ),
        default=_LONG_MAX,
    )
    clean_until = now_ms - max(log.config.max_compaction_lag_ms, 0)
    return max(0, clean_until - earliest)


def log_to_clean(
    log: PartitionLog,
    first_dirty_offset: int,
    uncleanable_offset: int,
    *,
    compaction_delay_ms: int = 0,
) -> LogToClean:
    """Return the range to clean, which ends at the base of the uncleanable offset's segment."""
    non_active = log.segments.non_active_log_segments_from(uncleanable_offset)
    first_uncleanable = (non_active[0] if non_active else log.active_segment).base_offset
    dirty = log.segments.values(min(first_dirty_offset, first_uncleanable), first_uncleanable)
    return LogToClean(
        log=log,
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=first_uncleanable,
        compaction_delay_ms=compaction_delay_ms,
        clean_bytes=size_in_bytes(log.segments.values(-1, first_dirty_offset)),
        cleanable_bytes=size_in_bytes(dirty),
    )


def select(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> LogToClean:
    """Look at a log as Kafka's cleaner does each time it looks for work."""
    offsets = cleanable_offsets(log, last_clean_offset, now_ms)
    return log_to_clean(
        log,
        offsets.first_dirty_offset,
        offsets.first_uncleanable_dirty_offset,
        compaction_delay_ms=max_compaction_delay(log, offsets.first_dirty_offset, now_ms),
    )


def filthiest(logs: Iterable[LogToClean]) -> LogToClean | None:
    """Return the log to clean next: the dirtiest, even if another one is overdue."""
    eligible = [each for each in logs if each.is_eligible]
    return max(eligible, key=lambda each: each.cleanable_ratio, default=None)


# --------------------------------------------------------------------------------- when it is due


class Due(NamedTuple):
    at_ms: int | None
    """None if it does not become due without new records."""
    reason: str


def next_cleaning(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> Due:
    """Return when a broker would clean a log if nothing more is written, and why then or never.

    Time changes only two things: segments become older than `min.compaction.lag.ms`, so that more
    may be cleaned, and dirty records become older than `max.compaction.lag.ms`. Nothing becomes
    less dirty. So a binary search over a few moments finds the first one.
    """
    moments = _moments(log, last_clean_offset, now_ms)
    at = bisect_left(
        moments, True, key=lambda moment: select(log, last_clean_offset, moment).is_eligible
    )
    if at == len(moments):
        return Due(None, _why_never(select(log, last_clean_offset, moments[-1])))
    return Due(moments[at], _why_then(select(log, last_clean_offset, moments[at])))


def _moments(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> list[int]:
    """Return now, and the times at which the answer may change, in order."""
    config = log.config
    first_dirty = cleanable_offsets(log, last_clean_offset, now_ms).first_dirty_offset
    moments = {now_ms}
    for segment in log.segments.non_active_log_segments_from(first_dirty):
        if config.min_compaction_lag_ms > 0:
            moments.add(segment.largest_timestamp() + config.min_compaction_lag_ms)
        moments.add(segment.get_first_batch_timestamp() + max(config.max_compaction_lag_ms, 0) + 1)
    return sorted(moment for moment in moments if now_ms <= moment <= _LONG_MAX)


def _why_then(cleanable: LogToClean) -> str:
    ratio = f"dirty ratio {cleanable.cleanable_ratio:.2f}"
    if cleanable.eligibility is Eligibility.DIRTY_RATIO:
        return f"{ratio}, above {cleanable.log.config.min_cleanable_dirty_ratio:g}"
    return f"dirty for longer than max.compaction.lag.ms, {ratio}"


def _why_never(cleanable: LogToClean) -> str:
    log = cleanable.log
    if cleanable.eligibility is not Eligibility.NOTHING_DIRTY:
        least = log.config.min_cleanable_dirty_ratio
        return (
            f"dirty ratio {cleanable.cleanable_ratio:.2f}, not above {least:g} without new records,"
            " and max.compaction.lag.ms sets no end"
        )
    if cleanable.first_uncleanable_offset < log.active_segment.base_offset:
        return f"nothing is dirty up to the last stable offset {log.last_stable_offset}"
    return "all but the active segment is clean, and that rolls with new records only"
