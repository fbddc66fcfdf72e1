"""The four codecs as Kafka writes and reads them: one blob of records in, one blob out.

    gzip     the JDK's GZIPOutputStream, level 6; OS byte 255 since JDK 16
    snappy   snappy-java's stream: 82 'SNAPPY' 0, two i32 versions, then (i32 length, raw block)*;
             input blocks of 32 KiB. Other clients write one bare raw block instead.
    lz4      LZ4 frame 04224d18 60 40 82: independent 64 KiB blocks, no checksums, stored where
             compression gains nothing. In magic 0 the header checksum covers the frame magic too.
    zstd     one frame, level 3, no content size, flushed before it is ended (empty last block)

Mirrors org.apache.kafka.common.compress. The readers take and refuse what Kafka's streams do when
read to their end; where they are stricter, docs/formats/compression.md says so.

No reader produces more than `limit` bytes: a batch does not say how large its records are, so a
few bytes could ask for all the memory there is. Positions in errors count from the start of the
compressed bytes.
"""

import io
import struct
import threading
import zlib
from collections.abc import Generator, Iterator
from enum import IntEnum
from itertools import chain
from typing import NamedTuple, NoReturn

from kafka_format.errors import (
    MEMORY,
    CorruptError,
    FormatError,
    Location,
    TruncatedError,
    UnsupportedError,
)
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


CODEC_MASK = 0x07
_UINT32 = 0xFFFF_FFFF
_LARGEST_CODEC = max(Codec)

_SMALLEST_LIMIT = 256 * 1024 * 1024
_LIMIT_RATIO = 16
_LARGEST_LIMIT = 2**31 - 1


def default_limit(compressed_size: int) -> int:
    """How far a blob may grow when the caller names no limit.

    256 MiB is 256 times the largest batch a broker takes by default (message.max.bytes); a larger
    blob, from a broker configured so, may grow sixteenfold. Kafka counts the uncompressed bytes of
    a batch in an int, so nothing it wrote is beyond 2 GiB.
    """
    return min(max(_SMALLEST_LIMIT, _LIMIT_RATIO * compressed_size), _LARGEST_LIMIT)


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
            return _compress_gzip(data, 6 if level is None else level)
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, magic=magic, level=level)
        case Codec.ZSTD:
            return _compress_zstd(data, 3 if level is None else level)


def decompress(codec: Codec, data: Buffer, *, magic: int = 2, limit: int | None = None) -> bytes:
    """What Kafka would read from `data`, or a FormatError; never more than `limit` bytes."""
    if limit is None:
        limit = default_limit(len(data))
    try:
        return _join(_iter_chunks(codec, memoryview(data), magic, limit), limit)
    except _TooLargeError as error:
        raise CorruptError(
            Location(MEMORY, error.position),
            f"compressed bytes that grow beyond {limit}",
            f"at most {limit} bytes of records, the limit of this reader",
        ) from None


class _TooLargeError(Exception):
    """The bytes from `position` on grow beyond what is left of the limit."""

    def __init__(self, position: int) -> None:
        self.position = position


def _iter_chunks(codec: Codec, data: memoryview, magic: int, limit: int) -> Iterator[bytes]:
    match codec:
        case Codec.NONE:
            return iter((bytes(data),))
        case Codec.GZIP:
            return _iter_gzip(data)
        case Codec.SNAPPY:
            return _iter_snappy(data, limit)
        case Codec.LZ4:
            return _iter_lz4(data, magic=magic)
        case Codec.ZSTD:
            return _iter_zstd(data, limit)


def _join(chunks: Iterator[bytes], limit: int) -> bytes:
    """A reader's chunks, each of bounded size: the first one too many is affordable."""
    first = next(chunks, b"")
    if len(first) > limit:
        raise _TooLargeError(0)
    second = next(chunks, None)
    if second is None:
        return first
    joined = io.BytesIO()  # hands out what it has grown to; joining a list would hold it twice
    size = joined.write(first)
    del first
    for chunk in chain((second,), chunks):
        size += len(chunk)
        if size > limit:
            raise _TooLargeError(0)
        joined.write(chunk)
    return joined.getvalue()


