"""Check the entries of an offset and a time index against the batches of their log.

    OffsetEntries   each entry against the batch at its position
    TimeEntries     each entry against the timestamps of the batches

Kafka's releases choose different batches for their entries, and a restart begins to count again. An
entry is a finding only if no release can have written it.

**Offset index.** Since 3.9.1, 4.0.1 and 4.1.0, an entry has the position of a batch, and its last
offset. Before, it had the position of the first batch of an append (a follower's fetch, a chunk of
the cleaner), and the last offset of its last batch; from the cleaner, the last offset of a record
that was kept. So a batch begins at the position, the batches before it end below the offset, and
the offset is that of a batch from there up to the position of the next entry.

**Entries that are missing.** An entry follows when more than index.interval.bytes were appended,
but not within an append, and a restart sets the count to 0. So nothing short of an implausible
stretch is certain: see LONGEST_STRETCH.

**Time index.** An entry has the largest timestamp of all batches up to some point, and the last
offset of a batch that has it; up to 3.6, the offset of the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_log.checks.finding import Finding
from kafka_log.checks.segments.time_indexes import UncoveredBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_log.checks.finding import About
    from kafka_log.checks.segments.log_pieces import LogPiece

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]
    Rows = npt.NDArray[np.intp]

LEADS_ASTRAY = "IDX004"
"""An offset index entry from which a reader finds wrong bytes, or skips records."""
NOT_IN_LOG = "IDX005"
"""An offset index entry whose offset is not in the log from its position on."""
MISSING_ENTRIES = "IDX006"
"""A long stretch of a log without an entry in its offset index."""
WRONG_TIME = "TIX005"
"""A time index entry that is not the largest timestamp up to its offset."""

LONGEST_STRETCH = 32 * 1024 * 1024
"""The longest stretch without an entry, in bytes, beyond the interval and the largest batch.

