"""JSON: a row a line whatever is asked for, and every row tells of which file it is."""

import base64
import gzip
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from jobs.dump import _parser
from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord, TimestampType
from tests import golden
from tests.kafka_log.dump.comparison import ENGINES, Dumped, run

LOG_APPEND_TIME = 9_000
INTEGERS = "org.apache.kafka.tools.api.IntegerDecoder"
VALUES = {
    "--files": "PATH",
    "--key-decoder-class": INTEGERS,
    "--value-decoder-class": INTEGERS,
    "--max-message-size": "1000",
    "--max-bytes": "1000",
    "--max-decompressed-bytes": "100",
    "--format": "json",
    "--offset": "1",
    "--start-offset": "1",
    "--end-offset": "1",
    "--start-time": "1700000000000",
    "--end-time": "1700000000000",
    "--producer-id": "1",
    "--key": "k",
    "--key-hex": "6b",
    "--key-base64": "aw==",
}
TALK = ("--help", "--version")
FLAGS = [
    flag
    for action in _parser()._actions
    for flag in action.option_strings
    if flag.startswith("--") and flag not in TALK
]


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real broker's directory, and a partition with damage of every kind."""
    root = golden.unpack("clean-3.9.1", tmp_path_factory.mktemp("rows")) / "data"
    path = root / "damaged-0" / f"{0:020d}.log"
    path.parent.mkdir()
    batch = encode_batch([SimpleRecord(1_700_000_000_000, b"k", b"v")])
    path.write_bytes(batch + batch[:-1] + b"w" + batch[:30])
    path.with_suffix(".index").write_bytes(struct.pack(">iiii", 5, 70, 4, 9) + b"x")
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qiqi", 5, 0, 5, 9) + b"x")
    path.with_suffix(".txnindex").write_bytes(b"\1" * 40)
    path.with_suffix(".snapshot").write_bytes(b"\1" * 40)
    return root


@pytest.mark.parametrize("flag", FLAGS)
def test_every_line_is_an_object_whatever_the_flag(log_dir: Path, flag: str) -> None:
    path = log_dir / "damaged-0" if flag == "--files" else log_dir
    value = VALUES.get(flag)
    words = (flag,) if value is None else (flag, path if value == "PATH" else value)
    dumped = run(log_dir, *words, "--format", "json")
    assert dumped.code in (0, 1)
    for row in dumped.rows:
        assert {"kind", "path", "topic", "partition"} <= row.keys()
    assert dumped.of_kind("file")


def test_a_flag_that_takes_a_value_has_one_here() -> None:
    takes = {
        max(action.option_strings, key=len)
        for action in _parser()._actions
        if action.option_strings and action.nargs != 0
    }
    assert takes == VALUES.keys()


def test_an_index_that_passes_is_a_row(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        path = partition / f"{0:020d}{suffix}"
        path.write_bytes(bytes(size))
        (row,) = run(path, "--index-sanity-check", "--format", "json").of_kind("sanity_check")
        assert row == {
            "kind": "sanity_check",
            "path": str(path),
            "topic": "orders",
            "partition": 0,
            "is_passed": True,
        }
        assert run(path, "--index-sanity-check").stdout == (
            f"Dumping {path}\n{path} passed sanity check.\n"
        )


def test_rows_of_a_file_of_no_partition_have_null_there(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"torn")
    dumped = run(path, "--format", "json")
    assert [row["kind"] for row in dumped.rows] == ["file", "end", "finding"]
    assert [(row["topic"], row["partition"]) for row in dumped.rows] == [(None, None)] * 3


# ------------------------------------------------------------------------------ names


def test_a_name_that_is_no_utf8_is_the_same_in_every_row(tmp_path: Path) -> None:
    partition = tmp_path / os.fsdecode(b"t\xff-0")
    partition.mkdir()
    log = partition / f"{5:020d}.log"
    batch = encode_batch([SimpleRecord(1, b"a", b"b")], base_offset=5)
    later = encode_batch([SimpleRecord(1, b"a", b"b")], base_offset=9)
    log.write_bytes(batch + later[:-2] + b"w\0torn")  # a wrong checksum, too
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 9, 0))
    log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 9, 0))
    log.with_suffix(".txnindex").write_bytes(bytes(34))
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\n1\n7 42\n")
    rows = run(partition, "--deep-iteration", "--format", "json").rows
    assert {row["kind"] for row in rows} == {
        *("file", "batch", "record", "non_consecutive", "finding", "end", "offset_index"),
        *("time_index", "transaction_index", "leader_epoch"),
    }
    assert {(row["topic"], row["partition"]) for row in rows} == {("t\ufffd", 0)}
    assert {row["path"].rpartition("/")[0] for row in rows} == {f"{tmp_path}/t\ufffd-0"}
    names = {Path(os.fsdecode(base64.b64decode(row["path_base64"]))) for row in rows}
    assert names == {*partition.iterdir()}


