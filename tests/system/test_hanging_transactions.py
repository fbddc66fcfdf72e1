"""Transactions of a broker that was killed: what kafka-transactions said of them just before.

A transaction hangs here because its data was appended to the log of a stopped broker: no
coordinator knows of it, as after an unclean election.
"""

import subprocess

import pytest

from jobs import transactions
from jobs.options import CLEAN
from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from tests.golden.make.broker import Broker, java_command, wait_for
from tests.golden.make.driver import T0, Driver, record
from tests.jobs.verbs import rows_of_verb, run_verb
from tests.oracle import jars

VERSION = "4.3.1"
TOPIC = "orders"
UNKNOWN_PRODUCER = 4242
NAMES = ("aborter", "committer", "open")
TIMEOUT_MS = 3_500_000
SECONDS = 90


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The log dir, and the rows that kafka-transactions printed, by command."""
    home = tmp_path_factory.mktemp("hanging")
    with Broker(VERSION, home, {"transaction.max.timeout.ms": 3_600_000}) as broker:
        with Driver(VERSION, broker.bootstrap, home) as java:
            java.wait_until_ready()
            java.topic(TOPIC, 2)
            _write(java)
            end = java("end_offsets")[f"{TOPIC}-1"]
            (committer,) = _ask(broker, "describe", "--transactional-id", "committer")
        broker.stop()
        with max(broker.file(f"{TOPIC}-1").glob("*.log")).open("ab") as log:
            log.write(_data(end, UNKNOWN_PRODUCER, 3))
            producer = int(committer["ProducerId"]), int(committer["ProducerEpoch"])
            log.write(_data(end + 1, *producer))
        broker.start()
        wait_for(lambda: _asked(broker, "list"), SECONDS, "the coordinator to load")
        said = {
            each: _ask(broker, *each)
            for each in (
                ("find-hanging", "--topic", TOPIC),
                *(("describe-producers", "--topic", TOPIC, "--partition", n) for n in ("0", "1")),
                *(("describe", "--transactional-id", name) for name in NAMES),
            )
        }
        broker.kill()
    return home / "data", said


def _write(java):
    for name in NAMES:
        java.producer(name, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    java.producer("plain")
    both = [record(TOPIC, each, b"k", b"v") for each in (0, 1)]
    java.transact("committer", both, commit=True)
    java.transact("aborter", both, commit=False)
    java.send("plain", both)
    java("begin", name="open")
    java.send("open", [record(TOPIC, 0, b"k", b"open")])


def _data(offset, producer_id, epoch):
    return encode_batch(
        [SimpleRecord(T0, b"k", b"hanging")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        is_transactional=True,
        partition_leader_epoch=0,
    )


def _ask(broker, *words):
    """The table that the tool prints: one dict per row."""
    rows = _asked(broker, *words)
    assert rows is not None, words
    return rows


def _asked(broker, *words):
    command = java_command(jars.class_path(VERSION), "org.apache.kafka.tools.TransactionsCommand")
    command += ["--bootstrap-server", broker.bootstrap, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode:
        return None
    header, *lines = (line.split("\t") for line in done.stdout.splitlines() if line.strip())
    names = [name.strip() for name in header]
    found = [zip(names, (cell.strip() for cell in line), strict=True) for line in lines]
    return [{name: cell for name, cell in row if name} for row in found]


@pytest.fixture(scope="module")
def data(killed):
    return killed[0]


@pytest.fixture(scope="module")
def said(killed):
    return killed[1]


def test_hanging_transactions_are_those_of_find_hanging(capsys, data, said):
    found = rows_of_verb(transactions.main, capsys, data, "--hanging")
    expected = said["find-hanging", "--topic", TOPIC]
    assert len(expected) == 2
    names = ("partition", "producer_id", "producer_epoch", "coordinator_epoch", "first_offset")
    assert {
        (row["topic"], *(row[name] for name in names), row["last_timestamp"]) for row in found
    } == {(row["Topic"], *(int(row[name]) for name in list(row)[1:-1])) for row in expected}
    assert {row["transactional_id"] for row in found} == {None, "committer"}


def test_the_command_aborts_what_find_hanging_names(capsys, data, said):
    code, out, _ = run_verb(transactions.main, capsys, data, "--hanging")
    assert code == CLEAN
    begin = "to abort it: kafka-transactions.sh --bootstrap-server HOST:PORT abort"
    assert {line for line in out.splitlines() if line.startswith("to abort")} == {
        f"{begin} --topic {row['Topic']} --partition {row['Partition']}"
        f" --start-offset {row['StartOffset']}"
        for row in said["find-hanging", "--topic", TOPIC]
    }


def test_producers_are_those_that_the_broker_described(capsys, data, said):
    """The broker has dropped one at its start, whose last record is of 2023."""
    found = rows_of_verb(transactions.main, capsys, data, "--topic", TOPIC)
    for partition in (0, 1):
        rows = [row for row in found if row["kind"] == "producer" and row["partition"] == partition]
        expected = said["describe-producers", "--topic", TOPIC, "--partition", str(partition)]
        assert len(expected) >= 3
        assert [row["last_timestamp"] for row in rows if row["expired"]] == [T0]
        assert {
            (
                *(row[name] for name in ("producer_id", "producer_epoch", "coordinator_epoch")),
                *(row[name] for name in ("last_sequence", "last_timestamp")),
                row["current_txn_start_offset"],
            )
            for row in rows
            if not row["expired"]
        } == {
            tuple(-1 if cell == "None" else int(cell) for cell in row.values()) for row in expected
        }


def test_transactional_ids_are_those_that_the_coordinator_described(capsys, data, said):
    found = {
        row["transactional_id"]: row
        for row in rows_of_verb(transactions.main, capsys, data)
        if row["kind"] == "transactional_id"
    }
    assert tuple(sorted(found)) == NAMES
    for name in NAMES:
        (row,) = said["describe", "--transactional-id", name]
        own = found[name]
        assert [own["producer_id"], own["producer_epoch"], own["state"], own["timeout_ms"]] == [
            int(row["ProducerId"]),
            int(row["ProducerEpoch"]),
            row["TransactionState"],
            int(row["TransactionTimeoutMs"]),
        ]
        assert ",".join(own["partitions"]) == row["TopicPartitions"]
    assert {each["state"] for each in found.values()} == {
        *("CompleteCommit", "CompleteAbort", "Ongoing"),
    }
