"""Whatever call to the disk fails, every verb ends in order: `make test` a sample, `make soak` all.

The sweep runs in a process without threads, from which it forks: see the package's own words.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.directories import END, NOW
from tests.faults.sweep import CASES, records

ROOT = Path(__file__).parents[2]
SAMPLE = 200
"""One of so many runs, in `make test`."""
KILLED = 5
"""One of so many trees of a kill in place that Kafka starts on, in `make soak`."""


def sweep(*options: str, timeout: int = 600) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--json", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def check(oracle, found, killed, *, every=1):
    assert [each["problem"] for each in found["wrong"]] == [], json.dumps(found["wrong"], indent=1)
    assert [row["case"] for row in found["cases"]] == [case.name for case in CASES]
    trees = sorted(killed.glob("*/*"))[::every]
    for tree in trees:
        starts_on(oracle, tree)
    return trees


def starts_on(oracle, tree):
    """Kafka's start repairs it: all that was acknowledged is there, and nothing else."""
    answer = oracle.call("start_log_manager", paths=[tree], config={}, time=NOW)
    assert "error" not in answer, tree
    assert not answer["offline"], tree
    end = answer["logs"]["orders-0"]["log_end_offset"]
    values = dict(records(tree)["orders-0"])
    if tree.parent.name == "recover":
        assert end == END - 1, tree  # the last batch is torn
    else:
        assert end == END, tree
    latest = {6: b"value-6", 7: b"value-7", 8: b"value-8"}
    if tree.parent.name == "retain":
        latest.pop(6)
        latest.pop(7)
    assert latest.items() <= values.items(), tree
    assert len(answer["logs"]) == 2, tree


def test_a_sample_of_faults(oracle, tmp_path):
    found = sweep(f"--every={SAMPLE}", f"--killed={tmp_path}")
    assert len(check(oracle, found, tmp_path)) > 2
    assert sum(row["runs"] for row in found["cases"]) > 150


@pytest.mark.soak
def test_every_fault_at_every_call(oracle, tmp_path):
    found = sweep(f"--killed={tmp_path}", timeout=4 * 3600)
    print(json.dumps(found["cases"], indent=1))
    assert len(check(oracle, found, tmp_path, every=KILLED)) > 100
    assert sum(row["calls"] for row in found["cases"]) > 5000
