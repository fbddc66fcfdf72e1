"""Transactions of a directory: written by hand, found by Kafka, or received by its consumers."""

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_format.columnar.headers import HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import InvalidTransactionStateError, LogError
from kafka_log.producers.transactions import TransactionReport, read_transactions
from tests import golden
from tests.kafka_log.producer_operations import ABORT, COMMIT, START, control_batch, data_batch
from tests.oracle.client import Oracle
from tests.oracle.logs import ExpectedRecord, LogPlan, draw

MINUTE = 60_000
SEGMENT = "00000000000000000000.log"


# ------------------------------------------------------------------ logs that were drawn


class Model(NamedTuple):
    """The transactions of a list of records, by the plainest of rules."""

    open: dict[int, int]  # producer -> first offset
    ended: list[tuple[int, int, int, bool]]


def model_of(records: list[ExpectedRecord]) -> Model:
    model = Model({}, [])
    for record in records:
        if record.control:
            first = model.open.pop(record.producer_id, None)
            if first is not None:
                aborted = record.control == "ABORT"
                model.ended.append((record.producer_id, first, record.offset, aborted))
        elif record.is_transactional:
            model.open.setdefault(record.producer_id, record.offset)
    return model


def check(report: TransactionReport, model: Model) -> None:
    assert {txn.producer_id: txn.first_offset for txn in report.open} == model.open
    assert [txn[:4] for txn in report.ended] == model.ended


@pytest.mark.parametrize("seed", range(12))
def test_a_drawn_log_has_the_transactions_it_was_drawn_with(
    oracle: Oracle, memory_path: Path, seed: int
) -> None:
    plan = LogPlan(
        seed=seed,
        batches=150,
        transactional_producers=5,
        open_transactions=seed % 4,
        gaps=seed % 3 == 2,
        close="crash" if seed % 2 else "clean",
    )
    built = oracle.build_log(memory_path / "orders-0", plan)
    report = read_transactions(DiskFiles(built.path))
    model = model_of(built.records)
    check(report, model)
    assert not report.problems
    assert report.log_end_offset == built.state["log_end_offset"]
    assert report.last_stable_offset == built.state["last_stable_offset"]
    aborted = built.state["aborted_transactions"]
    assert [txn._asdict() for txn in report.indexed] == aborted
    assert [(*txn[:3], txn[4]) for txn in report.aborted()] == [
        (each["producer_id"], each["first_offset"], each["last_offset"], each["last_stable_offset"])
        for each in aborted
    ]
    assert not report.not_indexed()
    assert not report.not_in_log()
    timestamps = {record.producer_id: record.timestamp for record in built.records}
    for txn in report.open:
        firsts = [record for record in built.records if record.offset == txn.first_offset]
        assert txn.first_timestamp is not None
        assert txn.first_timestamp >= firsts[0].timestamp
        assert txn.last_timestamp >= timestamps[txn.producer_id]


def test_the_last_stable_offset_follows_the_high_watermark_as_in_kafka(
    oracle: Oracle, memory_path: Path
) -> None:
    plan = LogPlan(seed=4, batches=120, transactional_producers=6, open_transactions=2)
    steps, records = draw(plan)
    end = records[-1].offset + 1
    steps.pop()  # a high watermark at the log's end
    marks = list(range(0, end + 1, 7))
    for mark in marks:
        steps += [{"do": "high_watermark", "offset": mark}, {"do": "state"}]
    path = memory_path / "orders-0"
    answer = oracle.run_log(path, config=plan.settings(), time=START, steps=steps)
    held = 0
    for mark, state in zip(marks, answer["steps"][-2 * len(marks) + 1 :: 2], strict=True):
        report = read_transactions(DiskFiles(path), high_watermark=mark)
        assert report.high_watermark == mark
        assert report.last_stable_offset == state["last_stable_offset"], mark
        assert (report.held_by is None) == (report.last_stable_offset == mark)
        held += report.held_by is not None
    assert held > 5


def test_a_transaction_that_began_in_a_deleted_segment_is_known_from_the_snapshot(
    oracle: Oracle, memory_path: Path
) -> None:
    first, second = {"producer_id": 1}, {"producer_id": 2}
    steps = [_append(first, 0), _append(second, 0), {"do": "roll"}, _append(first, 1)]
    steps += [_marker(second, "ABORT"), {"do": "high_watermark"}]
    steps += [{"do": "log_start_offset", "offset": 2}, {"do": "delete_old_segments"}]
    path = memory_path / "orders-0"
    answer = oracle.run_log(
        path, time=START, steps=[*steps, {"do": "run_pending"}], config={"retention.ms": -1}
    )
    assert [path.name for path in path.glob("*.log")] == ["00000000000000000002.log"]
    report = read_transactions(DiskFiles(path), log_start_offset=2)
    assert [(txn.producer_id, txn.first_offset) for txn in report.open] == [(1, 0)]
    assert report.open[0].first_timestamp is None
    assert report.open[0].open_ms(START) is None
    assert [txn[:4] for txn in report.ended] == [(2, 1, 3, True)]
    assert not report.not_indexed()
    assert report.last_stable_offset == answer["state"]["last_stable_offset"] == 2


