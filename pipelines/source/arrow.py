"""Columns of kafka_format to Arrow: one call per column, no Python per record.

The arrays of a scan are valid until the next piece is read, so everything is copied here, once:
bytes by a kernel straight into Arrow's memory, numbers by selecting their rows.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafka_format.attributes import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_SHIFT,
    TRANSACTIONAL,
)
from kafka_format.columnar.compilation import Kernels, can_compile
from kafka_format.columnar.record_columns import HeaderColumns
from kafka_format.columnar.window import readonly
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, decode_control_key
from kafka_format.errors import FormatError
from kafka_format.shown_text import name_base64, name_text
from kafka_log.checks.segments.logs import row_sizes
from pipelines.source.schema import CORRUPT_RECORD, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

ENOUGH_ROWS = 10_000
"""Rows of an Arrow batch: with fewer, the fixed cost of a batch shows."""
ENOUGH_BYTES = 8 * 1024 * 1024
"""A larger row is an Arrow batch by itself: Spark holds each in memory several times."""

_MICROSECONDS = pa.timestamp("us", tz="UTC")
_MOST_MS = (2**63 - 1) // 1000
_CODECS = pa.array([str(codec).lower() for codec in Codec] + [None] * (8 - len(Codec)))
_CONSTANT_ROWS = 1024
_PLAIN_COPY_BYTES = 1024 * 1024
"""Bytes that plain Python copies faster than a compiled kernel is loaded."""

kernel = Kernels()


@kernel
def copy_ranges(data: Any, positions: Any, lengths: Any, offsets: Any, out: Any) -> None:
    """Copy the bytes [position, position + length) of each row, one after the other.

    Indexes are unsigned: a signed one may count from the end, and that check for every byte took
    most of the time.
    """
    for row in range(len(positions)):
        if lengths[row] > 0:
            start = np.uint64(positions[row])
            at = np.uint64(offsets[row])
            for byte in range(np.uint64(lengths[row])):
                out[at + byte] = data[start + byte]


@cache
def _kernels() -> SimpleNamespace:
    if not can_compile():
        return SimpleNamespace(copy_ranges=_copy_ranges)
    return kernel.compiled(globals())


def _copy_ranges(data: Any, positions: Any, lengths: Any, offsets: Any, out: Any) -> None:
    """Copy by indexing, where there is no compiler."""
    sizes = np.maximum(lengths, 0)
    out[:] = data[np.arange(len(out)) + np.repeat(positions - offsets[:-1], sizes)]


def bytes_array(
    data: npt.NDArray[np.uint8], positions: Int64s, lengths: npt.NDArray[np.int32]
) -> pa.BinaryArray:
    """Return the bytes of each row; length -1 is null."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    content = pa.allocate_buffer(int(offsets[-1]))
    target = np.frombuffer(content, np.uint8)
    if len(target):
        is_little = len(target) < _PLAIN_COPY_BYTES and "numba" not in sys.modules
        copy = _copy_ranges if is_little else _kernels().copy_ranges
        copy(readonly(data), positions, lengths, offsets, target)
    buffers = [validity(lengths >= 0), pa.py_buffer(offsets), content]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def validity(valid: Bools) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def numbers(values: npt.NDArray[Any], kind: pa.DataType, valid: Bools | None = None) -> pa.Array:
    """Return integers in a type that holds them; null where not valid."""
    if kind == pa.bool_():
        return pa.array(values)
    own = values.astype(kind.to_pandas_dtype(), copy=True)
    return pa.array(own, kind, mask=None if valid is None or valid.all() else ~valid)


