"""Why each record is kept or removed: rounds that write a row for each decision.

    explain(log, last_clean_offset, sink, make_cleaner=…, now_ms=…)

A row is a record, or a batch that was dropped whole or has no records. Rows are passed to `sink` as
columns, some thousand at a time. What no round reaches has rows as well, with the limit that keeps
the cleaner from it.

    removed rows of all rounds + kept rows of the last = every record that was there

Among the records that a round reached (`Reason.is_decided`), the kept ones are its
`messages_written`, those with NO_KEY its `invalid_messages_read`, and all except those dropped
unread with their batch its `messages_read`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.cleaner.cleanable import LimitKind, cleanable_limit, select
from kafka_log.cleaner.cleaner_thread import CleanerThread
from kafka_log.cleaner.explain.explainer import Explainer
from kafka_log.cleaner.explain.rows import NONE, Unreached
from kafka_log.cleaner.passes import Passes, Schedule
from kafka_log.cleaner.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.cleaner import Cleaner, RoundResult
    from kafka_log.cleaner.explain.rows import ReasonRows
    from kafka_log.cleaner.witness import Witness
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.log_segment import LogSegment

_LIMITS = {
    LimitKind.ACTIVE_SEGMENT: Reason.NOT_CLEANABLE_ACTIVE_SEGMENT,
    LimitKind.OPEN_TRANSACTION: Reason.NOT_CLEANABLE_OPEN_TRANSACTION,
    LimitKind.HIGH_WATERMARK: Reason.NOT_CLEANABLE_HIGH_WATERMARK,
    LimitKind.COMPACTION_LAG: Reason.NOT_CLEANABLE_COMPACTION_LAG,
}


def explain(
    log: PartitionLog,
    last_clean_offset: int | None,
    sink: Callable[[ReasonRows], None],
    *,
    make_cleaner: Callable[[Witness], Cleaner],
    now_ms: int,
    schedule: Schedule = Schedule(),  # noqa: B008  # a frozen value
) -> list[RoundResult]:
    """Clean a log and explain it; return what each round read and wrote.

    On an overlay nothing is written: that is a dry run. Rounds go by the schedule while something
    is dirty, however little (unless `only_when_due`). Rows for everything that the last round did
    not reach follow at the end.
    """
    explainer = Explainer(sink)
    passes = Passes(schedule, log.files, last_clean_offset)
    results: list[RoundResult] = []
    with make_cleaner(explainer).released() as cleaner:
        thread = CleanerThread(log, cleaner, passes, lambda: now_ms)
        for turn in thread.turns():
            explainer.finish()
            results.append(turn.result())
    cleanable = thread.cleanable or select(log, passes.start, now_ms)
    unreached = Reason.NOT_REACHED if results else Reason.NOT_DIRTY
    if thread.is_not_due and cleanable.cleanable_bytes:
        unreached = Reason.NOT_DUE
    end_offset = results[-1].next_dirty_offset if results else 0
    for segment in log.log_segments:
        if segment.base_offset >= end_offset:
            explainer.add_rest(segment, _why_unreached(cleanable, segment, unreached, now_ms))
    return results


def _why_unreached(
    cleanable: LogToClean, segment: LogSegment, unreached: Reason, now_ms: int
) -> Unreached:
    """Return why no round reached a segment; `unreached` if it is cleanable."""
    if segment.base_offset >= cleanable.log.active_segment.base_offset:
        return Unreached(Reason.NOT_CLEANABLE_ACTIVE_SEGMENT)
    if segment.base_offset < cleanable.first_uncleanable_offset:
        return Unreached(unreached)
    limit = cleanable_limit(cleanable.log, cleanable.first_dirty_offset, now_ms)
    return Unreached(
        _LIMITS[limit.kind],
        NONE if limit.until_ms is None else limit.until_ms,
        NONE if limit.producer_id is None else limit.producer_id,
    )
