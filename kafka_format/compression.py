"""Compress and decompress the records of a batch as Kafka does, with any of its four codecs.

    gzip     codecs/gzip_stream.py
    snappy   codecs/snappy_stream.py
    lz4      codecs/lz4_frame.py
    zstd     codecs/zstd_frame.py

Mirrors org.apache.kafka.common.compress. The readers accept and reject what Kafka's streams do when
read to their end; docs/formats/compression.md lists where they are stricter.

No reader produces more than `limit` bytes: a batch does not store the decompressed size, so a few
bytes could otherwise fill the memory. Positions in errors count from the start of the compressed
bytes.
"""

import io
from collections.abc import Iterator
from enum import IntEnum
from itertools import chain

from kafka_format.access import access
from kafka_format.attributes import CODEC_MASK as CODEC_MASK  # noqa: PLC0414  # others import it
from kafka_format.codecs.gzip_stream import compress_gzip, iter_gzip
from kafka_format.codecs.lz4_frame import compress_lz4, iter_lz4
from kafka_format.codecs.refusal import TooLargeError
from kafka_format.codecs.snappy_stream import compress_snappy, iter_snappy
from kafka_format.codecs.zstd_frame import compress_zstd, iter_zstd
from kafka_format.errors import MEMORY, Location, OverLimitError, UnsupportedError
from kafka_format.primitives import Buffer


class Codec(IntEnum):
    """Bits 0-2 of the attributes; `str()` is the name as Kafka prints it."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    def __str__(self) -> str:
        return self.name.lower()


_LARGEST_CODEC = max(Codec)


def default_limit() -> int:
    """Return how many bytes to decompress at most when the caller gives no limit.

    256 MiB unless `Access` says otherwise: 256 times the largest batch that a broker accepts by
    default (message.max.bytes).
    """
    return access().max_decompressed_bytes


def codec_of(attributes: int, *, path: str = MEMORY, position: int = 0) -> Codec:
    """Return the codec from the low three bits of a batch's or message's attributes."""
    number = attributes & CODEC_MASK
    if number > _LARGEST_CODEC:
        raise UnsupportedError(
            Location(path, position), f"compression codec {number}", "none, gzip, snappy, lz4, zstd"
        )
    return Codec(number)


def compress(codec: Codec, data: Buffer, *, magic: int = 2, level: int | None = None) -> bytes:
    """Return the bytes that Kafka would write for `data` in a batch of this magic.

    They are equal byte for byte, except for the matches that snappy chooses. `level` is a level of
    the codec; None is Kafka's default, and the only level of snappy.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return compress_gzip(data, 6 if level is None else level)
        case Codec.SNAPPY:
            return compress_snappy(data)
        case Codec.LZ4:
            return compress_lz4(data, magic=magic, level=level)
        case Codec.ZSTD:
            return compress_zstd(data, 3 if level is None else level)


def decompress(codec: Codec, data: Buffer, *, magic: int = 2, limit: int | None = None) -> bytes:
    """Return what Kafka would read from `data`, at most `limit` bytes. Raises FormatError."""
    if limit is None:
        limit = default_limit()
    try:
        return _join(_iter_chunks(codec, memoryview(data), magic, limit), limit)
    except TooLargeError as error:
        raise OverLimitError(
            Location(MEMORY, error.position),
            f"compressed records of more than {limit} bytes, not decoded",
            f"at most {limit} bytes (--max-decompressed-bytes)",
        ) from None


def _iter_chunks(codec: Codec, data: memoryview, magic: int, limit: int) -> Iterator[bytes]:
    match codec:
        case Codec.NONE:
            return iter((bytes(data),))
        case Codec.GZIP:
            return iter_gzip(data)
        case Codec.SNAPPY:
            return iter_snappy(data, limit)
        case Codec.LZ4:
            return iter_lz4(data, magic=magic)
        case Codec.ZSTD:
            return iter_zstd(data, limit)


def _join(chunks: Iterator[bytes], limit: int) -> bytes:
    """Join chunks up to a limit. Each chunk is bounded, so one beyond the limit does no harm."""
    first = next(chunks, b"")
    if len(first) > limit:
        raise TooLargeError(0)
    second = next(chunks, None)
    if second is None:
        return first
    joined = io.BytesIO()  # returns its buffer; joining a list would hold the bytes twice
    size = joined.write(first)
    del first
    for chunk in chain((second,), chunks):
        size += len(chunk)
        if size > limit:
            raise TooLargeError(0)
        joined.write(chunk)
    return joined.getvalue()
