"""The records of one large batch of magic 2, decoded by a kernel.

Imported only if numba is used. This does not say what is damaged: the row decoder does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kafka_format.attributes import LOG_APPEND_TIME
from kafka_format.batch import HEADER_SIZE, decode_payload
from kafka_format.columnar import kernels as k
from kafka_format.columnar.window import readonly
from kafka_format.compression import Codec
from kafka_format.record import NO_TIMESTAMP
from kafka_log.appends.records import RecordBrief, RecordSummary

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.record import Record
    from kafka_log.appends.batches import DefaultBatch

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]
    Uint8s = npt.NDArray[np.uint8]

_NULL = 1  # the only byte that Kafka writes for a length of -1


class AppendedColumns:
    """Records as arrays of positions in the decompressed payload."""

    def __init__(
        self, batch: DefaultBatch, data: Uint8s, place: tuple[int, int], longs: Int64s, ints: Int32s
    ) -> None:
        self._batch = batch
        self._data = data
        self._start, self._end = place
        self._longs, self._ints = longs, ints
        self._offset, self._timestamp = longs[k.OFFSET], longs[k.TIMESTAMP]

    def summary(self) -> RecordSummary:
        count = len(self._offset)
        return RecordSummary(
            count,
            self._end - self._start,
            int(self._timestamp.min()),
            int(self._timestamp.max()),
            bool(self._ints[k.KEY_LENGTH].min() < 0),
            bool((self._offset == np.arange(count)).all()),
        )

    def briefs(self) -> list[RecordBrief]:
        has_key = (self._ints[k.KEY_LENGTH] >= 0).tolist()
        fields = zip(self._offset.tolist(), self._timestamp.tolist(), has_key, strict=True)
        return list(map(RecordBrief._make, fields))

    def records(self) -> list[Record]:
        return decode_payload(self._batch.header, self._data[self._start : self._end].tobytes())

    def canonical_payload(self) -> memoryview | None:
        """Return the payload if writing the records again would give the same bytes."""
        header = self._batch.header
        if (
            header.attributes & LOG_APPEND_TIME  # the records then have the batch's timestamp
            or self._timestamp[0] != header.base_timestamp
            or self._timestamp.min() < NO_TIMESTAMP
            or self._ints[k.HEADERS_COUNT].any()  # their keys would go through Java strings
            or (self._deltas() != np.arange(len(self._offset))).any()
            or not self._has_plain_nulls()
            or self._canonical_size() != self._end - self._start
            or self._attributes().any()
        ):
            return None
        return self._data[self._start : self._end].data

    def _deltas(self) -> Int64s:
        deltas: Int64s = self._offset - self._batch.header.base_offset
        return deltas

    def _has_plain_nulls(self) -> bool:
        """Whether every null is written as -1: any negative length is read as null."""
        for position, length in (
            (k.KEY_POSITION, k.KEY_LENGTH),
            (k.VALUE_POSITION, k.VALUE_LENGTH),
        ):
            nulls = self._longs[position][self._ints[length] < 0]
            if (self._data[nulls - 1] != _NULL).any():
                return False
        return True

    def _canonical_size(self) -> int:
        """Return the size of the records with the shortest integers."""
        body = np.full(len(self._offset), 2, np.int64)  # attributes, and no headers
        body += _varint_sizes(self._timestamp - self._batch.header.base_timestamp)
        body += _varint_sizes(self._deltas())
        for field in (k.KEY_LENGTH, k.VALUE_LENGTH):
            length = self._ints[field].astype(np.int64)
            body += _varint_sizes(length) + np.maximum(length, 0)
        return int((body + _varint_sizes(body)).sum())

    def _attributes(self) -> Int64s:
        kernels = k.load(compiled=True)
        data = readonly(self._data)
        count = len(self._offset)
        positions, attributes = np.empty(count, np.int64), np.empty(count, np.int64)
        starts, counts = np.array([self._start]), np.array([count])
        kernels.record_positions(data, _table(self._batch), starts, counts, positions)
        kernels.record_attributes(data, positions, False, attributes)
        return attributes


def _varint_sizes(values: Int64s) -> Int64s:
    """Return the size of each value as a zig-zag varint."""
    patterns = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(values), np.int64)
    largest = int(patterns.max())
    for bits in range(7, 64, 7):
        if largest < 1 << bits:
            break
        sizes += patterns >= np.uint64(1 << bits)
    return sizes


def decode_columns(batch: DefaultBatch) -> AppendedColumns | None:
    """Decode a batch; None if the kernel finds damage, which the row decoder then reports."""
    kernels = k.load(compiled=True)
    found = _plain_bytes(batch, kernels)
    if found is None:
        return None
    data, start, end = found
    count = batch.header.record_count
    if count > (end - start) // k.SMALLEST_RECORD:
        return None
    longs = np.empty((k.LONG_FIELDS, count), np.int64)
    ints = np.empty((k.INT_FIELDS, count), np.int32)
    table = _table(batch)
    rows = kernels.decode_batch_records(readonly(data), table, start, end, 0, longs, ints, 0)
    return None if rows < 0 else AppendedColumns(batch, data, (start, end), longs, ints)


def _table(batch: DefaultBatch) -> Int64s:
    """Return the header as kernels take it, with the fields that they read here."""
    header = batch.header
    table = np.empty((k.HEADER_FIELDS, 1), np.int64)
    table[k.BASE_OFFSET] = header.base_offset
    table[k.MAGIC] = header.magic
    table[k.ATTRIBUTES] = header.attributes
    table[k.BASE_TIMESTAMP] = header.base_timestamp
    table[k.MAX_TIMESTAMP] = header.max_timestamp
    table[k.RECORD_COUNT] = header.record_count
    return table


def _plain_bytes(batch: DefaultBatch, kernels: Any) -> tuple[Uint8s, int, int] | None:
    """Return bytes that contain the decompressed payload, and its start and end in them.

    Returns None if the payload is incomplete.
    """
    end = len(batch.raw)
    if batch.codec is Codec.NONE:
        return np.frombuffer(batch.raw, np.uint8), HEADER_SIZE, end
    if batch.codec is Codec.LZ4:
        data = readonly(np.frombuffer(batch.raw, np.uint8))
        blocks = kernels.lz4_blocks(data, HEADER_SIZE, end)
        if blocks > 0:
            plain = np.empty(blocks * k.LZ4_BLOCK, np.uint8)
            size = kernels.unpack_lz4(data, HEADER_SIZE, blocks, plain, 0)
            if size >= 0:
                return plain, 0, int(size)
    payload, broken = batch.plain_payload()
    return None if broken is not None else (np.frombuffer(payload, np.uint8), 0, len(payload))
