"""`transactions` on real brokers' directories, against Kafka's own state and its consumers."""

import json
import shutil
from collections import Counter
from functools import partial

import pytest

from jobs import cli, transactions
from jobs.options import CLEAN, FINDINGS, USAGE
from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from tests import golden
from tests.jobs.verbs import rows_of_verb, run_verb
from tests.kafka_log.producer_operations import control_batch

run = partial(run_verb, transactions.main)
rows = partial(rows_of_verb, transactions.main)

NOW = 1_700_000_000_000
DAY = 86_400_000
LATER = ("--now", str(NOW + 30 * DAY))
FIELDS = {
    "producer": [
        *("kind", "topic", "partition", "producer_id", "producer_epoch", "last_sequence"),
        *("last_timestamp", "coordinator_epoch", "current_txn_start_offset", "expired"),
    ],
    "transaction": [
        *("kind", "topic", "partition", "producer_id", "producer_epoch", "transactional_id"),
        *("state", "first_offset", "last_offset", "marker_offset"),
    ],
    "transactional_id": [
        *("kind", "transactional_id", "state", "producer_id", "producer_epoch", "timeout_ms"),
        "partitions",
    ],
}
UNKNOWN = "no partition of __transaction_state is here"


def of_kind(found, kind):
    return [row for row in found if row["kind"] == kind]


