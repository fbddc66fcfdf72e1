"""Where the next batch begins, behind bytes that are none."""

import io
import random
import struct
import time
import tracemalloc
import zlib

import crc32c
import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.damage import resync
from kafka_log.damage.resync import BatchSearch, find_batch, is_batch

RECORDS = [SimpleRecord(1000, b"key", b"value" * 20)]
BATCHES = {
    "magic 2": encode_batch(RECORDS, base_offset=5),
    "magic 2 zstd": encode_batch(RECORDS, base_offset=5, codec=Codec.ZSTD),
    "magic 1": encode_legacy_batch(RECORDS, magic=1, base_offset=5),
    "magic 1 wrapper": encode_legacy_batch(RECORDS, magic=1, base_offset=5, codec=Codec.GZIP),
    "magic 0": encode_legacy_batch(RECORDS, magic=0, base_offset=5),
}


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("garbage", [0, 1, 16, 17, 1000, 100_000])
def test_a_batch_behind_garbage_is_found(kind, garbage):
    noise = random.Random(garbage).randbytes(garbage)
    assert find_batch(io.BytesIO(noise + BATCHES[kind] + noise), 0) == garbage


@pytest.mark.parametrize("chunk", [len(BATCHES["magic 2"]), 18, 64, 1000])
def test_a_batch_is_found_wherever_a_read_ends(chunk, monkeypatch):
    monkeypatch.setattr(resync, "_CHUNK", chunk)
    for before in range(40):
        assert find_batch(io.BytesIO(bytes(before) + BATCHES["magic 2"]), 0) == before


def test_the_search_begins_where_it_is_told_and_ends_there_too():
    batch = BATCHES["magic 2"]
    file = io.BytesIO(batch * 3)
    size = len(batch)
    assert find_batch(file, 0) == 0
    assert find_batch(file, 1) == size
    assert find_batch(file, size + 1) == 2 * size
    assert find_batch(file, 2 * size + 1) is None
    assert find_batch(file, 1, 2 * size) == size
    assert find_batch(file, 1, 2 * size - 1) is None


def test_a_batch_with_a_wrong_checksum_is_none():
    damaged = bytearray(BATCHES["magic 2"])
    damaged[-1] ^= 1
    assert find_batch(io.BytesIO(bytes(damaged)), 0) is None
    assert find_batch(io.BytesIO(bytes(damaged) + BATCHES["magic 2"]), 0) == len(damaged)


@pytest.mark.parametrize("content", [b"", b"\0" * 17, b"\0" * 100_000, b"\xff" * 100_000])
def test_there_may_be_none(content):
    assert find_batch(io.BytesIO(content), 0) is None


def test_a_batch_behind_a_large_one_of_random_bytes_is_found():
    """Random bytes have many a length in them that fits into the file; of headers hardly any."""
    value = random.Random(5).randbytes(2_000_000)
    batch = encode_batch([SimpleRecord(1000, b"key", value)], base_offset=5)
    assert find_batch(io.BytesIO(batch * 12), 1) == len(batch)


# ------------------------------------------------------------------ what no header of Kafka's says


def with_field(kind: str, form: str, at: int, value: int) -> bytes:
    """A batch with another value in a field of its header, its checksum right."""
    batch = bytearray(BATCHES[kind])
    struct.pack_into(form, batch, at, value)
    if kind == "magic 2":
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[21:])))
    else:
        struct.pack_into(">I", batch, 12, zlib.crc32(batch[16:]))
    return bytes(batch)


