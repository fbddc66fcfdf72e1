"""Which part of a log may be cleaned, and whether it is worth it.

    log start      first dirty            first uncleanable          active segment    log end
        |  clean       |     cleanable         |                           |              |
        +--------------+-----------------------+---------------------------+--------------+

First dirty is what `cleaner-offset-checkpoint` says. First uncleanable is the base of the segment
that holds the smallest of: the last stable offset, the active segment's base, and the base of the
first dirty segment with a record younger than `min.compaction.lag.ms`.

Mirrors LogCleanerManager.cleanableOffsets, grabFilthiestCompactedLog and LogToClean. A log that
was just loaded has its high watermark at its start: whoever asks moves it first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.segments import size_in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_log.log import PartitionLog
    from kafka_log.segment import LogSegment

_LONG_MAX = 2**63 - 1


class OffsetsToClean(NamedTuple):
    first_dirty_offset: int
    first_uncleanable_dirty_offset: int
    force_update_checkpoint: bool
    """The checkpoint lies outside of the log: Kafka writes it anew, cleaned or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log that might be cleaned; a segment with the first dirty offset inside counts twice."""

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    need_compaction_now: bool
    clean_bytes: int
    cleanable_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """Not a number for a log without bytes, as in Kafka."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else float("nan")

    @property
    def is_eligible(self) -> bool:
        """Dirtier than `min.cleanable.dirty.ratio`, or dirty for too long."""
        if not self.total_bytes:
            return False
        is_forced = self.need_compaction_now and self.cleanable_bytes > 0
        return is_forced or self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_offsets(
    log: PartitionLog, last_clean_offset: int | None, now_ms: int
) -> OffsetsToClean:
    """`last_clean_offset` is the checkpoint's, None without one."""
    start = log.log_start_offset
    first_dirty = start if last_clean_offset is None else last_clean_offset
    is_invalid = not start <= first_dirty <= log.log_end_offset
    if is_invalid:
        first_dirty = start
    uncleanable = min(log.last_stable_offset, log.active_segment.base_offset)
    if log.config.min_compaction_lag_ms > 0:
        young = first_young_segment(log, first_dirty, now_ms - log.config.min_compaction_lag_ms)
        uncleanable = uncleanable if young is None else min(uncleanable, young.base_offset)
    return OffsetsToClean(first_dirty, max(first_dirty, uncleanable), is_invalid)


def first_young_segment(log: PartitionLog, first_dirty: int, horizon_ms: int) -> LogSegment | None:
    """The first dirty one, but for the active, with a record of a later time than that."""
    for segment in log.segments.non_active_log_segments_from(first_dirty):
        if segment.largest_timestamp() > horizon_ms:
            return segment
    return None


def max_compaction_delay(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> int:
    """For how long some record has been dirty beyond `max.compaction.lag.ms`; 0 is not too long."""
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
    need_compaction_now: bool = False,
) -> LogToClean:
    """With the uncleanable offset moved down to the base of its segment."""
    non_active = log.segments.non_active_log_segments_from(uncleanable_offset)
    first_uncleanable = (non_active[0] if non_active else log.active_segment).base_offset
    dirty = log.segments.values(min(first_dirty_offset, first_uncleanable), first_uncleanable)
    return LogToClean(
        log=log,
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=first_uncleanable,
        need_compaction_now=need_compaction_now,
        clean_bytes=size_in_bytes(log.segments.values(-1, first_dirty_offset)),
        cleanable_bytes=size_in_bytes(dirty),
    )


def select(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> LogToClean:
    """What Kafka's cleaner thinks of a log each time it looks for work."""
    offsets = cleanable_offsets(log, last_clean_offset, now_ms)
    delay_ms = max_compaction_delay(log, offsets.first_dirty_offset, now_ms)
    return log_to_clean(
        log,
        offsets.first_dirty_offset,
        offsets.first_uncleanable_dirty_offset,
        need_compaction_now=delay_ms > 0,
    )


def filthiest(logs: Iterable[LogToClean]) -> LogToClean | None:
    """Which is cleaned next: a forced one does not come before a dirtier one."""
    eligible = [each for each in logs if each.is_eligible]
    return max(eligible, key=lambda each: each.cleanable_ratio, default=None)
