"""LZ4 frame 04224d18 60 40 82: independent 64 KiB blocks, no checksums.

A block is stored uncompressed where compression gains nothing. In magic 0 the header checksum also
covers the frame magic.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kafka_format.codecs.refusal import corrupt, truncated
from kafka_format.primitives import Buffer

_UINT32 = 0xFFFF_FFFF
_MAGIC = bytes.fromhex("04224d18")
_DESCRIPTOR = bytes.fromhex("6040")  # FLG: version 1, independent blocks; BD: 64 KiB
_BLOCK_SIZE = 64 * 1024
_LENGTH = struct.Struct("<I")
_STORED = 0x8000_0000
_FAST_LEVEL = 9  # Kafka's default level is lz4-java's fast compressor, not its level 9


class _FrameHeader(NamedTuple):
    blocks_start: int
    max_block_size: int
    has_block_checksum: bool
    has_content_checksum: bool


def compress_lz4(data: Buffer, *, magic: int, level: int | None) -> bytes:
    view = memoryview(data)
    parts = [_header(magic)]
    for start in range(0, len(view), _BLOCK_SIZE):
        plain = view[start : start + _BLOCK_SIZE]
        block = _compress_block(plain, _FAST_LEVEL if level is None else level)
        if len(block) < len(plain):
            parts += (_LENGTH.pack(len(block)), block)
        else:
            parts += (_LENGTH.pack(len(plain) | _STORED), bytes(plain))
    parts.append(_LENGTH.pack(0))
    return b"".join(parts)


def _compress_block(plain: memoryview, level: int) -> bytes:
    """Compress with the library that finds the same matches as lz4-java at this level."""
    if level == _FAST_LEVEL:
        import cramjam

        return bytes(cramjam.lz4.compress_block(plain, store_size=False))
    import lz4.block

    block: bytes = lz4.block.compress(
        plain, mode="high_compression", compression=level, store_size=False
    )
    return block


def _header(magic: int) -> bytes:
    """Return the frame header. In magic 0 its checksum also covers the frame magic, a Kafka bug."""
    covered = _DESCRIPTOR if magic > 0 else _MAGIC + _DESCRIPTOR
    return _MAGIC + _DESCRIPTOR + bytes([header_checksum(covered)])


def iter_lz4(data: memoryview, *, magic: int) -> Iterator[bytes]:
    """Yield the blocks up to the end mark. Like Kafka, ignore what follows it."""
    frame = _frame(data, magic=magic)
    position = frame.blocks_start
    while True:
        if len(data) - position < _LENGTH.size:
            truncated(position, f"{len(data) - position} bytes", "an lz4 block length or end mark")
        (word,) = _LENGTH.unpack_from(data, position)
        length = word & ~_STORED
        start = position + _LENGTH.size
        if length == 0:
            if frame.has_content_checksum and len(data) - start < 4:
                truncated(start, f"{len(data) - start} bytes", "an lz4 content checksum")
            return
        if length > frame.max_block_size:
            corrupt(position, f"lz4 block of {length} bytes", f"at most {frame.max_block_size}")
        end = start + length
        position = end + (4 if frame.has_block_checksum else 0)
        if position > len(data):
            truncated(start, f"{len(data) - start} bytes", f"an lz4 block of {position - start}")
        if frame.has_block_checksum:
            _verify_block(data[start - _LENGTH.size : position], start)
        yield bytes(data[start:end]) if word & _STORED else _block(data, start, end, frame)


def _block(data: memoryview, start: int, end: int, frame: _FrameHeader) -> bytes:
    import lz4.block

    try:
        block: bytes = lz4.block.decompress(data[start:end], uncompressed_size=frame.max_block_size)
    except lz4.block.LZ4BlockError as error:
        corrupt(start, f"lz4 block that does not decompress ({error})", "an lz4 block")
    return block


def _verify_block(block: memoryview, start: int) -> None:
    """Check a block's checksum with the library, in a frame of this one block: Python is too slow.

    The largest block size fits any block; a stored copy of the block has the same checksum.
    """
    import lz4.frame

    descriptor = bytes.fromhex("7070")  # independent blocks with checksums, 4 MiB
    header = _MAGIC + descriptor + bytes([header_checksum(descriptor)])
    (word,) = _LENGTH.unpack_from(block)
    stored = _LENGTH.pack(word | _STORED)
    try:
        lz4.frame.decompress(b"".join((header, stored, block[4:], bytes(4))))
    except RuntimeError as error:
        corrupt(start, f"lz4 block with another checksum ({error})", "the stored block checksum")


def _frame(data: memoryview, *, magic: int) -> _FrameHeader:
    if magic > 0 and data[:7] == _KAFKA_HEADER:
        return _KAFKA_FRAME
    if len(data) < 7:
        truncated(0, f"{len(data)} bytes", "an lz4 frame header of 7 bytes or more")
    if data[:4] != _MAGIC:
        corrupt(0, data[:4].hex(), "an lz4 frame, 04224d18")
    flags, block_descriptor = data[4], data[5]
    if flags & 0b1110_0011 != 0b0110_0000:
        corrupt(4, f"lz4 flags {flags:#04x}", "version 1, independent blocks, nothing reserved")
    if block_descriptor & 0b1000_1111 or block_descriptor >> 4 < 4:
        corrupt(5, f"lz4 block descriptor {block_descriptor:#04x}", "0x40, 0x50, 0x60 or 0x70")
    end = 14 if flags & 0b0000_1000 else 6  # a content size is skipped, not trusted
    if len(data) <= end:
        truncated(0, f"{len(data)} bytes", f"an lz4 frame header of {end + 1} bytes")
    checksum = header_checksum(data[4:end])
    if magic > 0 and data[end] != checksum:
        corrupt(end, f"lz4 header checksum {data[end]:#04x}", f"{checksum:#04x}")
    return _FrameHeader(
        blocks_start=end + 1,
        max_block_size=1 << (2 * (block_descriptor >> 4) + 8),
        has_block_checksum=bool(flags & 0b0001_0000),
        has_content_checksum=bool(flags & 0b0000_0100),
    )


# The header that Kafka writes, and nearly the only one in practice.
_KAFKA_HEADER = bytes.fromhex("04224d18 60 40 82")
_KAFKA_FRAME = _FrameHeader(
    blocks_start=7,
    max_block_size=_BLOCK_SIZE,
    has_block_checksum=False,
    has_content_checksum=False,
)


_XXH_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def header_checksum(descriptor: Buffer) -> int:
    """Return the second byte of XXH32, seed 0, of fewer than 16 bytes (no descriptor is longer)."""
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
