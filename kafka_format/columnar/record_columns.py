"""Decoded records as columns: the result of a scan.

Null has length -1, empty has length 0. A batch that is not sound has no rows; `damage` has its
FormatError, with position, as the row decoder raises it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_format.columnar import kernels as k
from kafka_format.columnar.headers import BatchColumns, kernel_bytes
from kafka_format.columnar.window import TableRow, readonly

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.errors import FormatError

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]
    Uint8s = npt.NDArray[np.uint8]

_INT32_MAX = 2**31 - 1


class DamagedBatch(NamedTuple):
    """A damaged batch, by its index among the piece's batches, and its error."""

    batch: int
    error: FormatError


class HeaderColumns(NamedTuple):
    """Headers of records, in order; `record` is the row of the header's record."""

    record: Int32s
    key_position: Int64s
    key_length: Int32s
    value_position: Int64s
    value_length: Int32s  # -1 is null


class RecordColumns:
    """Records of consecutive batches. `data` and columns are valid until the next are requested.

    Most pieces hold whole batches. A batch of more rows than a piece may have is split into pieces
    that each have it as their only batch; `is_continuation` is true for all but the first of them.

    A scan sets the parsed columns; derived ones (`batch`, `sequence`, the positions of records and
    headers) are computed on first access.
    """

    def __init__(
        self,
        data: Uint8s,
        batches: BatchColumns,
        fields: tuple[Int64s, Int32s],
        payloads: tuple[Int64s, Int64s],
        damage: list[DamagedBatch],
        *,
        compiled: bool,
        is_continuation: bool = False,
    ) -> None:
        self.is_continuation = is_continuation
        self.data = data
        self.batches = batches
        self.damage = damage
        self.longs, self.ints = fields
        self._starts, self._counts = payloads
        self._compiled = compiled
        self._kernels = k.load(compiled=compiled)

    def __len__(self) -> int:
        return int(self.longs.shape[1])

    def __repr__(self) -> str:
        damaged = len(self.damage)
        return f"RecordColumns({len(self)} records, {damaged} damaged, of {self.batches!r})"

    offset = TableRow[np.int64]("longs", k.OFFSET)
    timestamp = TableRow[np.int64]("longs", k.TIMESTAMP)
    key_position = TableRow[np.int64]("longs", k.KEY_POSITION)
    value_position = TableRow[np.int64]("longs", k.VALUE_POSITION)
    key_length = TableRow[np.int32]("ints", k.KEY_LENGTH)
    value_length = TableRow[np.int32]("ints", k.VALUE_LENGTH)
    headers_count = TableRow[np.int32]("ints", k.HEADERS_COUNT)

    @cached_property
    def batch(self) -> Int64s:
        """The index of each record's batch in `batches`."""
        return np.repeat(np.arange(len(self.batches)), np.maximum(self._counts, 0))

    @cached_property
    def sequence(self) -> Int64s:
        """Sequences as DefaultRecordBatch computes them: its ints overflow for negative deltas."""
        base = self.batches.base_sequence[self.batch]
        delta = self.offset - self.batches.base_offset[self.batch]
        sequence = base + delta
        sequence -= np.where((sequence > _INT32_MAX) | (delta < 0), _INT32_MAX + 1, 0)
        sequence += np.where(sequence < -_INT32_MAX - 1, 2 * (_INT32_MAX + 1), 0)
        return np.where(base < 0, -1, sequence)

    @cached_property
    def record_position(self) -> Int64s:
        positions = np.empty(len(self), np.int64)
        table = self.batches.table
        self._kernels.record_positions(self._bytes, table, self._starts, self._counts, positions)
        return positions

    @cached_property
    def attributes(self) -> Int64s:
        """The attributes of the records, not of their batches; every writer writes 0."""
        attributes = np.empty(len(self), np.int64)
        legacy = bool(self.batches.is_legacy[0])
        self._kernels.record_attributes(self._bytes, self.record_position, legacy, attributes)
        return attributes

    @cached_property
    def stored_timestamp(self) -> Int64s:
        """Timestamps as stored in the records; under LogAppendTime `timestamp` differs."""
        if not (self.batches.attributes & k.LOG_APPEND_TIME).any():
            return self.timestamp
        timestamps = np.empty(len(self), np.int64)
        rows = (self.record_position, self.counts)
        self._kernels.stored_timestamps(self._bytes, self.batches.table, *rows, timestamps)
        return timestamps

    @cached_property
    def headers_position(self) -> Int64s:
        """Where the first header of each record begins, if there is one."""
        if self.batches.is_legacy[0]:
            return self.value_position + np.maximum(self.value_length, 0)
        positions = np.empty(len(self), np.int64)
        self._kernels.headers_positions(self._bytes, self.longs, self.ints, positions)
        return positions

    @property
    def starts(self) -> Int64s:
        """Where the plain payload of each batch begins in `data`; negative if it has no rows."""
        return self._starts

    @property
    def counts(self) -> Int64s:
        """How many records of each batch are in this piece."""
        return np.maximum(self._counts, 0)

    def first(self, count: int) -> RecordColumns:
        """Return only the records of the first `count` batches."""
        rows = int(np.maximum(self._counts[:count], 0).sum())
        return RecordColumns(
            self.data,
            self.batches[:count],
            (self.longs[:, :rows], self.ints[:, :rows]),
            (self._starts[:count], self._counts[:count]),
            [damage for damage in self.damage if damage.batch < count],
            compiled=self._compiled,
        )

    @property
    def _bytes(self) -> Any:
        return kernel_bytes(readonly(self.data), compiled=self._compiled)

    def headers(self) -> HeaderColumns:
        count = int(self.headers_count.sum())
        longs = np.empty((k.HEADER_LONG_FIELDS, count), np.int64)
        ints = np.empty((k.HEADER_INT_FIELDS, count), np.int32)
        if count:
            self._kernels.decode_headers(self._bytes, self.longs, self.ints, longs, ints)
        return HeaderColumns(
            ints[k.HEADER_RECORD],
            longs[k.HEADER_KEY_POSITION],
            ints[k.HEADER_KEY_LENGTH],
            longs[k.HEADER_VALUE_POSITION],
            ints[k.HEADER_VALUE_LENGTH],
        )

    def key(self, row: int) -> bytes | None:
        return self._slice(int(self.key_position[row]), int(self.key_length[row]))

    def value(self, row: int) -> bytes | None:
        return self._slice(int(self.value_position[row]), int(self.value_length[row]))

    def _slice(self, position: int, length: int) -> bytes | None:
        return None if length < 0 else self.data[position : position + length].tobytes()
