"""The small encodings that Kafka's formats are built from, over any buffer.

    unsigned varint   little-endian groups of seven bits, at most 5 bytes, a 32-bit pattern
    varint, varlong   zig-zag inside such groups; at most 5 and 10 bytes

A reader takes `(buffer, position)` and returns `(value, next position)`. Its errors have positions
in that buffer; a caller that knows the file adjusts them with `FormatError.moved`.

Mirrors org.apache.kafka.common.utils.ByteUtils: an over-long encoding is accepted (a zero in five
bytes), bits beyond the width are dropped. An unsigned varint of five bytes can be negative in Java;
here it is the unsigned pattern, and the caller converts it.
"""

from typing import TypeAlias

from kafka_format.errors import MEMORY, Location, MalformedRecordError, TruncatedError

Buffer: TypeAlias = bytes | bytearray | memoryview

_MAX_VARINT_SHIFT = 28
_MAX_VARLONG_SHIFT = 63
_UINT32 = 0xFFFF_FFFF
_UINT64 = 0xFFFF_FFFF_FFFF_FFFF


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    value, position = _read_groups(buffer, position, _MAX_VARINT_SHIFT)
    return value & _UINT32, position


def read_unsigned_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    value, position = _read_groups(buffer, position, _MAX_VARLONG_SHIFT)
    return value & _UINT64, position


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    pattern, position = _read_groups(buffer, position, _MAX_VARINT_SHIFT)
    pattern &= _UINT32
    return (pattern >> 1) ^ -(pattern & 1), position


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    pattern, position = _read_groups(buffer, position, _MAX_VARLONG_SHIFT)
    pattern &= _UINT64
    return (pattern >> 1) ^ -(pattern & 1), position


def _read_groups(buffer: Buffer, start: int, max_shift: int) -> tuple[int, int]:
    value = shift = 0
    position = start
    end = len(buffer)
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > max_shift:
            raise MalformedRecordError(
                Location(MEMORY, start),
                f"a variable-length integer of more than {position - start} bytes",
                f"at most {max_shift // 7 + 1}",
            )
    raise TruncatedError(
        Location(MEMORY, start),
        f"the end of the bytes after {position - start} of a variable-length integer",
        "its last byte",
    )


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append the shortest encoding of a 32-bit pattern; negative values are written as theirs."""
    _write_groups(out, value & _UINT32)


def write_varint(out: bytearray, value: int) -> None:
    _write_groups(out, ((value << 1) ^ (value >> 31)) & _UINT32)


def write_varlong(out: bytearray, value: int) -> None:
    _write_groups(out, ((value << 1) ^ (value >> 63)) & _UINT64)


def _write_groups(out: bytearray, pattern: int) -> None:
    while pattern >= 0x80:
        out.append(pattern & 0x7F | 0x80)
        pattern >>= 7
    out.append(pattern)


def varint_size(value: int) -> int:
    """Return how many bytes `write_varint` appends."""
    return _groups_size(((value << 1) ^ (value >> 31)) & _UINT32)


def varlong_size(value: int) -> int:
    """Return how many bytes `write_varlong` appends."""
    return _groups_size(((value << 1) ^ (value >> 63)) & _UINT64)


def _groups_size(pattern: int) -> int:
    return max(1, -(-pattern.bit_length() // 7))
