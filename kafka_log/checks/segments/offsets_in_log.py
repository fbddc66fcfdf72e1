"""Check offsets and timestamps: batches against their segment, records against their batch.

    OffsetRange     a batch lies in its segment, and after the batch before it
    RecordOffsets   the records of a batch lie in its offsets, each after the one before
    MaxTimestamps   the largest timestamp in a header is that of its records

Compaction removes records but keeps the offsets of a batch, so gaps are no finding. It lowers the
largest timestamp to that of the records that remain, and keeps it in a batch without records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_format.attributes import LOG_APPEND_TIME
from kafka_log.checks.finding import Finding
from kafka_log.damage.findings import OUT_OF_PLACE, WRONG_MAX_TIMESTAMP, WRONG_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.checks.finding import About
    from kafka_log.checks.segments.log_pieces import LogPiece

    Int64s = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]

_MOST_OFFSETS = 2**31 - 1
"""An index stores offsets relative to its segment's base offset, in 31 bits."""
_NONE = -1


class OffsetRange:
    """The offsets that a segment's batches must have: in its range, and in order."""

    def __init__(self, about: About, base_offset: int, next_base: int | None) -> None:
        self._about = about
        self._base = base_offset
        self._end = base_offset + _MOST_OFFSETS + 1 if next_base is None else next_base
        self._last = base_offset - 1
        """The last offset of the batch before."""

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        """Yield batches out of place. Those with a wrong checksum are already reported."""
        batches, valid = piece.batches, piece.is_sound
        if not len(batches) or piece.is_continuation:
            return
        # A legacy wrapper stores only its last offset.
        first = np.where(batches.is_legacy, batches.last_offset, batches.base_offset)
        last = batches.last_offset
        follows = first[0] > self._last and bool((first[1:] > last[:-1]).all())
        if valid.all() and follows and (last >= first).all() and last[-1] < self._end:
            self._last = int(last[-1])
            return
        for batch in np.flatnonzero(valid).tolist():
            yield from self._check(batches, batch, int(first[batch]), int(last[batch]))

    def _check(self, batches: BatchColumns, batch: int, first: int, last: int) -> Iterator[Finding]:
        expected = None
        if first < self._base:
            expected = f"offset {self._base} or more, the base offset of its segment"
        elif last < first:
            expected = "a last offset that is not below its first"
        elif last >= self._end:
            expected = f"offsets below {self._end}, where the next segment begins or an index ends"
        elif first <= self._last:
            expected = f"offset {self._last + 1} or more, after the previous batch"
        if expected is not None:
            found = f"a batch at offset {first}" + (f" to {last}" if last != first else "")
            yield Finding.of(
                OUT_OF_PLACE,
                self._about,
                found,
                expected,
                position=int(batches.position[batch]),
                offset=first,
            )
        if self._base <= first <= last < self._end:
            self._last = max(self._last, last)


class _Spans:
    """The rows of each batch that has records in a piece."""

    def __init__(self, records: RecordColumns) -> None:
        counts = records.counts
        self.batch: Rows = np.flatnonzero(counts)
        self.count = counts[self.batch]
        self.end = np.cumsum(self.count)
        self.start = self.end - self.count