def _corrupt(position: int, found: str, expected: str) -> NoReturn:
    raise CorruptError(Location(MEMORY, position), found, expected)


def _truncated(position: int, found: str, expected: str) -> NoReturn:
    raise TruncatedError(Location(MEMORY, position), found, expected)


# --- gzip ---------------------------------------------------------------------------------------

_GZIP_HEADER = bytes.fromhex("1f8b08 00 00000000 00 ff")  # no flags, no time, OS unknown
_GZIP_TRAILER = struct.Struct(
    "<I"  # CRC-32 of the uncompressed bytes
    "I"  # their number, modulo 2^32
)
_GZIP_FHCRC, _GZIP_FEXTRA, _GZIP_FNAME, _GZIP_FCOMMENT = 2, 4, 8, 16
# The JDK looks for a further member only if more than this is left behind a trailer.
_GZIP_IGNORED_TAIL = 18
_GZIP_STEP = 16 * 1024  # deflate grows at most about a thousandfold
_GZIP_CHUNK = 256 * 1024


def _compress_gzip(data: Buffer, level: int) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    trailer = _GZIP_TRAILER.pack(zlib.crc32(data), len(data) & _UINT32)
    return b"".join((_GZIP_HEADER, body, trailer))


def _iter_gzip(data: memoryview) -> Iterator[bytes]:
    """Members one after the other; a tail that is no member is ignored, as in Java."""
    position = _gzip_body(data, 0)
    while True:
        position = yield from _iter_gzip_member(data, position)
        if len(data) - position <= _GZIP_IGNORED_TAIL:
            return
        try:
            position = _gzip_body(data, position)
        except FormatError:
            return


def _iter_gzip_member(data: memoryview, start: int) -> Generator[bytes, None, int]:
    """What the member holds, in steps of bounded size; returns the position behind its trailer."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    position, crc, size = start, 0, 0
    while not inflate.eof:
        step: Buffer = inflate.unconsumed_tail
        if not step:
            step = data[position : position + _GZIP_STEP]
            position += len(step)
        try:
            chunk = inflate.decompress(step, _GZIP_CHUNK)
        except zlib.error as error:
            _corrupt(start, f"deflated bytes that do not inflate ({error})", "a deflate stream")
        if not step and not chunk and not inflate.eof:
            _truncated(position, "the end of the bytes in a deflate stream", "its last block")
        crc, size = zlib.crc32(chunk, crc), size + len(chunk)
        yield chunk
    position -= len(inflate.unused_data)
    if len(data) - position < _GZIP_TRAILER.size:
        _truncated(position, f"{len(data) - position} bytes", "the 8 bytes of a gzip trailer")
    stored = _GZIP_TRAILER.unpack_from(data, position)
    if stored != (crc, size & _UINT32):
        _corrupt(
            position,
            f"gzip trailer with crc {stored[0]:#010x} and size {stored[1]}",
            f"crc {crc:#010x} and size {size & _UINT32} of the inflated bytes",
        )
    return position + _GZIP_TRAILER.size


def _gzip_body(data: memoryview, start: int) -> int:
    """The position behind a member's header."""
    if len(data) - start < len(_GZIP_HEADER):
        _truncated(start, f"{len(data) - start} bytes", "a gzip header of 10 bytes or more")
    if data[start : start + 3] != _GZIP_HEADER[:3]:
        _corrupt(start, f"{data[start : start + 3].hex()}", "a gzip header, 1f8b08")
    flags = data[start + 3]
    position = start + len(_GZIP_HEADER)
    if flags & _GZIP_FEXTRA:
        position += 2 + int.from_bytes(data[position : position + 2], "little")
        _check_gzip_header(data, start, position)
    for flag in (_GZIP_FNAME, _GZIP_FCOMMENT):
        if flags & flag:
            position = _after_zero(data, position)
    if flags & _GZIP_FHCRC:
        _check_gzip_header(data, start, position + 2)
        stored = int.from_bytes(data[position : position + 2], "little")
        computed = zlib.crc32(data[start:position]) & 0xFFFF
        if stored != computed:
            _corrupt(position, f"gzip header crc {stored:#06x}", f"{computed:#06x}")
        position += 2
    return position