@pytest.mark.parametrize(
    ("kind", "form", "at", "possible", "impossible"),
    [
        ("magic 2", ">q", 0, 2**62, -1),  # base offset
        ("magic 2", ">h", 21, 0x7C, 0x80),  # attributes
        ("magic 2", ">h", 21, 4, 5),  # a codec
        ("magic 2", ">i", 23, 0, -1),  # last offset delta
        ("magic 2", ">q", 43, -1, -2),  # producer id
        ("magic 2", ">h", 51, -1, -2),  # producer epoch
        ("magic 2", ">i", 53, -1, -2),  # base sequence
        ("magic 2", ">i", 57, 0, -1),  # records
        ("magic 2", ">i", 57, 1, 2),  # more of them than offsets
        ("magic 1", ">b", 17, 0x0B, 0x10),  # attributes
        ("magic 1", ">b", 17, 3, 4),  # zstd
        ("magic 1", ">i", 26, 3, -2),  # key length
        ("magic 1", ">i", 26, 3, 2),  # a value that does not end where the message does
        ("magic 0", ">b", 17, 0x03, 0x08),  # a timestamp type
        ("magic 0", ">i", 18, 3, 2**31 - 1),  # key length
    ],
)
def test_a_header_that_kafka_does_not_write_is_none(kind, form, at, possible, impossible):
    assert find_batch(io.BytesIO(with_field(kind, form, at, possible)), 0) == 0
    assert find_batch(io.BytesIO(with_field(kind, form, at, impossible)), 0) is None


@pytest.mark.parametrize("kind", BATCHES)
def test_an_offset_that_the_segment_cannot_have_is_another_logs(kind):
    """All begin at 5: an entry of its index has an offset in 31 bits from the base."""
    file = io.BytesIO(BATCHES[kind])
    assert find_batch(file, 0, base_offset=5) == 0
    assert find_batch(file, 0, base_offset=6) is None
    far = io.BytesIO((2**31 - 1).to_bytes(8, "big") + BATCHES[kind][8:])
    assert find_batch(far, 0, base_offset=0) == 0
    far = io.BytesIO((2**31).to_bytes(8, "big") + BATCHES[kind][8:])
    assert find_batch(far, 0, base_offset=0) is None


@pytest.mark.parametrize("kind", BATCHES)
def test_is_batch_looks_at_one_place_and_its_checksum(kind):
    batch = BATCHES[kind]
    file = io.BytesIO(b"x" + batch + b"x")
    assert is_batch(file, 1, 1 + len(batch))
    assert is_batch(file, 1, 2 + len(batch))
    assert not is_batch(file, 1, len(batch))
    assert not is_batch(file, 0, 1 + len(batch))
    assert not is_batch(io.BytesIO(batch[:-1] + b"\xff"), 0, len(batch))
    assert not is_batch(io.BytesIO(batch[:16]), 0, 16)


# ------------------------------------------------------------------------ made to look like headers


def crafted(size: int) -> bytes:
    """Headers without a flaw, each of a batch of half the file: to check all takes its square."""
    header = struct.pack(">qiibIhiqqqhii", 5, size // 2, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    return header * (size // len(header))


def test_bytes_made_to_look_like_headers_cost_neither_time_nor_memory():
    size = 2**25
    file = io.BytesIO(crafted(size))
    search = BatchSearch(file, base_offset=0)
    tracemalloc.start()
    began = time.monotonic()
    assert search.find(0) is None
    assert time.monotonic() - began < 20
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size // 2


def test_a_search_that_is_given_up_says_where(monkeypatch):
    """What may be read is for the file as a whole, however often there is something to look for."""
    monkeypatch.setattr(resync, "_CHUNK", 4096)
    monkeypatch.setattr(resync, "_MOST_READ", 2)
    batch = BATCHES["magic 2"]
    hostile = crafted(2**20)
    log = batch + hostile + batch + hostile + batch
    search = BatchSearch(io.BytesIO(log))
    assert search.find(0) == 0
    assert search.unread("a.log") is None
    assert search.find(1) is None
    reported = search.unread("a.log")
    at = reported.location.position
    assert len(batch) < at < len(batch) + 20 * 61  # each costs half a mebibyte of about four
    assert reported.found == f"{len(log) - at} bytes not searched: too many look like headers"
    assert search.find(len(batch) + len(hostile)) is None
