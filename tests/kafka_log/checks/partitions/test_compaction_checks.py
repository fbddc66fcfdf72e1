"""Compaction: what stops the cleaner, what it will drop, and whether it did its work."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.checks.facts import AuditedPartition, Depth
from kafka_log.checks.partitions.compaction_checks import check_compaction
from kafka_log.config.log_config import DAY_MS, LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.scan import scan
from tests import golden
from tests.kafka_log.checks.check_inputs import NOW, audited_partitions, summaries_of
from tests.oracle.client import Oracle
from tests.oracle.client import record as oracle_record

TIME = 1_700_000_000_000
LATER = TIME + 3 * DAY_MS
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}))
BASES = (0, 10, 20)


def batches(first: int, *records: tuple[bytes | None, bytes | None], **options) -> bytes:
    """A batch per record, a second apart."""
    return b"".join(
        encode_batch([SimpleRecord(TIME + offset, *each)], base_offset=offset, **options)
        for offset, each in enumerate(records, first)
    )


def ten(first: int) -> bytes:
    return batches(first, *[(b"k%d" % number, b"v") for number in range(10)])


def partition_with(root: Path, *logs: bytes, cleaned: int | None = None) -> Path:
    """The partition compacted-0 of these segments, ten offsets each."""
    directory = root / "compacted-0"
    directory.mkdir(parents=True)
    for number, data in enumerate(logs):
        (directory / f"{10 * number:020d}.log").write_bytes(data)
    if cleaned is not None:
        checkpoint = root / "cleaner-offset-checkpoint"
        checkpoint.write_text(f"0\n1\ncompacted 0 {cleaned}\n")
    return root


def audited(root: Path, **changes) -> AuditedPartition:
    (log_dir,) = scan([root]).log_dirs
    (partition,) = log_dir.partitions
    found = AuditedPartition(
        partition=partition,
        log_dir=log_dir.path,
        config=CONFIG,
        now_ms=NOW,
        is_clean=True,
        knows_settings=True,
    )
    return replace(found, **changes)


def found_by(each: AuditedPartition, **options) -> list[tuple[str | int | None, ...]]:
    files, summaries = DiskFiles(each.path), summaries_of(each.partition)
    return [
        (row.id, row.position, row.offset, row.found, row.expected)
        for row in check_compaction(each, files, summaries, **options)
    ]


def ids(each: AuditedPartition, **options) -> list[str]:
    return [str(row[0]) for row in found_by(each, **options)]


@pytest.mark.parametrize("pack", golden.names())
def test_what_a_real_cleaner_left_is_no_warning(pack):
    found = set()
    for each in audited_partitions(golden.shared(pack)):
        found |= {row for row in ids(each) if row not in ("CLN003", "CLN004")}
    assert found == set()


# ------------------------------------------------------------------------------- what stops it


def undecodable(data: bytes, position: int) -> bytes:
    """One batch with a record that is longer than it: with a correct checksum."""
    header = BatchHeader.unpack(data, position)
    start, end = position + 61, position + 12 + header.batch_length
    body = bytes([0x7E]) + data[start + 1 : end]
    return data[:position] + assemble(header, body) + data[end:]


def test_cln001_a_batch_that_cannot_be_decoded(tmp_path):
    data = ten(0)
    root = partition_with(tmp_path / "data", undecodable(data, 142), ten(10), cleaned=10)
    (row,) = found_by(audited(root))
    assert row[:3] == ("CLN001", 142, 2)


def test_cln001_bytes_that_are_not_a_batch(tmp_path):
    data = ten(0)
    root = partition_with(tmp_path / "data", data[:142] + b"\xff" * 60 + data[142:], ten(10))
    for depth in Depth:
        rows = found_by(audited(root, depth=depth, knows_settings=False))
        assert [row[:3] for row in rows] == [("CLN001", 142, None)]


def test_with_headers_only_records_are_not_decoded(tmp_path):
    root = partition_with(tmp_path / "data", undecodable(ten(0), 142), ten(10), cleaned=10)
    assert ids(audited(root, depth=Depth.HEADERS)) == []


def test_cln001_is_where_apache_kafkas_cleaner_stops(tmp_path, oracle: Oracle):
    path = tmp_path / "compacted-0"
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
    steps = []
    for number in range(12):
        records = [oracle_record(TIME + number, b"k%d" % (number % 3), b"v")]
        steps.append({"do": "append", "batch": {"records": records}})
        steps += [{"do": "roll"}] if number % 4 == 3 else []
    oracle.run_log(path, config=config, time=TIME, steps=steps, close="clean")
    segment = path / f"{4:020d}.log"
    data = segment.read_bytes()
    third = 2 * (12 + BatchHeader.unpack(data, 0).batch_length)
    segment.write_bytes(undecodable(data, third))
    (row,) = [row for row in found_by(audited(tmp_path)) if row[0] == "CLN001"]
    assert row[1:3] == (third, 6)
    passes = [{"time": TIME}]
    run = {"path": path, "config": config, "time": TIME, "checkpoint": None, "passes": passes}
    run |= {"clean_shutdown": True, "recovery_point": 12}
    (answer,) = oracle.call("clean_logs", runs=[run])
    assert answer["passes"][0]["error"]["class"].endswith(".InvalidRecordException")


def test_a_wrong_checksum_or_damage_in_the_active_segment_does_not_stop_the_cleaner(tmp_path):
    data = bytearray(ten(0))
    data[140] ^= 0xFF  # a value
    root = partition_with(tmp_path / "checksum", bytes(data), ten(10), cleaned=10)
    assert ids(audited(root)) == []
    root = partition_with(tmp_path / "active", ten(0), undecodable(ten(10), 142), cleaned=10)
    assert ids(audited(root)) == []


# -------------------------------------------------------------------------------- keys


def test_cln002_records_without_a_key(tmp_path):
    data = batches(0, (b"k", b"v"), (None, b"v"), (None, None))
    root = partition_with(tmp_path / "data", data, cleaned=0)
    assert found_by(audited(root)) == [
        ("CLN002", None, None, "2 records without a key", "a key in each record")
    ]
    assert ids(audited(root, config=LogConfig())) == []


# ------------------------------------------------------------------------------- is it due


def test_cln003_a_log_that_was_never_cleaned(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20))
    size = len(ten(0)) + len(ten(10))
    found = f"dirty ratio 1.00, {size} bytes to clean, never cleaned"
    assert found_by(audited(root)) == [("CLN003", None, None, found, "a ratio of at most 0.5")]


def test_a_log_that_is_clean_enough_is_not_due(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20), cleaned=10)
    assert ids(audited(root)) == []  # half of it is dirty, which is not more than half
    assert ids(audited(root, config=replace(CONFIG, min_cleanable_dirty_ratio=0.4))) == ["CLN003"]


def test_cln003_dirty_for_longer_than_max_compaction_lag(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20), cleaned=10)
    config = replace(CONFIG, max_compaction_lag_ms=DAY_MS)
    at = TIME + 10 + DAY_MS
    (row,) = found_by(audited(root, config=config, now_ms=at + 1))
    assert row[0] == "CLN003"
    assert row[4] == f"cleaned within max.compaction.lag.ms={DAY_MS}"
    assert ids(audited(root, config=config, now_ms=at)) == []


def test_nothing_is_due_beyond_an_open_transaction(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20))
    assert ids(audited(root), first_unstable_offset=3) == []


def test_without_settings_or_a_broker_nothing_is_due(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20))
    assert ids(audited(root, knows_settings=False)) == []
    assert ids(audited(root, is_clean=None)) == []


def written_at(root: Path, *times_ms: int) -> None:
    for base, time_ms in zip(BASES, times_ms, strict=True):
        path = root / "compacted-0" / f"{base:020d}.log"
        os.utime(path, ns=(time_ms * 1_000_000,) * 2)


def test_cln005_a_log_that_was_due_for_more_than_a_day(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20))
    written_at(root, TIME, TIME, LATER)
    size = len(ten(0)) + len(ten(10))
    found = f"dirty ratio 1.00, {size} bytes to clean, never cleaned"
    assert found_by(audited(root)) == [("CLN005", None, None, found, "a ratio of at most 0.5")]


def test_cln005_needs_a_day_in_which_the_broker_ran(tmp_path):
    root = partition_with(tmp_path / "data", ten(0), ten(10), ten(20))
    written_at(root, TIME, TIME, TIME + DAY_MS - 1)
    assert ids(audited(root)) == ["CLN003"]


def test_a_segment_that_ended_when_the_next_record_came_was_not_due_before(tmp_path):
    """Its last record is old, but it was the active segment until a moment ago."""
    fresh = encode_batch([SimpleRecord(LATER, b"k", b"v")], base_offset=10)
    root = partition_with(tmp_path / "data", ten(0), fresh)
    for base, time_ms in ((0, TIME), (10, LATER)):
        path = root / "compacted-0" / f"{base:020d}.log"
        os.utime(path, ns=(time_ms * 1_000_000,) * 2)
    assert ids(audited(root)) == ["CLN003"]


# ------------------------------------------------------------------------------- tombstones


def cleaned_log(*horizons: int, value: bytes | None = None) -> bytes:
    """A batch per delete horizon, with a tombstone or a value."""
    return b"".join(
        encode_batch(
            [SimpleRecord(TIME, b"k%d" % offset, value)],
            base_offset=offset,
            delete_horizon_ms=horizon,
        )
        for offset, horizon in enumerate(horizons)
    )


def test_cln004_a_tombstone_that_a_later_round_should_have_removed(tmp_path):
    data = cleaned_log(TIME, TIME + 5 * DAY_MS, TIME + DAY_MS)
    root = partition_with(tmp_path / "data", data, ten(10), cleaned=10)
    (row,) = found_by(audited(root))
    assert row[:3] == ("CLN004", 0, 0)
    assert row[3].startswith("2 tombstones with a horizon of ")
    assert ids(audited(root, depth=Depth.HEADERS)) == []


def test_tombstones_of_the_last_round_may_stay_past_their_horizon(tmp_path):
    data = cleaned_log(TIME, TIME + DAY_MS - 1)
    root = partition_with(tmp_path / "data", data, ten(10), cleaned=10)
    assert ids(audited(root)) == []


def test_a_horizon_outlives_its_tombstone(tmp_path):
    data = cleaned_log(TIME, value=b"v") + encode_batch(
        [SimpleRecord(TIME, b"k", None)], base_offset=1, delete_horizon_ms=TIME + 5 * DAY_MS
    )
    root = partition_with(tmp_path / "data", data, ten(10), cleaned=10)
    assert ids(audited(root)) == []


# ------------------------------------------------------------------------------- any bytes


@pytest.mark.parametrize("seed", range(60))
def test_any_bytes_give_findings_and_no_error(seed: int, tmp_path: Path):
    draw = random.Random(seed)
    logs = [bytearray(cleaned_log(TIME, TIME + 9 * DAY_MS)), bytearray(ten(10)), bytearray(ten(20))]
    for data in logs:
        for _ in range(draw.randrange(3)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        del data[draw.choice([len(data), draw.randrange(len(data))]) :]
    root = partition_with(tmp_path / "data", *map(bytes, logs), cleaned=draw.choice([None, 5, 10]))
    written_at(root, TIME, TIME, LATER)
    (root / "compacted-0" / "leader-epoch-checkpoint").write_bytes(draw.randbytes(5))
    known = {"CLN001", "CLN002", "CLN003", "CLN004", "CLN005"}
    for depth in Depth:
        each = audited(root, depth=depth)
        assert known >= set(ids(each, first_unstable_offset=draw.choice([None, 3, 99])))
