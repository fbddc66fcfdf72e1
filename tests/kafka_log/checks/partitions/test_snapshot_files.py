"""Producer snapshots that were edited or removed, next to a log that Kafka wrote."""

import os
import shutil
from pathlib import Path

import pytest

from kafka_format.producer_snapshot import ProducerSnapshotEntry
from tests.kafka_log.checks.edits import edit_snapshot, named
from tests.kafka_log.checks.partition_audit import audit_directory, ids
from tests.oracle.client import BuiltLog, Oracle
from tests.oracle.logs import START

SNAPSHOT = ".snapshot"
DAY_MS = 24 * 60 * 60 * 1000


def found(log: Path, *, is_clean: bool | None = True, now_ms: int = START) -> list[str]:
    return ids(audit_directory(log, is_clean=is_clean, now_ms=now_ms)[0])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("producer_epoch", 3),
        ("last_sequence", 2),
        ("last_offset", 3),
        ("offset_delta", 40),
        ("timestamp", START - 1),
        ("coordinator_epoch", 99),
        ("current_txn_first_offset", 1),
    ],
)
def test_an_entry_with_another_value_is_snp005(log: Path, field: str, value: int) -> None:
    edit_snapshot(
        named(log, 339, SNAPSHOT),
        lambda entries: [entries[0]._replace(**{field: value}), *entries[1:]],
    )
    assert found(log) == ["SNP005"]


def test_one_finding_counts_all_producers_of_a_snapshot(log: Path) -> None:
    edit_snapshot(named(log, 339, SNAPSHOT), lambda _: [])
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert finding.id == "SNP005"
    assert finding.found.startswith("no producer 1000; ")
    assert finding.found.endswith(" more producers with differences")


def test_a_producer_that_never_wrote_is_snp005(log: Path) -> None:
    extra = ProducerSnapshotEntry(77, 0, 0, 3, 0, START, -1, -1)
    edit_snapshot(named(log, 339, SNAPSHOT), lambda entries: [*entries, extra])
    assert found(log) == ["SNP005"]


def test_a_producer_that_may_have_expired_is_not_missed(log: Path) -> None:
    def without_idle(entries: list[ProducerSnapshotEntry]) -> list[ProducerSnapshotEntry]:
        kept = [each for each in entries if each.current_txn_first_offset >= 0]
        assert 0 < len(kept) < len(entries)
        return kept

    edit_snapshot(named(log, 339, SNAPSHOT), without_idle)
    assert found(log, now_ms=START) == ["SNP005"]
    assert found(log, now_ms=START + 2 * DAY_MS) == []
    os.utime(named(log, 339, SNAPSHOT), (START / 1000 + 600,) * 2)  # too early for an expiration
    assert found(log, now_ms=START + 2 * DAY_MS) == ["SNP005"]


def test_kafka_forgets_expired_producers_and_learns_them_again(
    oracle: Oracle, tmp_path: Path
) -> None:
    batch = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    data = [{"timestamp": START, "key": None, "value": None}]
    marker = {"control": {"type": "COMMIT", "coordinator_epoch": 4}, "timestamp": START}
    later = START + 2 * DAY_MS
    steps = [
        {"do": "append", "batch": batch | {"base_sequence": 0, "records": data}},
        {"do": "append", "origin": "COORDINATOR", "batch": batch | marker},
        {"do": "roll"},
        {"do": "remove_expired_producers", "time": later},
        {
            "do": "append",
            "batch": batch
            | {"base_sequence": 1, "records": [{"timestamp": later, "key": None, "value": None}]},
        },
        {"do": "roll"},
    ]
    path = tmp_path / "orders-0"
    answer = oracle.run_log(
        path, time=START, steps=steps, producer_id_expiration_ms=DAY_MS, close="clean"
    )
    assert answer["state"]["producers"][0]["coordinator_epoch"] == -1  # not 4: it was forgotten
    findings, facts = audit_directory(path, is_clean=True, now_ms=later)
    assert findings == []
    assert [each.coordinator_epoch for each in facts.producers] == [-1]


def test_an_open_transaction_that_the_loaded_snapshot_lacks_is_snp006(log: Path) -> None:
    def closed(entries: list[ProducerSnapshotEntry]) -> list[ProducerSnapshotEntry]:
        assert any(each.current_txn_first_offset >= 0 for each in entries)
        return [each._replace(current_txn_first_offset=-1) for each in entries]

    edit_snapshot(named(log, 517, SNAPSHOT), closed)
    assert found(log) == ["SNP006"]
    assert found(log, is_clean=False) == ["SNP005"]  # a recovery from offset 0 does not load it


def test_a_segment_without_a_snapshot_is_snp007(log: Path) -> None:
    named(log, 339, SNAPSHOT).unlink()
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert (finding.id, finding.offset) == ("SNP007", 339)
    assert finding.found == "no snapshot at 1 of 18 segments"
    named(log, 394, SNAPSHOT).unlink()
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert finding.found == "no snapshot at 2 of 18 segments"


def test_a_clean_stop_without_a_snapshot_is_snp008(log: Path) -> None:
    named(log, 517, SNAPSHOT).unlink()
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert (finding.id, finding.found) == ("SNP008", "the newest at 516")
    assert found(log, is_clean=False) == []
    assert found(log, is_clean=None) == []


def test_a_snapshot_beyond_the_end_is_snp009(log: Path) -> None:
    shutil.copy(named(log, 517, SNAPSHOT), named(log, 600, SNAPSHOT))
    (finding,) = audit_directory(log, is_clean=True, now_ms=START)[0]
    assert (finding.id, finding.offset) == ("SNP009", 600)


def test_the_last_segment_is_missed_by_the_snapshots_that_are_left(log: Path) -> None:
    for path in log.glob("00000000000000000516.*"):
        if path.suffix != SNAPSHOT:
            path.unlink()
    # The snapshot at 516 is now the one at the log end.
    assert found(log) == ["SNP009"]


def test_a_damaged_snapshot_is_reported_once_and_not_compared(log: Path) -> None:
    path = named(log, 339, SNAPSHOT)
    path.write_bytes(path.read_bytes()[:-1] + b"\\x07")
    assert found(log) == ["SNP001"]


def test_producers_are_those_that_kafka_knew(built: BuiltLog) -> None:
    _, facts = audit_directory(built.path, is_clean=True, now_ms=START)
    names = ProducerSnapshotEntry._fields
    expected = {tuple(each[name] for name in names) for each in built.state["producers"]}
    assert {tuple(each) for each in facts.producers} == expected
