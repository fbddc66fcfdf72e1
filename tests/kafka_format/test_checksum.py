"""The catalogue's check values, and a checksum one bit at a time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_format.checksum import crc32, crc32c


def test_the_check_values_of_the_catalogue() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32(b"123456789") == 0xCBF43926
    assert crc32c(b"") == crc32(b"") == 0


def bit_by_bit(data: bytes, polynomial: int) -> int:
    register = 0xFFFF_FFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (polynomial if register & 1 else 0)
    return register ^ 0xFFFF_FFFF


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_buffer_is_checked_as_the_polynomials_say(data: bytes) -> None:
    assert crc32c(memoryview(bytearray(data))) == bit_by_bit(data, 0x82F63B78)
    assert crc32(memoryview(bytearray(data))) == bit_by_bit(data, 0xEDB88320)
