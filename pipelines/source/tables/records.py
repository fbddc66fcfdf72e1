"""The table `records`: a row a record, as a consumer would have received it.

From the log start on (unless an offset is asked for), without control records (unless they are
asked for), and for read_committed without what was aborted and what lies behind the last stable
offset.

What should be records and is not (a damaged batch, bytes that are none, a file that changed) is one
row with `_corrupt_record`, if it may hold a wanted offset, as Spark's own readers do it in the mode
PERMISSIVE (docs/decisions/0012). DROPMALFORMED leaves it out, FAILFAST fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kafka_format.access import access
from kafka_format.attributes import CONTROL, TRANSACTIONAL
from kafka_format.errors import FormatError, Location
from kafka_log.checks.logs import over_limit, over_limit_error
from kafka_log.damage.findings import OUT_OF_PLACE, OVER_LIMIT
from pipelines.source.arrow import (
    RecordRows,
    is_flagged,
    merged,
    rows_to_arrow,
    some_at_a_time,
)
from pipelines.source.log_ranges import OFFSET_END, Damage, iter_records
from pipelines.source.options import Mode
from pipelines.source.schema import CORRUPT_RECORD
from pipelines.source.splits import plan_splits
from pipelines.source.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.records import RecordColumns
    from pipelines.source.log_ranges import Aborted, LogRange
    from pipelines.source.options import Options
    from pipelines.source.splits import Split

    Bools = npt.NDArray[np.bool_]


class _Records:
    def plan(self, options: Options, storage: Storage) -> list[Split]:
        return plan_splits(options, storage, as_consumer=True)

    def read(self, split: Split, options: Options) -> Iterator[pa.RecordBatch]:
        return merged(read_records(split, options, Storage(options.paths)))


READER = _Records()


def read_records(split: Split, options: Options, storage: Storage) -> Iterator[pa.RecordBatch]:
    """The rows of a split, a piece at a time."""
    for source in split:
        yield from _range_records(source, options, storage)


def _range_records(
    source: LogRange, options: Options, storage: Storage
) -> Iterator[pa.RecordBatch]:
    wanted = _Wanted(source, include_control=options.include_control)
    lost = _Lost(source, options)
    found = iter_records(
        source, storage, verify=options.verify_checksums, on_damage=lost.waiting.append
    )
    for columns in found:
        rows = wanted.rows(columns)
        large = over_limit(columns, access().max_decompressed_bytes)
        if len(large):
            lost.over_limit(columns, large)
            rows = np.setdiff1d(np.arange(len(columns))[rows], large)
        lost.out_of_place(columns)
        yield from lost.rows(columns)
        if isinstance(rows, slice) or len(rows):
            for some in some_at_a_time(columns, rows):
                yield RecordRows(columns, some, source.place).to_arrow(options.columns)
    yield from lost.rows(None)


class _Lost:
    """What of a range is no record as it should be: rows that say so, by the mode."""

    def __init__(self, source: LogRange, options: Options) -> None:
        self.waiting: list[Damage] = []
        """Told, and not yet placed between its neighbours."""
        self._source = source
        self._options = options
        self._next_offset = source.segment if source.is_segment else 0
        self._last_out_of_place = -1

    def over_limit(self, columns: RecordColumns, rows: npt.NDArray[np.intp]) -> None:
        for row in rows.tolist():
            error = over_limit_error(columns, row, self._source.path)
            offset = int(columns.offset[row])
            base = int(columns.batches.base_offset[columns.batch[row]])
            self.waiting.append(
                Damage(OVER_LIMIT, error, error.location.position, (offset, offset), base)
            )

    def out_of_place(self, columns: RecordColumns) -> None:
        """Records below their segment, which nobody can ask for."""
        source = self._source
        if not source.is_segment or not source.is_from_start or not len(columns):
            return
        lowest = min(source.segment, source.first_offset)
        if columns.offset.min() >= lowest:
            return
        for batch in np.unique(columns.batch[columns.offset < lowest]).tolist():
            position = int(columns.batches.position[batch])
            if position == self._last_out_of_place:  # a batch of several pieces
                continue
            self._last_out_of_place = position
            base = int(columns.batches.base_offset[batch])
            error = FormatError(
                Location(source.path, position),
                f"a batch at offset {base}",
                f"offset {source.segment} or more, the base offset of its segment",
            )
            self.waiting.append(Damage(OUT_OF_PLACE, error, position, base_offset=base))

    def rows(self, columns: RecordColumns | None) -> Iterator[pa.RecordBatch]:
        """Those of the damage that was told up to here; None is the end of the range."""
        batches = None if columns is None else columns.batches
        next_offset = OFFSET_END if batches is None else int(batches.base_offset[0])
        wanted = [each for each in self.waiting if self._is_wanted(each, next_offset)]
        self.waiting.clear()
        if columns is not None and len(sound := _sound(columns)):
            self._next_offset = int(columns.batches.last_offset[sound[-1]]) + 1
        if wanted and self._options.mode is Mode.FAILFAST:
            raise wanted[0].error
        if wanted and self._options.mode is Mode.PERMISSIVE:
            rows = map(self._row, wanted)
            yield rows_to_arrow("records", rows, self._options.columns)

    def _is_wanted(self, damage: Damage, next_offset: int) -> bool:
        """Whether a wanted offset may have been there: by its header, else by its neighbours."""
        source = self._source
        if damage.is_of_file or damage.rule == OUT_OF_PLACE:
            return True
        behind = next_offset if damage.next_offset is None else damage.next_offset
        first, last = damage.offsets or (self._next_offset, behind - 1)
        if last < first or (source.is_segment and first < source.segment):
            return True  # a header that lies: who knows
        is_before_end = first < source.end_offset or source.end_offset >= OFFSET_END
        return last >= source.first_offset and is_before_end

    def _row(self, damage: Damage) -> dict[str, Any]:
        return {
            **self._source.place,
            "position": damage.position,
            "batch_base_offset": damage.base_offset,
            CORRUPT_RECORD: str(damage),
        }


def _sound(columns: RecordColumns) -> npt.NDArray[np.intp]:
    """Batches that are not damage, by their places."""
    sound = np.ones(len(columns.batches), np.bool_)
    sound[[batch for batch, _ in columns.damage]] = False
    return np.flatnonzero(sound)


class _Wanted:
    """Which records of a range are rows."""

    def __init__(self, source: LogRange, *, include_control: bool) -> None:
        self._first, self._end = source.first_offset, source.end_offset
        self._include_control = include_control
        self._aborted = _by_producer(source.aborted)

    def rows(self, columns: RecordColumns) -> npt.NDArray[np.intp] | slice:
        if not len(columns):
            return np.empty(0, np.intp)
        wanted = self._batches(columns.batches)
        offset = columns.offset
        # Without an end the largest of all offsets is wanted, too.
        is_before_end = offset < self._end if self._end < OFFSET_END else np.True_
        if wanted.all() and offset.min() >= self._first and np.all(is_before_end):
            return slice(None)
        return np.flatnonzero(wanted[columns.batch] & (offset >= self._first) & is_before_end)

    def _batches(self, batches: BatchColumns) -> Bools:
        wanted = np.ones(len(batches), np.bool_)
        if not self._include_control:
            wanted &= ~is_flagged(batches, CONTROL)
        if self._aborted:
            wanted &= ~self._is_aborted(batches)
        return wanted

    def _is_aborted(self, batches: BatchColumns) -> Bools:
        aborted = np.zeros(len(batches), np.bool_)
        data = is_flagged(batches, TRANSACTIONAL) & ~is_flagged(batches, CONTROL)
        for producer_id in np.unique(batches.producer_id[data]).tolist():
            if producer_id not in self._aborted:
                continue
            first, last = self._aborted[producer_id]
            rows = np.flatnonzero(data & (batches.producer_id == producer_id))
            base = batches.base_offset[rows]
            latest = np.searchsorted(first, base, side="right") - 1
            aborted[rows] = (latest >= 0) & (base <= last[latest])
        return aborted


def _by_producer(
    aborted: Sequence[Aborted],
) -> dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """First offsets, ascending, and last offsets of the transactions of each producer."""
    grouped: dict[int, list[tuple[int, int]]] = {}
    for producer_id, first, last in aborted:
        grouped.setdefault(producer_id, []).append((first, last))
    return {
        producer_id: (
            np.array([first for first, _ in sorted(ranges)], np.int64),
            np.array([last for _, last in sorted(ranges)], np.int64),
        )
        for producer_id, ranges in grouped.items()
    }