def _append(producer: dict[str, Any], sequence: int) -> dict[str, Any]:
    batch = producer | {
        "producer_epoch": 0,
        "base_sequence": sequence,
        "transactional": True,
        "records": [{"timestamp": START, "key": None, "value": None}],
    }
    return {"do": "append", "batch": batch}


def _marker(producer: dict[str, Any], type_: str) -> dict[str, Any]:
    control = {"type": type_, "coordinator_epoch": 1}
    batch = producer | {"producer_epoch": 0, "transactional": True, "control": control}
    return {"do": "append", "origin": "COORDINATOR", "batch": batch | {"timestamp": START}}


# ------------------------------------------------------------------ golden directories


@pytest.mark.parametrize("pack", ["clean-3.9.1", "unclean-3.9.1", "unclean-4.3.1"])
def test_what_is_not_aborted_and_stable_is_what_consumers_received(pack: str) -> None:
    received: dict[tuple[str, int], set[int]] = {}
    for row in golden.expected(pack):
        if row["isolation"] == "read_committed" and "offset" in row:
            received.setdefault((row["topic"], row["partition"]), set()).add(row["offset"])
    checked = 0
    for path in golden.shared(pack).glob("data*/transactions-*"):
        report = read_transactions(DiskFiles(path))
        topic, _, partition = path.name.rpartition("-")
        assert _readable(path, report) == received[topic, int(partition)]
        assert not report.not_indexed()
        assert not report.not_in_log()
        checked += bool(report.aborted()) and bool(report.open)
    assert checked


def _readable(path: Path, report: TransactionReport) -> set[int]:
    """Offsets of the records that a committed reader gets."""
    aborted = report.aborted()
    found = set()
    for log in sorted(path.glob("*.log")):
        for columns in RecordScan(log.read_bytes()):
            batches = columns.batches
            for offset, batch in zip(columns.offset.tolist(), columns.batch.tolist(), strict=True):
                producer_id = int(batches.producer_id[batch])
                is_transactional = bool(batches.attributes[batch] & 0x10)
                is_skipped = is_transactional and any(
                    txn.producer_id == producer_id and txn.first_offset <= offset < txn.last_offset
                    for txn in aborted
                )
                is_control = bool(batches.attributes[batch] & 0x20)
                if not is_skipped and not is_control and offset < report.last_stable_offset:
                    found.add(offset)
    return found


@pytest.mark.parametrize("pack", ["clean-3.9.1", "unclean-3.9.1", "unclean-4.3.1"])
def test_every_golden_partition_is_as_kafka_opens_it(
    oracle: Oracle, memory_path: Path, pack: str
) -> None:
    partitions = [
        path
        for path in golden.shared(pack).glob("data*/*-*")
        if path.is_dir()
        and any(path.glob("*.log"))
        and "__cluster" not in path.name
        and not path.name.endswith("-delete")
    ]
    for path in partitions:
        opened = oracle.open_log(
            path, memory_path / path.parent.name, clean_shutdown=False, recovery_point=2**40
        )["state"]
        report = read_transactions(DiskFiles(path))
        assert report.last_stable_offset == opened["last_stable_offset"], path
        assert report.log_end_offset == opened["log_end_offset"], path
        assert [txn._asdict() for txn in report.indexed] == opened["aborted_transactions"], path
        assert {(txn.producer_id, txn.first_offset) for txn in report.open} == {
            (producer["producer_id"], producer["current_txn_first_offset"])
            for producer in opened["producers"]
            if producer["current_txn_first_offset"] >= 0
        }, path
    assert len(partitions) >= 5


