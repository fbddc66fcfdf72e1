"""What a leader refuses from producers: each case stated first, and confirmed by Kafka's log."""

from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import decode_batch
from kafka_log.appends.origin import AppendOrigin
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import InvalidTransactionStateError
from kafka_log.producers.producer_state import SENTINEL, ProducerStateManager
from kafka_log.producers.validation import analyze_and_validate_producer_state
from tests.kafka_log.driver import Session
from tests.kafka_log.producer_operations import (
    ABORT,
    COMMIT,
    MAX_SEQUENCE,
    START,
    control_batch,
    data_batch,
)
from tests.oracle.client import Oracle

OUT_OF_ORDER = "OutOfOrderSequenceException"
OLD_EPOCH = "InvalidProducerEpochException"
NOT_VERIFIED = "InvalidTxnStateException"
OUTSIDE = "InvalidTxnStateException"
FENCED = "TransactionCoordinatorFencedException"
PRODUCER = 7

Step = tuple[dict[str, Any], Any]


def sent(sequence: int, expected: Any, *, epoch: int = 0) -> Step:
    """A batch of an idempotent producer; expected is its first offset, or what it is refused by."""
    data = data_batch(0, producer_id=PRODUCER, epoch=epoch, sequence=sequence)
    return {"do": "append", "bytes": data, "leader_epoch": 0}, expected


def written(sequence: int, expected: Any, *, epoch: int = 0, verified: bool = False) -> Step:
    """A batch in a transaction, with the guard that a verification gave or without."""
    data = data_batch(
        0, producer_id=PRODUCER, epoch=epoch, sequence=sequence, is_transactional=True
    )
    step = {"do": "append", "bytes": data, "leader_epoch": 0}
    return step | ({"verified": PRODUCER} if verified else {}), expected


def ended(
    expected: Any, *, version: int, epoch: int = 0, coordinator_epoch: int = 1, type_: int = COMMIT
) -> Step:
    data = control_batch(
        0, producer_id=PRODUCER, epoch=epoch, type_=type_, coordinator_epoch=coordinator_epoch
    )
    step = {"do": "append", "bytes": data, "leader_epoch": 0, "origin": "COORDINATOR"}
    return step | {"transaction_version": version}, expected


def verification(
    expected: Any, *, sequence: int = 0, epoch: int = 0, version_2: bool = False
) -> Step:
    """Expected is whether a guard is needed."""
    step = {"do": "start_verification", "producer_id": PRODUCER, "sequence": sequence}
    return step | {"producer_epoch": epoch, "supports_epoch_bump": version_2}, expected