def unless_negative(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    return numbers(values, kind, values >= 0)


def timestamps(milliseconds: Int64s) -> pa.Array:
    """Return timestamps: null for none (-1), and where 64 bits of microseconds are too few."""
    fits = (milliseconds != -1) & (milliseconds <= _MOST_MS) & (milliseconds >= -_MOST_MS)
    micros = np.where(fits, milliseconds, 0) * 1000
    return pa.array(micros, _MICROSECONDS, mask=None if fits.all() else ~fits)


def constant(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column with the same value in every row."""
    return _constant(value, kind, -(-rows // _CONSTANT_ROWS)).slice(0, rows)


@lru_cache(maxsize=64)
def _constant(value: Any, kind: pa.DataType, thousands: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), thousands * _CONSTANT_ROWS)


def codecs(attributes: Int64s) -> pa.Array:
    return _CODECS.take(pa.array(attributes & CODEC_MASK))


def timestamp_types(batches: BatchColumns) -> Int64s:
    """Return the ids of TimestampType: -1 in magic 0, which has no timestamps."""
    kind = (batches.attributes & LOG_APPEND_TIME) >> TIMESTAMP_TYPE_SHIFT
    return np.where(batches.magic == 0, -1, kind)


def is_flagged(batches: BatchColumns, flag: int) -> Bools:
    """Return whether a flag of magic 2 is set; older formats have none of them."""
    flagged: Bools = (batches.magic >= 2) & ((batches.attributes & flag) != 0)
    return flagged


# ---------------------------------------------------------------------------- records


def row_runs(
    columns: RecordColumns, rows: npt.NDArray[np.intp] | slice
) -> Iterator[npt.NDArray[np.intp] | slice]:
    """Yield runs of rows of at most ENOUGH_BYTES, or one row that is larger by itself."""
    if columns.data.nbytes <= ENOUGH_BYTES:
        yield rows
        return
    selected = np.arange(len(columns))[rows]
    ends = np.cumsum(row_sizes(columns)[selected])
    first = 0
    while first < len(selected):
        before = ends[first - 1] if first else 0
        fit = int(np.searchsorted(ends, before + ENOUGH_BYTES, side="right"))
        last = max(fit, first + 1)
        yield selected[first:last]
        first = last


class ArrowRecords:
    """Records of a piece, as columns of the table `records`."""

    def __init__(
        self, columns: RecordColumns, rows: npt.NDArray[np.intp] | slice, place: Mapping[str, Any]
    ) -> None:
        """`place` has topic, partition, segment and path, which are the same for all rows."""
        self._columns = columns
        self._rows = rows
        self._batch = columns.batch[rows]
        self._place = place

    def to_arrow(self, names: tuple[str, ...]) -> pa.RecordBatch:
        schema = arrow_schema("records", names)
        arrays = [
            constant(self._place[field.name], field.type, len(self._batch))
            if field.name in self._place
            else _RECORD_COLUMNS[field.name](self)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def of_batch(self, values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
        """Return the value of each record's batch, which is often the same for all."""
        if (values == values[0]).all():
            return constant(values[0].item(), kind, len(self._batch))
        return numbers(values[self._batch], kind)

    def of_batch_or_null(self, values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
        """Return the value of each record's batch, with null for -1."""
        if (values == values[0]).all():
            value = values[0].item()
            return constant(value if value >= 0 else None, kind, len(self._batch))
        return unless_negative(values[self._batch], kind)

    def key(self) -> pa.Array:
        columns, rows = self._columns, self._rows
        return bytes_array(columns.data, columns.key_position[rows], columns.key_length[rows])

    def value(self) -> pa.Array:
        columns, rows = self._columns, self._rows
        return bytes_array(columns.data, columns.value_position[rows], columns.value_length[rows])

    def offset(self) -> pa.Array:
        return numbers(self._columns.offset[self._rows], pa.int64())

    def timestamp(self) -> pa.Array:
        return timestamps(self._columns.timestamp[self._rows])

    def timestamp_ms(self) -> pa.Array:
        return numbers(self._columns.timestamp[self._rows], pa.int64())

    def timestamp_type(self) -> pa.Array:
        return self.of_batch(timestamp_types(self._columns.batches), pa.int32())

    def headers(self) -> pa.Array:
        kind = arrow_schema("records", ("headers",)).field("headers").type
        counts = self._columns.headers_count[self._rows]
        if not counts.any():
            return constant(None, kind, len(counts))
        offsets = np.zeros(len(counts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        entries = self._header_entries(self._columns.headers())
        buffers = [validity(counts > 0), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, len(counts), buffers, children=[entries])

    def _header_entries(self, headers: HeaderColumns) -> pa.StructArray:
        if not isinstance(self._rows, slice):
            selected = np.zeros(len(self._columns), np.bool_)
            selected[self._rows] = True
            own = selected[headers.record]
            headers = HeaderColumns(
                headers.record[own],
                headers.key_position[own],
                headers.key_length[own],
                headers.value_position[own],
                headers.value_length[own],
            )
        data = self._columns.data
        keys = _text(bytes_array(data, headers.key_position, headers.key_length))
        values = bytes_array(data, headers.value_position, headers.value_length)
        return pa.StructArray.from_arrays([keys, values], names=["key", "value"])

    def leader_epoch(self) -> pa.Array:
        epochs = self._columns.batches.partition_leader_epoch
        return self.of_batch_or_null(epochs, pa.int32())

    def producer_id(self) -> pa.Array:
        return self.of_batch_or_null(self._columns.batches.producer_id, pa.int64())

    def producer_epoch(self) -> pa.Array:
        return self.of_batch_or_null(self._columns.batches.producer_epoch, pa.int16())

    def sequence(self) -> pa.Array:
        return unless_negative(self._columns.sequence[self._rows], pa.int32())

    def is_transactional(self) -> pa.Array:
        return self.of_batch(is_flagged(self._columns.batches, TRANSACTIONAL), pa.bool_())

    def control_type(self) -> pa.Array:
        flagged = is_flagged(self._columns.batches, CONTROL)
        if not flagged.any():
            return constant(None, pa.string(), len(self._batch))
        control = flagged[self._batch]
        rows = np.arange(len(self._columns))[self._rows]
        names = [
            _control_type(self._columns.key(row)) if is_control else None
            for row, is_control in zip(rows.tolist(), control.tolist(), strict=True)
        ]
        return pa.array(names, pa.string())

    def compression(self) -> pa.Array:
        attributes = self._columns.batches.attributes & CODEC_MASK
        if (attributes == attributes[0]).all():
            name = _CODECS[attributes[0].item()].as_py()
            return constant(name, pa.string(), len(self._batch))
        return codecs(attributes[self._batch])

    def batch_base_offset(self) -> pa.Array:
        return self.of_batch(self._columns.batches.base_offset, pa.int64())

    def position(self) -> pa.Array:
        return self.of_batch(self._columns.batches.position, pa.int64())

    def magic(self) -> pa.Array:
        return self.of_batch(self._columns.batches.magic, pa.int16())

    def corrupt_record(self) -> pa.Array:
        """Return null: these rows are sound records."""
        return constant(None, pa.string(), len(self._batch))


_RECORD_COLUMNS: dict[str, Callable[[ArrowRecords], pa.Array]] = {
    "key": ArrowRecords.key,
    "value": ArrowRecords.value,
    "offset": ArrowRecords.offset,
    "timestamp": ArrowRecords.timestamp,
    "timestampType": ArrowRecords.timestamp_type,
    "headers": ArrowRecords.headers,
    "timestamp_ms": ArrowRecords.timestamp_ms,
    "leader_epoch": ArrowRecords.leader_epoch,
    "producer_id": ArrowRecords.producer_id,
    "producer_epoch": ArrowRecords.producer_epoch,
    "sequence": ArrowRecords.sequence,
    "is_transactional": ArrowRecords.is_transactional,
    "control_type": ArrowRecords.control_type,
    "compression": ArrowRecords.compression,
    "batch_base_offset": ArrowRecords.batch_base_offset,
    "position": ArrowRecords.position,
    "magic": ArrowRecords.magic,
    CORRUPT_RECORD: ArrowRecords.corrupt_record,
}


def _text(array: pa.BinaryArray) -> pa.StringArray:
    """Decode as Java does: what is not UTF-8 is replaced."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (each and each.decode(errors="replace") for each in array.to_pylist())
        return pa.array([text or "" for text in texts], pa.string())  # header keys are never null


def _control_type(key: bytes | None) -> str:
    try:
        kind = decode_control_key(key).type
    except FormatError:
        return "UNKNOWN"
    return kind.name if isinstance(kind, ControlRecordType) else "UNKNOWN"


# ---------------------------------------------------------------------------- batches


def batches_to_arrow(
    batches: BatchColumns,
    names: tuple[str, ...],
    place: Mapping[str, Any],
    damage: Sequence[str | None],
) -> pa.RecordBatch:
    """Return rows of the table `batches`; `place` is as for records."""
    schema = arrow_schema("batches", names)
    rows = len(batches)
    arrays = []
    for field in schema:
        if field.name in place:
            arrays.append(constant(place[field.name], field.type, rows))
        elif field.name == "damage":
            arrays.append(pa.array(damage, pa.string()))
        else:
            arrays.append(_BATCH_COLUMNS[field.name](batches).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _modern(column: str) -> Callable[[BatchColumns], pa.Array]:
    """Return the column of a field that only magic 2 has."""
    return lambda batches: numbers(getattr(batches, column), pa.int64(), batches.magic >= 2)


def _from_zero(column: str) -> Callable[[BatchColumns], pa.Array]:
    return lambda batches: unless_negative(getattr(batches, column), pa.int64())


def _plain(column: str) -> Callable[[BatchColumns], pa.Array]:
    return lambda batches: numbers(getattr(batches, column), pa.int64())


def _flag(flag: int) -> Callable[[BatchColumns], pa.Array]:
    return lambda batches: pa.array(is_flagged(batches, flag))


def _delete_horizon(batches: BatchColumns) -> pa.Array:
    return numbers(batches.base_timestamp, pa.int64(), is_flagged(batches, DELETE_HORIZON))


def _computed_crc(batches: BatchColumns) -> pa.Array:
    if batches.computed_crc is None:
        return pa.nulls(len(batches), pa.int64())
    return numbers(batches.computed_crc, pa.int64())


def _is_valid(batches: BatchColumns) -> pa.Array:
    if batches.computed_crc is None:
        return pa.nulls(len(batches), pa.bool_())
    return pa.array(batches.is_valid)


_BATCH_COLUMNS: dict[str, Callable[[BatchColumns], pa.Array]] = {
    "position": _plain("position"),
    "size_in_bytes": _plain("size_in_bytes"),
    "base_offset": _plain("base_offset"),
    "last_offset": _plain("last_offset"),
    "record_count": _modern("record_count"),
    "magic": _plain("magic"),
    "compression": lambda batches: codecs(batches.attributes),
    "timestampType": lambda batches: numbers(timestamp_types(batches), pa.int32()),
    "base_timestamp_ms": _modern("base_timestamp"),
    "max_timestamp_ms": _plain("max_timestamp"),
    "max_timestamp": lambda batches: timestamps(batches.max_timestamp),
    "leader_epoch": _from_zero("partition_leader_epoch"),
    "producer_id": _from_zero("producer_id"),
    "producer_epoch": _from_zero("producer_epoch"),
    "base_sequence": _from_zero("base_sequence"),
    "is_transactional": _flag(TRANSACTIONAL),
    "is_control": _flag(CONTROL),
    "delete_horizon_ms": _delete_horizon,
    "crc": _plain("crc"),
    "computed_crc": _computed_crc,
    "is_valid": _is_valid,
}


# ---------------------------------------------------------------------------- any table


def rows_to_arrow(
    table: str, rows: Iterable[Mapping[str, Any]], names: tuple[str, ...] | None = None
) -> pa.RecordBatch:
    """Return dicts of plain values as one Arrow batch; a column that a dict lacks is null."""
    schema = arrow_schema(table, names)
    listed = list(rows)
    arrays = [
        pa.array([_utf8(row.get(field.name)) for row in listed], _loose(field.type)).cast(
            field.type
        )
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def place_columns(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return names in valid UTF-8, and the bytes of a path that is not."""
    shown = {name: _utf8(value) for name, value in place.items()}
    return shown | {"path_base64": name_base64(place["path"])}


def _utf8(value: Any) -> Any:
    return name_text(value) if isinstance(value, str) else value


def _loose(kind: pa.DataType) -> pa.DataType:
    """Return the type that values are given in: timestamps as epoch milliseconds."""
    return pa.timestamp("ms", tz="UTC") if pa.types.is_timestamp(kind) else kind


def merged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches, where many are small."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and size + batch.nbytes > ENOUGH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ENOUGH_ROWS or size >= ENOUGH_BYTES:
            yield pa.concat_batches(waiting) if len(waiting) > 1 else batch
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_batches(waiting)
