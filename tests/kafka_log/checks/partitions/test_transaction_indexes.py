"""Transaction indexes that were edited, next to markers that Kafka wrote."""

from pathlib import Path

import pytest

from kafka_format.transaction_index import AbortedTransaction
from tests.kafka_log.checks.edits import (
    PRODUCER_ID_AT,
    edit_batch,
    edit_index,
    named,
    segment_of,
)
from tests.kafka_log.checks.partition_audit import audit_directory, ids
from tests.kafka_log.producer_operations import ABORT, control_batch, data_batch
from tests.oracle.client import BuiltLog, Oracle, b64
from tests.oracle.logs import START

INDEX = ".txnindex"


def found(log: Path, *, is_clean: bool | None = True) -> list[str]:
    return ids(audit_directory(log, now_ms=START, is_clean=is_clean)[0])


def test_without_edits_there_is_nothing(built: BuiltLog) -> None:
    assert len(built.state["aborted_transactions"]) > 10
    assert found(built.path) == []


def test_an_index_that_is_gone_is_txn004(log: Path) -> None:
    named(log, 158, INDEX).unlink()
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert finding.id == "TXN004"
    assert finding.path == str(named(log, 158, INDEX))
    assert finding.offset == 171
    assert finding.expected == "2 entries, the first producer 2000, offsets 37 to 171"


def test_an_entry_that_is_gone_is_txn005(log: Path) -> None:
    edit_index(named(log, 158, INDEX), lambda entries: entries[1:])
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert (finding.id, finding.offset) == ("TXN005", 171)
    assert (finding.found, finding.expected) == ("no entry", "producer 2000, offsets 37 to 171")


@pytest.mark.parametrize("field", ["first_offset", "producer_id"])
def test_an_entry_with_another_value_is_txn005(log: Path, field: str) -> None:
    def edit(entries: list[AbortedTransaction]) -> list[AbortedTransaction]:
        first = entries[0]
        return [first._replace(**{field: getattr(first, field) + 1}), *entries[1:]]

    edit_index(named(log, 158, INDEX), edit)
    assert found(log) == ["TXN005"]


def test_an_entry_without_a_marker_is_txn006(log: Path) -> None:
    extra = AbortedTransaction(0, 2001, 188, 190, 191)
    edit_index(named(log, 188, INDEX), lambda entries: [extra, *entries])
    assert found(log) == ["TXN006"]


def test_an_index_that_a_restart_rebuilds_is_txn007(log: Path) -> None:
    named(log, 158, INDEX).unlink()
    assert found(log, is_clean=False) == ["TXN007"]


def test_a_last_stable_offset_that_is_too_high_is_txn008(log: Path) -> None:
    edit_index(
        named(log, 339, INDEX), lambda entries: [entries[0]._replace(last_stable_offset=340)]
    )
    assert found(log) == ["TXN008"]


def test_a_last_stable_offset_beyond_the_log_is_txn008(log: Path) -> None:
    edit_index(
        named(log, 188, INDEX), lambda entries: [entries[0]._replace(last_stable_offset=2**60)]
    )
    assert found(log) == ["TXN008"]


def test_a_last_stable_offset_that_is_too_low_is_txn009(log: Path) -> None:
    edit_index(
        named(log, 339, INDEX), lambda entries: [entries[0]._replace(last_stable_offset=229)]
    )
    assert found(log) == ["TXN009"]


def test_a_follower_writes_the_start_of_a_later_transaction(oracle: Oracle, tmp_path: Path) -> None:
    """Kafka appends a whole chunk before it completes transactions."""
    batches = (
        data_batch(0, producer_id=1, epoch=0, sequence=0, is_transactional=True),
        control_batch(1, producer_id=1, epoch=0, type_=ABORT),
        data_batch(2, producer_id=-1, epoch=-1, sequence=-1),
        data_batch(3, producer_id=2, epoch=0, sequence=0, is_transactional=True),
    )
    chunk = b"".join(each[:12] + bytes(4) + each[16:] for each in batches)  # leader epoch 0
    path = tmp_path / "orders-0"
    append = {"do": "append", "bytes": b64(chunk), "origin": "REPLICATION", "leader_epoch": 8}
    answer = oracle.run_log(path, time=START, steps=[append], close="clean")
    (aborted,) = answer["state"]["aborted_transactions"]
    assert aborted["last_stable_offset"] == 3  # a leader would have written 2
    assert found(path) == []
    edit_index(named(path, 0, INDEX), lambda entries: [entries[0]._replace(last_stable_offset=4)])
    assert found(path) == ["TXN008"]


def test_an_open_transaction_that_becomes_anothers_is_seen(log: Path) -> None:
    """The marker of a transaction ends the transaction of its own producer only."""
    edit_batch(
        segment_of(log, 171),
        171,
        lambda batch: batch.__setitem__(
            slice(PRODUCER_ID_AT, PRODUCER_ID_AT + 8), (2003).to_bytes(8, "big")
        ),
    )
    assert "TXN005" in found(log)