A follower appends up to replica.fetch.response.max.bytes (10 MiB) at once, the cleaner less. To
reach the rest by restarts takes thousands of them, each before an interval is full."""


class OffsetEntries:
    """The entries of an offset index, in the order of their positions."""

    def __init__(
        self, entries: npt.NDArray[np.void], base_offset: int, about: About, *, interval: int | None
    ) -> None:
        """Take the entries up to the first that is not in order; None: the interval is unknown."""
        self._about = about
        self._position = entries["position"].astype(np.int64)
        self._offset = entries["relative_offset"].astype(np.int64) + base_offset
        self._interval = interval
        self._next = 0
        """The first entry whose position is not reached yet."""
        self._pending: int | None = None
        """An entry whose offset is not reached yet."""
        self._end = 0
        self._end_is_known = True
        self._largest_batch = 0

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        batches = piece.batches
        if not len(batches) or piece.is_continuation:
            return
        self._end, self._end_is_known = int(piece.ends[-1]), bool(piece.is_sound[-1])
        self._largest_batch = max(self._largest_batch, int(batches.size_in_bytes.max()))
        if not _is_in_order(piece):  # reported as such; only what follows can be judged again
            self._next = int(np.searchsorted(self._position, self._end))
            self._pending = None
            return
        stop = int(np.searchsorted(self._position, self._end))
        rows = np.arange(self._next, stop)
        self._next = stop
        batch = np.searchsorted(batches.position, self._position[rows], side="right") - 1
        inside = batch >= 0  # otherwise it is in damage, which is already reported
        batch = np.maximum(batch, 0)
        starts = inside & (batches.position[batch] == self._position[rows])
        sound = piece.is_sound[batch]
        within = inside & ~starts & sound & (self._position[rows] < piece.ends[batch])
        skips = starts & sound & piece.follows[batch]
        skips &= self._offset[rows] <= piece.previous_last[batch]
        yield from self._report(LEADS_ASTRAY, rows[within], "the position of a batch")
        yield from self._report(
            LEADS_ASTRAY, rows[skips], "an offset above those of the batches before its position"
        )
        judged = rows[starts & sound & ~skips]
        if self._pending is not None:
            judged = np.concatenate([[self._pending], judged])
        yield from self._judge_offsets(piece, judged)

    def finish(self, size: int) -> Iterator[Finding]:
        """Yield what the end of the log shows, which is `size` bytes long."""
        if self._end != size:  # a damaged end, which is already reported
            self._end_is_known = False
            self._next = int(np.searchsorted(self._position, size))
        if self._end_is_known and self._pending is not None:
            yield from self._report_offsets(np.array([self._pending]))
        beyond = np.arange(self._next, len(self._position))
        yield from self._report(NOT_IN_LOG, beyond, f"a position in the log, below {size}")
        yield from self._long_stretches()

    def _judge_offsets(self, piece: LogPiece, rows: Rows) -> Iterator[Finding]:
        """Compare offsets with the batches that have them; the last may be in a later piece."""
        self._pending = None
        if not len(rows):
            return
        batches, offset = piece.batches, self._offset[rows]
        batch = np.searchsorted(batches.last_offset, offset)
        is_later = batch == len(batches)
        if is_later[-1]:
            self._pending = int(rows[-1])
        is_later_but_one = is_later.copy()
        is_later_but_one[-1] = False
        batch = np.minimum(batch, len(batches) - 1)
        ends = batches.last_offset[batch] == offset
        has_gaps = (batches.magic >= 2) & (batches.record_count <= batches.last_offset_delta)
        held = has_gaps[batch] & (piece.first_offset[batch] <= offset)
        following = np.minimum(rows + 1, len(self._position) - 1)
        overlaps = (batches.position[batch] >= self._position[following]) & (following > rows)
        wrong = ~is_later & (~(ends | held) | overlaps)
        wrong &= piece.is_sound[batch] & piece.follows[batch]
        yield from self._report_offsets(rows[wrong | is_later_but_one])

    def _report_offsets(self, rows: Rows) -> Iterator[Finding]:
        yield from self._report(NOT_IN_LOG, rows, "the last offset of a batch from there on")

    def _report(self, rule: str, rows: Rows, expected: str) -> Iterator[Finding]:
        for run in _runs(rows):
            first = int(run[0])
            found = f"offset {int(self._offset[first])}, position {int(self._position[first])}"
            yield Finding.of(
                rule,
                self._about,
                found + _and_more(run),
                expected,
                position=8 * first,
                offset=int(self._offset[first]),
            )

    def _long_stretches(self) -> Iterator[Finding]:
        if self._interval is None:
            return
        longest = self._interval + LONGEST_STRETCH + self._largest_batch
        edges = np.concatenate([[0], self._position[self._position < self._end], [self._end]])
        lengths = np.diff(edges)
        for at in np.flatnonzero(lengths > longest).tolist():
            found = f"no entry for positions {int(edges[at])} to {int(edges[at + 1])}"
            expected = f"an entry after {self._interval} bytes (index.interval.bytes)"
            yield Finding.of(MISSING_ENTRIES, self._about, found, expected, position=8 * at)


class TimeEntries:
    """The entries of a time index, in the order of their offsets."""

    def __init__(self, entries: npt.NDArray[np.void], base_offset: int, about: About) -> None:
        self._about = about
        self._timestamp = entries["timestamp"].astype(np.int64)
        self._offset = entries["relative_offset"].astype(np.int64) + base_offset
        self._next = 0
        self._largest = -1
        """The largest timestamp of the batches so far."""
        self._end = 0
        self._end_is_known = True
        self.uncovered: UncoveredBatch | None = None
        """The first batch after the last entry with a later timestamp."""

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        batches = piece.batches
        if not len(batches) or piece.is_continuation:
            return
        self._end, self._end_is_known = int(piece.ends[-1]), bool(piece.is_sound[-1])
        self._find_uncovered(piece)
        last = batches.last_offset[piece.is_sound]
        stop = self._next
        if len(last):
            stop = max(stop, int(np.searchsorted(self._offset, last.max(), side="right")))
        rows = np.arange(self._next, stop)
        self._next = stop
        timestamps = np.where(piece.is_sound, batches.max_timestamp, -1)
        before = np.maximum.accumulate(np.concatenate([[self._largest], timestamps]))
        self._largest = int(before[-1])
        if not len(rows) or not _is_in_order(piece):
            return
        batch = np.searchsorted(batches.last_offset, self._offset[rows])
        batch = np.minimum(batch, len(batches) - 1)
        known = piece.is_sound[batch] & piece.follows[batch]
        inside = piece.first_offset[batch] <= self._offset[rows]
        is_right = inside & (batches.max_timestamp[batch] == self._timestamp[rows])
        is_right &= before[batch] <= self._timestamp[rows]
        yield from self._report(rows[known & ~is_right], "the largest timestamp up to that offset")

    def finish(self, size: int) -> Iterator[Finding]:
        """Yield the entries for offsets beyond the end of the log, which is `size` bytes long."""
        if self._end_is_known and self._end == size:
            beyond = np.arange(self._next, len(self._offset))
            yield from self._report(beyond, "an offset in the log")

    def _find_uncovered(self, piece: LogPiece) -> None:
        if self.uncovered is not None:
            return
        timestamp, offset = -1, -1
        if len(self._offset):
            timestamp, offset = int(self._timestamp[-1]), int(self._offset[-1])
        batches = piece.batches
        is_later = (batches.max_timestamp > timestamp) & (batches.last_offset > offset)
        for batch in np.flatnonzero(is_later & piece.is_sound)[:1].tolist():
            self.uncovered = UncoveredBatch(
                int(batches.position[batch]),
                int(batches.last_offset[batch]),
                int(batches.max_timestamp[batch]),
            )

    def _report(self, rows: Rows, expected: str) -> Iterator[Finding]:
        for run in _runs(rows):
            first = int(run[0])
            found = f"timestamp {int(self._timestamp[first])}, offset {int(self._offset[first])}"
            yield Finding.of(
                WRONG_TIME,
                self._about,
                found + _and_more(run),
                expected,
                position=12 * first,
                offset=int(self._offset[first]),
            )


def _is_in_order(piece: LogPiece) -> bool:
    """Return whether offsets can be looked up in this piece."""
    last = piece.batches.last_offset
    return bool((last[1:] > last[:-1]).all())


def _runs(rows: Rows) -> list[Rows]:
    """Split entries where one is left out: a run is one finding."""
    return np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []


def _and_more(run: Rows) -> str:
    return f", and {len(run) - 1} entries that follow" if len(run) > 1 else ""
