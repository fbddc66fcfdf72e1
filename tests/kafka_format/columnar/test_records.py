"""What the columns say, against literals; and what happens where nothing can be linked."""

import importlib.util
import io
import zlib
from typing import Any

import crc32c
import numpy as np
import pytest

from kafka_format.batch import encode_batch
from kafka_format.columnar import kernels, native
from kafka_format.columnar.headers import BatchScan, HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec, compress
from kafka_format.legacy import (
    LegacyHeader,
    LegacyMessage,
    encode_legacy_batch,
    encode_message,
)
from kafka_format.record import Header, SimpleRecord, TimestampType
from tests.kafka_format.columnar.agreement import CountingFile

BATCH = encode_batch(
    [
        SimpleRecord(1000, b"k", b"value", (Header("h", b"1"), Header("i", None))),
        SimpleRecord(1005, None, b""),
        SimpleRecord(998, b"", None, (Header("", b""),), offset=47),
    ],
    base_offset=40,
    producer_id=7,
    producer_epoch=2,
    base_sequence=100,
)
MODES = [pytest.param(True, id="compiled"), pytest.param(False, id="plain")]


@pytest.mark.parametrize("compiled", MODES)
def test_every_column_of_a_batch(compiled):
    (columns,) = RecordScan(BATCH, path="a-0/0.log", compiled=compiled)
    assert columns.offset.tolist() == [40, 41, 47]
    assert columns.timestamp.tolist() == [1000, 1005, 998]
    assert columns.key_length.tolist() == [1, -1, 0]
    assert columns.value_length.tolist() == [5, 0, -1]
    assert [columns.key(row) for row in range(3)] == [b"k", None, b""]
    assert [columns.value(row) for row in range(3)] == [b"value", b"", None]
    assert columns.headers_count.tolist() == [2, 0, 1]
    assert columns.sequence.tolist() == [100, 101, 107]
    assert columns.batch.tolist() == [0, 0, 0]
    assert columns.attributes.tolist() == [0, 0, 0]
    assert columns.record_position[0] == 61
    for row in (0, 2):  # the byte before the first header is their count
        count = columns.data[columns.headers_position[row] - 1]
        assert count == 2 * columns.headers_count[row]
    headers = columns.headers()
    assert headers.record.tolist() == [0, 0, 2]
    assert headers.value_length.tolist() == [1, -1, 0]
    assert (
        repr(columns)
        == "RecordColumns(3 records, 0 damaged, of BatchColumns(a-0/0.log@0..0: 1 batches))"
    )


@pytest.mark.parametrize("compiled", MODES)
def test_legacy_messages_have_offsets_times_and_places(compiled):
    records = [SimpleRecord(5, b"k", None), SimpleRecord(6, None, b"v")]
    plain = encode_legacy_batch(records, magic=1, base_offset=3)
    wrapper = encode_legacy_batch(
        records,
        magic=1,
        base_offset=10,
        codec=Codec.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=99,
    )
    (columns,) = RecordScan(plain, compiled=compiled)
    assert columns.offset.tolist() == [3, 4]
    assert columns.batch.tolist() == [0, 1]
    assert columns.record_position.tolist() == [0, 12 + 22 + 1]
    assert columns.sequence.tolist() == [-1, -1]
    assert columns.headers_position.tolist() == [35, len(plain)]
    (columns,) = RecordScan(wrapper, compiled=compiled)
    assert columns.offset.tolist() == [10, 11]
    assert columns.timestamp.tolist() == [99, 99]
    assert columns.batch.tolist() == [0, 0]
    assert columns.attributes.tolist() == [8, 8]
    assert columns.headers().record.tolist() == []


@pytest.mark.parametrize("compiled", MODES)
def test_the_timestamps_that_are_stored_are_there_beside_those_that_count(compiled):
    records = [SimpleRecord(1000, b"k", b"v"), SimpleRecord(990, b"k", None)]
    append: dict[str, Any] = {
        "timestamp_type": TimestampType.LOG_APPEND_TIME,
        "log_append_time": 99,
    }
    mixed = encode_batch(records, base_offset=5) + encode_batch(records, base_offset=7, **append)
    (columns,) = RecordScan(mixed, compiled=compiled)
    assert columns.timestamp.tolist() == [1000, 990, 99, 99]
    assert columns.stored_timestamp.tolist() == [1000, 990, 1000, 990]
    (columns,) = RecordScan(encode_batch(records), compiled=compiled)
    assert columns.stored_timestamp.tolist() == [1000, 990]


@pytest.mark.parametrize("compiled", MODES)
def test_so_are_those_of_messages_inside_a_wrapper(compiled):
    """One of magic 0, which has none, and one of magic 1 (KAFKA-4298)."""
    old = encode_legacy_batch([SimpleRecord(-1, b"k", b"v")], magic=0)
    new = encode_legacy_batch([SimpleRecord(1000, b"k", b"v")], magic=1, base_offset=1)
    header = LegacyHeader(6, 0, 0, 1, int(Codec.GZIP) | 8, 99)
    wrapper = encode_message(LegacyMessage(header, None, compress(Codec.GZIP, old + new)))
    (columns,) = RecordScan(wrapper, compiled=compiled)
    assert columns.offset.tolist() == [5, 6]
    assert columns.timestamp.tolist() == [-1, 99]
    assert columns.stored_timestamp.tolist() == [-1, 1000]


