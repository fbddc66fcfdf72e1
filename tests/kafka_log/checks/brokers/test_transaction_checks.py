"""Transactions against their coordinator, and markers against each other."""

import subprocess
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.checks.brokers.transaction_checks import (
    VALID_PREVIOUS_STATES,
    check_transactions,
)
from kafka_log.checks.facts import AuditedBroker, NotChecked, PartitionFacts
from kafka_log.config.settings import read_settings
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.scan import scan
from kafka_log.names import DirectoryKind
from kafka_log.producers.transactional_ids import TransactionStatus, status_name
from kafka_log.producers.transactions import read_transactions
from tests import golden
from tests.kafka_log.producer_operations import START, control_batch
from tests.oracle import jars

LOG = f"{0:020d}.log"
SOON, LATER = START + 60_000, START + 86_400_000
ONGOING, PREPARE, COMPLETE = 1, 2, 4


def checked(log_dir, *, now=LATER):
    """Everything that is found or not checked, of one broker."""
    (broker,) = scan([str(log_dir)]).brokers()
    facts = []
    for each in broker.log_dirs:
        for partition in each.partitions:
            if partition.segments and partition.state is DirectoryKind.PARTITION:
                report = read_transactions(DiskFiles(partition.path))
                facts.append(
                    PartitionFacts(
                        path=partition.path,
                        topic=partition.topic,
                        partition=partition.partition,
                        log_start_offset=report.log_start_offset,
                        log_end_offset=report.log_end_offset,
                        open_transactions=report.open,
                    )
                )
    settings = read_settings(metadata=broker.metadata, node_id=broker.node_id)
    audited = AuditedBroker(broker=broker, settings=settings, now_ms=now)
    return list(check_transactions(audited, facts, DiskFiles))


def ids(found):
    return [each.id for each in found if not isinstance(each, NotChecked)]


