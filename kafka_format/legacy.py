"""Messages of magic 0 and 1, as brokers before 0.11 wrote them and later ones still read.

    entry    = offset: i64  size: i32  message
    message  = crc: u32  CRC-32 of all that follows
               magic: i8  attributes: i8  (bits 0-2 codec, bit 3 timestamp type in magic 1)
               [timestamp: i64]  in magic 1
               keyLength: i32 (-1 null)  key   valueLength: i32 (-1 null)  value

A message without a codec is a batch of one record. With a codec it is a wrapper: its value is the
compressed concatenation of entries, its offset that of the last of them. Inside,
  - magic 0 has absolute offsets; magic 1 has offsets from zero, relative to the wrapper's offset
    (a wrapper with offset 0 was written by an early librdkafka and means: absolute offsets);
  - the wrapper's timestamp type applies, and under LogAppendTime also its timestamp;
  - messages of magic 0 in a wrapper of magic 1 exist (KAFKA-4298): they have no timestamp;
  - a message cut off at the end is ignored, because fetch responses may end in one.
There are no producers, transactions, control records or leader epochs, and no zstd.

Mirrors org.apache.kafka.common.record.LegacyRecord and AbstractLegacyRecordBatch. Stricter in
two ways: inner messages of a magic above 1 are damage, and an entry's size must have room for the
fixed fields of its message.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from kafka_format.attributes import CODEC_MASK, LOG_APPEND_TIME
from kafka_format.batch import located_in_payload
from kafka_format.batch_layout import (
    KEY_LENGTH_AT,
    LENGTH_END,
    MAGIC_AT,
    MESSAGE_1,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    SMALLEST_LENGTHS,
)
from kafka_format.checksum import crc32
from kafka_format.compression import Codec, codec_of, compress, decompress
from kafka_format.errors import (
    MEMORY,
    CorruptError,
    FormatError,
    Location,
    MalformedRecordError,
    TruncatedError,
    UnsupportedError,
)
from kafka_format.primitives import Buffer
from kafka_format.record import (
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SLICE_RECORDS,
    Record,
    SimpleRecord,
    TimestampType,
    with_offsets,
    wrap_int64,
)
from kafka_format.stored_batch import StoredBatch

_ENTRY = MESSAGE_1.reader("offset", "size")
_MESSAGE = MESSAGE_1.reader("crc", "magic", "attributes")
_STORED_TIMESTAMP = MESSAGE_1.reader("timestamp")
_TIMESTAMP = MESSAGE_1.field("timestamp").struct
_LENGTH = MESSAGE_1.field("key_length").struct
SMALLEST_MESSAGE = SMALLEST_LENGTHS[0]  # of magic 0, the least size of any message


class LegacyHeader(NamedTuple):
    """The fixed part of an entry, every field as stored."""

    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int  # -1 in magic 0

    @property
    def size_of_fixed_part(self) -> int:
        return KEY_LENGTH_AT[1 if self.magic else 0]

    @property
    def size_in_bytes(self) -> int:
        return LENGTH_END + self.size

    @property
    def codec_id(self) -> int:
        """The three bits as stored; 5 to 7 are not defined."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return timestamp_type_of(self.magic, self.attributes)

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def next_offset(self) -> int:
        return wrap_int64(self.offset + 1)

    @property
    def max_timestamp(self) -> int:
        return self.timestamp


def timestamp_type_of(magic: int, attributes: int) -> TimestampType:
    """Return the timestamp type of a message; inside a wrapper, the wrapper's applies."""
    if magic == 0:
        return TimestampType.NO_TIMESTAMP_TYPE
    if attributes & LOG_APPEND_TIME:
        return TimestampType.LOG_APPEND_TIME
    return TimestampType.CREATE_TIME


class LegacyMessage(NamedTuple):
    """A whole entry: a single record, a wrapper, or a message inside a wrapper."""

    header: LegacyHeader
    key: bytes | None
    value: bytes | None


