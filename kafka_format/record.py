"""Decode and encode the records of a magic 2 batch; `Record` serves all magics.

    record  = length: varint   bytes after it
              attributes: i8   0; nothing is defined
              timestampDelta: varlong   offsetDelta: varint
              keyLength: varint (-1 null)  key   valueLength: varint (-1 null)  value
              headerCount: varint  header*
    header  = keyLength: varint (never null)  key: UTF-8   valueLength: varint (-1 null)  value

A record fills its length exactly, and `recordCount` records fill the (decompressed) payload
exactly. Offsets and timestamps are 64-bit sums that wrap. Under LogAppendTime every record has the
batch's maximum timestamp, and its delta is ignored.

Mirrors org.apache.kafka.common.record.DefaultRecord: accepts and rejects the same bytes. Like
Kafka, read any negative length of a key or value as null, though every writer writes -1.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import eq
from typing import NamedTuple, NoReturn, Self, overload

from kafka_format.errors import MEMORY, Location, MalformedRecordError
from kafka_format.primitives import (
    read_unsigned_varint,
    read_unsigned_varlong,
    write_varint,
    write_varlong,
)

NO_TIMESTAMP = -1
NO_SEQUENCE = -1

SLICE_RECORDS = 16 * 1024
"""How many records the iterators decode at a time."""

MANY_HEADERS = 4096

_INT32_MAX = 2**31 - 1
_new_tuple = tuple.__new__  # makes a NamedTuple in half the time of calling its class
_FAR = 2**62  # the sum of two numbers of a smaller magnitude fits in 64 bits


class TimestampType(enum.IntEnum):
    """Whether the producer or the broker set the timestamp; `str()` is Kafka's name for it."""

    NO_TIMESTAMP_TYPE = -1  # magic 0
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class Header(NamedTuple):
    """A header. A key that is not UTF-8 keeps its bytes as lone surrogates (`surrogateescape`)."""

    key: str
    value: bytes | None


class ManyHeaders(Sequence[Header]):
    """The headers of a record that has thousands, kept as bytes: a header may be only two bytes.

    Equal to a tuple of the same headers. A header is decoded when it is accessed.
    """

    __slots__ = ("_count", "_data")

    def __init__(self, data: bytes, count: int) -> None:
        """Wrap `data`, which holds `count` valid headers."""
        self._data = data
        self._count = count

    def __repr__(self) -> str:
        return f"ManyHeaders({self._count} headers, {len(self._data)} bytes)"

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Header]:
        position = 0
        while position < len(self._data):
            header, position = _decode_header(self._data, position)
            yield header

    @overload
    def __getitem__(self, index: int) -> Header: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Header, ...]: ...
    def __getitem__(self, index: int | slice) -> Header | tuple[Header, ...]:
        """Decode the headers up to `index`."""
        if isinstance(index, slice):
            return tuple(self)[index]
        return next(islice(self, range(self._count)[index], None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | ManyHeaders):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))


class Record(NamedTuple):
    """A record as read, of any magic. Null is None, empty is b""."""

    offset: int
    timestamp: int  # epoch milliseconds; -1 for none, as in magic 0
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]  # a tuple, or ManyHeaders
    sequence: int  # -1 for none
    attributes: int  # of the record itself, not of its batch