CASES: dict[str, list[Step]] = {
    "the last five batches are recognised when they come again": [
        *(sent(sequence, sequence) for sequence in range(6)),
        *(sent(sequence, sequence) for sequence in range(1, 6)),
        sent(0, OUT_OF_ORDER),
        sent(6, 6),
    ],
    "a gap is refused until it is filled": [
        sent(0, 0),
        sent(1, 1),
        sent(3, OUT_OF_ORDER),
        sent(2, 2),
    ],
    "sequences go from the largest to zero": [
        sent(MAX_SEQUENCE - 1, 0),
        sent(MAX_SEQUENCE, 1),
        sent(1, OUT_OF_ORDER),
        sent(0, 2),
        sent(MAX_SEQUENCE, 1),
    ],
    "an unknown producer may begin anywhere": [sent(41, 0), sent(43, OUT_OF_ORDER), sent(42, 1)],
    "a new epoch begins with sequence zero": [
        sent(0, 0, epoch=3),
        sent(1, OUT_OF_ORDER, epoch=4),
        sent(0, 1, epoch=4),
        sent(1, OLD_EPOCH, epoch=3),
    ],
    "a transaction begins with a verification, and goes on without": [
        written(0, NOT_VERIFIED),
        verification(True),
        written(0, 0, verified=True),
        verification(False),
        written(1, 1),
        ended(2, version=1),
        written(2, NOT_VERIFIED),
    ],
    "the lowest sequence that waits for verification goes first": [
        verification(True, sequence=5),
        verification(True, sequence=2),
        written(5, OUT_OF_ORDER, verified=True),
        written(2, 0, verified=True),
    ],
    "of a newer epoch the sequence that waits is its own": [
        verification(True, sequence=2),
        verification(True, sequence=5, epoch=1),
        written(5, 0, epoch=1, verified=True),
    ],
    "a producer of version 2 without state begins with sequence zero": [
        verification(True, sequence=3, version_2=True),
        written(3, OUT_OF_ORDER, verified=True),
        verification(True, version_2=True),
        written(0, 0, verified=True),
    ],
    "a verification of an old epoch is refused at once": [
        sent(0, 0, epoch=3),
        verification(OLD_EPOCH, epoch=2),
        written(1, OLD_EPOCH, epoch=2),
    ],
    "a marker of version 1 has the epoch of the data": [
        verification(True),
        written(0, 0, verified=True),
        ended(1, version=1, type_=ABORT),
        ended(2, version=1, type_=ABORT),
    ],
    "a marker of version 2 raises the epoch": [
        verification(True, version_2=True),
        written(0, 0, verified=True),
        ended(OLD_EPOCH, version=2),
        ended(1, version=2, epoch=1),
    ],
    "a marker of version 2 that is sent twice is written twice": [
        verification(True, version_2=True),
        written(0, 0, verified=True),
        ended(1, version=2, epoch=1),
        ended(2, version=2, epoch=1),
        ended(OLD_EPOCH, version=2, epoch=0),
    ],
    "a late marker of version 2 does not end the next transaction": [
        verification(True, version_2=True),
        written(0, 0, verified=True),
        ended(1, version=2, epoch=1),
        verification(True, epoch=1, version_2=True),
        written(0, 2, epoch=1, verified=True),
        ended(OLD_EPOCH, version=2, epoch=1),
        ended(3, version=2, epoch=2),
    ],
    "an epoch that cannot be raised ends its transaction all the same": [
        verification(True, epoch=32767),
        written(0, 0, epoch=32767, verified=True),
        ended(1, version=2, epoch=32767),
    ],
    "a marker of an old coordinator is refused": [
        verification(True),
        written(0, 0, verified=True),
        ended(1, version=1, coordinator_epoch=5),
        ended(FENCED, version=1, coordinator_epoch=4),
        ended(2, version=1, coordinator_epoch=5),
    ],
    "a marker ends a verification of version 1": [
        verification(True),
        ended(0, version=1),
        written(0, NOT_VERIFIED, verified=True),
    ],
    "a marker of the epoch that is verified belongs to the transaction before, in version 2": [
        verification(True, epoch=1, version_2=True),
        ended(0, version=2, epoch=1),
        written(0, 1, epoch=1, verified=True),
    ],
    "nothing is written outside of an open transaction": [
        verification(True),
        written(0, 0, verified=True),
        sent(1, OUTSIDE),
        written(1, 1),
        ended(2, version=1),
        sent(2, 3),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_what_producers_may_do(oracle: Oracle, memory_path: Path, name: str) -> None:
    steps = [step | {"may_fail": True} for step, _ in CASES[name]]
    expected = [outcome for _, outcome in CASES[name]]
    arguments = {"time": START, "transaction_verification": True}
    reported = oracle.run_log(memory_path / "orders-0", steps=steps, **arguments)["steps"]
    assert [_outcome(answer) for answer in reported] == expected
    ours = memory_path / "orders-1"
    ours.mkdir()
    session = Session(
        DiskFiles(ours), arguments | {"log_start_offset": 0, "recovery_point": 0, "config": {}}
    )
    assert [_outcome(session.try_step(step)) for step in steps] == expected


def _outcome(answer: dict[str, Any]) -> Any:
    if "error" in answer:
        error = answer["error"]
        return error[0] if isinstance(error, tuple) else error["class"].rpartition(".")[2]
    return answer["first_offset"] if "first_offset" in answer else answer["needed"]


def manager_in(folder: Path, **settings: Any) -> ProducerStateManager:
    return ProducerStateManager(DiskFiles(folder), LogConfig(**settings), FixedClock(START))


def _check(manager: ProducerStateManager, guard: Any) -> None:
    batch = data_batch(0, producer_id=1, epoch=0, sequence=0, is_transactional=True)
    analyze_and_validate_producer_state(
        manager, [decode_batch(batch)], AppendOrigin.CLIENT, guard, transaction_version=1
    )


def test_the_guard_of_a_verification_that_ended_is_worth_nothing(tmp_path: Path) -> None:
    """A verification, an abort, another verification: the first answer comes late (ABA)."""
    manager = manager_in(tmp_path)
    stale = manager.maybe_start_transaction_verification(1, 0, 0, supports_epoch_bump=False)
    manager.clear_verification_state_entry(1)
    guard = manager.maybe_start_transaction_verification(1, 0, 0, supports_epoch_bump=False)
    assert stale is not guard
    for wrong in (stale, SENTINEL):
        with pytest.raises(InvalidTransactionStateError):
            _check(manager, wrong)
    _check(manager, guard)


def test_without_verification_any_transaction_may_begin(tmp_path: Path) -> None:
    _check(manager_in(tmp_path, transaction_partition_verification_enable=False), SENTINEL)


def test_the_sentinel_verifies_nothing() -> None:
    assert not SENTINEL.verify(SENTINEL)
    assert repr(SENTINEL) == "SENTINEL"


def test_a_batch_without_producer_changes_nobody(tmp_path: Path) -> None:
    manager = manager_in(tmp_path)
    batch = decode_batch(data_batch(0, producer_id=-1, epoch=-1, sequence=-1))
    checked = analyze_and_validate_producer_state(manager, [batch], AppendOrigin.CLIENT)
    assert checked == ({}, [], None)
