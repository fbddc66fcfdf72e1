"""What a cut loses, counted on bytes whose sizes are known: bytes, records and offsets."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.loading.losses import Losses

NAME = f"{0:020d}.log"
NOW = 1_700_000_000_000


def batch(offset: int, count: int = 1, value: bytes = b"v" * 31) -> bytes:
    """61 bytes of header and 39 for each record, if the value is the default."""
    records = [SimpleRecord(NOW, b"k", value)] * count
    return encode_batch(records, base_offset=offset)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def losses(directory: Path, data: bytes, start: int = 0, fallback: int = 7) -> Losses:
    (directory / NAME).write_bytes(data)
    found = Losses()
    with opened(DiskFiles(directory), NAME) as file:
        found.add(file, start, base_offset=0, fallback_offset=fallback)
    return found


def numbers(found: Losses) -> Sequence[int | None]:
    return [found.bytes, found.records, found.first_offset, found.last_offset]


ZEROS = batch(10, value=bytes(1_000_000))
"""61 bytes of header, 11 of the record's lengths and its key, a million zeros, no header."""


@pytest.mark.parametrize("tail", [b"", bytes(50_000)])
def test_zeros_inside_a_batch_count_and_those_after_it_do_not(tmp_path: Path, tail: bytes) -> None:
    assert len(ZEROS) == 1_000_073
    assert numbers(losses(tmp_path, flipped(ZEROS, 100) + tail)) == [1_000_073, 1, 10, 10]


def test_the_last_byte_of_a_batch_counts_though_it_is_zero(tmp_path: Path) -> None:
    smallest = batch(3, value=b"v")
    assert (len(smallest), smallest[-1]) == (70, 0)
    assert numbers(losses(tmp_path, smallest)) == [70, 1, 3, 3]


def test_a_torn_batch_counts_with_the_bytes_that_are_there(tmp_path: Path) -> None:
    data = batch(0) + batch(1, 5)
    found = losses(tmp_path, data[:-40], start=100)
    assert numbers(found) == [61 + 5 * 39 - 40, 5, 1, 5]


def test_a_torn_header_loses_an_unknown_number_of_records(tmp_path: Path) -> None:
    found = losses(tmp_path, batch(0) + batch(7)[:40], start=100)
    assert numbers(found) == [40, None, 7, None]


def test_batches_after_the_damaged_one_are_lost_too(tmp_path: Path) -> None:
    data = flipped(batch(10, 2), 80) + batch(12, 3) + batch(20) + bytes(1000)
    assert numbers(losses(tmp_path, data)) == [139 + 178 + 100, 6, 10, 20]


def test_bytes_that_are_no_batch_count_up_to_the_last_that_is_not_zero(tmp_path: Path) -> None:
    found = losses(tmp_path, b"\xff" * 200 + bytes(900))
    assert numbers(found) == [200, None, 7, None]


def test_zeros_only_are_no_loss(tmp_path: Path) -> None:
    assert numbers(losses(tmp_path, bytes(4096))) == [0, 0, None, None]


def test_after_damage_the_next_sound_batch_is_found(tmp_path: Path) -> None:
    data = batch(0) + b"\xff" * 77 + batch(9, 2)
    assert numbers(losses(tmp_path, data, start=100)) == [77 + 139, None, 7, 10]


@pytest.mark.parametrize("length", [2**31 - 1, 90, 60, 300])
def test_a_length_that_lies_is_not_followed(tmp_path: Path, length: int) -> None:
    first = batch(7)
    lying = first[:8] + length.to_bytes(4, "big") + first[12:]
    found = losses(tmp_path, lying + batch(8, 3) + batch(11, 4))
    assert numbers(found) == [100 + 178 + 217, None, 7, 14]


def test_a_right_checksum_does_not_make_a_count_true(tmp_path: Path) -> None:
    data = bytearray(batch(5))
    data[57:61] = (-3).to_bytes(4, "big", signed=True)
    found = losses(tmp_path, bytes(data) + batch(6))
    assert (found.bytes, found.records, found.last_offset) == (200, None, 6)


def test_messages_inside_a_legacy_wrapper_are_counted(tmp_path: Path) -> None:
    records = [SimpleRecord(NOW + i, b"k", b"v") for i in range(4)]
    wrapper = encode_legacy_batch(records, magic=1, base_offset=20, codec=Codec.GZIP)
    plain = encode_legacy_batch(records[:1], magic=1, base_offset=24)
    found = losses(tmp_path, wrapper + plain)
    assert numbers(found) == [len(wrapper) + len(plain), 5, 20, 24]


def test_a_wrapper_that_does_not_decompress_has_an_unknown_number_of_messages(
    tmp_path: Path,
) -> None:
    records = [SimpleRecord(NOW + i, b"k", b"v") for i in range(4)]
    wrapper = encode_legacy_batch(records, magic=1, base_offset=20, codec=Codec.GZIP)
    found = losses(tmp_path, flipped(wrapper, 50))
    assert numbers(found) == [len(wrapper), None, 7, 23]