@pytest.mark.parametrize("compiled", MODES)
def test_a_sequence_runs_over_to_zero_and_a_damaged_one_as_javas_int_does(compiled):
    batch = bytearray(BATCH)
    batch[53:57] = (2**31 - 2).to_bytes(4, "big")
    (columns,) = RecordScan(bytes(batch), verify=False, compiled=compiled)
    assert columns.sequence.tolist() == [2147483646, 2147483647, 5]
    batch = bytearray(encode_batch([SimpleRecord(0, None, None)], base_offset=5))
    batch[53:57] = (5).to_bytes(4, "big")
    assert batch[64] == 0
    batch[64] = 1  # offset delta -1
    (columns,) = RecordScan(bytes(batch), verify=False, compiled=compiled)
    assert columns.offset.tolist() == [4]
    assert columns.sequence.tolist() == [-2147483644]


def test_batches_can_be_cut_and_say_where_they_are():
    (batches,) = BatchScan(BATCH * 3, path="x.log")
    assert repr(batches) == f"BatchColumns(x.log@0..{2 * len(BATCH)}: 3 batches)"
    assert batches[1:2].position.tolist() == [len(BATCH)]
    assert batches[1:2].is_valid.tolist() == [True]
    assert repr(batches[3:]) == "BatchColumns(x.log: none)"
    assert batches.last_offset.tolist() == [47, 47, 47]
    assert batches.codec.tolist() == [0, 0, 0]


def test_validity_is_not_guessed_without_checksums():
    (batches,) = BatchScan(BATCH, verify=False)
    with pytest.raises(ValueError, match="without checksum verification"):
        _ = batches.is_valid
    assert [b.computed_crc for b in HeaderWalk(BATCH)] == [None]


def test_a_batch_of_a_wrong_checksum_is_decoded_only_on_request():
    damaged = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
    (columns,) = RecordScan(damaged)
    assert (len(columns), len(columns.damage)) == (0, 1)
    broken = bytearray(BATCH)
    broken[17] ^= 1
    (columns,) = RecordScan(bytes(broken), decode_invalid=True)
    assert (len(columns), columns.damage) == (3, [])
    assert columns.batches.is_valid.tolist() == [False]


@pytest.mark.parametrize("compiled", MODES)
def test_a_walk_over_more_batches_than_a_table_holds_loses_none(compiled):
    one = encode_batch([SimpleRecord(0, None, None)])
    count = 40_000 if compiled else 33_000
    walk = HeaderWalk(io.BytesIO(one * count), compiled=compiled)
    positions = np.concatenate([batches.position for batches in walk])
    assert positions.tolist() == list(range(0, count * len(one), len(one)))
    assert sum(len(b) for b in BatchScan(one * count, verify=False, compiled=compiled)) == count
    assert walk.end.reason == "end_of_file"


def test_a_walk_does_not_read_the_records_of_large_batches():
    large = encode_batch([SimpleRecord(0, None, b"x" * 500_000)])
    file = CountingFile(large * 40)
    assert sum(len(batches) for batches in HeaderWalk(file)) == 40
    assert file.read_bytes < len(large) * 40 / 4


def test_a_file_that_shrinks_meanwhile_ends_where_it_ends(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(BATCH * 5000)
    with path.open("rb", buffering=0) as file:
        scan = RecordScan(file, path=path.name, chunk_bytes=4096)
        pieces = iter(scan)
        first = len(next(pieces))
        with path.open("r+b") as other:
            other.truncate(len(BATCH) * 100 + 30)
        rest = sum(len(columns) for columns in pieces)
        assert 0 < first + rest <= 300
        assert scan.end.reason == "truncated_batch"


def test_checksums_linked_from_c_are_those_of_the_libraries():
    compiled = native.compiled_functions()
    plain = bytes(range(256)) * 5
    data = np.frombuffer(plain, np.uint8)
    assert compiled["crc32c_range"](data, 3, 1000) == crc32c.crc32c(plain[3:1000])
    for end in (3, 4, 11, 1000):
        assert compiled["crc32_range"](data, 3, end) == zlib.crc32(plain[3:end])


@pytest.mark.parametrize("missing", ["symbol", "module", "answer"])
def test_where_nothing_can_be_linked_the_same_kernels_run_as_python(monkeypatch, missing):
    if missing == "symbol":
        monkeypatch.setattr(native, "_CRC_SYMBOLS", ("no_such_symbol",))
        monkeypatch.setattr(native, "_LZ4_SYMBOL", "no_such_symbol")
    elif missing == "module":
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    else:
        monkeypatch.setattr(native, "_CRC_CHECK", (b"123456789", 0))
        monkeypatch.setattr(native, "_LZ4_CHECK", (b"\x10a", b"b"))
    assert set(native.compiled_functions()) == {"crc32_range", "crc32c_range"}
    kernels.load.cache_clear()
    try:
        segment = BATCH + encode_batch([SimpleRecord(1, b"k" * 100, b"v" * 100)], codec=Codec.LZ4)
        (columns,) = RecordScan(segment, compiled=True)
        assert len(columns) == 4
        assert columns.batches.is_valid.all()
    finally:
        kernels.load.cache_clear()


def test_a_damaged_lz4_block_is_refused_by_the_library_itself():
    out = np.zeros(100, np.uint8)
    assert native.lz4_block(memoryview(b"\xf0\xff"), 0, 2, out, 0, 100) == -1
    assert native.lz4_block(memoryview(b"\x30abc"), 0, 4, out, 5, 50) == 3
    assert out[5:8].tobytes() == b"abc"
