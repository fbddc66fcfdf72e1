"""The table `records`: a row a record, as a consumer would have received it.

From the log start on (unless an offset is asked for), without control records (unless they are
asked for), and for read_committed without what was aborted and what lies behind the last stable
offset. Records of a damaged batch are left out; the batch is in `batches` and `findings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np

from pipelines.arrow import CONTROL, TRANSACTIONAL, RecordRows, is_flagged, merged
from pipelines.log_ranges import iter_records
from pipelines.options import Mode
from pipelines.splits import plan_splits
from pipelines.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.records import RecordColumns
    from kafka_format.errors import FormatError
    from pipelines.log_ranges import Aborted, LogRange
    from pipelines.options import Options
    from pipelines.splits import Split

    Bools = npt.NDArray[np.bool_]


class _Records:
    def plan(self, options: Options, storage: Storage) -> list[Split]:
        return plan_splits(options, storage, as_consumer=True)

    def read(self, split: Split, options: Options) -> Iterator[pa.RecordBatch]:
        return merged(read_records(split, options, Storage(options.paths)))


READER = _Records()


def read_records(split: Split, options: Options, storage: Storage) -> Iterator[pa.RecordBatch]:
    """The rows of a split, a piece at a time."""
    on_damage = fail if options.mode is Mode.FAILFAST else leave_out
    for source in split:
        wanted = _Wanted(source, include_control=options.include_control)
        for columns in iter_records(
            source, storage, verify=options.verify_checksums, on_damage=on_damage
        ):
            rows = wanted.rows(columns)
            if isinstance(rows, slice) or len(rows):
                yield RecordRows(columns, rows, source.place).to_arrow(options.columns)


def fail(error: FormatError, offset: int | None) -> NoReturn:
    del offset
    raise error


def leave_out(error: FormatError, offset: int | None) -> None:
    """Nothing: the tables `batches` and `findings` tell of it."""


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
        is_inside = offset.min() >= self._first and offset.max() < self._end
        if wanted.all() and is_inside:
            return slice(None)
        kept = wanted[columns.batch] & (offset >= self._first) & (offset < self._end)
        return np.flatnonzero(kept)

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
