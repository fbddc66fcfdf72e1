"""The table batches, held against what kafka-dump-log prints of the same files."""

import re
from pathlib import Path
from typing import Any

import pytest

from kafka_log.names import (
    DirectoryKind,
    FileKind,
    FileState,
    parse_directory_name,
    parse_file_name,
)
from tests import golden
from tests.oracle.client import Oracle
from tests.pipelines.readers import read

TIMES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_HEADER = re.compile(r"(?:baseOffset|offset): -?\d+ .*isvalid: (?:true|false)")
_FIELD = re.compile(r"(\w+): (\S+)")
_HORIZON = re.compile(r"OptionalLong\[(\d+)\]")


def live_logs(pack: str) -> list[Path]:
    return [
        path
        for path in sorted(golden.shared(pack).rglob("*.log"))
        if parse_file_name(path.name).kind is FileKind.LOG
        and parse_file_name(path.name).state is FileState.LIVE
        and parse_directory_name(path.parent.name).kind is DirectoryKind.PARTITION
    ]


def dumped(oracle: Oracle, path: Path) -> list[dict[str, Any]]:
    lines = oracle.dump("--files", path).lines
    return [_row(dict(_FIELD.findall(line))) for line in lines if _HEADER.fullmatch(line)]


def _row(words: dict[str, str]) -> dict[str, Any]:
    """As our columns have it: what a format lacks, or a batch has not, is null."""
    (kind,) = TIMES.keys() & words.keys()
    row = {
        "position": int(words["position"]),
        "size_in_bytes": int(words["size"]),
        "magic": int(words["magic"]),
        "compression": words["compresscodec"],
        "timestampType": TIMES[kind],
        "max_timestamp_ms": int(words[kind]),
        "crc": int(words["crc"]),
        "is_valid": words["isvalid"] == "true",
    }
    if "baseOffset" not in words:
        last = int(words["offset"])
        absent = dict.fromkeys(("record_count", "leader_epoch", *_PRODUCER, "delete_horizon_ms"))
        flags = {"is_transactional": False, "is_control": False}
        return row | absent | flags | {"base_offset": last, "last_offset": last}
    producer = [int(words[name]) for name in ("producerId", "producerEpoch", "baseSequence")]
    horizon = _HORIZON.fullmatch(words["deleteHorizonMs"])
    return row | {
        "base_offset": int(words["baseOffset"]),
        "last_offset": int(words["lastOffset"]),
        "record_count": int(words["count"]),
        "leader_epoch": _unless_minus_one(int(words["partitionLeaderEpoch"])),
        **dict(zip(_PRODUCER, map(_unless_minus_one, producer), strict=True)),
        "is_transactional": words["isTransactional"] == "true",
        "is_control": words["isControl"] == "true",
        "delete_horizon_ms": int(horizon[1]) if horizon else None,
    }


_PRODUCER = ("producer_id", "producer_epoch", "base_sequence")


def _unless_minus_one(value: int) -> int | None:
    return None if value == -1 else value


@pytest.mark.parametrize("pack", golden.names())
def test_batches_are_those_that_kafka_dump_log_prints(oracle, pack):
    by_path: dict[str, list[dict[str, Any]]] = {}
    for row in read(golden.shared(pack), "batches"):
        by_path.setdefault(row["path"], []).append(row)
    logs = live_logs(pack)
    assert by_path.keys() == {str(path) for path in logs if path.stat().st_size}
    for path in logs:
        expected = dumped(oracle, path)
        rows = by_path.get(str(path), [])
        assert len(rows) == len(expected)
        for row, each in zip(rows, expected, strict=True):
            assert {name: row[name] for name in each} == each
        assert all(row["damage"] is None and row["computed_crc"] == row["crc"] for row in rows)
        assert {row["segment"] for row in rows} <= {int(path.stem)}


def test_a_batch_with_a_wrong_checksum_is_the_one_that_kafka_dump_log_calls_invalid(
    oracle, tmp_path
):
    (source,) = golden.shared("unclean-4.3.1").glob("*/codecs.java-0/*.log")
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / source.name
    content = bytearray(source.read_bytes())
    for batch in read(source, "batches")[1::3]:
        content[batch["position"] + batch["size_in_bytes"] - 1] ^= 1
    log.write_bytes(content)
    rows = read(tmp_path, "batches")
    reported = [each["is_valid"] for each in dumped(oracle, log)]
    assert [row["is_valid"] for row in rows] == reported
    assert [row["damage"] is None for row in rows] == reported
    assert {*reported} == {True, False}