class SimpleRecord(NamedTuple):
    """A record to write. Without an offset it gets the one after the previous record's."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    offset: int | None = None

    @classmethod
    def of(cls, record: Record) -> Self:
        return cls(record.timestamp, record.key, record.value, record.headers, record.offset)


def decode_records(
    payload: bytes,
    count: int,
    *,
    base_offset: int,
    base_timestamp: int,
    base_sequence: int = NO_SEQUENCE,
    log_append_time: int | None = None,
) -> list[Record]:
    """Decode all records of a decompressed payload; errors have positions in the payload."""
    if count == 0:
        return []
    bases = _Bases(base_offset, base_timestamp, base_sequence, log_append_time)
    return _decode_slice(payload, 0, 0, count, count, bases)[0]


def iter_record_slices(
    payload: bytes,
    count: int,
    *,
    base_offset: int,
    base_timestamp: int,
    base_sequence: int = NO_SEQUENCE,
    log_append_time: int | None = None,
    size: int = SLICE_RECORDS,
) -> Iterator[list[Record]]:
    """Decode `size` records at a time: a record of seven bytes takes 200 as a Record."""
    bases = _Bases(base_offset, base_timestamp, base_sequence, log_append_time)
    position = 0
    for first in range(0, count, size):
        records, position = _decode_slice(payload, position, first, size, count, bases)
        yield records


class _Bases(NamedTuple):
    """The header fields of a batch that its records are relative to."""

    offset: int
    timestamp: int
    sequence: int
    log_append_time: int | None


def _decode_slice(  # noqa: PLR0915 - one loop with its varints inline: calls would halve its speed
    payload: bytes, position: int, first: int, size: int, count: int, bases: _Bases
) -> tuple[list[Record], int]:
    """Decode up to `size` of `count` records, beginning with record `first`; return their end too.

    Only the end of a record is compared with its length: positions never decrease, so a field that
    crosses a boundary ends beyond it. A field that crosses the end of the payload is an IndexError.
    """
    base_offset, base_timestamp, base_sequence, log_append_time = bases
    records: list[Record] = []
    append, new = records.append, _new_tuple
    may_wrap = not (-_FAR < base_offset < _FAR and -_FAR < base_timestamp < _FAR)
    has_sequence, sequence = base_sequence >= 0, NO_SEQUENCE
    no_headers: Sequence[Header] = ()
    payload_size = len(payload)
    start = position
    try:
        for _ in range(min(size, count - first)):
            start = position
            # length
            pattern = payload[position]
            position += 1
            if pattern > 0x7F:
                if (byte := payload[position]) < 0x80:
                    pattern += (byte << 7) - 0x80
                    position += 1
                else:
                    pattern, position = read_unsigned_varint(payload, start)
            end = position + (pattern >> 1)
            if pattern & 1 or end > payload_size:
                _bad_length(start, pattern, payload_size - position)
            attributes = payload[position]
            position += 1
            # timestampDelta
            pattern = payload[position]
            position += 1
            if pattern > 0x7F:
                if (byte := payload[position]) < 0x80:
                    pattern += (byte << 7) - 0x80
                    position += 1
                else:
                    pattern, position = read_unsigned_varlong(payload, position - 1)
                    may_wrap = may_wrap or pattern > _FAR
            delta = pattern >> 1
            timestamp = base_timestamp + (~delta if pattern & 1 else delta)
            # offsetDelta
            pattern = payload[position]
            position += 1
            if pattern > 0x7F:
                if (byte := payload[position]) < 0x80:
                    pattern += (byte << 7) - 0x80
                    position += 1
                else:
                    pattern, position = read_unsigned_varint(payload, position - 1)
            offset_delta = pattern >> 1
            if pattern & 1:
                offset_delta = ~offset_delta
            # key
            pattern = payload[position]
            position += 1
            if pattern > 0x7F:
                pattern, position = read_unsigned_varint(payload, position - 1)
            if pattern & 1:
                key = None
            else:
                key_start = position
                position += pattern >> 1
                key = payload[key_start:position]
            # value
            pattern = payload[position]
            position += 1
            if pattern > 0x7F:
                if (byte := payload[position]) < 0x80:
                    pattern += (byte << 7) - 0x80
                    position += 1
                else:
                    pattern, position = read_unsigned_varint(payload, position - 1)
            if pattern & 1:
                value = None
            else:
                value_start = position
                position += pattern >> 1
                value = payload[value_start:position]
            # headers
            headers = no_headers
            if payload[position]:
                headers, position = _decode_headers(payload, position, end)
            else:
                position += 1
            if position != end:
                _bad_end(start, position, end)
            offset = base_offset + offset_delta
            if may_wrap:
                timestamp, offset = wrap_int64(timestamp), wrap_int64(offset)
            if log_append_time is not None:
                timestamp = log_append_time
            if has_sequence:
                sequence = base_sequence + offset_delta
                if offset_delta < 0 or sequence > _INT32_MAX:
                    sequence = increment_sequence(base_sequence, offset_delta)
            if attributes > 0x7F:
                attributes -= 0x100
            append(new(Record, (offset, timestamp, key, value, headers, sequence, attributes)))
    except IndexError:
        _ran_out(start, first + len(records), count)
    if first + size >= count and position != payload_size:
        _left_over(position, payload_size, count)
    return records, position


def _decode_headers(payload: bytes, start: int, end: int) -> tuple[Sequence[Header], int]:
    position = start + 1
    if (pattern := payload[start]) > 0x7F:
        pattern, position = read_unsigned_varint(payload, start)
    if pattern & 1 or pattern >> 1 > end - position:
        found = f"{_zigzag(pattern)} headers"
        _malformed(start, found, f"0 to {end - position}, the bytes left in the record")
    count, first = pattern >> 1, position
    headers = []
    for _ in range(count):
        header, position = _decode_header(payload, position)
        if count <= MANY_HEADERS:
            headers.append(header)
    if count > MANY_HEADERS:
        return ManyHeaders(payload[first:position], count), position
    return tuple(headers), position


def _decode_header(payload: bytes, position: int) -> tuple[Header, int]:
    key_start = position + 1
    if (pattern := payload[position]) > 0x7F:
        pattern, key_start = read_unsigned_varint(payload, position)
    if pattern & 1:
        _malformed(position, f"header key of {_zigzag(pattern)} bytes", "0 or more")
    key_end = key_start + (pattern >> 1)
    position = key_end + 1
    if (pattern := payload[key_end]) > 0x7F:
        pattern, position = read_unsigned_varint(payload, key_end)
    value = None
    if not pattern & 1:
        value_start = position
        position += pattern >> 1
        value = payload[value_start:position]
    key = payload[key_start:key_end].decode("utf-8", "surrogateescape")
    return _new_tuple(Header, (key, value)), position


def _zigzag(pattern: int) -> int:
    return (pattern >> 1) ^ -(pattern & 1)


def wrap_int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence, which wraps from 2147483647 to 0.

    Computed with the overflow of Java's int, also for the negative deltas of damaged records.
    """
    if sequence > _wrap_int32(_INT32_MAX - increment):
        return _wrap_int32(increment - (_INT32_MAX - sequence) - 1)
    return _wrap_int32(sequence + increment)