def _check_gzip_header(data: memoryview, start: int, end: int) -> None:
    if end > len(data):
        _truncated(start, f"{len(data) - start} bytes of a gzip header", f"{end - start}")


def _after_zero(data: memoryview, start: int) -> int:
    for position in range(start, len(data)):
        if data[position] == 0:
            return position + 1
    _truncated(start, "the end of the bytes in a gzip header", "the zero that ends a name")


# --- snappy -------------------------------------------------------------------------------------

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_SNAPPY_BLOCK_SIZE = 32 * 1024
_SNAPPY_LENGTH = struct.Struct(">i")
_SNAPPY_NEXT_HEADER = _SNAPPY_LENGTH.unpack_from(_SNAPPY_MAGIC)[0]  # read as a length: negative
_SNAPPY_BEST_RATIO = 22  # an element of 3 bytes copies at most 64


def _compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_SNAPPY_HEADER]
    for start in range(0, len(view), _SNAPPY_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _SNAPPY_BLOCK_SIZE]))
        parts += (_SNAPPY_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _iter_snappy(data: memoryview, limit: int) -> Iterator[bytes]:
    if len(data) == 0:
        _truncated(0, "no bytes", "a snappy stream or a raw snappy block")
    if len(data) < len(_SNAPPY_HEADER) or data[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        yield _snappy_block(data, 0, len(data), limit)
        return
    position = len(_SNAPPY_HEADER)  # snappy-java does not look at the versions of the first header
    while len(data) - position >= _SNAPPY_LENGTH.size:
        (length,) = _SNAPPY_LENGTH.unpack_from(data, position)
        if length == _SNAPPY_NEXT_HEADER:
            if not _is_snappy_header(data, position):
                return
            position += len(_SNAPPY_HEADER)
            continue
        start = position + _SNAPPY_LENGTH.size
        if not 0 <= length <= len(data) - start:
            _corrupt(position, f"snappy block of {length} bytes", f"0 to {len(data) - start}")
        block = _snappy_block(data, start, start + length, limit)
        limit -= len(block)
        yield block
        position = start + length


def _is_snappy_header(data: memoryview, position: int) -> bool:
    """Whether a further stream begins here; where it begins with other letters, the bytes end."""
    header = data[position : position + len(_SNAPPY_HEADER)]
    if len(header) < len(_SNAPPY_HEADER):
        _truncated(position, f"{len(header)} bytes of a snappy header", f"{len(_SNAPPY_HEADER)}")
    if header[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        return False
    (version,) = _SNAPPY_LENGTH.unpack_from(header, len(_SNAPPY_MAGIC))
    if version < 1:
        _corrupt(position, f"snappy stream of version {version}", "1 or above")
    return True


def _snappy_block(data: memoryview, start: int, end: int, limit: int) -> bytes:
    import cramjam

    block = data[start:end]
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_BEST_RATIO * len(block):
            _corrupt(start, f"snappy block of {len(block)} bytes for {size}", "a possible ratio")
        if size > limit:
            raise _TooLargeError(start)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        _corrupt(start, f"snappy block that does not decompress ({error})", "a raw snappy block")


# --- lz4 ----------------------------------------------------------------------------------------

_LZ4_MAGIC = bytes.fromhex("04224d18")
_LZ4_DESCRIPTOR = bytes.fromhex("6040")  # FLG: version 1, independent blocks; BD: 64 KiB
_LZ4_BLOCK_SIZE = 64 * 1024
_LZ4_LENGTH = struct.Struct("<I")
_LZ4_STORED = 0x8000_0000
_LZ4_FAST_LEVEL = 9  # Kafka's default level is lz4-java's fast compressor, not its level 9


class _Lz4Frame(NamedTuple):
    blocks_start: int
    max_block_size: int
    has_block_checksum: bool
    has_content_checksum: bool


def _compress_lz4(data: Buffer, *, magic: int, level: int | None) -> bytes:
    view = memoryview(data)
    parts = [_lz4_header(magic)]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        plain = view[start : start + _LZ4_BLOCK_SIZE]
        block = _compress_lz4_block(plain, _LZ4_FAST_LEVEL if level is None else level)
        if len(block) < len(plain):
            parts += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_LENGTH.pack(len(plain) | _LZ4_STORED), bytes(plain))
    parts.append(_LZ4_LENGTH.pack(0))
    return b"".join(parts)


def _compress_lz4_block(plain: memoryview, level: int) -> bytes:
    """Two libraries, for each finds the matches that lz4-java finds where the other does not."""
    if level == _LZ4_FAST_LEVEL:
        import cramjam

        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    import lz4.block

    block: bytes = lz4.block.compress(
        plain, mode="high_compression", compression=level, store_size=False
    )
    return block


def _lz4_header(magic: int) -> bytes:
    """Magic 0 keeps the mistake of Kafka's first lz4: its checksum covers the frame magic too."""
    covered = _LZ4_DESCRIPTOR if magic > 0 else _LZ4_MAGIC + _LZ4_DESCRIPTOR
    return _LZ4_MAGIC + _LZ4_DESCRIPTOR + bytes([_lz4_header_checksum(covered)])


def _iter_lz4(data: memoryview, *, magic: int) -> Iterator[bytes]:
    """Blocks up to the end mark. What follows it is never looked at, as in Kafka."""
    frame = _lz4_frame(data, magic=magic)
    position = frame.blocks_start
    while True:
        if len(data) - position < _LZ4_LENGTH.size:
            _truncated(position, f"{len(data) - position} bytes", "an lz4 block length or end mark")
        (word,) = _LZ4_LENGTH.unpack_from(data, position)
        length = word & ~_LZ4_STORED
        start = position + _LZ4_LENGTH.size
        if length == 0:
            if frame.has_content_checksum and len(data) - start < 4:
                _truncated(start, f"{len(data) - start} bytes", "an lz4 content checksum")
            return
        if length > frame.max_block_size:
            _corrupt(position, f"lz4 block of {length} bytes", f"at most {frame.max_block_size}")
        end = start + length
        position = end + (4 if frame.has_block_checksum else 0)
        if position > len(data):
            _truncated(start, f"{len(data) - start} bytes", f"an lz4 block of {position - start}")
        if frame.has_block_checksum:
            _verify_lz4_block(data[start - _LZ4_LENGTH.size : position], start)
        yield bytes(data[start:end]) if word & _LZ4_STORED else _lz4_block(data, start, end, frame)


def _lz4_block(data: memoryview, start: int, end: int, frame: _Lz4Frame) -> bytes:
    import lz4.block

    try:
        block: bytes = lz4.block.decompress(data[start:end], uncompressed_size=frame.max_block_size)
    except lz4.block.LZ4BlockError as error:
        _corrupt(start, f"lz4 block that does not decompress ({error})", "an lz4 block")
    return block


def _verify_lz4_block(block: memoryview, start: int) -> None:
    """Ask the library, in a frame of this one block: a checksum of megabytes is no work for Python.

    The largest block size fits any block; a stored copy of it has the same checksum.
    """
    import lz4.frame

    descriptor = bytes.fromhex("7070")  # independent blocks with checksums, 4 MiB
    header = _LZ4_MAGIC + descriptor + bytes([_lz4_header_checksum(descriptor)])
    (word,) = _LZ4_LENGTH.unpack_from(block)
    stored = _LZ4_LENGTH.pack(word | _LZ4_STORED)
    try:
        lz4.frame.decompress(b"".join((header, stored, block[4:], bytes(4))))
    except RuntimeError as error:
        _corrupt(start, f"lz4 block with another checksum ({error})", "the stored block checksum")


def _lz4_frame(data: memoryview, *, magic: int) -> _Lz4Frame:
    if magic > 0 and data[:7] == _LZ4_KAFKA_HEADER:
        return _LZ4_KAFKA_FRAME
    if len(data) < 7:
        _truncated(0, f"{len(data)} bytes", "an lz4 frame header of 7 bytes or more")
    if data[:4] != _LZ4_MAGIC:
        _corrupt(0, data[:4].hex(), "an lz4 frame, 04224d18")
    flags, block_descriptor = data[4], data[5]
    if flags & 0b1110_0011 != 0b0110_0000:
        _corrupt(4, f"lz4 flags {flags:#04x}", "version 1, independent blocks, nothing reserved")
    if block_descriptor & 0b1000_1111 or block_descriptor >> 4 < 4:
        _corrupt(5, f"lz4 block descriptor {block_descriptor:#04x}", "0x40, 0x50, 0x60 or 0x70")
    end = 14 if flags & 0b0000_1000 else 6  # a content size is skipped, not believed
    if len(data) <= end:
        _truncated(0, f"{len(data)} bytes", f"an lz4 frame header of {end + 1} bytes")
    checksum = _lz4_header_checksum(data[4:end])
    if magic > 0 and data[end] != checksum:
        _corrupt(end, f"lz4 header checksum {data[end]:#04x}", f"{checksum:#04x}")
    return _Lz4Frame(
        blocks_start=end + 1,
        max_block_size=1 << (2 * (block_descriptor >> 4) + 8),
        has_block_checksum=bool(flags & 0b0001_0000),
        has_content_checksum=bool(flags & 0b0000_0100),
    )


# What Kafka writes, and nearly all that is ever read.
_LZ4_KAFKA_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_KAFKA_FRAME = _Lz4Frame(
    blocks_start=7,
    max_block_size=_LZ4_BLOCK_SIZE,
    has_block_checksum=False,
    has_content_checksum=False,
)


_XXH_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def _lz4_header_checksum(descriptor: Buffer) -> int:
    """The second byte of XXH32, seed 0, of fewer than 16 bytes (no descriptor is longer)."""
    prime1, prime2, prime3, prime4, prime5 = _XXH_PRIMES
    accumulator = prime5 + len(descriptor)
    whole_words = len(descriptor) // 4 * 4
    for position in range(0, whole_words, 4):
        word = int.from_bytes(descriptor[position : position + 4], "little")
        accumulator = _rotate_left(accumulator + word * prime3, 17) * prime4
    for byte in descriptor[whole_words:]:
        accumulator = _rotate_left(accumulator + byte * prime5, 11) * prime1
    accumulator &= _UINT32
    accumulator = ((accumulator ^ accumulator >> 15) * prime2) & _UINT32
    accumulator = ((accumulator ^ accumulator >> 13) * prime3) & _UINT32
    return ((accumulator ^ accumulator >> 16) >> 8) & 0xFF


def _rotate_left(value: int, bits: int) -> int:
    value &= _UINT32
    return (value << bits | value >> 32 - bits) & _UINT32


# --- zstd ---------------------------------------------------------------------------------------

_ZSTD_MAGIC = 0xFD2F_B528
_ZSTD_SKIPPABLE = 0x184D_2A50  # and the fifteen above
_ZSTD_WORD = struct.Struct("<I")
_ZSTD_BLOCK_MAX = 128 * 1024
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = 0, 1, 2

_per_thread = threading.local()  # a zstd context used by two threads corrupts both


class _ZstdFrame(NamedTuple):
    end: int
    largest_content: int  # what its blocks can hold at most
    content_size: int = 0  # what it says itself, if it does


def _compress_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    stream = zstandard.ZstdCompressor(level=level, write_content_size=False).compressobj()
    parts = (
        stream.compress(data),
        stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),  # Java's close() flushes first
        stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH),
    )
    return b"".join(parts)


