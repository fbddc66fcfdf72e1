"""The four codecs as Kafka writes and reads them: one blob of records in, one blob out.

    gzip     codecs/gzip_stream.py
    snappy   codecs/snappy_stream.py
    lz4      codecs/lz4_frame.py
    zstd     codecs/zstd_frame.py

Mirrors org.apache.kafka.common.compress. The readers take and refuse what Kafka's streams do when
read to their end; where they are stricter, docs/formats/compression.md says so.

No reader produces more than `limit` bytes: a batch does not say how large its records are, so a
few bytes could ask for all the memory there is. Positions in errors count from the start of the
compressed bytes.
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
    """How many bytes a blob may grow to when the caller names no limit.

    256 MiB unless `Access` says otherwise: 256 times the largest batch that a broker takes by
    default (message.max.bytes).
    """
    return access().max_decompressed_bytes


def codec_of(attributes: int, *, path: str = MEMORY, position: int = 0) -> Codec:
    """The codec named by the low three bits of a batch's or message's attributes."""
    number = attributes & CODEC_MASK
    if number > _LARGEST_CODEC:
        raise UnsupportedError(
            Location(path, position), f"compression codec {number}", "none, gzip, snappy, lz4, zstd"
        )
    return Codec(number)


def compress(codec: Codec, data: Buffer, *, magic: int = 2, level: int | None = None) -> bytes:
    """The bytes Kafka's stream of this codec would write for `data` in a batch of this magic.

    Byte for byte, snappy's choice of matches aside. `level` is the codec's own; None is Kafka's
    default, and the only level of snappy.
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
    """What Kafka would read from `data`, or a FormatError; never more than `limit` bytes."""
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
    """A reader's chunks, each of bounded size: the first one too many is affordable."""
    first = next(chunks, b"")
    if len(first) > limit:
        raise TooLargeError(0)
    second = next(chunks, None)
    if second is None:
        return first
    joined = io.BytesIO()  # hands out what it has grown to; joining a list would hold it twice
    size = joined.write(first)
    del first
    for chunk in chain((second,), chunks):
        size += len(chunk)
        if size > limit:
            raise TooLargeError(0)
        joined.write(chunk)
    return joined.getvalue()