def _wrap_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _malformed(position: int, found: str, expected: str) -> NoReturn:
    raise MalformedRecordError(Location(MEMORY, position), found, expected)


def _bad_length(position: int, pattern: int, left: int) -> NoReturn:
    found = f"record of {_zigzag(pattern)} bytes"
    _malformed(position, found, f"0 to {left}, the bytes left in the batch")


def _bad_end(start: int, position: int, end: int) -> NoReturn:
    _malformed(start, f"record whose fields end at {position}", f"its own end at {end}")


def _ran_out(start: int, index: int, count: int) -> NoReturn:
    _malformed(start, f"the end of the records in record {index} of {count}", "a whole record")


def _left_over(position: int, end: int, count: int) -> NoReturn:
    _malformed(position, f"{end - position} bytes after record {count - 1}", "none")


def encode_records(records: Iterable[Record], *, base_offset: int, base_timestamp: int) -> bytes:
    """Encode the uncompressed payload: offsets and timestamps are relative to the two bases."""
    out = bytearray()
    for record in records:
        _append_record(
            out,
            wrap_int64(record.timestamp - base_timestamp),
            wrap_int64(record.offset - base_offset),
            record,
        )
    return bytes(out)


def _append_record(out: bytearray, timestamp_delta: int, offset_delta: int, record: Record) -> None:
    body = bytearray((record.attributes & 0xFF,))
    write_varlong(body, timestamp_delta)
    write_varint(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for header in record.headers:
        _append_nullable(body, header.key.encode("utf-8", "surrogateescape"))
        _append_nullable(body, header.value)
    write_varint(out, len(body))
    out += body


def _append_nullable(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(value))
        out += value


def with_offsets(records: Iterable[SimpleRecord], base_offset: int) -> list[Record]:
    """Assign an offset to every record. Raises ValueError where Kafka's builder throws."""
    placed: list[Record] = []
    last_offset = base_offset - 1
    for record in records:
        offset = last_offset + 1 if record.offset is None else record.offset
        if placed and offset <= last_offset:
            raise ValueError(f"offset {offset} after offset {last_offset}: offsets must increase")
        if not -(2**31) <= offset - base_offset < 2**31:
            raise ValueError(f"offset {offset} too far from base offset {base_offset}: int32 delta")
        if record.timestamp < NO_TIMESTAMP:
            raise ValueError(f"timestamp {record.timestamp}: must be -1, 0 or more")
        placed.append(
            Record(
                offset, record.timestamp, record.key, record.value, record.headers, NO_SEQUENCE, 0
            )
        )
        last_offset = offset
    return placed
