"""Every transaction of a directory: its records and bytes, against one batch after another."""

from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from kafka_log.disk.files import DiskFiles
from kafka_log.producers.transaction_history import TransactionHistory
from tests import golden
from tests.kafka_log.producer_operations import START, control_batch
from tests.oracle.logs import START as BUILT_START
from tests.oracle.logs import TOPIC_ID, LogPlan, draw

LOG = f"{0:020d}.log"
SEEDS = range(6)


def history_of(path: Any, **options: Any) -> tuple[list[Any], list[Any], Any]:
    history = TransactionHistory(DiskFiles(path), **options)
    ended = list(history.ended())
    report = history.report
    return ended, list(history.unfinished(report)), report


def by_hand(path: Any) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """A model: (producer, first, last, marker, aborted, records, bytes) in the order of markers."""
    ended: list[tuple[Any, ...]] = []
    going: dict[int, list[Any]] = {}
    for log in sorted(path.glob("*.log")):
        for batch in LogFile(log.read_bytes()).batches():
            header = batch.header
            if header.producer_id < 0 or not header.is_transactional:
                continue
            if header.is_control:
                (record,) = batch.records()
                is_aborted = record.key[2:4] == b"\0\0"
                found = going.pop(header.producer_id, None) or [None, None, 0, 0]
                first, last, records, size = found
                row = (header.producer_id, first, last, header.base_offset, is_aborted)
                ended.append((*row, records, size))
                continue
            found = going.setdefault(header.producer_id, [header.base_offset, 0, 0, 0])
            found[1] = header.last_offset
            found[2] += header.record_count
            found[3] += header.batch_length + 12
    still = [(producer, *found) for producer, found in going.items()]
    return ended, sorted(still, key=lambda row: row[1])


def shown(txn: Any) -> tuple[Any, ...]:
    begin = (txn.producer_id, txn.first_offset, txn.last_offset, txn.marker_offset)
    return (*begin, txn.is_aborted, txn.records, txn.size_in_bytes)


@pytest.mark.parametrize("seed", SEEDS)
def test_logs_that_kafka_wrote_have_the_transactions_of_their_batches(oracle, tmp_path, seed):
    plan = LogPlan(seed=seed, batches=80, transactional_producers=5, open_transactions=seed % 3)
    steps, _ = draw(plan)
    session = {
        "config": plan.settings(),
        "time": BUILT_START,
        "topic_id": TOPIC_ID,
        "steps": steps,
        "close": "clean",
    }
    path = tmp_path / "orders-0"
    oracle.call("run_sessions", runs=[{"path": path, "sessions": [session]}], timeout=300)
    ended, still_open, _ = history_of(path)
    expected, expected_open = by_hand(path)
    assert list(map(shown, ended)) == expected
    assert len(expected) >= 5
    assert [
        (txn.producer_id, txn.first_offset, txn.last_offset, txn.records, txn.size_in_bytes)
        for txn in still_open
    ] == expected_open
    assert len(expected_open) == seed % 3


@pytest.mark.parametrize("pack", ["clean-3.9.1", "unclean-3.9.1", "unclean-4.3.1", "legacy-2.8.2"])
def test_logs_of_real_brokers_have_the_transactions_of_their_batches(pack):
    compared = 0
    for path in golden.shared(pack).glob("data*/transactions-*"):
        ended, still_open, _ = history_of(path)
        expected, expected_open = by_hand(path)
        assert list(map(shown, ended)) == expected
        assert [(txn.producer_id, txn.first_offset) for txn in still_open] == [
            row[:2] for row in expected_open
        ]
        compared += len(expected)
    assert compared >= 3


def data(offset, *, count=2, producer_id=7, timestamp=START):
    return encode_batch(
        [SimpleRecord(timestamp + each, b"k", b"v") for each in range(count)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )


def marker(offset, **options):
    return control_batch(offset, producer_id=7, epoch=3, **options)


def test_times_and_epochs_are_those_of_data_and_marker(tmp_path):
    (tmp_path / LOG).write_bytes(
        data(0)
        + data(2, timestamp=START + 50)
        + marker(4, coordinator_epoch=6, timestamp=START + 99)
    )
    ((txn,), still_open, _) = history_of(tmp_path)
    assert still_open == []
    assert (txn.start_timestamp, txn.last_timestamp) == (START, START + 99)
    assert (txn.producer_epoch, txn.coordinator_epoch) == (3, 6)
    assert (txn.first_offset, txn.last_offset, txn.marker_offset) == (0, 3, 4)


def test_a_transaction_continues_in_the_next_segment(tmp_path):
    (tmp_path / LOG).write_bytes(data(0))
    (tmp_path / f"{2:020d}.log").write_bytes(data(2) + marker(4))
    ((txn,), _, _) = history_of(tmp_path)
    assert (txn.first_offset, txn.last_offset, txn.records) == (0, 3, 4)


def test_what_ended_below_the_log_start_is_gone(tmp_path):
    (tmp_path / LOG).write_bytes(data(0) + marker(2) + data(3) + marker(5))
    ended, _, _ = history_of(tmp_path, log_start_offset=3)
    assert [txn.marker_offset for txn in ended] == [5]


def test_a_marker_beyond_the_high_watermark_holds_the_last_stable_offset(tmp_path):
    (tmp_path / LOG).write_bytes(data(0) + marker(2) + data(3) + marker(5))
    _, _, report = history_of(tmp_path, high_watermark=4)
    assert report.last_stable_offset == 3
    assert (report.held_by.first_offset, report.held_by.last_offset) == (3, 5)
    _, _, report = history_of(tmp_path, high_watermark=6)
    assert (report.last_stable_offset, report.held_by) == (6, None)
