"""Varints against encodings worked out by hand, and over their whole range."""

import pytest
from hypothesis import given

from kafka_format import primitives
from kafka_format.errors import MalformedRecordError, TruncatedError
from tests.strategies import int32s, int64s, uint32s

ZIGZAG = [  # value, as (value << 1) ^ (value >> 63) in groups of seven bits, low first
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
ZIGZAG_LONG = [
    (2**31, "8080808010"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), ZIGZAG)
def test_a_varint_is_its_zigzag_in_groups_of_seven(value: int, encoded: str) -> None:
    out = bytearray()
    primitives.write_varint(out, value)
    assert out.hex() == encoded
    assert primitives.varint_size(value) == len(out)
    assert primitives.read_varint(b"??" + out + b"?", 2) == (value, 2 + len(out))


@pytest.mark.parametrize(("value", "encoded"), ZIGZAG + ZIGZAG_LONG)
def test_a_varlong_is_its_zigzag_in_groups_of_seven(value: int, encoded: str) -> None:
    out = bytearray()
    primitives.write_varlong(out, value)
    assert out.hex() == encoded
    assert primitives.varlong_size(value) == len(out)
    assert primitives.read_varlong(memoryview(out), 0) == (value, len(out))


def test_an_unsigned_varint_of_five_bytes_is_its_pattern() -> None:
    assert primitives.read_unsigned_varint(bytes.fromhex("ffffffff0f"), 0) == (2**32 - 1, 5)
    out = bytearray()
    primitives.write_unsigned_varint(out, -1)
    assert out.hex() == "ffffffff0f"
    long = bytes.fromhex("ffffffffffffffffff01")
    assert primitives.read_unsigned_varlong(long, 0) == (2**64 - 1, 10)


def test_bits_beyond_the_width_fall_off_as_in_java() -> None:
    assert primitives.read_unsigned_varint(bytes.fromhex("808080807f"), 0) == (0xF000_0000, 5)
    assert primitives.read_varint(bytes.fromhex("8080808070"), 0) == (0, 5)
    assert primitives.read_varlong(bytes.fromhex("8080808080808080807e"), 0) == (0, 10)


def test_an_over_long_zero_is_a_zero() -> None:
    assert primitives.read_varint(bytes.fromhex("8080808000"), 0) == (0, 5)


@pytest.mark.parametrize(
    ("read", "encoded"),
    [
        (primitives.read_varint, "8080808080"),
        (primitives.read_unsigned_varint, "ffffffffff01"),
        (primitives.read_varlong, "80" * 10),
    ],
)
def test_a_varint_without_an_end_is_malformed(read, encoded: str) -> None:
    with pytest.raises(MalformedRecordError, match=r"^<memory>@1: found a variable-length"):
        read(b"\0" + bytes.fromhex(encoded), 1)


@pytest.mark.parametrize("encoded", ["", "80", "80808080"])
def test_a_varint_cut_off_is_truncated(encoded: str) -> None:
    with pytest.raises(TruncatedError, match=r"^<memory>@0: found the end of the bytes"):
        primitives.read_varint(bytes.fromhex(encoded), 0)


@given(int32s)
def test_varints_come_back(value: int) -> None:
    out = bytearray()
    primitives.write_varint(out, value)
    assert primitives.read_varint(out, 0) == (value, len(out))
    assert primitives.varint_size(value) == len(out)


@given(int64s)
def test_varlongs_come_back(value: int) -> None:
    out = bytearray()
    primitives.write_varlong(out, value)
    assert primitives.read_varlong(out, 0) == (value, len(out))
    assert primitives.varlong_size(value) == len(out)


@given(uint32s)
def test_unsigned_varints_come_back(value: int) -> None:
    out = bytearray()
    primitives.write_unsigned_varint(out, value)
    assert primitives.read_unsigned_varint(out, 0) == (value, len(out))
