"""When a broker would clean a log, if nothing more were written to it.

Time alone changes three things: segments get older than `min.compaction.lag.ms`, so that more may
be cleaned; dirty records get older than `max.compaction.lag.ms`; and nothing becomes less dirty.
So there is a first moment, and it is one of few: asked is `select`, which asks what Kafka asks.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.cleaner.cleanable import cleanable_offsets, select

if TYPE_CHECKING:
    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.log import PartitionLog

_LONG_MAX = 2**63 - 1


class Due(NamedTuple):
    at_ms: int | None
    """None if the clock alone will not bring it about."""
    reason: str


def next_cleaning(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> Due:
    """The first time from now on at which a broker would clean it, and why then, or why never."""
    moments = _moments(log, last_clean_offset, now_ms)
    at = bisect_left(
        moments, True, key=lambda moment: select(log, last_clean_offset, moment).is_eligible
    )
    if at == len(moments):
        return Due(None, _why_not(select(log, last_clean_offset, moments[-1])))
    return Due(moments[at], _why(select(log, last_clean_offset, moments[at])))


def _moments(log: PartitionLog, last_clean_offset: int | None, now_ms: int) -> list[int]:
    """Now, and the times at which the answer may change, in order."""
    config = log.config
    first_dirty = cleanable_offsets(log, last_clean_offset, now_ms).first_dirty_offset
    moments = {now_ms}
    for segment in log.segments.non_active_log_segments_from(first_dirty):
        if config.min_compaction_lag_ms > 0:
            moments.add(segment.largest_timestamp() + config.min_compaction_lag_ms)
        moments.add(segment.get_first_batch_timestamp() + max(config.max_compaction_lag_ms, 0) + 1)
    return sorted(moment for moment in moments if now_ms <= moment <= _LONG_MAX)


def _why(chosen: LogToClean) -> str:
    least = chosen.log.config.min_cleanable_dirty_ratio
    if chosen.cleanable_ratio > least:
        return f"dirty ratio {chosen.cleanable_ratio:.2f}, above {least:g}"
    return f"dirty for longer than max.compaction.lag.ms, dirty ratio {chosen.cleanable_ratio:.2f}"


def _why_not(chosen: LogToClean) -> str:
    log = chosen.log
    least = log.config.min_cleanable_dirty_ratio
    if chosen.cleanable_bytes:
        return (
            f"dirty ratio {chosen.cleanable_ratio:.2f}, not above {least:g} without new records,"
            " and max.compaction.lag.ms sets no end"
        )
    if chosen.first_uncleanable_offset < log.active_segment.base_offset:
        return f"nothing is dirty up to the last stable offset {log.last_stable_offset}"
    return "all but the active segment is clean, and that rolls with new records only"