def test_a_transaction_is_late_five_minutes_after_it_should_have_ended(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(
        data_batch(0, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    )
    report = read_transactions(DiskFiles(tmp_path))
    assert report.late(START + 20 * MINUTE, 15 * MINUTE) is None
    late = report.late(START + 20 * MINUTE + 1, 15 * MINUTE)
    assert late == report.held_by == report.open[0]
    assert late.idle_ms(START + 5) == late.open_ms(START + 5) == 5


# ------------------------------------------------------------------ damage


def _log(*batches: bytes) -> bytes:
    return b"".join(batches)


def _data(offset: int, producer_id: int, sequence: int = 0, **more: Any) -> bytes:
    return data_batch(
        offset, producer_id=producer_id, epoch=0, sequence=sequence, is_transactional=True, **more
    )


def test_an_index_that_differs_from_the_markers_is_told(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(
        _log(_data(0, 1), control_batch(1, producer_id=1, epoch=0, type_=ABORT))
    )
    report = read_transactions(DiskFiles(tmp_path))
    assert [txn[:4] for txn in report.not_indexed()] == [(1, 0, 1, True)]
    entry = (0).to_bytes(2, "big") + b"".join(n.to_bytes(8, "big") for n in (1, 0, 4, 5))
    (tmp_path / "00000000000000000000.txnindex").write_bytes(entry)
    report = read_transactions(DiskFiles(tmp_path))
    assert [txn.last_offset for txn in report.not_in_log()] == [4]
    assert [txn.last_offset for txn in report.not_indexed()] == [1]


def test_a_marker_that_does_not_decode_is_a_problem_and_the_replay_goes_on(tmp_path: Path) -> None:
    bad = control_batch(1, producer_id=1, epoch=0)
    bad = bad.replace(b"\x08\0\0\0\1", b"\x08\xff\xff\0\1")  # a negative version of its key
    good = control_batch(2, producer_id=1, epoch=0, type_=COMMIT)
    (tmp_path / SEGMENT).write_bytes(_log(_data(0, 1), bad, good))
    report = read_transactions(DiskFiles(tmp_path))
    assert [txn[:4] for txn in report.ended] == [(1, 0, 2, False)]
    (problem,) = report.problems
    assert isinstance(problem, FormatError)
    assert problem.location.path == str(tmp_path / SEGMENT)


def test_what_lies_behind_damage_is_replayed_if_it_is_asked_for(tmp_path: Path) -> None:
    torn = bytearray(control_batch(1, producer_id=2, epoch=0))
    torn[8:12] = (-1).to_bytes(4, "big", signed=True)
    end = control_batch(2, producer_id=1, epoch=0, type_=ABORT)
    (tmp_path / SEGMENT).write_bytes(_log(_data(0, 1), bytes(torn), end))
    cut = read_transactions(DiskFiles(tmp_path))
    assert ([txn.first_offset for txn in cut.open], cut.ended, cut.log_end_offset) == ([0], (), 1)
    whole = read_transactions(DiskFiles(tmp_path), past_damage=True)
    assert [txn[:4] for txn in whole.ended] == [(1, 0, 2, True)]
    assert (whole.open, whole.last_stable_offset) == ((), 3)
    assert len(cut.problems) == len(whole.problems) == 1


def test_a_log_that_kafka_fails_to_load_is_a_problem(tmp_path: Path) -> None:
    outside = data_batch(1, producer_id=1, epoch=0, sequence=1)
    (tmp_path / SEGMENT).write_bytes(_log(_data(0, 1), outside))
    report = read_transactions(DiskFiles(tmp_path))
    assert [type(problem) for problem in report.problems] == [InvalidTransactionStateError]
    assert [txn.first_offset for txn in report.open] == [0]


def test_a_first_snapshot_that_does_not_read_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(_data(0, 1))
    (tmp_path / "00000000000000000000.snapshot").write_bytes(b"\0\1")
    (tmp_path / "notes.snapshot").touch()  # which would keep a broker from loading
    report = read_transactions(DiskFiles(tmp_path))
    assert len(report.problems) == 1
    assert [txn.first_offset for txn in report.open] == [0]


def test_a_directory_without_segments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="no segment"):
        read_transactions(DiskFiles(tmp_path))


def test_damaged_directories_give_a_report(tmp_path: Path) -> None:
    source = next(golden.shared("unclean-4.3.1").glob("data*/transactions-0"))
    rng = random.Random(5)
    with_problems = 0
    for turn in range(150):
        path = tmp_path / f"{turn}"
        shutil.copytree(source, path)
        kinds = ("*.log", "*.txnindex", "*.snapshot")
        victim = rng.choice([each for kind in kinds for each in path.glob(kind)])
        data = bytearray(victim.read_bytes())
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        victim.write_bytes(data)
        report = read_transactions(DiskFiles(path))
        assert report.log_start_offset <= report.last_stable_offset <= report.high_watermark
        with_problems += bool(report.problems)
    assert with_problems > 10


def test_evidence_is_only_read(tmp_path: Path) -> None:
    source = next(golden.shared("unclean-4.3.1").glob("data*/transactions-0"))
    shutil.copytree(source, tmp_path / "evidence")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "evidence").iterdir()}
    read_transactions(DiskFiles(tmp_path / "evidence"))
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "evidence").iterdir()}
    assert after == before


def test_empty_segments_have_no_transactions(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000042.log").write_bytes(b"")
    report = read_transactions(DiskFiles(tmp_path))
    assert (report.log_start_offset, report.log_end_offset, report.last_stable_offset) == (42,) * 3
    assert not list(HeaderWalk(b""))