def test_a_path_that_is_utf8_has_no_bytes_beside(tmp_path: Path) -> None:
    path = tmp_path / "höhe-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(b"")
    for row in run(path, "--format", "json").rows:
        assert (row["path"], row["topic"]) == (str(path), "höhe")
        assert "path_base64" not in row


# ------------------------------------------------------------------------------ records


def dumped_log(tmp_path: Path, data: bytes, engine: str) -> Dumped:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(data)
    return run(path, "--deep-iteration", "--format", "json", engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_has_the_timestamp_that_is_stored_and_the_one_that_counts(
    tmp_path: Path, engine: str
) -> None:
    records = [SimpleRecord(timestamp, b"k", b"v") for timestamp in (1_000, 990, 2_000)]
    append: dict[str, Any] = {"timestamp_type": TimestampType.LOG_APPEND_TIME}
    append |= {"log_append_time": LOG_APPEND_TIME}
    data = encode_batch(records, base_offset=0) + encode_batch(records, base_offset=3, **append)
    rows = dumped_log(tmp_path, data, engine).of_kind("record")
    assert [row["timestamp_ms"] for row in rows] == [1_000, 990, 2_000, 9_000, 9_000, 9_000]
    assert [row.get("stored_timestamp_ms") for row in rows] == [None] * 3 + [1_000, 990, 2_000]
    assert "stored_timestamp_ms" not in rows[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_so_has_one_inside_a_wrapper(tmp_path: Path, engine: str) -> None:
    data = encode_legacy_batch(
        [SimpleRecord(1_000, b"k", b"v"), SimpleRecord(990, b"k", b"v")],
        magic=1,
        codec=Codec.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=LOG_APPEND_TIME,
    )
    rows = dumped_log(tmp_path, data, engine).of_kind("record")
    assert [row["timestamp_ms"] for row in rows] == [9_000, 9_000]
    assert [row["stored_timestamp_ms"] for row in rows] == stored_inside(data)


def stored_inside(data: bytes) -> list[int]:
    """By hand: the value of a message of magic 1 without a key begins at 34, a timestamp at 18."""
    inner = gzip.decompress(data[34:])
    size = 12 + struct.unpack_from(">i", inner, 8)[0]
    return [struct.unpack_from(">q", inner, at + 18)[0] for at in (0, size)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_has_its_own_attributes(tmp_path: Path, engine: str) -> None:
    """No writer sets any, but the byte is there: behind the length, before the deltas."""
    records = [
        bytes.fromhex(f"0c {attributes:02x} 00 {2 * delta:02x} 01 01 00")
        for delta, attributes in enumerate((0x00, 0x7F, 0x80, 0xFF))
    ]
    plain = BatchHeader.unpack(encode_batch([SimpleRecord(5, None, None)]))
    header = plain._replace(record_count=4, last_offset_delta=3)
    data = assemble(header, b"".join(records))
    rows = dumped_log(tmp_path, data, engine).of_kind("record")
    assert [row["attributes"] for row in rows] == [0, 127, -128, -1]
    legacy = encode_legacy_batch([SimpleRecord(5, None, None)], magic=1)
    (row,) = dumped_log(tmp_path, legacy, engine).of_kind("record")
    assert row["attributes"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_offsets_that_do_not_follow_each_other_are_rows(tmp_path: Path, engine: str) -> None:
    record = [SimpleRecord(5, b"k", b"v")]
    data = b"".join(encode_batch(record, base_offset=offset) for offset in (3, 4, 7, 6))
    dumped = dumped_log(tmp_path, data, engine)
    path = str(tmp_path / f"{0:020d}.log")
    about = {"kind": "non_consecutive", "path": path, "topic": None, "partition": None}
    assert dumped.of_kind("non_consecutive") == [
        {**about, "offset": 4, "followed_by": 7},
        {**about, "offset": 7, "followed_by": 6},
    ]
    assert dumped.code == 0
    assert "  7 is followed by 6\n" in dumped.stderr


def test_what_is_found_behind_a_large_record_is_a_line_of_its_own(tmp_path: Path) -> None:
    """The record's line is given in parts; the next one's key is no integer."""
    path = tmp_path / f"{0:020d}.log"
    large, small = SimpleRecord(1, b"1234", b"v" * 300_000), SimpleRecord(1, b"1", b"v")
    path.write_bytes(encode_batch([large, small, large, small]))
    flags = ("--print-data-log", "--key-decoder-class", INTEGERS, "--format", "json")
    kinds = [row["kind"] for row in run(path, *flags).rows]
    assert kinds == ["file", "batch", *["record", "finding", "record"] * 2, "end"]


def test_fields_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "jobs" / "dump.md").read_text("utf-8")
    for name in ("path_base64", "stored_timestamp_ms", "followed_by", "is_passed"):
        assert f"`{name}`" in page
    for kind in ("sanity_check", "non_consecutive"):
        assert f"| `{kind}` |" in page