class SnapshotOffsets:
    """The offsets of a metadata snapshot's batches: they count its records from 0."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._next = 0

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        """Yield batches that do not begin after the one before."""
        batches = piece.batches
        if not len(batches) or piece.is_continuation:
            return
        expected = np.concatenate(([self._next], batches.last_offset[:-1] + 1))
        self._next = int(batches.last_offset[-1]) + 1
        is_known = piece.is_sound & piece.follows
        for batch in np.flatnonzero((batches.base_offset != expected) & is_known).tolist():
            found = f"a batch at offset {batches.base_offset[batch]}"
            yield piece.finding("LOG015", self._about, batch, found, f"offset {expected[batch]}")


class RecordOffsets:
    """The offsets that the records of a batch must have."""

    def __init__(self, about: About, *, is_segment: bool) -> None:
        """In a segment, OffsetRange reports a batch that ends before it begins."""
        self._about = about
        self._is_segment = is_segment
        self._last = 0
        """The offset of the last record of the piece before."""

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        records = piece.records
        if records is None or not len(records):
            return
        offset, spans, batches = records.offset, _Spans(records), piece.batches
        goes_on = np.ones(len(offset), np.bool_)  # whether it is above that of the record before
        goes_on[1:] = offset[1:] > offset[:-1]
        goes_on[spans.start] = True
        if piece.is_continuation:
            goes_on[0] = offset[0] > self._last
        self._last = int(offset[-1])
        lowest = piece.first_offset[spans.batch]
        lowest[piece.is_wrapper[spans.batch] & ~piece.follows[spans.batch]] = 0
        highest = batches.last_offset[spans.batch]
        # librdkafka once left the offset of a wrapper at 0: its records count from there.
        is_quirk = piece.is_wrapper[spans.batch] & (highest == 0)
        first, last = offset[spans.start], offset[spans.end - 1]
        is_right = (first >= lowest) & (last <= highest) | is_quirk
        if goes_on.all() and is_right.all():
            return
        back = np.flatnonzero(~goes_on)
        wrong = {int(records.batch[row]): int(row) for row in back[::-1]}
        for at in np.flatnonzero(~is_right).tolist():
            row = spans.start[at] if first[at] < lowest[at] else spans.end[at] - 1
            wrong.setdefault(int(spans.batch[at]), int(row))
        ends_before_it_begins = batches.last_offset < batches.base_offset
        for batch in sorted(wrong):
            if not (self._is_segment and ends_before_it_begins[batch]):
                yield self._finding(piece, records, batch, wrong[batch])

    def _finding(self, piece: LogPiece, records: RecordColumns, batch: int, row: int) -> Finding:
        """Return the finding for the first record of a batch with a wrong offset."""
        batches = piece.batches
        first, last = int(piece.first_offset[batch]), int(batches.last_offset[batch])
        offset = int(records.offset[row])
        expected = f"increasing offsets from {first} to {last}"
        return Finding.of(
            WRONG_OFFSETS,
            self._about,
            f"a record at offset {offset}",
            expected,
            position=int(batches.position[batch]),
            offset=int(batches.base_offset[batch]),
        )


class MaxTimestamps:
    """The largest timestamp that a header of magic 2 must have under CreateTime.

    A broker sets it when it takes the batch from a client, and the cleaner sets it again; negative
    timestamps count as none. Under LogAppendTime the header has the only timestamp there is.
    """

    def __init__(self, about: About) -> None:
        self._about = about
        self._largest = _NONE
        """The largest timestamp so far of a batch that goes on in the next piece."""
        self._rows = 0
        """How many of its records that covers."""

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        records, batches = piece.records, piece.batches
        if records is None or not len(records) or batches.is_legacy[0]:
            return
        spans = _Spans(records)
        largest = np.maximum(np.maximum.reduceat(records.timestamp, spans.start), _NONE)
        count = spans.count.copy()
        if piece.is_continuation:
            largest[0] = max(int(largest[0]), self._largest)
            count[0] += self._rows
        self._largest, self._rows = int(largest[-1]), int(count[-1])
        stored = batches.max_timestamp[spans.batch]
        is_whole = count == batches.record_count[spans.batch]
        is_append_time = batches.attributes[spans.batch] & LOG_APPEND_TIME != 0
        for at in np.flatnonzero((stored != largest) & is_whole & ~is_append_time).tolist():
            found = f"max timestamp {int(stored[at])}"
            expected = f"{int(largest[at])}, the largest of its records"
            batch = int(spans.batch[at])
            yield piece.finding(WRONG_MAX_TIMESTAMP, self._about, batch, found, expected)
