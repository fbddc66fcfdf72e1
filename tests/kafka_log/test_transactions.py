"""Transactions of a directory: known beforehand, told by Kafka, or received by its consumers."""

import base64
import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_format.batch import encode_batch
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec
from kafka_format.errors import FormatError
from kafka_format.record import SimpleRecord
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import InvalidTransactionStateError, LogError
from kafka_log.hanging_transactions import (
    TransactionalId,
    TransactionStatus,
    find_hanging,
    read_transactional_ids,
)
from kafka_log.transactions import OpenTransaction, TransactionReport, read_transactions
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


@pytest.mark.parametrize("pack", ["unclean-3.9.1", "unclean-4.3.1"])
def test_transactional_ids_are_those_that_kafka_decodes(oracle: Oracle, pack: str) -> None:
    expected: dict[str, dict[str, Any]] = {}
    for row in golden.expected(pack):
        if row["topic"] == "__transaction_state" and "offset" in row:
            if row["isolation"] != "read_uncommitted":
                continue
            raw = None if row["value"] is None else base64.b64decode(row["value"])
            told = oracle.decode_coordinator("transaction", base64.b64decode(row["key"]), raw)
            expected[told["key"]["transactionalId"]] = told["value"]
    paths = golden.shared(pack).glob("data*/__transaction_state-*")
    found = read_transactional_ids(DiskFiles(path) for path in paths)
    assert found.keys() == {name for name, value in expected.items() if value is not None}
    assert found
    for name, state in found.items():
        value = expected[name]
        assert state.transactional_id == name
        assert state.producer_id == value["producerId"]
        assert state.producer_epoch == value["producerEpoch"]
        assert state.status == value["transactionStatus"]
        assert state.partitions == {
            (each["topic"], partition)
            for each in value["transactionPartitions"] or ()
            for partition in each["partitionIds"]
        }


# ------------------------------------------------------------------ hanging


def _open(producer_id: int, *, epoch: int = 0, last_timestamp: int = START) -> OpenTransaction:
    return OpenTransaction(producer_id, epoch, -1, 10, 12, START, last_timestamp)


IDS = {
    "pay": TransactionalId(
        "pay", 7, 3, TransactionStatus.ONGOING, frozenset({("orders", 0), ("orders", 2)})
    ),
    "ship": TransactionalId("ship", 8, 5, TransactionStatus.COMPLETE_ABORT, frozenset()),
    "rotated": TransactionalId(
        "rotated", 100, 0, TransactionStatus.PREPARE_COMMIT, frozenset({("orders", 0)}), 9, 101
    ),
}


def _hanging(txn: OpenTransaction, *, partition: int = 0, age: int = 16 * MINUTE) -> list[str]:
    found = find_hanging([txn], IDS, topic="orders", partition=partition, now_ms=START + age)
    return [each.reason for each in found]


def test_a_transaction_that_its_coordinator_lists_is_merely_open() -> None:
    assert _hanging(_open(7)) == []
    assert _hanging(_open(7), partition=2, age=10_000 * MINUTE) == []


def test_a_transaction_of_a_partition_that_its_coordinator_does_not_list_hangs() -> None:
    assert _hanging(_open(7, epoch=3), partition=1) == ["pay is ONGOING without this partition"]


def test_a_transaction_of_no_transactional_id_hangs() -> None:
    assert _hanging(_open(55)) == ["no transactional id has producer 55"]


def test_a_transaction_that_ended_elsewhere_lacks_its_marker() -> None:
    assert _hanging(_open(8, epoch=4)) == [
        "ship is COMPLETE_ABORT without this partition, in epoch 5 after 4: a marker is lost"
    ]


def test_the_producers_before_and_after_a_rotation_are_the_same_transactional_id() -> None:
    assert _hanging(_open(9)) == []
    assert _hanging(_open(101)) == []
    assert _hanging(_open(100), partition=1) == ["rotated is PREPARE_COMMIT without this partition"]


def test_nothing_hangs_before_the_longest_timeout_is_over() -> None:
    assert _hanging(_open(55), age=15 * MINUTE) == []
    assert _hanging(_open(55), age=15 * MINUTE + 1) != []


def test_a_transaction_is_late_five_minutes_after_it_should_have_ended(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(
        data_batch(0, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    )
    report = read_transactions(DiskFiles(tmp_path))
    assert report.late(START + 20 * MINUTE, 15 * MINUTE) is None
    late = report.late(START + 20 * MINUTE + 1, 15 * MINUTE)
    assert late == report.held_by == report.open[0]
    assert late.idle_ms(START + 5) == late.open_ms(START + 5) == 5


def _state_record(
    oracle: Oracle, transactional_id: str, value: dict[str, Any] | None
) -> SimpleRecord:
    """A record of __transaction_state, by Kafka's own serialiser."""
    record = {"api_key": 0, "key": {"transactionalId": transactional_id}, "version": 1}
    key, data = oracle.encode_coordinator("transaction", record | {"value": value})
    return SimpleRecord(START, key, data)


STATE = {
    "producerId": 7,
    "producerEpoch": 3,
    "transactionTimeoutMs": 60000,
    "transactionStatus": 1,
    "transactionPartitions": [{"topic": "orders", "partitionIds": [0, 4]}],
    "transactionLastUpdateTimestampMs": START,
    "transactionStartTimestampMs": START,
    "previousProducerId": 5,
    "nextProducerId": 9,
    "clientTransactionVersion": 2,
}


def test_the_last_word_on_a_transactional_id_counts(oracle: Oracle, tmp_path: Path) -> None:
    odd = STATE | {"transactionStatus": 42, "transactionPartitions": None}
    records = [
        _state_record(oracle, "gone", STATE),
        _state_record(oracle, "kept", odd),
        _state_record(oracle, "gone", None),
        SimpleRecord(START, b"\0\x63", b"a type that nobody knows"),
        SimpleRecord(START, b"\0", b"no key at all"),
    ]
    first = encode_batch(records)
    damaged = bytearray(encode_batch([_state_record(oracle, "kept", STATE)], base_offset=5))
    damaged[-1] ^= 1
    marker = control_batch(6, producer_id=1, epoch=0)
    (tmp_path / SEGMENT).write_bytes(first + damaged + marker)
    second = tmp_path / "00000000000000000007.log"
    last = _state_record(oracle, "new", STATE)
    second.write_bytes(encode_batch([last], base_offset=7, codec=Codec.ZSTD))
    found = read_transactional_ids([DiskFiles(tmp_path)])
    partitions = frozenset({("orders", 0), ("orders", 4)})
    assert found == {
        "kept": TransactionalId("kept", 7, 3, 42, frozenset(), 5, 9),
        "new": TransactionalId("new", 7, 3, TransactionStatus.ONGOING, partitions, 5, 9),
    }
    hanging = find_hanging(
        [_open(7, epoch=3)], {"kept": found["kept"]}, topic="a", partition=0, now_ms=2 * START
    )
    assert [each.reason for each in hanging] == ["kept is status 42 without this partition"]


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
    whole = read_transactions(DiskFiles(tmp_path), behind_damage=True)
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
