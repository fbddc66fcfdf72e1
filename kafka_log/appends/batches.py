"""The batches and records of an append before they are validated.

kafka_format decodes evidence and reports damage. This module reproduces how a broker responds to
such bytes, which depends on which of its readers fails first:

    InvalidRecordError      a record that does not fit its batch, an inconsistent wrapper
    CorruptMessageError     impossible sizes and magics, wrong checksums
    UnknownServerError      a Java exception that is not caught: a length that points outside a
                            legacy message, an unknown codec, data that does not decompress

Mirrors ByteBufferLogInputStream, DefaultRecordBatch, AbstractLegacyRecordBatch and LegacyRecord.
"""

from collections.abc import Iterator
from typing import NoReturn, TypeAlias

from kafka_format.attributes import CODEC_MASK
from kafka_format.batch import HEADER_SIZE, BatchHeader
from kafka_format.batch_layout import (
    ATTRIBUTES_AT,
    KEY_LENGTH_AT,
    LAST_OFFSET_DELTA_END,
    LENGTH_END,
    MAGIC_AT,
    MESSAGE_1,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_TIMESTAMP_AT,
    UP_TO_MAGIC,
)
from kafka_format.checksum import crc32, crc32c
from kafka_format.compression import Codec
from kafka_format.errors import FormatError
from kafka_format.legacy import SMALLEST_MESSAGE, timestamp_type_of
from kafka_format.primitives import Buffer
from kafka_format.record import NO_SEQUENCE, NO_TIMESTAMP, Header, TimestampType, wrap_int64
from kafka_log.appends.broken_streams import read_stream
from kafka_log.errors import CorruptMessageError, InvalidRecordError, UnknownServerError

_INT32_MAX = 2**31 - 1
_CODECS = tuple(Codec)  # by number

_ENTRY = MESSAGE_1.reader("offset", "size")
_OFFSET = MESSAGE_1.reader("offset")
# Parts of a message, which begins after its offset and size.
_CRC = MESSAGE_1.field("crc").struct
_TIMESTAMP = MESSAGE_1.field("timestamp").struct
_LENGTH = MESSAGE_1.field("key_length").struct
_MAGIC_IN_MESSAGE = MAGIC_AT - LENGTH_END
_ATTRIBUTES_IN_MESSAGE = MESSAGE_ATTRIBUTES_AT - LENGTH_END
_TIMESTAMP_IN_MESSAGE = MESSAGE_TIMESTAMP_AT - LENGTH_END
_KEY_LENGTH_IN_MESSAGE = tuple(at - LENGTH_END for at in KEY_LENGTH_AT)


def _raise_uncaught(what: str) -> NoReturn:
    raise UnknownServerError(what)


