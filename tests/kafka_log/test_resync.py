"""Where the next batch begins, behind bytes that are none."""

import io
import random
import time

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log import resync
from kafka_log.resync import find_batch

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


def test_bytes_made_to_look_like_headers_cost_no_time(monkeypatch):
    """Each claims the rest of the file, so that checking all would take the square of its size."""
    monkeypatch.setattr(resync, "_CHUNK", 4096)
    size = 2**20
    header = bytes(8) + (size // 2).to_bytes(4, "big") + bytes(4) + b"\2"
    began = time.monotonic()
    assert find_batch(io.BytesIO(header * (size // len(header))), 0) is None
    assert time.monotonic() - began < 10
