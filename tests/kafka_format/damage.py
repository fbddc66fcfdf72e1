"""Ways to mutilate the bytes of a small file: every cut, every flipped bit."""

from collections.abc import Callable, Iterator
from typing import Any

from kafka_format.errors import FormatError


def cuts(data: bytes) -> Iterator[bytes]:
    for size in range(len(data)):
        yield data[:size]


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number of the bit, from the first byte's highest on; the bytes with it flipped)"""
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        yield bit, bytes(flipped)


def value_or_error(decode: Callable[[bytes], Any], data: bytes) -> Any:
    """What a decoder gives; its FormatError, checked to be a coordinate inside the bytes."""
    try:
        return decode(data)
    except FormatError as raised:
        error = raised
    assert 0 <= error.location.position <= len(data)
    assert error.found
    assert error.expected
    return error


def unnoticed(decode: Callable[[bytes], Any], data: bytes) -> set[int]:
    """Bytes of a file in which at least one flipped bit gives a value, not an error."""
    return {
        bit // 8
        for bit, flipped in flips(data)
        if not isinstance(value_or_error(decode, flipped), FormatError)
    }