class DefaultBatch:
    """A batch of magic 2."""

    __slots__ = ("header", "raw")

    magic = 2

    def __init__(self, raw: memoryview) -> None:
        self.raw = raw
        padded = raw if len(raw) >= HEADER_SIZE else bytes(raw).ljust(HEADER_SIZE, b"\0")
        self.header = BatchHeader.unpack(padded)

    @property
    def size_in_bytes(self) -> int:
        return len(self.raw)

    @property
    def first_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        if len(self.raw) < LAST_OFFSET_DELTA_END:
            _raise_uncaught(f"batch of {len(self.raw)} bytes: it ends before its last offset delta")
        return self.header.last_offset

    @property
    def partition_leader_epoch(self) -> int:
        return self.header.partition_leader_epoch

    @property
    def max_timestamp(self) -> int:
        return self.header.max_timestamp

    @property
    def is_valid(self) -> bool:
        return len(self.raw) >= HEADER_SIZE and self.header.crc == crc32c(self.raw[ATTRIBUTES_AT:])

    @property
    def codec(self) -> Codec:
        return codec_of(self.header.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return self.header.timestamp_type

    def plain_payload(self) -> tuple[bytes, FormatError | None]:
        """Return the decompressed records, and the error if they are incomplete."""
        payload = self.raw[HEADER_SIZE:]
        if not self.header.attributes & CODEC_MASK:
            return bytes(payload), None
        return read_stream(self.codec, payload, self.magic)


class LegacyRecord:
    """A message of magic 0 or 1 (any magic inside a wrapper). Fields are read on access.

    A message inside a wrapper has the wrapper's timestamp type, and with LogAppendTime also its
    timestamp.
    """

    __slots__ = ("_wrapper_timestamp", "_wrapper_type", "message", "offset")

    headers: tuple[Header, ...] = ()
    sequence = NO_SEQUENCE

    def __init__(
        self,
        offset: int,
        message: Buffer,
        wrapper_timestamp: int = NO_TIMESTAMP,
        wrapper_type: TimestampType | None = None,
    ) -> None:
        self.offset = offset
        self.message = message
        self._wrapper_timestamp = wrapper_timestamp
        self._wrapper_type = wrapper_type

    @property
    def magic(self) -> int:
        magic = self.message[_MAGIC_IN_MESSAGE]
        return magic - 0x100 if magic > 0x7F else magic

    @property
    def attributes(self) -> int:
        return self.message[_ATTRIBUTES_IN_MESSAGE]

    @property
    def size_in_bytes(self) -> int:
        return LENGTH_END + len(self.message)

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        if self._wrapper_type is not None and self.magic != 0:
            return self._wrapper_type
        return timestamp_type_of(self.magic, self.attributes)

    @property
    def timestamp(self) -> int:
        if self.magic == 0:
            return NO_TIMESTAMP
        if self._wrapper_type is TimestampType.LOG_APPEND_TIME:
            return self._wrapper_timestamp
        # Even the smallest message is long enough for it.
        timestamp: int = _TIMESTAMP.unpack_from(self.message, _TIMESTAMP_IN_MESSAGE)[0]
        return timestamp

    @property
    def crc(self) -> int:
        crc: int = _CRC.unpack_from(self.message)[0]
        return crc

    @property
    def is_valid(self) -> bool:
        return self.crc == crc32(memoryview(self.message)[_MAGIC_IN_MESSAGE:])

    @property
    def has_key(self) -> bool:
        return self._int32(self._key_size_at) >= 0

    @property
    def key(self) -> bytes | None:
        return self._sized(self._key_size_at)

    @property
    def value(self) -> bytes | None:
        return self._sized(
            self._key_size_at + _LENGTH.size + max(0, self._int32(self._key_size_at))
        )

    @property
    def _key_size_at(self) -> int:
        return _KEY_LENGTH_IN_MESSAGE[0 if self.magic == 0 else 1]

    def _int32(self, at: int) -> int:
        if at + _LENGTH.size > len(self.message):
            _raise_uncaught(f"legacy message of {len(self.message)} bytes: no length at {at}")
        value: int = _LENGTH.unpack_from(self.message, at)[0]
        return value

    def _sized(self, at: int) -> bytes | None:
        size = self._int32(at)
        if size < 0:
            return None
        start = at + _LENGTH.size
        if size > len(self.message) - start:
            _raise_uncaught(
                f"legacy message of {len(self.message)} bytes: {size} of them at {start}"
            )
        return bytes(self.message[start : start + size])


class AppendedLegacyBatch:
    """A message of magic 0 or 1 as a batch: of itself, or of the messages inside a wrapper."""

    __slots__ = ("raw", "record")

    partition_leader_epoch = -1

    def __init__(self, raw: memoryview) -> None:
        self.raw = raw
        self.record = LegacyRecord(_OFFSET.unpack_from(raw)[0], raw[LENGTH_END:])

    @property
    def magic(self) -> int:
        return self.record.magic

    @property
    def size_in_bytes(self) -> int:
        return len(self.raw)

    @property
    def last_offset(self) -> int:
        return self.record.offset

    @property
    def max_timestamp(self) -> int:
        return self.record.timestamp

    @property
    def is_valid(self) -> bool:
        return self.record.is_valid

    @property
    def codec(self) -> Codec:
        return self.record.codec

    @property
    def timestamp_type(self) -> TimestampType:
        return self.record.timestamp_type

    def iter_records(self) -> Iterator[LegacyRecord]:
        """Yield the message, or those inside it. They are read together and checked one by one."""
        if self.codec is Codec.NONE:
            yield self.record
            return
        inner = list(self._inner())
        if not inner:
            raise InvalidRecordError("a wrapper with no message inside")
        base_offset = self._base_offset(inner[-1].offset)
        for record in inner:
            record.offset = wrap_int64(base_offset + record.offset)
            if record.codec is not Codec.NONE:
                raise InvalidRecordError("a compressed message inside a wrapper")
            yield record

    def _inner(self) -> Iterator[LegacyRecord]:
        codec = self.codec
        if codec is Codec.ZSTD:
            raise InvalidRecordError(f"zstd in a message of magic {self.magic}")
        value = self.record.value
        if value is None:
            raise InvalidRecordError("a wrapper with a null value")
        data, broken = read_stream(codec, value, self.magic)
        plain = memoryview(data)
        wrapper_timestamp, wrapper_type = self.record.timestamp, self.timestamp_type
        position = 0
        while len(plain) - position >= LENGTH_END:
            offset, size = _ENTRY.unpack_from(plain, position)
            if size < SMALLEST_MESSAGE:
                raise CorruptMessageError(f"message of {size} bytes inside a wrapper")
            if size > len(plain) - position - LENGTH_END:
                break  # incomplete, as in old fetch responses
            position += LENGTH_END + size
            record = LegacyRecord(offset, plain[position - size : position])
            if record.magic == 1:
                record = LegacyRecord(offset, record.message, wrapper_timestamp, wrapper_type)
            yield record
        if broken is not None:
            _raise_uncaught(f"{codec} that does not decompress ({broken})")

    def _base_offset(self, last_inner: int) -> int:
        """Return what to add to inner offsets. In magic 1 they start at 0.

        A wrapper at offset 0 comes from early librdkafka: its inner offsets stay as they are.
        """
        offset = self.record.offset
        if self.magic == 0 or offset == 0:
            return 0
        if offset < last_inner:
            raise InvalidRecordError(f"wrapper of offset {offset} around offset {last_inner}")
        return offset - last_inner


AppendedBatch: TypeAlias = DefaultBatch | AppendedLegacyBatch


def codec_of(attributes: int) -> Codec:
    number = attributes & CODEC_MASK
    if number >= len(_CODECS):
        _raise_uncaught(f"compression codec {number}")
    return _CODECS[number]


def iter_appended(records: Buffer) -> Iterator[AppendedBatch]:
    """Yield the complete batches, and ignore an incomplete one at the end."""
    view = memoryview(records)
    position, end = 0, len(view)
    while end - position >= LENGTH_END:
        size = _ENTRY.unpack_from(view, position)[1]
        if size < SMALLEST_MESSAGE:
            raise CorruptMessageError(f"batch of {size} bytes at {position}")
        if end - position < UP_TO_MAGIC:
            return
        magic = view[position + MAGIC_AT]
        if magic > 2:
            raise CorruptMessageError(f"magic {magic} at {position}")
        if size > _INT32_MAX - LENGTH_END:
            _raise_uncaught(f"batch of {size} bytes: with offset and length beyond 32 bits")
        if size > end - position - LENGTH_END:
            return
        raw = view[position : position + LENGTH_END + size]
        yield DefaultBatch(raw) if magic == 2 else AppendedLegacyBatch(raw)
        position += LENGTH_END + size