def _iter_zstd(data: memoryview, limit: int) -> Iterator[bytes]:
    """Frames one after the other, skippable ones skipped; every byte must belong to one."""
    position = 0
    while position < len(data):
        frame = _zstd_frame(data, position)
        if frame.largest_content:
            content = _zstd_content(data, position, frame, limit)
            limit -= len(content)
            yield content
        position = frame.end


def _zstd_content(data: memoryview, start: int, frame: _ZstdFrame, limit: int) -> bytes:
    """One frame's bytes into a buffer that is as large as its blocks could need, and no larger."""
    import zstandard

    decompressor = getattr(_per_thread, "zstd", None)
    if decompressor is None:
        decompressor = _per_thread.zstd = zstandard.ZstdDecompressor()
    if frame.content_size > limit:
        raise _TooLargeError(start)  # zstandard makes room for what a frame says, not as asked
    capacity = min(frame.largest_content, limit + 1)
    try:
        content: bytes = decompressor.decompress(data[start : frame.end], max_output_size=capacity)
    except zstandard.ZstdError as error:
        if capacity > limit and "did not decompress full frame" in str(error):
            raise _TooLargeError(start) from None
        _corrupt(start, f"zstd frame that does not decompress ({error})", "a zstd frame")
    return content


def _zstd_frame(data: memoryview, start: int) -> _ZstdFrame:
    """Walk the block headers: where the frame ends, and how large its content can be."""
    if len(data) - start < 8:
        _truncated(start, f"{len(data) - start} bytes", "a zstd frame of 8 bytes or more")
    (word,) = _ZSTD_WORD.unpack_from(data, start)
    if word & ~0xF == _ZSTD_SKIPPABLE:
        end = start + 8 + _ZSTD_WORD.unpack_from(data, start + 4)[0]
        if end > len(data):
            _truncated(start, f"{len(data) - start} bytes", f"a skippable frame of {end - start}")
        return _ZstdFrame(end, 0)
    if word != _ZSTD_MAGIC:
        _corrupt(start, f"{data[start : start + 4].hex()}", "a zstd frame, 28b52ffd")
    position, content_size, checksum_size = _zstd_frame_header(data, start)
    largest = 0
    is_last = False
    while not is_last:
        if len(data) - position < 3:
            _truncated(position, f"{len(data) - position} bytes", "a zstd block header of 3")
        header = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind > _ZSTD_COMPRESSED or size > _ZSTD_BLOCK_MAX:
            _corrupt(position, f"zstd block {header:#08x}", "of type 0 to 2 and at most 128 KiB")
        largest += _ZSTD_BLOCK_MAX if kind == _ZSTD_COMPRESSED else size
        stored = 3 + (1 if kind == _ZSTD_RLE else size)
        if stored > len(data) - position:
            _truncated(position, f"{len(data) - position} bytes", f"a zstd block of {stored}")
        position += stored
    if position + checksum_size > len(data):
        _truncated(start, f"{len(data) - start} bytes", f"a zstd frame of {position - start}")
    if content_size is not None and content_size > largest:
        _corrupt(start, f"zstd content size {content_size}", f"at most {largest} in these blocks")
    return _ZstdFrame(position + checksum_size, largest, content_size or 0)


def _zstd_frame_header(data: memoryview, start: int) -> tuple[int, int | None, int]:
    """The position behind it, the content size if stored, the size of the checksum at the end."""
    descriptor = data[start + 4]
    is_single_segment = bool(descriptor & 0x20)
    dictionary_size = (0, 1, 2, 4)[descriptor & 3]
    size_size = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    size_start = start + 5 + (0 if is_single_segment else 1) + dictionary_size
    end = size_start + size_size
    if end > len(data):
        _truncated(start, f"{len(data) - start} bytes", f"a zstd frame header of {end - start}")
    content_size = None
    if size_size:
        content_size = int.from_bytes(data[size_start:end], "little")
        if size_size == 2:
            content_size += 256
    return end, content_size, 4 if descriptor & 4 else 0