@pytest.fixture
def log_dir():
    (path,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    return path


def hanging_log(path, *, marker=False):
    """A partition with a transaction of a producer that nobody knows."""
    path.mkdir(parents=True)
    records = [SimpleRecord(NOW + each, b"k", b"v") for each in range(3)]
    data = encode_batch(
        records, producer_id=7, producer_epoch=2, base_sequence=0, is_transactional=True
    )
    end = control_batch(3, producer_id=7, epoch=2, coordinator_epoch=5) if marker else b""
    (path / f"{0:020d}.log").write_bytes(data + end)
    return path


# --------------------------------------------------------------------------------- against Kafka


@pytest.mark.parametrize("now", [NOW - DAY, NOW + DAY - 1, NOW + DAY + 3, NOW + 9000 * DAY])
@pytest.mark.parametrize("pack", ["unclean-3.9.1", "unclean-4.3.1"])
def test_producers_are_those_that_kafka_loads(oracle, capsys, pack, now):
    """And those marked as expired are those that it does not load."""
    (log_dir,) = golden.log_dirs(golden.shared(pack))
    found = of_kind(rows(capsys, log_dir, "--now", str(now)), "producer")
    compared = 0
    for path in sorted({row["path"] for row in found}):
        own = [row for row in found if row["path"] == path]
        source = log_dir / path.rpartition("/")[2]
        state = oracle.open_log(
            source, clean_shutdown=False, time=now, producer_id_expiration_ms=DAY
        )["state"]
        expected = {
            (
                *(each[name] for name in ("producer_id", "producer_epoch", "last_sequence")),
                *(each[name] for name in ("timestamp", "coordinator_epoch")),
                each["current_txn_first_offset"],
            )
            for each in state["producers"]
        }
        assert {
            (
                *(row[name] for name in ("producer_id", "producer_epoch", "last_sequence")),
                *(row[name] for name in ("last_timestamp", "coordinator_epoch")),
                row["current_txn_start_offset"],
            )
            for row in own
            if not row["expired"]
        } == expected
        compared += len(own)
    assert compared >= 5


@pytest.mark.parametrize("pack", golden.names())
def test_consumers_did_not_receive_what_was_aborted(capsys, pack):
    """In each partition, a read_committed consumer missed exactly the aborted records."""
    found = of_kind(rows(capsys, golden.shared(pack), *LATER), "transaction")
    lines = list(golden.expected(pack))
    committed = "read_committed"
    ends = {
        (line["topic"], line["partition"]): line["end_offset"]
        for line in lines
        if "end_offset" in line and line["isolation"] == committed
    }
    missed: Counter[tuple[str, int]] = Counter()
    for line in lines:
        place = line["topic"], line["partition"]
        if "offset" in line and place in ends and line["offset"] < ends[place]:
            missed[place] += -1 if line["isolation"] == committed else 1
    aborted: Counter[tuple[str, int]] = Counter()
    for row in found:
        place = row["topic"], row["partition"]
        if row["state"] == "aborted" and place in ends and row["marker_offset"] < ends[place]:
            aborted[place] += row["records"]
    assert +aborted == +missed


def test_a_transaction_has_its_offsets_records_and_bytes(capsys, log_dir):
    """Literals from kafka-dump-log: batches at 43, 45 and 46 to 48, a marker at 17."""
    found = of_kind(rows(capsys, log_dir, "--topic", "transactions", *LATER), "transaction")
    names = ("first_offset", "last_offset", "marker_offset", "state", "records", "size_in_bytes")
    chosen = {
        tuple(row[name] for name in names)
        for row in found
        if row["partition"] == 0 and row["transactional_id"] == "txn-committer"
    }
    assert chosen == {
        (0, 2, 5, "committed", 3, 215),
        (14, 16, 17, "committed", 3, 132),
        (46, 48, None, "open", 3, 117),
    }
    holders = {row["first_offset"] for row in found if row["holds_last_stable_offset"]}
    assert holders == {41, 45}  # of both partitions, as `offsets` says


# ------------------------------------------------------------------------------------ the contract


def test_rows_have_the_fields_of_the_contract_first(capsys, log_dir):
    found = rows(capsys, log_dir, *LATER)
    assert {row["kind"] for row in found} == FIELDS.keys()
    for row in found:
        expected = FIELDS[row["kind"]]
        assert list(row)[: len(expected)] == expected
        assert row["directory_state"] == "live"


def test_transactional_ids_have_kafkas_names_and_partitions(capsys, log_dir):
    found = of_kind(rows(capsys, log_dir, *LATER), "transactional_id")
    assert {(row["transactional_id"], row["state"]) for row in found} == {
        ("txn-aborter", "CompleteAbort"),
        ("txn-committer", "Ongoing"),
        ("txn-fenced", "CompleteCommit"),
        ("txn-librdkafka", "CompleteAbort"),
        ("txn-offsets", "Ongoing"),
        ("txn-slow", "CompleteAbort"),
    }
    by_name = {row["transactional_id"]: row for row in found}
    assert by_name["txn-offsets"]["partitions"] == ["__consumer_offsets-0", "transactions-0"]
    assert by_name["txn-slow"]["partitions"] == []
    assert by_name["txn-slow"]["timeout_ms"] == 1000
    assert by_name["txn-committer"]["transactions"]["committed"] == 4


def test_other_directories_need_an_option(capsys, tmp_path):
    hanging_log(tmp_path / "data" / "orders-0")
    stray = hanging_log(tmp_path / "data" / f"orders-1.{'0' * 32}-stray")
    found = rows(capsys, tmp_path / "data", *LATER)
    assert {row["directory_state"] for row in found} == {"live"}
    found = rows(capsys, tmp_path / "data", *LATER, "--all-directories")
    assert {row["path"]: row["directory_state"] for row in found}[str(stray)] == "stray"


# ---------------------------------------------------------------------------------------- hanging


def with_coordinator(tmp_path, log_dir):
    """A log dir whose coordinator does not know producer 7."""
    hanging_log(tmp_path / "data" / "orders-0")
    state = "__transaction_state-0"
    shutil.copytree(log_dir / state, tmp_path / "data" / state)
    return tmp_path / "data"


def test_a_hanging_transaction_comes_with_the_command_that_aborts_it(capsys, tmp_path, log_dir):
    data = with_coordinator(tmp_path, log_dir)
    (row,) = rows(capsys, data, *LATER, "--hanging")
    assert (row["state"], row["reason"]) == ("hanging", "no transactional id has producer 7")
    command = (
        "kafka-transactions.sh --bootstrap-server HOST:PORT abort"
        " --topic orders --partition 0 --start-offset 0"
    )
    assert row["abort_command"] == command
    code, out, err = run(capsys, data, *LATER, "--hanging")
    assert code == CLEAN
    header, line, *more = out.splitlines()
    assert header.split()[:2] == ["PARTITION", "STATE"]
    assert line.split()[:3] == ["orders-0", "hanging", "-"]
    assert more[0] == f"to abort it: {command}"
    assert err.startswith("1 transaction: 0 open, 1 hanging, 0 committed, 0 aborted, 0 empty;")


def test_nothing_hangs_before_its_producer_was_idle_for_long_enough(capsys, tmp_path, log_dir):
    data = with_coordinator(tmp_path, log_dir)
    last = NOW + 2
    limit = ("--max-transaction-timeout", "3")
    at = str(last + 3 * 60_000)
    assert rows(capsys, data, "--now", at, "--hanging", *limit) == []
    at = str(last + 3 * 60_000 + 1)
    assert len(rows(capsys, data, "--now", at, "--hanging", *limit)) == 1
    (row,) = rows(capsys, data, "--now", str(NOW - DAY), "--open")
    assert (row["state"], row["age_ms"]) == ("open", -DAY)


def test_without_the_coordinators_log_nobody_knows_whether_it_hangs(capsys, tmp_path):
    path = hanging_log(tmp_path / "orders-0")
    (row,) = rows(capsys, path, *LATER, "--open")
    assert (row["state"], row["abort_command"]) == ("open", None)
    assert row["reason"] == f"unknown whether it hangs: {UNKNOWN}"
    _, _, err = run(capsys, path, *LATER)
    assert f"transactional ids may be unknown: {UNKNOWN}" in err


def test_a_missing_partition_of_the_coordinators_may_have_the_id(capsys, tmp_path, log_dir):
    data = with_coordinator(tmp_path, log_dir)
    (data / "__transaction_state-0").rename(data / "__transaction_state-1")
    (row,) = rows(capsys, data, *LATER, "--open")
    assert row["state"] == "open"
    assert "1 of 2 partitions of __transaction_state are not here" in row["reason"]


# ------------------------------------------------------------------------------- filters and text


def test_a_producer_or_an_id_is_listed_with_what_has_ended(capsys, log_dir):
    found = rows(capsys, log_dir, *LATER, "--transactional-id", "txn-slow")
    assert {row["transactional_id"] for row in found} == {"txn-slow"}
    assert {row["kind"] for row in found} == FIELDS.keys()
    found = rows(capsys, log_dir, *LATER, "--producer-id", "19")
    assert {row["producer_id"] for row in found} == {19}
    _, out, _ = run(capsys, log_dir, *LATER, "--producer-id", "19")
    assert [line.split()[:3] for line in out.splitlines()[1:3]] == [
        ["transactions-0", "aborted", "txn-slow"],
        ["transactions-1", "aborted", "txn-slow"],
    ]


def test_a_marker_without_data_is_an_empty_transaction(capsys, tmp_path):
    path = tmp_path / "orders-0"
    path.mkdir()
    markers = [control_batch(each, producer_id=7, epoch=2) for each in (0, 1)]
    (path / f"{0:020d}.log").write_bytes(b"".join(markers))
    found = of_kind(rows(capsys, path, *LATER), "transaction")
    names = ("state", "first_offset", "last_offset", "marker_offset", "is_empty", "records")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("committed", None, None, 0, True, 0),
        ("committed", None, None, 1, True, 0),
    ]


