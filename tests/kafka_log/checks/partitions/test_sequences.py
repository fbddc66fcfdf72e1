"""Sequences and epochs in batches that were edited, in a log that Kafka wrote."""

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from kafka_format.columnar.headers import HeaderWalk
from kafka_log.checks.finding import About
from kafka_log.checks.partitions.continuity import Continuity
from kafka_log.checks.partitions.sequences import check_sequences
from tests.kafka_log.checks.edits import (
    BASE_SEQUENCE_AT,
    CONTROL_VALUE_AT,
    PRODUCER_EPOCH_AT,
    batches_of,
    edit_batch,
    segment_of,
)
from tests.kafka_log.checks.partition_audit import audit_directory
from tests.kafka_log.producer_operations import data_batch
from tests.oracle.client import Oracle, b64
from tests.oracle.logs import START

ABOUT = About("orders-0/00000000000000000000.log", "orders", 0)


def packed(at: int, form: str, value: int) -> Callable[[bytearray], None]:
    return lambda batch: struct.pack_into(form, batch, at, value)


def found(log: Path) -> dict[str, list[int | None]]:
    """The offsets of the findings about producers in the log, by id."""
    ids: dict[str, list[int | None]] = {}
    for each in audit_directory(log, is_clean=True, now_ms=START)[0]:
        if each.id.startswith("PRD"):
            ids.setdefault(each.id, []).append(each.offset)
    return ids


def test_a_gap_is_prd001(log: Path) -> None:
    edit_batch(segment_of(log, 492), 492, packed(BASE_SEQUENCE_AT, ">i", 57))
    assert found(log) == {"PRD001": [492]}  # 55 to 61 is the producer's last batch


def test_a_sequence_that_goes_back_is_prd003(log: Path) -> None:
    edit_batch(segment_of(log, 492), 492, packed(BASE_SEQUENCE_AT, ">i", 54))
    assert found(log) == {"PRD003": [492]}


def test_a_sequence_that_starts_again_is_none(log: Path) -> None:
    edit_batch(segment_of(log, 492), 492, packed(BASE_SEQUENCE_AT, ">i", 0))
    assert found(log) == {}


def test_a_batch_that_is_there_twice_is_prd002(oracle: Oracle, log: Path) -> None:
    """A follower appends what it gets; only a leader recognizes it."""
    batch = next(each for _, each in batches_of(segment_of(log, 492)) if each[:8] == _offset(492))
    again = _offset(517) + batch[8:]
    append = {"do": "append", "bytes": b64(again), "origin": "REPLICATION", "leader_epoch": 6}
    options = {"time": START, "clean_shutdown": True, "recovery_point": 517}
    oracle.run_log(log, steps=[append], close="clean", **options)
    assert found(log) == {"PRD002": [517]}


def test_an_epoch_that_goes_back_is_prd004(log: Path) -> None:
    edit_batch(segment_of(log, 507), 507, packed(PRODUCER_EPOCH_AT, ">h", 2))
    assert found(log)["PRD004"] == [507]


def test_a_coordinator_epoch_that_goes_back_is_prd005(log: Path) -> None:
    edit_batch(segment_of(log, 499), 499, packed(CONTROL_VALUE_AT + 2, ">i", -1))
    assert found(log) == {"PRD005": [499]}


def test_a_marker_without_data_is_prd006_and_its_retry_is_none(
    oracle: Oracle, tmp_path: Path
) -> None:
    marker = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "timestamp": START}
    control = {"control": {"type": "ABORT", "coordinator_epoch": 0}}
    steps = [{"do": "append", "origin": "COORDINATOR", "batch": marker | control}] * 2
    path = tmp_path / "orders-0"
    oracle.run_log(path, time=START, steps=steps, close="clean")
    assert found(path) == {"PRD006": [0]}


def test_a_batch_outside_of_its_transaction_is_prd007(log: Path) -> None:
    """Kafka throws InvalidTxnStateException when it replays it."""
    edit_batch(segment_of(log, 474), 474, _outside_of_transactions)
    assert found(log) == {"PRD007": [474]}


def _outside_of_transactions(batch: bytearray) -> None:
    assert batch[22] & 0x10
    batch[22] &= ~0x10


# ------------------------------------------------------------------ against a simple model


class Batch(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int
    delta: int
    timestamp: int


def model(batches: list[Batch]) -> list[tuple[str, int]]:
    """The rules, batch by batch."""
    found = []
    known: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
    offset = 0
    for each in batches:
        epoch, window = known.get(each.producer_id) or (None, [])
        last = (each.sequence + each.delta) % 2**31
        if epoch is not None and each.epoch < epoch:
            found.append(("PRD004", offset))
        if epoch is not None:
            same = epoch == each.epoch
            expected = (window[-1][1] + 1) % 2**31 if same else 0
            ours = (each.sequence, last, each.timestamp)
            if each.sequence != expected:
                if same and ours in window[-5:]:
                    found.append(("PRD002", offset))
                elif each.sequence and (each.sequence - expected) % 2**31 < 2**30:
                    found.append(("PRD001", offset))
                elif each.sequence:
                    found.append(("PRD003", offset))
        window = window if epoch == each.epoch else []
        known[each.producer_id] = each.epoch, [*window, (each.sequence, last, each.timestamp)]
        offset += each.delta + 1
    return sorted(found)


@pytest.mark.parametrize("seed", range(20))
def test_a_piece_has_the_findings_of_a_loop(seed: int) -> None:
    rng = random.Random(seed)
    batches, data = [], b""
    next_sequence: dict[int, int] = {}
    for offset in range(60):
        producer_id, epoch = rng.randrange(3), rng.choice((0, 0, 0, 0, 1))
        sequence = next_sequence.get(producer_id, 2**31 - 3)
        if rng.random() < 0.3:
            sequence = (sequence + rng.choice((-4, -2, -1, 1, 3))) % 2**31
        batch = Batch(producer_id, epoch, sequence, 0, START + rng.randrange(2))
        next_sequence[producer_id] = (sequence + 1) % 2**31
        batches.append(batch)
        data += data_batch(
            offset,
            producer_id=producer_id,
            epoch=epoch,
            sequence=sequence,
            timestamp=batch.timestamp,
        )
    (columns,) = HeaderWalk(data)
    since = Continuity(0).add(columns)
    assert not np.any(since)
    findings = check_sequences(columns, since, {}, ABOUT, is_never_compacted=False)
    assert sorted((each.id, each.offset) for each in findings) == model(batches)


def _offset(offset: int) -> bytes:
    return struct.pack(">q", offset)
