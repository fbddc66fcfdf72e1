"""snappy-java's stream: 82 'SNAPPY' 0, two i32 versions, then (i32 length, raw block)*.

Input blocks of 32 KiB. Other clients write one bare raw block instead.
"""

import struct
from collections.abc import Iterator

from kafka_format.codecs.refusal import TooLargeError, corrupt, truncated
from kafka_format.primitives import Buffer

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_BLOCK_SIZE = 32 * 1024
_LENGTH = struct.Struct(">i")
_NEXT_HEADER = _LENGTH.unpack_from(_MAGIC)[0]  # read as a length: negative
_BEST_RATIO = 22  # an element of 3 bytes copies at most 64


def compress_snappy(data: Buffer) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_HEADER]
    for start in range(0, len(view), _BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _BLOCK_SIZE]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def iter_snappy(data: memoryview, limit: int) -> Iterator[bytes]:
    if len(data) == 0:
        truncated(0, "no bytes", "a snappy stream or a raw snappy block")
    if len(data) < len(_HEADER) or data[: len(_MAGIC)] != _MAGIC:
        yield _block(data, 0, len(data), limit)
        return
    position = len(_HEADER)  # snappy-java ignores the versions in the first header
    while len(data) - position >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data, position)
        if length == _NEXT_HEADER:
            if not _is_header(data, position):
                return
            position += len(_HEADER)
            continue
        start = position + _LENGTH.size
        if not 0 <= length <= len(data) - start:
            corrupt(position, f"snappy block of {length} bytes", f"0 to {len(data) - start}")
        block = _block(data, start, start + length, limit)
        limit -= len(block)
        yield block
        position = start + length


def _is_header(data: memoryview, position: int) -> bool:
    """Return whether another stream begins here; with another magic the stream ends instead."""
    header = data[position : position + len(_HEADER)]
    if len(header) < len(_HEADER):
        truncated(position, f"{len(header)} bytes of a snappy header", f"{len(_HEADER)}")
    if header[: len(_MAGIC)] != _MAGIC:
        return False
    (version,) = _LENGTH.unpack_from(header, len(_MAGIC))
    if version < 1:
        corrupt(position, f"snappy stream of version {version}", "1 or above")
    return True


def _block(data: memoryview, start: int, end: int, limit: int) -> bytes:
    import cramjam

    block = data[start:end]
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > _BEST_RATIO * len(block):
            corrupt(start, f"snappy block of {len(block)} bytes for {size}", "a possible ratio")
        if size > limit:
            raise TooLargeError(start)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        corrupt(start, f"snappy block that does not decompress ({error})", "a raw snappy block")
