"""What a log retains under given settings, and when it is cleaned again.

tally = Tally()
explain(log, checkpoint, tally, …)
tally.records_kept, tally.tombstones_kept, tally.oldest_tombstone

what_if(log, checkpoint, …)         the outcome, for a log on files that are not written to
not_compacted(log)                  the same for a log that is not compacted: only retention
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_log.cleaner.cleanable import next_cleaning
from kafka_log.cleaner.explain.explain import explain
from kafka_log.cleaner.explain.explainer import Explainer
from kafka_log.cleaner.explain.rows import NONE, Unreached
from kafka_log.cleaner.passes import Schedule
from kafka_log.cleaner.reasons import BY_CODE, CODES, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_log.cleaner.cleaner import Cleaner
    from kafka_log.cleaner.explain.rows import ReasonRows
    from kafka_log.cleaner.witness import Witness
    from kafka_log.log.unified_log import PartitionLog


RETENTION = "retention"


class OldestTombstone(NamedTuple):
    """The kept tombstone with the smallest timestamp."""

    offset: int
    timestamp: int
    delete_horizon_ms: int | None
    """When a round may remove it; None if no round has reached it, or if that does not depend on
    a clock (magic 0 and 1, before 4.0)."""
    reason: str
    """Why it is kept."""


class Tally:
    """A sink that counts records: kept by the last round, removed by any round."""

    def __init__(self) -> None:
        self.removed_by = np.zeros(CODES, np.int64)
        self.records_kept = self.tombstones_kept = 0
        self.oldest_tombstone: OldestTombstone | None = None
        self._round = 0

    def removed_by_reason(self) -> dict[str, int]:
        counts = {reason.text: int(self.removed_by[reason.code]) for reason in Reason}
        return {name: count for name, count in counts.items() if count}

    def __call__(self, rows: ReasonRows) -> None:
        if rows.round_number != self._round:
            self._round = rows.round_number
            self.records_kept = self.tombstones_kept = 0
            self.oldest_tombstone = None
        kept = rows.is_kept & rows.is_record
        gone = rows.reason[~rows.is_kept & rows.is_record]
        self.removed_by += np.bincount(gone, minlength=CODES)
        self.records_kept += int(np.count_nonzero(kept))
        tombstones = np.flatnonzero(kept & rows.is_tombstone)
        if len(tombstones):
            self.tombstones_kept += len(tombstones)
            self._note_tombstone(rows, int(tombstones[np.argmin(rows.timestamp[tombstones])]))

    def _note_tombstone(self, rows: ReasonRows, row: int) -> None:
        timestamp, horizon = int(rows.timestamp[row]), int(rows.delete_horizon[row])
        oldest = self.oldest_tombstone
        if oldest is None or timestamp < oldest.timestamp:
            self.oldest_tombstone = OldestTombstone(
                int(rows.offset[row]),
                timestamp,
                None if horizon == NONE else horizon,
                BY_CODE[int(rows.reason[row])].text,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for one log under one set of settings."""

    due_at_ms: int | None
    """When a broker would clean the log as it is; None if it does not become due with time."""
    due_reason: str
    rounds: int
    records_before: int
    records_after: int
    removed: dict[str, int]
    """By rule; RETENTION counts records of segments that were deleted after cleaning."""
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int
    tombstones_after: int
    oldest_tombstone: OldestTombstone | None
    next_cleaning_at_ms: int | None
    """When a broker would clean it again, once it was cleaned."""
    next_cleaning_reason: str

    def row(self) -> dict[str, Any]:
        """Return plain values."""
        row = asdict(self)
        oldest = self.oldest_tombstone
        del row["oldest_tombstone"]
        return row | {
            "oldest_tombstone_offset": None if oldest is None else oldest.offset,
            "oldest_tombstone_ms": None if oldest is None else oldest.timestamp,
            "oldest_tombstone_may_go_ms": None if oldest is None else oldest.delete_horizon_ms,
            "oldest_tombstone_reason": None if oldest is None else oldest.reason,
        }


def what_if(
    log: PartitionLog,
    last_clean_offset: int | None,
    *,
    make_cleaner: Callable[[Witness], Cleaner],
    now_ms: int,
    rounds: int | None = None,
) -> Outcome:
    """Clean a log, by default until nothing is dirty, and return the outcome.

    Retention follows, as in a cleaner thread. The files of the log are read again, so they must
    keep what is written to them.
    """
    due = next_cleaning(log, last_clean_offset, now_ms)
    size, segments = log.size, log.segments.number_of_segments()
    tally = Tally()
    results = explain(
        log,
        last_clean_offset,
        tally,
        make_cleaner=make_cleaner,
        now_ms=now_ms,
        schedule=Schedule(passes=rounds),
    )
    kept, removed = tally.records_kept, tally.removed_by_reason()
    if log.delete_old_segments():
        tally = _count_all(log)
        removed[RETENTION] = kept - tally.records_kept
    after = results[-1].next_dirty_offset if results else last_clean_offset
    following = next_cleaning(log, after, now_ms)
    return Outcome(
        due_at_ms=due.at_ms,
        due_reason=due.reason,
        rounds=len(results),
        records_before=tally.records_kept + sum(removed.values()),
        records_after=tally.records_kept,
        removed=removed,
        bytes_before=size,
        bytes_after=log.size,
        segments_before=segments,
        segments_after=log.segments.number_of_segments(),
        tombstones_after=tally.tombstones_kept,
        oldest_tombstone=tally.oldest_tombstone,
        next_cleaning_at_ms=following.at_ms,
        next_cleaning_reason=following.reason,
    )


def not_compacted(log: PartitionLog) -> Outcome:
    """Return the outcome for a log whose policy does not have `compact`."""
    before = _count_all(log)
    size, segments = log.size, log.segments.number_of_segments()
    after = _count_all(log) if log.delete_old_segments() else before
    gone = before.records_kept - after.records_kept
    reason = f"cleanup.policy is {','.join(sorted(log.config.cleanup_policy)) or 'empty'}"
    return Outcome(
        due_at_ms=None,
        due_reason=reason,
        rounds=0,
        records_before=before.records_kept,
        records_after=after.records_kept,
        removed={RETENTION: gone} if gone else {},
        bytes_before=size,
        bytes_after=log.size,
        segments_before=segments,
        segments_after=log.segments.number_of_segments(),
        tombstones_after=after.tombstones_kept,
        oldest_tombstone=after.oldest_tombstone,
        next_cleaning_at_ms=None,
        next_cleaning_reason=reason,
    )


def _count_all(log: PartitionLog) -> Tally:
    tally = Tally()
    explainer = Explainer(tally)
    for segment in log.log_segments:
        explainer.add_rest(segment, Unreached(Reason.NOT_DIRTY))
    return tally
