"""The table `records`: one row per record, as a consumer would have received it.

Rows begin at the log start unless an offset is given, and leave out control records unless they are
asked for. With read_committed they also leave out aborted records and those at or after the last
stable offset.

Damage (a broken batch, bytes that are not a batch, a file that changed) is one row with
`_corrupt_record`, if a selected offset may be in it, as in the mode PERMISSIVE of Spark's own
readers (docs/decisions/0012). DROPMALFORMED leaves it out, FAILFAST fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kafka_format.access import access
from kafka_format.attributes import CONTROL, TRANSACTIONAL
from kafka_format.errors import FormatError, Location
from kafka_log.checks.segments.logs import over_limit, over_limit_error
from kafka_log.damage.findings import OUT_OF_PLACE, OVER_LIMIT
from pipelines.source.arrow import (
    ArrowRecords,
    is_flagged,
    merged,
    row_runs,
    rows_to_arrow,
)
from pipelines.source.log_ranges import OFFSET_END, RangeDamage, iter_records
from pipelines.source.options import ReadMode
from pipelines.source.schema import CORRUPT_RECORD
from pipelines.source.splits import plan_splits
from pipelines.source.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
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
    """Yield the rows of a split, piece by piece."""
    for source in split:
        yield from _range_records(source, options, storage)


def _range_records(
    source: LogRange, options: Options, storage: Storage
) -> Iterator[pa.RecordBatch]:
    row_filter = _RowFilter(source, include_control=options.include_control)
    damage_rows = _DamageRows(source, options)
    found = iter_records(
        source, storage, verify=options.verify_checksums, on_damage=damage_rows.pending.append
    )
    for columns in found:
        rows = row_filter.rows(columns)
        large = over_limit(columns, access().max_decompressed_bytes)
        if len(large):
            damage_rows.add_over_limit(columns, large)
            rows = np.setdiff1d(np.arange(len(columns))[rows], large)
        damage_rows.add_out_of_place(columns)
        yield from damage_rows.rows(columns)
        if isinstance(rows, slice) or len(rows):
            for part in row_runs(columns, rows):
                yield ArrowRecords(columns, part, source.place).to_arrow(options.columns)
    yield from damage_rows.rows(None)


class _DamageRows:
    """Collects the damage of a range and makes rows of it, according to the mode."""

    def __init__(self, source: LogRange, options: Options) -> None:
        self.pending: list[RangeDamage] = []
        """Reported, and not yet placed between its neighbours."""
        self._source = source
        self._options = options
        self._next_offset = source.segment if source.is_segment else 0
        self._last_out_of_place = -1

    def add_over_limit(self, columns: RecordColumns, rows: npt.NDArray[np.intp]) -> None:
        for row in rows.tolist():
            error = over_limit_error(columns, row, self._source.path)
            offset = int(columns.offset[row])
            base = int(columns.batches.base_offset[columns.batch[row]])
            self.pending.append(
                RangeDamage(OVER_LIMIT, error, error.location.position, (offset, offset), base)
            )

    def add_out_of_place(self, columns: RecordColumns) -> None:
        """Add records below the base offset of their segment, which no offset can select."""
        source = self._source
        if not source.is_segment or not source.is_from_start or not len(columns):
            return
        lowest = min(source.segment, source.first_offset)
        if columns.offset.min() >= lowest:
            return
        for batch in np.unique(columns.batch[columns.offset < lowest]).tolist():
            position = int(columns.batches.position[batch])
            if position == self._last_out_of_place:  # a batch that comes in several pieces
                continue
            self._last_out_of_place = position
            base = int(columns.batches.base_offset[batch])
            error = FormatError(
                Location(source.path, position),
                f"a batch at offset {base}",
                f"offset {source.segment} or more, the base offset of its segment",
            )
            self.pending.append(RangeDamage(OUT_OF_PLACE, error, position, base_offset=base))

    def rows(self, columns: RecordColumns | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the damage reported so far; None is the end of the range."""
        batches = None if columns is None else columns.batches
        next_offset = OFFSET_END if batches is None else int(batches.base_offset[0])
        selected = [each for each in self.pending if self._is_selected(each, next_offset)]
        self.pending.clear()
        if columns is not None and len(sound := _sound(columns)):
            self._next_offset = int(columns.batches.last_offset[sound[-1]]) + 1
        if selected and self._options.mode is ReadMode.FAILFAST:
            raise selected[0].error
        if selected and self._options.mode is ReadMode.PERMISSIVE:
            rows = map(self._row, selected)
            yield rows_to_arrow("records", rows, self._options.columns)

    def _is_selected(self, damage: RangeDamage, next_offset: int) -> bool:
        """Return whether a selected offset may be in it, by its header or by its neighbours."""
        source = self._source
        if damage.is_of_file or damage.rule == OUT_OF_PLACE:
            return True
        next_base = next_offset if damage.next_offset is None else damage.next_offset
        first, last = damage.offsets or (self._next_offset, next_base - 1)
        if last < first or (source.is_segment and first < source.segment):
            return True  # a wrong header: it may be any offset
        is_before_end = first < source.end_offset or source.end_offset >= OFFSET_END
        return last >= source.first_offset and is_before_end

    def _row(self, damage: RangeDamage) -> dict[str, Any]:
        return {
            **self._source.place,
            "position": damage.position,
            "batch_base_offset": damage.base_offset,
            CORRUPT_RECORD: str(damage),
        }


def _sound(columns: RecordColumns) -> npt.NDArray[np.intp]:
    """Return the places of the batches that are not damaged."""
    sound = np.ones(len(columns.batches), np.bool_)
    sound[[batch for batch, _ in columns.damage]] = False
    return np.flatnonzero(sound)


class _RowFilter:
    """Selects the records of a range that become rows."""

    def __init__(self, source: LogRange, *, include_control: bool) -> None:
        self._first, self._end = source.first_offset, source.end_offset
        self._include_control = include_control
        self._aborted = _by_producer(source.aborted)

    def rows(self, columns: RecordColumns) -> npt.NDArray[np.intp] | slice:
        if not len(columns):
            return np.empty(0, np.intp)
        selected = self._batches(columns.batches)
        offset = columns.offset
        # Without an end, the largest possible offset is selected as well.
        is_before_end = offset < self._end if self._end < OFFSET_END else np.True_
        if selected.all() and offset.min() >= self._first and np.all(is_before_end):
            return slice(None)
        return np.flatnonzero(selected[columns.batch] & (offset >= self._first) & is_before_end)

    def _batches(self, batches: BatchColumns) -> Bools:
        selected = np.ones(len(batches), np.bool_)
        if not self._include_control:
            selected &= ~is_flagged(batches, CONTROL)
        if self._aborted:
            selected &= ~self._is_aborted(batches)
        return selected

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
    """Return the first offsets, ascending, and last offsets of each producer's transactions."""
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
