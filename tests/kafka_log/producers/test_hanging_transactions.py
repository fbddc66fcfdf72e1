"""Hanging transactions: what their coordinator knows of them, and what it says."""

import base64
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord
from kafka_log.disk.files import DiskFiles
from kafka_log.producers.hanging_transactions import (
    TransactionalId,
    TransactionStatus,
    find_hanging,
    read_transactional_ids,
)
from kafka_log.producers.transactions import OpenTransaction
from tests import golden
from tests.kafka_log.producer_operations import START, control_batch
from tests.oracle.client import Oracle

MINUTE = 60_000
SEGMENT = "00000000000000000000.log"


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


@pytest.mark.parametrize("pack", ["unclean-3.9.1", "unclean-4.3.1"])
def test_transactional_ids_are_those_that_kafka_decodes(oracle: Oracle, pack: str) -> None:
    expected: dict[str, dict[str, Any]] = {}
    for row in golden.expected(pack):
        if row["topic"] == "__transaction_state" and "offset" in row:
            if row["isolation"] != "read_uncommitted":
                continue
            raw = None if row["value"] is None else base64.b64decode(row["value"])
            reported = oracle.decode_coordinator("transaction", base64.b64decode(row["key"]), raw)
            expected[reported["key"]["transactionalId"]] = reported["value"]
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
