"""zstd: one frame, level 3, no content size, flushed before its end (empty last block)."""

import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

from kafka_format.codecs.refusal import TooLargeError, corrupt, truncated
from kafka_format.primitives import Buffer

_MAGIC = 0xFD2F_B528
_SKIPPABLE = 0x184D_2A50  # and the fifteen above
_WORD = struct.Struct("<I")
_BLOCK_MAX = 128 * 1024
_RAW, _RLE, _COMPRESSED = 0, 1, 2

_per_thread = threading.local()  # a zstd context must not be shared by two threads


class _FrameExtent(NamedTuple):
    end: int
    largest_content: int  # the most that its blocks can hold
    content_size: int = 0  # as stored, if it is


def compress_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    stream = zstandard.ZstdCompressor(level=level, write_content_size=False).compressobj()
    parts = (
        stream.compress(data),
        stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),  # Java's close() flushes first
        stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH),
    )
    return b"".join(parts)


def iter_zstd(data: memoryview, limit: int) -> Iterator[bytes]:
    """Yield the content of all frames; skippable ones are skipped. No other bytes may remain."""
    position = 0
    while position < len(data):
        frame = _frame(data, position)
        if frame.largest_content:
            content = _content(data, position, frame, limit)
            limit -= len(content)
            yield content
        position = frame.end


def _content(data: memoryview, start: int, frame: _FrameExtent, limit: int) -> bytes:
    """Decompress one frame, into a buffer no larger than its blocks could need."""
    import zstandard

    decompressor = getattr(_per_thread, "decompressor", None)
    if decompressor is None:
        decompressor = _per_thread.decompressor = zstandard.ZstdDecompressor()
    if frame.content_size > limit:
        raise TooLargeError(start)  # zstandard allocates the stored size, not `max_output_size`
    capacity = min(frame.largest_content, limit + 1)
    try:
        content: bytes = decompressor.decompress(data[start : frame.end], max_output_size=capacity)
    except zstandard.ZstdError as error:
        if capacity > limit and "did not decompress full frame" in str(error):
            raise TooLargeError(start) from None
        corrupt(start, f"zstd frame that does not decompress ({error})", "a zstd frame")
    return content


def _frame(data: memoryview, start: int) -> _FrameExtent:
    """Walk the block headers to find the frame's end and how large its content can be."""
    if len(data) - start < 8:
        truncated(start, f"{len(data) - start} bytes", "a zstd frame of 8 bytes or more")
    (word,) = _WORD.unpack_from(data, start)
    if word & ~0xF == _SKIPPABLE:
        end = start + 8 + _WORD.unpack_from(data, start + 4)[0]
        if end > len(data):
            truncated(start, f"{len(data) - start} bytes", f"a skippable frame of {end - start}")
        return _FrameExtent(end, 0)
    if word != _MAGIC:
        corrupt(start, f"{data[start : start + 4].hex()}", "a zstd frame, 28b52ffd")
    position, content_size, checksum_size = _frame_header(data, start)
    largest = 0
    is_last = False
    while not is_last:
        if len(data) - position < 3:
            truncated(position, f"{len(data) - position} bytes", "a zstd block header of 3")
        header = int.from_bytes(data[position : position + 3], "little")
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind > _COMPRESSED or size > _BLOCK_MAX:
            corrupt(position, f"zstd block {header:#08x}", "of type 0 to 2 and at most 128 KiB")
        largest += _BLOCK_MAX if kind == _COMPRESSED else size
        stored = 3 + (1 if kind == _RLE else size)
        if stored > len(data) - position:
            truncated(position, f"{len(data) - position} bytes", f"a zstd block of {stored}")
        position += stored
    if position + checksum_size > len(data):
        truncated(start, f"{len(data) - start} bytes", f"a zstd frame of {position - start}")
    if content_size is not None and content_size > largest:
        corrupt(start, f"zstd content size {content_size}", f"at most {largest} in these blocks")
    return _FrameExtent(position + checksum_size, largest, content_size or 0)


def _frame_header(data: memoryview, start: int) -> tuple[int, int | None, int]:
    """Return the position after the header, the content size if stored, and the checksum's size."""
    descriptor = data[start + 4]
    is_single_segment = bool(descriptor & 0x20)
    dictionary_size = (0, 1, 2, 4)[descriptor & 3]
    size_size = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
    size_start = start + 5 + (0 if is_single_segment else 1) + dictionary_size
    end = size_start + size_size
    if end > len(data):
        truncated(start, f"{len(data) - start} bytes", f"a zstd frame header of {end - start}")
    content_size = None
    if size_size:
        content_size = int.from_bytes(data[size_start:end], "little")
        if size_size == 2:
            content_size += 256
    return end, content_size, 4 if descriptor & 4 else 0