def data(offset, *, producer_id=7, epoch=0, timestamp=START):
    return encode_batch(
        [SimpleRecord(timestamp, b"k", b"secret")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
    )


def partition(log_dir: Path, *batches: bytes, name: str = "orders-0") -> Path:
    path = log_dir / name
    path.mkdir(parents=True)
    (path / LOG).write_bytes(b"".join(batches))
    return path


@pytest.fixture
def states(oracle, tmp_path):
    """Write `__transaction_state` with a history of the id `pay`: status, epoch, partitions."""

    def write(*history, version=0, first_offset=0, skip=()):
        batches = []
        for offset, (status, epoch, partitions) in enumerate(history, first_offset):
            value = {
                "producerId": 7,
                "producerEpoch": epoch,
                "transactionTimeoutMs": 60000,
                "transactionStatus": status,
                "transactionPartitions": [{"topic": "orders", "partitionIds": list(partitions)}],
                "transactionLastUpdateTimestampMs": START,
                "transactionStartTimestampMs": START,
                "previousProducerId": -1,
                "nextProducerId": -1,
                "clientTransactionVersion": version,
            }
            record = {"api_key": 0, "key": {"transactionalId": "pay"}, "version": 1}
            key, data = oracle.encode_coordinator("transaction", record | {"value": value})
            if offset not in skip:
                batches.append(encode_batch([SimpleRecord(START, key, data)], base_offset=offset))
        return partition(tmp_path, *batches, name="__transaction_state-0")

    return write


# --------------------------------------------------------------------------------- what is normal


@pytest.mark.parametrize("pack", golden.names())
def test_real_brokers_left_nothing_but_open_transactions(pack):
    """Their records are of 2023 and their coordinator's of 2026: nothing is too young to hang."""
    found = checked(golden.shared(pack), now=1_800_000_000_000)
    assert set(ids(found)) <= {"TRN001"}
    expected = {"clean-3.9.1": 1, "cleaner-4.3.1": 1, "legacy-2.8.2": 1} | {
        "small-4.3.1": 1,
        "unclean-3.9.1": 2,
        "unclean-4.3.1": 4,
    }
    assert len(ids(found)) == expected.get(pack, 0)


def test_a_broker_without_the_coordinators_log_is_not_checked_for_hanging_ones(tmp_path):
    partition(tmp_path, data(0))
    found = checked(tmp_path)
    assert NotChecked("transactional ids", "no partition of __transaction_state is here") in found
    assert ids(found) == ["TRN001"]


# ---------------------------------------------------------------------------- open and hanging ones


def test_a_transaction_that_its_coordinator_knows_is_open(states, tmp_path):
    states((ONGOING, 0, [0]))
    partition(tmp_path, data(0))
    (finding,) = checked(tmp_path)
    assert (finding.id, finding.offset, finding.entry) == ("TRN001", 0, "producer 7")
    assert finding.path == str(tmp_path / "orders-0")


def test_a_transaction_that_its_coordinator_does_not_know_hangs_after_a_while(states, tmp_path):
    states((ONGOING, 0, [1]))
    partition(tmp_path, data(0), data(1, producer_id=8))
    assert ids(checked(tmp_path, now=SOON)) == ["TRN001", "TRN001"]
    listed, unknown = checked(tmp_path)
    assert (listed.id, unknown.id) == ("TRN002", "TRN002")
    begin = "no marker, producer"
    assert listed.found == f"{begin} 7 epoch 0, whose transaction does not include this partition"
    assert unknown.found == f"{begin} 8 epoch 0, which no transactional id has"


@pytest.mark.parametrize(("version", "raised"), [(0, 0), (2, 1)])
def test_a_completed_transaction_that_is_still_open_has_lost_its_marker(
    states, tmp_path, version, raised
):
    states((ONGOING, 0, [0]), (PREPARE, raised, [0]), (COMPLETE, raised, []), version=version)
    path = partition(tmp_path, data(0))
    assert ids(checked(tmp_path, now=SOON)) == ["TRN005"]
    assert ids(checked(tmp_path)) == ["TRN005", "TRN002"]
    marker = control_batch(1, producer_id=7, epoch=raised)
    (path / LOG).write_bytes(data(0) + marker)
    assert checked(tmp_path) == []


def test_data_of_a_later_transaction_is_not_the_completed_one(states, tmp_path):
    """With transaction version 2 the end raises the epoch, and the next transaction has it."""
    states((ONGOING, 0, [0]), (PREPARE, 1, [0]), (COMPLETE, 1, []), version=2)
    partition(tmp_path, data(0), control_batch(1, producer_id=7, epoch=1), data(2, epoch=1))
    assert ids(checked(tmp_path)) == ["TRN002"]


# ------------------------------------------------------------------------ the coordinator's history


def test_the_steps_are_those_that_kafka_allows(oracle):
    done = subprocess.run(
        [
            *(jars.java_program("java"), "-cp", jars.class_path(jars.CURRENT)),
            str(Path(__file__).parent / "TransactionStates.java"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    ours = [
        "\t".join(
            [str(int(status)), status_name(status), ",".join(str(int(n)) for n in sorted(before))]
        )
        for status, before in VALID_PREVIOUS_STATES.items()
    ]
    assert ours == done.stdout.splitlines()
    assert set(VALID_PREVIOUS_STATES) == set(TransactionStatus)


def test_a_step_that_kafka_forbids_is_found(states, tmp_path):
    path = states((ONGOING, 0, [0]), (COMPLETE, 0, []), (COMPLETE, 0, []), (42, 0, []))
    step, unknown = checked(tmp_path)
    assert (step.id, step.offset, step.path) == ("TRN003", 1, str(path / LOG))
    assert step.found == "CompleteCommit after Ongoing"
    assert step.expected == "PrepareCommit before it"
    assert (unknown.id, unknown.found) == ("TRN003", "Unknown(42) after CompleteCommit")
    assert unknown.position is not None


def test_a_whole_life_of_an_id_is_healthy(states, tmp_path):
    empty, complete_abort, prepare_abort = 0, 5, 3
    states(
        *((empty, 0, []), (ONGOING, 0, [0]), (ONGOING, 0, [0, 1]), (PREPARE, 1, [0, 1])),
        *((COMPLETE, 1, []), (COMPLETE, 1, []), (prepare_abort, 2, []), (complete_abort, 2, [])),
        *((ONGOING, 2, [0]), (prepare_abort, 3, [0]), (complete_abort, 3, []), (empty, 4, [])),
        version=2,
    )
    assert checked(tmp_path) == []


def test_where_the_cleaner_has_removed_states_nothing_is_judged(states, tmp_path):
    states((ONGOING, 0, [0]), (PREPARE, 0, [0]), (COMPLETE, 0, []), skip={1})
    assert checked(tmp_path) == []


def test_an_epoch_that_goes_back_is_found(states, tmp_path):
    states((0, 3, []), (0, 2, []), (0, 3, []))
    (finding,) = checked(tmp_path)
    assert (finding.id, finding.offset) == ("TRN004", 1)
    assert (finding.found, finding.expected) == ("epoch 2 of producer 7", "3 or more")
