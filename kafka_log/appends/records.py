"""The records of one batch of magic 2 for validation, decoded in one of three ways.

    DecodedRecords  decoded one by one: small batches
    AppendedColumns decoded by a kernel into arrays: large batches, fifty times as fast
    PartialRecords  what Kafka reads of a compressed batch that it expects to keep: it skips keys,
                    values and headers, and does not compare a record's size with its length field

All three give the same result for valid records, so the third is only used for damaged ones.

Mirrors DefaultRecordBatch's iterators, DefaultRecord.readFrom and readPartiallyFrom.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafka_format.batch import decode_payload
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
from kafka_log.appends.batches import DefaultBatch, iter_appended
from kafka_log.errors import InvalidRecordError, UnknownServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.primitives import Buffer
    from kafka_log.appends.columns import AppendedColumns

# Kernels are faster from these sizes on: the first if numba is loaded, the second if it is not.
_LARGE = 4 * 1024
_LARGE_ENOUGH_TO_LOAD = 256 * 1024


class RecordSummary(NamedTuple):
    """A summary of the records of a batch. Without records the timestamps are -1."""

    record_count: int
    size_in_bytes: int  # as stored; Kafka counts an overlong length field as a short one
    min_timestamp: int
    max_timestamp: int
    has_null_key: bool
    counts_from_zero: bool  # offsets are 0, 1, 2, …


class RecordBrief(NamedTuple):
    """What validation reads of a single record to find the invalid ones."""

    offset: int
    timestamp: int
    has_key: bool


class DecodedRecords:
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

    def canonical_payload(self) -> None:
        """Return None: writing few records again is as fast as comparing them."""


class PartialRecords:
    """Records whose keys, values and headers were skipped."""

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


WholeRecords: TypeAlias = "DecodedRecords | AppendedColumns"
Records: TypeAlias = "WholeRecords | PartialRecords"


def decode_appended(batch: DefaultBatch, *, compiled: bool | None = None) -> WholeRecords:
    """Decode the records of a batch. Raises the error that a broker's reader would raise.

    `compiled` says whether kernels are used; by default the size of the batch decides.
    """
    try:
        return _decode(batch, compiled)
    except FormatError as error:
        raise _refusal(batch) from error


def decode_kept(batch: DefaultBatch, *, compiled: bool | None = None) -> Records:
    """Decode like `decode_appended`, but skip the values: the batch will be kept."""
    try:
        return _decode(batch, compiled)
    except FormatError as error:
        if batch.codec is Codec.NONE:  # Kafka skips values only in compressed batches
            raise _refusal(batch) from error
    return _decode_partially(batch)


def _decode(batch: DefaultBatch, compiled: bool | None) -> WholeRecords:
    count = batch.header.record_count
    if count == 0:
        return DecodedRecords([], 0)
    if count < 0:
        raise InvalidRecordError(f"batch of {count} records")
    if prefers_kernels(batch.size_in_bytes) if compiled is None else compiled:
        from kafka_log.appends.columns import decode_columns

        columns = decode_columns(batch)
        if columns is not None:
            return columns
    payload, broken = batch.plain_payload()
    if broken is not None:
        raise broken
    return DecodedRecords(decode_payload(batch.header, payload), len(payload))


def iter_offsets(records: Buffer) -> Iterator[int]:
    """Yield the offsets of all records of an append, for an error that lists them."""
    for batch in iter_appended(records):
        if isinstance(batch, DefaultBatch):
            for brief in decode_appended(batch).briefs():
                yield brief.offset
        else:
            for record in batch.iter_records():
                yield record.offset


def prefers_kernels(size: int) -> bool:
    """Whether kernels are available, and worth it for this many bytes."""
    if size < (_LARGE if "numba" in sys.modules else _LARGE_ENOUGH_TO_LOAD):
        return False
    from kafka_format.columnar.compilation import can_compile

    return can_compile()


# --- damage ---------------------------------------------------------------------------------------


class _OverlongError(MalformedRecordError):
    """A length field takes more than five bytes."""


def _refusal(batch: DefaultBatch) -> InvalidRecordError | UnknownServerError:
    """Return the error for damage: in a record, or in the compressed stream.

    An overlong length field in an uncompressed batch is an exception that Kafka does not catch.
    """
    payload, broken = batch.plain_payload()
    try:
        _walk(batch, payload)
    except _OverlongError as error:
        kind = UnknownServerError if batch.codec is Codec.NONE else InvalidRecordError
        return kind(str(error))
    except FormatError as error:
        if broken is None or not isinstance(error, TruncatedError):
            return InvalidRecordError(str(error))
    return UnknownServerError(f"{batch.codec} that does not decompress ({broken})")


def _walk(batch: DefaultBatch, payload: bytes) -> None:
    """Decode record by record. Raises TruncatedError if the payload ends inside a record."""
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


def _decode_partially(batch: DefaultBatch) -> PartialRecords:
    payload, broken = batch.plain_payload()
    briefs = []
    position = size = 0
    try:
        for _ in range(batch.header.record_count):
            claimed, position = read_varint(payload, position)
            size += varint_size(claimed) + claimed
            brief, position = _read_partially(batch, payload, position + 1)
            briefs.append(brief)
        _check_end(payload, position)
    except FormatError as error:
        if broken is None or not isinstance(error, TruncatedError):
            raise InvalidRecordError(str(error)) from error
    if broken is not None:
        raise UnknownServerError(f"{batch.codec} that does not decompress") from broken
    return PartialRecords(briefs, size)


def _read_partially(batch: DefaultBatch, payload: bytes, position: int) -> tuple[RecordBrief, int]:
    """Read a record from its timestamp delta on; return it and the position after it."""
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
