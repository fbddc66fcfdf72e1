"""The records of one batch of magic 2, as far as validation looks at them: three ways, one meaning.

    RecordRows      decoded one by one by the row decoder: small batches
    RecordColumns   decoded by a kernel into arrays: large ones, fifty times as fast
    PartialRecords  what Kafka reads of a compressed batch that it means to keep as it is: it skips
                    keys, values and headers, and never compares a record with the length it claims

Sound records look the same to all three, so the third is only asked about damage.

Mirrors DefaultRecordBatch's iterators, DefaultRecord.readFrom and readPartiallyFrom.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafka_format.batch import HEADER_SIZE
from kafka_format.compression import Codec
from kafka_format.errors import (
    MEMORY,
    FormatError,
    Location,
    MalformedRecordError,
    TruncatedError,
)
from kafka_format.primitives import read_varint, read_varlong, varint_size
from kafka_format.record import NO_TIMESTAMP, Record, TimestampType, decode_records, wrap_int64
from kafka_log.appended_batches import DefaultBatch, iter_appended
from kafka_log.errors import InvalidRecordError, UnknownServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from kafka_format.primitives import Buffer

# From here on kernels win: at once if numba is loaded, else only where loading it is worth it.
_LARGE = 4 * 1024
_LARGE_ENOUGH_TO_LOAD = 256 * 1024
_SMALLEST_RECORD = 7


class RecordSummary(NamedTuple):
    """What is true of all records of a batch. Without any, the timestamps are -1."""

    record_count: int
    size_in_bytes: int
    min_timestamp: int
    max_timestamp: int
    has_null_key: bool
    counts_from_zero: bool  # offsets are 0, 1, 2, …


class RecordBrief(NamedTuple):
    """What validation asks of a single record, once it knows that something is wrong with one."""

    offset: int
    timestamp: int
    has_key: bool


class RecordRows:
    """Records decoded one by one."""

    def __init__(self, records: list[Record], size_in_bytes: int) -> None:
        self._records = records
        self._size_in_bytes = size_in_bytes

    def summary(self) -> RecordSummary:
        records = self._records
        timestamps = [record.timestamp for record in records] or [NO_TIMESTAMP]
        return RecordSummary(
            len(records),
            self._size_in_bytes,
            min(timestamps),
            max(timestamps),
            None in [record.key for record in records],
            [record.offset for record in records] == list(range(len(records))),
        )

    def briefs(self) -> list[RecordBrief]:
        return [
            RecordBrief(record.offset, record.timestamp, record.key is not None)
            for record in self._records
        ]

    def records(self) -> list[Record]:
        return self._records


class RecordColumns:
    """Records decoded into arrays by a kernel, and the plain payload they lie in."""

    def __init__(
        self,
        batch: DefaultBatch,
        payload: Buffer,
        longs: npt.NDArray[np.int64],
        ints: npt.NDArray[np.int32],
    ) -> None:
        self._batch = batch
        self._payload = payload
        self._offset, self._timestamp = longs[0], longs[1]
        self._key_length = ints[0]

    def summary(self) -> RecordSummary:
        import numpy as np

        count = len(self._offset)
        return RecordSummary(
            count,
            len(self._payload),
            int(self._timestamp.min()),
            int(self._timestamp.max()),
            bool(self._key_length.min() < 0),
            bool((self._offset == np.arange(count)).all()),
        )

    def briefs(self) -> list[RecordBrief]:
        has_key = (self._key_length >= 0).tolist()
        fields = zip(self._offset.tolist(), self._timestamp.tolist(), has_key, strict=True)
        return list(map(RecordBrief._make, fields))

    def records(self) -> list[Record]:
        return _rows(self._batch, bytes(self._payload))


class PartialRecords:
    """Records of which only the places of keys and values were passed over."""

    def __init__(self, briefs: list[RecordBrief], size_in_bytes: int) -> None:
        self._briefs = briefs
        self._size_in_bytes = size_in_bytes

    def summary(self) -> RecordSummary:
        briefs = self._briefs
        timestamps = [brief.timestamp for brief in briefs]
        return RecordSummary(
            len(briefs),
            self._size_in_bytes,
            min(timestamps),
            max(timestamps),
            not all(brief.has_key for brief in briefs),
            [brief.offset for brief in briefs] == list(range(len(briefs))),
        )

    def briefs(self) -> list[RecordBrief]:
        return self._briefs

    def records(self) -> list[Record]:
        raise UnknownServerError("records whose keys and values were skipped")


Records: TypeAlias = RecordRows | RecordColumns | PartialRecords


def decode_appended(
    batch: DefaultBatch, *, skips_values: bool = False, compiled: bool | None = None
) -> Records:
    """The records of a batch, or the error of the reader that a broker would use.

    `skips_values`: the one for compressed batches that are kept. `compiled` chooses between rows
    and kernels, which without it the size of the batch does.
    """
    count = batch.header.record_count
    if count == 0:
        return RecordRows([], 0)
    if count < 0:
        raise InvalidRecordError(f"batch of {count} records")
    if _uses_kernels(batch, compiled):
        columns = _decode_columns(batch)
        if columns is not None:
            return columns
    payload, broken = batch.plain_payload()
    if broken is not None:
        raise _refusal_of_stream(batch, payload, skips_values=skips_values) from broken
    try:
        return RecordRows(_rows(batch, payload), len(payload))
    except FormatError as error:
        if skips_values and batch.codec is not Codec.NONE:
            return _partially(batch, payload)
        raise _refusal(batch, payload) from error


def iter_offsets(records: Buffer) -> Iterator[int]:
    """Offsets of all records of an append, for an error that lists them."""
    for batch in iter_appended(records):
        if isinstance(batch, DefaultBatch):
            for brief in decode_appended(batch).briefs():
                yield brief.offset
        else:
            for record in batch.iter_records():
                yield record.offset


def _rows(batch: DefaultBatch, payload: bytes) -> list[Record]:
    header = batch.header
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return decode_records(
        payload,
        header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        base_sequence=header.base_sequence,
        log_append_time=header.max_timestamp if is_append_time else None,
    )


# --- kernels --------------------------------------------------------------------------------------


def _uses_kernels(batch: DefaultBatch, compiled: bool | None) -> bool:
    if compiled is not None:
        return compiled
    if batch.size_in_bytes < (_LARGE if "numba" in sys.modules else _LARGE_ENOUGH_TO_LOAD):
        return False
    from kafka_format.columnar.compilation import can_compile

    return can_compile()


def _decode_columns(batch: DefaultBatch) -> RecordColumns | None:
    """None where a kernel finds damage: the row decoder tells which."""
    import numpy as np

    from kafka_format.columnar import kernels as k
    from kafka_format.columnar.window import readonly

    kernels = k.load(compiled=True)
    found = _plain_bytes(batch, kernels)
    if found is None:
        return None
    data, at, end = found
    count = batch.header.record_count
    if count > (end - at) // _SMALLEST_RECORD:
        return None
    header = batch.header
    table = np.empty((k.HEADER_FIELDS, 1), np.int64)
    table[k.BASE_OFFSET] = header.base_offset
    table[k.ATTRIBUTES] = header.attributes
    table[k.BASE_TIMESTAMP] = header.base_timestamp
    table[k.MAX_TIMESTAMP] = header.max_timestamp
    table[k.RECORD_COUNT] = count
    longs = np.empty((k.LONG_FIELDS, count), np.int64)
    ints = np.empty((k.INT_FIELDS, count), np.int32)
    rows = kernels.decode_batch_records(readonly(data), table, at, end, 0, longs, ints, 0)
    return None if rows < 0 else RecordColumns(batch, data[at:end].data, longs, ints)


def _plain_bytes(
    batch: DefaultBatch, kernels: Any
) -> tuple[npt.NDArray[np.uint8], int, int] | None:
    """Bytes that hold the plain payload, and where in them; None if it cannot be read whole."""
    import numpy as np

    from kafka_format.columnar import kernels as k
    from kafka_format.columnar.window import readonly

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


# --- damage ---------------------------------------------------------------------------------------


def _refusal(batch: DefaultBatch, payload: bytes) -> InvalidRecordError | UnknownServerError:
    """An invalid record nearly always; a length of too many bytes nobody catches, in plain ones."""
    try:
        _walk(batch, payload)
    except _OverlongError as error:
        if batch.codec is Codec.NONE:
            return UnknownServerError(str(error))
        return InvalidRecordError(str(error))
    except FormatError as error:
        return InvalidRecordError(str(error))
    raise AssertionError("a walk finds the damage that decoding found")


def _refusal_of_stream(
    batch: DefaultBatch, payload: bytes, *, skips_values: bool
) -> InvalidRecordError | UnknownServerError:
    """Whether a record is wrong in the part that can be read, or only the stream."""
    try:
        if skips_values:
            _decode_partially(batch, payload)
        else:
            _walk(batch, payload)
    except TruncatedError:
        pass
    except FormatError as error:
        return InvalidRecordError(str(error))
    return UnknownServerError(f"{batch.codec} that does not decompress")


class _OverlongError(MalformedRecordError):
    """The length of a record takes more than five bytes."""


def _walk(batch: DefaultBatch, payload: bytes) -> None:
    """Record by record; what the payload has not enough bytes for is a TruncatedError."""
    position = 0
    for _ in range(batch.header.record_count):
        try:
            length, start = read_varint(payload, position)
        except MalformedRecordError as error:
            raise _OverlongError(error.location, error.found, error.expected) from None
        end = start + length
        if end > len(payload):
            raise TruncatedError(Location(MEMORY, position), f"{length} bytes", "fewer")
        try:
            decode_records(payload[position:end], 1, base_offset=0, base_timestamp=0)
        except TruncatedError as error:  # of the record, not of the payload
            raise MalformedRecordError(error.location, error.found, error.expected) from None
        position = end
    _check_end(payload, position)


def _check_end(payload: bytes, position: int) -> None:
    left = len(payload) - position
    if left:
        raise MalformedRecordError(Location(MEMORY, position), f"{left} bytes", "no further record")


def _partially(batch: DefaultBatch, payload: bytes) -> PartialRecords:
    try:
        return _decode_partially(batch, payload)
    except FormatError as error:
        raise InvalidRecordError(str(error)) from error


def _decode_partially(batch: DefaultBatch, payload: bytes) -> PartialRecords:
    briefs = []
    position = size = 0
    for _ in range(batch.header.record_count):
        claimed, position = read_varint(payload, position)
        size += varint_size(claimed) + claimed
        brief, position = _read_partially(batch, payload, position + 1)
        briefs.append(brief)
    _check_end(payload, position)
    return PartialRecords(briefs, size)


def _read_partially(batch: DefaultBatch, payload: bytes, position: int) -> tuple[RecordBrief, int]:
    """A record from its timestamp delta on, and where it ends."""
    header = batch.header
    timestamp_delta, position = read_varlong(payload, position)
    offset_delta, position = read_varint(payload, position)
    key_size, position = read_varint(payload, position)
    position = _skip(payload, position, key_size)
    value_size, position = read_varint(payload, position)
    position = _skip(payload, position, value_size)
    headers, position = read_varint(payload, position)
    if headers < 0:
        raise MalformedRecordError(Location(MEMORY, position), f"{headers} headers", "0 or more")
    for _ in range(headers):
        size, position = read_varint(payload, position)
        if size < 0:
            found = f"header key of {size} bytes"
            raise MalformedRecordError(Location(MEMORY, position), found, "0 or more")
        position = _skip(payload, position, size)
        size, position = read_varint(payload, position)
        position = _skip(payload, position, size)
    timestamp = wrap_int64(header.base_timestamp + timestamp_delta)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    offset = wrap_int64(header.base_offset + offset_delta)
    return RecordBrief(offset, timestamp, key_size >= 0), position


def _skip(payload: bytes, position: int, size: int) -> int:
    end = position + max(0, size)
    if end > len(payload):
        raise TruncatedError(Location(MEMORY, position), f"{size} bytes to skip", "fewer")
    return end