class LegacyBatch(StoredBatch[LegacyHeader]):
    """A message of the log as read: one record, or a wrapper around several."""

    __slots__ = ()
    CRC_POSITION = MESSAGE_CRC_AT

    def __repr__(self) -> str:
        header = self.header
        return (
            f"LegacyBatch({self.location}, magic {header.magic}, last offset {header.offset}, "
            f"{header.size_in_bytes} bytes)"
        )

    @property
    def computed_crc(self) -> int:
        return crc32(self.raw[MAGIC_AT:])

    def base_offset(self, *, limit: int | None = None) -> int:
        """Return the first record's offset. A wrapper must be decompressed to find it."""
        return next(self.iter_records(limit=limit)).offset

    def message(self) -> LegacyMessage:
        """Return the entry itself; the value of a wrapper is its compressed messages."""
        try:
            return _complete(self.header, self.raw, 0)
        except FormatError as error:
            raise error.moved(self.path, self.position) from None

    def records(self, *, limit: int | None = None) -> list[Record]:
        """Decode the record, or those inside the wrapper. `ensure_valid` checks the checksum."""
        return list(self.iter_records(limit=limit))

    def iter_records(self, *, limit: int | None = None) -> Iterator[Record]:
        """Iterate over `records` with at most SLICE_RECORDS of them decoded at a time.

        An error in any record is raised by this call, before the first record is returned.
        """
        return (record for record, _ in self.iter_entries(limit=limit))

    def iter_entries(self, *, limit: int | None = None) -> Iterator[tuple[Record, LegacyMessage]]:
        """Iterate over the records, each with the message it was decoded from."""
        header = self.header
        if header.codec_id == 0:
            message = self.message()
            return iter([(_record(message, header.offset, header.timestamp), message)])
        inner, last = self._checked_inner(limit)
        base_offset = self._base_of(last)
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        return (
            (
                _record(
                    message,
                    wrap_int64(base_offset + message.header.offset),
                    header.timestamp
                    if is_append_time and message.header.magic
                    else message.header.timestamp,
                ),
                message,
            )
            for message in inner
        )

    def inner_messages(self, *, limit: int | None = None) -> list[LegacyMessage]:
        """Return the messages inside a wrapper as stored, with relative offsets."""
        return list(self._checked_inner(limit)[0])

    def iter_inner_crcs(self, *, limit: int | None = None) -> Iterator[int]:
        """Yield the computed checksum of each message inside a wrapper."""
        plain = self._plain(limit)[0]
        position = 0
        for message in _iter_inner(plain):
            end = position + message.header.size_in_bytes
            yield crc32(memoryview(plain)[position + MAGIC_AT : end])
            position = end

    def _plain(self, limit: int | None) -> tuple[bytes, int]:
        """Return the decompressed messages, and where in the file the compressed bytes begin."""
        key, value = self.message()[1:]
        start = self.position + self.header.size_of_fixed_part + 2 * _LENGTH.size + len(key or b"")
        try:
            return self._decompress(value, limit), start
        except FormatError as error:
            raise error.moved(self.path, start) from None

    def _checked_inner(self, limit: int | None) -> tuple[Iterator[LegacyMessage], LegacyMessage]:
        """Return the messages inside, after all of them were checked, and the last of them."""
        plain, start = self._plain(limit)
        try:
            walk = _iter_inner(plain)
            first = list(islice(walk, SLICE_RECORDS))
            rest = deque(walk, maxlen=1)
        except FormatError as error:
            raise located_in_payload(
                error, Location(self.path, start), is_compressed=True
            ) from None
        if rest:
            return _iter_inner(plain), rest[0]
        return iter(first), first[-1]

    def encode(self, *, limit: int | None = None) -> bytes:
        """Encode the message again from its fields, as Kafka would write them."""
        message = self.message()
        if self.header.codec_id:
            inner = bytearray()
            for inner_message in self._checked_inner(limit)[0]:
                inner += encode_message(inner_message)
            value = compress(self.header.codec, inner, magic=self.header.magic)
            message = message._replace(value=value)
        return encode_message(message)

    def _decompress(self, value: bytes | None, limit: int | None) -> bytes:
        codec = codec_of(self.header.attributes)
        if codec is Codec.ZSTD:
            raise UnsupportedError(
                Location(MEMORY, 0), f"zstd in magic {self.magic}", "gzip, snappy or lz4"
            )
        if value is None:
            raise MalformedRecordError(Location(MEMORY, 0), "a null value", "compressed messages")
        return decompress(codec, value, magic=self.magic, limit=limit)

    def _base_of(self, last: LegacyMessage) -> int:
        """Return what to add to the offsets of the messages inside."""
        offset, last_inner = self.header.offset, last.header.offset
        if self.magic == 0 or offset == 0:
            return 0
        if offset < last_inner:
            raise MalformedRecordError(
                self.location,
                f"wrapper with offset {offset}",
                f"0, or at least {last_inner} as of the last message inside",
            )
        return offset - last_inner


def _record(message: LegacyMessage, offset: int, timestamp: int) -> Record:
    header, key, value = message
    return Record(offset, timestamp, key, value, (), NO_SEQUENCE, header.attributes)


def decode_legacy_batch(buffer: Buffer, position: int = 0, *, path: str = MEMORY) -> LegacyBatch:
    """Return the message that begins at `position`. Its size is checked, its content is not."""
    try:
        header = decode_legacy_header(buffer, position)
    except FormatError as error:
        raise error.moved(path, 0) from None
    raw = memoryview(buffer)[position : position + header.size_in_bytes]
    return LegacyBatch(header, path, position, raw)


