"""Any number of findings, in one order, in bounded memory and never inside the evidence."""

import random
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from kafka_log.disk.output import OutputError
from pipelines.audit import store
from pipelines.audit.store import FindingStore


def row(number, rule="LOG001", severity="error", **more):
    return {
        "id": rule,
        "severity": severity,
        "log_dir": "/data",
        "topic": "t",
        "partition": 0,
        "path": "/data/t-0/0.log",
        "position": number,
        "offset": None,
        "found": "x" * 50,
    } | more


MIXED = [
    row(1, "TIX002", "warning"),
    row(2, "DIR004", "note", topic=None, partition=None, log_dir=None),
    row(3, topic="caf\udce9", path="/data/caf\udce9-0/0.log"),
    row(5),
    row(4),
    row(4, found="the second of the same place"),
    row(0, partition=10),
    row(0, partition=9),
]
ORDERED = [MIXED[2], MIXED[4], MIXED[5], MIXED[3], MIXED[7], MIXED[6], MIXED[0], MIXED[1]]


@pytest.mark.parametrize("limit", [0, 3, 100])
def test_the_worst_come_first_then_by_rule_and_place_in_memory_and_on_disk(limit, monkeypatch):
    monkeypatch.setattr(store, "MOST_IN_MEMORY", limit)
    found = FindingStore()
    for each in MIXED:
        found.add(each)
    assert list(found) == ORDERED
    assert list(found) == ORDERED  # again
    assert len(found) == 8


def test_hundreds_of_thousands_of_findings_need_little_memory_and_leave_no_file():
    found = FindingStore()
    numbers = list(range(200_000))
    random.Random(1).shuffle(numbers)
    tracemalloc.start()
    for number in numbers:
        found.add(row(number))
    positions = [each["position"] for each in found]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert positions == list(range(200_000))
    assert most < 60_000_000
    directory = Path(found._database.execute("PRAGMA database_list").fetchone()[2]).parent
    assert directory.exists()
    del found
    assert not directory.exists()


def test_temporary_files_are_never_inside_the_evidence(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(store, "MOST_IN_MEMORY", 0)
    with pytest.raises(OutputError, match="must not be inside the evidence"):
        FindingStore([str(tmp_path)]).add(row(1))
    assert list(tmp_path.iterdir()) == []
