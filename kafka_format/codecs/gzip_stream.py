"""gzip as the JDK's GZIPOutputStream writes it, level 6; OS byte 255 since JDK 16."""

import struct
import zlib
from collections.abc import Generator, Iterator

from kafka_format.codecs.refusal import corrupt, truncated
from kafka_format.errors import FormatError
from kafka_format.primitives import Buffer

_UINT32 = 0xFFFF_FFFF
_HEADER = bytes.fromhex("1f8b08 00 00000000 00 ff")  # no flags, no time, OS unknown
_TRAILER = struct.Struct(
    "<I"  # CRC-32 of the uncompressed bytes
    "I"  # their number, modulo 2^32
)
_FHCRC, _FEXTRA, _FNAME, _FCOMMENT = 2, 4, 8, 16
# The JDK looks for another member only if more than this follows a trailer.
_IGNORED_TAIL = 18
_STEP = 16 * 1024  # deflate expands at most about a thousandfold
_CHUNK = 256 * 1024


def compress_gzip(data: Buffer, level: int) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    trailer = _TRAILER.pack(zlib.crc32(data), len(data) & _UINT32)
    return b"".join((_HEADER, body, trailer))


def iter_gzip(data: memoryview) -> Iterator[bytes]:
    """Yield the content of all members. Like Java, ignore a tail that is not a member."""
    position = _body(data, 0)
    while True:
        position = yield from _iter_member(data, position)
        if len(data) - position <= _IGNORED_TAIL:
            return
        try:
            position = _body(data, position)
        except FormatError:
            return


def _iter_member(data: memoryview, start: int) -> Generator[bytes, None, int]:
    """Yield a member's content in chunks of bounded size; return the position after its trailer."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    position, crc, size = start, 0, 0
    while not inflate.eof:
        step: Buffer = inflate.unconsumed_tail
        if not step:
            step = data[position : position + _STEP]
            position += len(step)
        try:
            chunk = inflate.decompress(step, _CHUNK)
        except zlib.error as error:
            corrupt(start, f"deflated bytes that do not inflate ({error})", "a deflate stream")
        if not step and not chunk and not inflate.eof:
            truncated(position, "the end of the bytes in a deflate stream", "its last block")
        crc, size = zlib.crc32(chunk, crc), size + len(chunk)
        yield chunk
    position -= len(inflate.unused_data)
    if len(data) - position < _TRAILER.size:
        truncated(position, f"{len(data) - position} bytes", "the 8 bytes of a gzip trailer")
    stored = _TRAILER.unpack_from(data, position)
    if stored != (crc, size & _UINT32):
        corrupt(
            position,
            f"gzip trailer with crc {stored[0]:#010x} and size {stored[1]}",
            f"crc {crc:#010x} and size {size & _UINT32} of the inflated bytes",
        )
    return position + _TRAILER.size


def _body(data: memoryview, start: int) -> int:
    """Return the position after a member's header."""
    if len(data) - start < len(_HEADER):
        truncated(start, f"{len(data) - start} bytes", "a gzip header of 10 bytes or more")
    if data[start : start + 3] != _HEADER[:3]:
        corrupt(start, f"{data[start : start + 3].hex()}", "a gzip header, 1f8b08")
    flags = data[start + 3]
    position = start + len(_HEADER)
    if flags & _FEXTRA:
        position += 2 + int.from_bytes(data[position : position + 2], "little")
        _check_header(data, start, position)
    for flag in (_FNAME, _FCOMMENT):
        if flags & flag:
            position = _after_zero(data, position)
    if flags & _FHCRC:
        _check_header(data, start, position + 2)
        stored = int.from_bytes(data[position : position + 2], "little")
        computed = zlib.crc32(data[start:position]) & 0xFFFF
        if stored != computed:
            corrupt(position, f"gzip header crc {stored:#06x}", f"{computed:#06x}")
        position += 2
    return position


def _check_header(data: memoryview, start: int, end: int) -> None:
    if end > len(data):
        truncated(start, f"{len(data) - start} bytes of a gzip header", f"{end - start}")


def _after_zero(data: memoryview, start: int) -> int:
    end = next((position for position in range(start, len(data)) if data[position] == 0), None)
    if end is None:
        truncated(start, "the end of the bytes in a gzip header", "the zero that ends a name")
    return end + 1