def decode_legacy_header(buffer: Buffer, start: int = 0) -> LegacyHeader:
    """Return the fixed fields of the entry at `start`, all of which must be in the buffer."""
    left = len(buffer) - start
    if left < LENGTH_END:
        raise TruncatedError(Location(MEMORY, start), f"{left} bytes", "12 or more")
    offset, size = _ENTRY.unpack_from(buffer, start)
    if size < SMALLEST_MESSAGE:
        raise CorruptError(
            Location(MEMORY, start), f"message of {size} bytes", f"at least {SMALLEST_MESSAGE}"
        )
    if size > left - LENGTH_END:
        raise TruncatedError(
            Location(MEMORY, start), f"{left} bytes", f"a message of {LENGTH_END + size}"
        )
    crc, magic, attributes = _MESSAGE.unpack_from(buffer, start)
    if magic not in {0, 1}:
        raise UnsupportedError(
            Location(MEMORY, start + MAGIC_AT), f"magic {magic}", "a message of magic 0 or 1"
        )
    timestamp = NO_TIMESTAMP
    if magic == 1:  # the smallest message has room for it
        (timestamp,) = _STORED_TIMESTAMP.unpack_from(buffer, start)
    return LegacyHeader(offset, size, crc, magic, attributes, timestamp)


def _complete(header: LegacyHeader, buffer: Buffer, start: int) -> LegacyMessage:
    """Decode key and value as well. Like Kafka, ignore bytes after them."""
    end = start + header.size_in_bytes
    key, position = _read_nullable(buffer, start + header.size_of_fixed_part, end, "key")
    value, _ = _read_nullable(buffer, position, end, "value")
    return LegacyMessage(header, key, value)


def _read_nullable(buffer: Buffer, start: int, end: int, name: str) -> tuple[bytes | None, int]:
    position = start + _LENGTH.size
    if position > end:
        raise MalformedRecordError(
            Location(MEMORY, start), f"the end of the message at {end}", f"a {name} length"
        )
    (length,) = _LENGTH.unpack_from(buffer, start)
    if length < 0:  # every writer writes -1; Kafka reads any negative length as null
        return None, position
    if length > end - position:
        raise MalformedRecordError(
            Location(MEMORY, start), f"{name} of {length} bytes", f"-1 to {end - position}"
        )
    return bytes(buffer[position : position + length]), position + length


def _iter_inner(buffer: bytes) -> Iterator[LegacyMessage]:
    position = 0
    while len(buffer) - position >= LENGTH_END:
        size = _ENTRY.unpack_from(buffer, position)[1]
        if size > len(buffer) - position - LENGTH_END:
            break
        header = decode_legacy_header(buffer, position)
        if header.codec_id:
            raise MalformedRecordError(
                Location(MEMORY, position + MESSAGE_ATTRIBUTES_AT),
                f"message with codec {header.codec_id} inside a wrapper",
                "no compression inside compression",
            )
        yield _complete(header, buffer, position)
        position += header.size_in_bytes
    if position == 0:
        raise MalformedRecordError(Location(MEMORY, 0), "a wrapper of no message", "at least one")


def encode_message(message: LegacyMessage) -> bytes:
    """Encode an entry; its size and checksum are computed."""
    header, key, value = message
    out = bytearray((header.magic, header.attributes & 0xFF))
    if header.magic:
        out += _TIMESTAMP.pack(header.timestamp)
    for field in (key, value):
        out += _LENGTH.pack(-1 if field is None else len(field))
        out += field or b""
    checksum = crc32(out).to_bytes(4, "big")
    return _ENTRY.pack(header.offset, len(checksum) + len(out)) + checksum + out


def encode_legacy_batch(
    records: Iterable[SimpleRecord],
    *,
    magic: int,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
) -> bytes:
    """Encode records as MemoryRecordsBuilder does: one message per record, or one wrapper.

    Raises ValueError where the builder throws.
    """
    _check(magic, codec, timestamp_type)
    placed = with_offsets(records, base_offset)
    if any(record.headers for record in placed):
        raise ValueError(f"magic {magic} has no headers")
    is_append_time = magic == 1 and timestamp_type is TimestampType.LOG_APPEND_TIME
    attributes = LOG_APPEND_TIME if is_append_time else 0
    first = base_offset if magic == 1 and codec is not Codec.NONE else 0
    messages = b"".join(
        _encode(
            record.offset - first,
            magic,
            attributes,
            log_append_time if is_append_time else record.timestamp,
            record.key,
            record.value,
        )
        for record in placed
    )
    if codec is Codec.NONE or not placed:
        return messages
    timestamp = log_append_time if is_append_time else max(record.timestamp for record in placed)
    value = compress(codec, messages, magic=magic, level=level)
    return _encode(placed[-1].offset, magic, attributes | codec, timestamp, None, value)


def _encode(
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> bytes:
    header = LegacyHeader(offset, 0, 0, magic, attributes, timestamp)
    return encode_message(LegacyMessage(header, key, value))


def _check(magic: int, codec: Codec, timestamp_type: TimestampType) -> None:
    if magic not in {0, 1}:
        raise ValueError(f"magic {magic}: legacy messages are of magic 0 or 1")
    if codec is Codec.ZSTD:
        raise ValueError(f"magic {magic} has no zstd")
    if magic == 1 and timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise ValueError("a message of magic 1 has CreateTime or LogAppendTime")
