"""Columns to Arrow: null is not empty, times are exact, whoever copies the bytes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import Header, SimpleRecord
from pipelines.source import arrow, log_ranges
from tests.pipelines.readers import read

DATA = np.frombuffer(b"abcdefghij", np.uint8)


@pytest.fixture(params=["indexed", "compiled"])
def copying(request, monkeypatch):
    """Both ways to copy bytes."""
    if request.param == "compiled":
        monkeypatch.setattr(arrow, "_PLAIN_COPY_BYTES", 0)
    else:
        monkeypatch.setattr(arrow, "_kernels", lambda: arrow)
        monkeypatch.setattr(arrow, "copy_ranges", arrow._copy_ranges)


def array(*ranges):
    positions = np.array([position for position, _ in ranges], np.int64)
    lengths = np.array([length for _, length in ranges], np.int32)
    return arrow.bytes_array(DATA, positions, lengths).to_pylist()


@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], []),
        ([(0, -1)], [None]),
        ([(3, 0)], [b""]),
        ([(0, 3), (5, -1), (9, 1), (2, 0), (1, 2)], [b"abc", None, b"j", b"", b"bc"]),
        ([(0, 10), (0, 10)], [b"abcdefghij"] * 2),
    ],
)
def test_bytes_are_copied_from_where_they_lie(ranges, expected):
    assert array(*ranges) == expected


def test_times_are_microseconds_and_null_where_there_is_none_or_no_room():
    most = (2**63 - 1) // 1000
    times = np.array([0, -1, 1_700_000_000_123, most, most + 1, 2**63 - 1, -2, -(2**63)], np.int64)
    assert arrow.timestamps(times).cast(pa.int64()).to_pylist() == [
        0,
        None,
        1_700_000_000_123_000,
        most * 1000,
        None,
        None,
        -2000,
        None,
    ]


def test_small_batches_are_merged_and_large_ones_are_handed_on():
    small = pa.RecordBatch.from_pydict({"a": [1, 2]})
    large = pa.RecordBatch.from_pydict({"a": [0] * arrow.ENOUGH_ROWS})
    merged = list(arrow.merged([small, small, large, large, small]))
    assert [batch.num_rows for batch in merged] == [4 + len(large["a"]), len(large["a"]), 2]
    assert list(arrow.merged([])) == []


def test_rows_of_dicts_have_null_for_what_they_lack():
    batch = arrow.rows_to_arrow("findings", [{"id": "LOG001"}, {"position": 7}], ("id", "position"))
    assert batch.to_pylist() == [{"id": "LOG001", "position": None}, {"id": None, "position": 7}]


def write(directory, *batches):
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))


@pytest.mark.parametrize("compiled", [None, False])
def test_every_column_of_a_record(tmp_path, compiled, monkeypatch):
    monkeypatch.setattr(log_ranges, "kernels_for", lambda _: compiled)
    headers = (Header("a", b""), Header("a", None), Header("ü", b"\0"))
    batch = encode_batch(
        [SimpleRecord(1000, None, b"", headers), SimpleRecord(999, b"", None)],
        base_offset=0,
        codec=Codec.LZ4,
        producer_id=7,
        producer_epoch=3,
        base_sequence=2**31 - 1,
        is_transactional=True,
        partition_leader_epoch=5,
    )
    write(tmp_path / "orders-3", batch)
    first, second = read(tmp_path)
    same = {
        "topic": "orders",
        "partition": 3,
        "timestampType": 0,
        "leader_epoch": 5,
        "producer_id": 7,
        "producer_epoch": 3,
        "is_transactional": True,
        "control_type": None,
        "compression": "lz4",
        "batch_base_offset": 0,
        "segment": 0,
        "position": 0,
        "magic": 2,
        "_corrupt_record": None,
    }
    assert first == same | {
        "key": None,
        "value": b"",
        "offset": 0,
        "timestamp": 1_000_000,
        "timestamp_ms": 1000,
        "headers": [
            {"key": "a", "value": b""},
            {"key": "a", "value": None},
            {"key": "ü", "value": b"\0"},
        ],
        "sequence": 2**31 - 1,
    }
    assert second == same | {
        "key": b"",
        "value": None,
        "offset": 1,
        "timestamp": 999_000,
        "timestamp_ms": 999,
        "headers": None,
        "sequence": 0,
    }


def test_headers_of_rows_that_are_left_out_go_with_them(tmp_path):
    records = [
        SimpleRecord(0, b"%d" % at, None, tuple(Header(f"h{at}", b"") for _ in range(at)))
        for at in range(5)
    ]
    write(tmp_path / "t-0", encode_batch(records))
    rows = read(tmp_path, startingOffsets="2", endingOffsets="4", columns="offset,headers")
    assert [(row["offset"], [each["key"] for each in row["headers"]]) for row in rows] == [
        (2, ["h2", "h2"]),
        (3, ["h3", "h3", "h3"]),
    ]


def test_a_header_key_that_is_no_text_is_replaced_as_java_does(tmp_path):
    batch = encode_batch([SimpleRecord(0, None, None, (Header("xy", b"1"), Header("", b"2")))])
    at = batch.index(b"xy")
    damaged = batch[:at] + b"\xffy" + batch[at + 2 :]
    write(tmp_path / "t-0", damaged)
    [row] = read(tmp_path, verifyChecksums="false")
    assert [header["key"] for header in row["headers"]] == ["�y", ""]


def test_control_records_come_when_they_are_asked_for(tmp_path):
    control: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    control |= {"is_control": True}
    keys = [b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\x63", b"\0"]
    batches = [
        encode_batch([SimpleRecord(0, key, b"\0\0\0\0\0\0")], base_offset=at, **control)
        for at, key in enumerate(keys)
    ]
    write(tmp_path / "t-0", *batches, encode_batch([SimpleRecord(0, b"k", b"v")], base_offset=4))
    assert [row["offset"] for row in read(tmp_path)] == [4]
    rows = read(tmp_path, includeControl="true", columns="control_type")
    kinds = [row["control_type"] for row in rows]
    assert kinds == ["ABORT", "COMMIT", "UNKNOWN", "UNKNOWN", None]


def test_every_column_of_a_batch(tmp_path):
    batch = encode_batch(
        [SimpleRecord(50, b"k", None)],
        base_offset=4,
        codec=Codec.ZSTD,
        last_offset=9,
        delete_horizon_ms=77,
    )
    write(tmp_path / "t-0", batch)
    stored = int.from_bytes(batch[17:21], "big")
    assert read(tmp_path, "batches") == [
        {
            "topic": "t",
            "partition": 0,
            "segment": 0,
            "path": f"{tmp_path}/t-0/{0:020d}.log",
            "path_base64": None,
            "position": 0,
            "size_in_bytes": len(batch),
            "base_offset": 4,
            "last_offset": 9,
            "record_count": 1,
            "magic": 2,
            "compression": "zstd",
            "timestampType": 0,
            "base_timestamp_ms": 77,
            "max_timestamp_ms": 50,
            "max_timestamp": 50_000,
            "leader_epoch": None,
            "producer_id": None,
            "producer_epoch": None,
            "base_sequence": None,
            "is_transactional": False,
            "is_control": False,
            "delete_horizon_ms": 77,
            "crc": stored,
            "computed_crc": stored,
            "is_valid": True,
            "damage": None,
        }
    ]