def test_damage_is_reported_and_the_rest_is_read(capsys, tmp_path):
    path = hanging_log(tmp_path / "orders-0", marker=True)
    log = path / f"{0:020d}.log"
    whole = log.read_bytes()
    log.write_bytes(bytes(30) + b"\x01" * 40 + whole)
    code, out, err = run(capsys, path, *LATER, "--format", "json")
    assert code == FINDINGS
    assert f"{log}@0" in err
    (row,) = of_kind(map(json.loads, out.splitlines()), "transaction")
    assert (row["first_offset"], row["marker_offset"], row["state"]) == (0, 3, "committed")


def test_a_batch_that_a_crash_has_torn_is_the_end(capsys, tmp_path):
    path = hanging_log(tmp_path / "orders-0", marker=True)
    log = path / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    (row,) = of_kind(rows(capsys, path, *LATER), "transaction")
    assert (row["state"], row["marker_offset"]) == ("open", None)


def test_the_verb_is_known_and_refuses_slips(capsys, tmp_path):
    assert cli.main(["transactions", "--help"]) == CLEAN
    assert "--hanging" in capsys.readouterr().out
    assert run(capsys, tmp_path, "--hangin")[0] == USAGE
    assert run(capsys, tmp_path, "--producer-id", "x")[0] == USAGE
    cli.main(["producers"])
    assert "did you mean transactions?" in capsys.readouterr().err
