"""What is normal on a healthy broker is no finding: golden packs, and what live brokers write."""

from collections import Counter
from pathlib import Path

import pytest

from tests import golden
from tests.audit import live
from tests.audit.auditing import Found, audit

NORMAL = {
    "DIR009": "what retention, the cleaner or a deletion marked stays for log.segment.delete.delay",
    "DIR012": "a deleted topic's directory stays for that time",
    "DIR013": "a replica was on its way to another log dir at the stop",
    "TRN001": "a client died within a transaction",
}
"""Notes on healthy directories, and why they are there."""
LIVE_NORMAL = NORMAL | {
    "GRP003": "the clients of these tests commit offset 0 in logs whose start has moved",
    "CKP010": "a kill between the creation of a partition and the next checkpoint",
    "CLN004": "the cleaner had no time for another round after the horizon",
    "DIR014": "a warning: a topic was deleted while the second broker was down",
}
PARTITIONS = 2000
"""User and internal ones, about a third of them compacted."""


def errors_and_warnings(found: list[Found], *known: str) -> list[Found]:
    return [each for each in found if each.severity != "note" and each.id not in known]


@pytest.mark.parametrize("name", golden.names())
def test_what_real_brokers_left_is_healthy(name: str) -> None:
    found = audit(*golden.log_dirs(golden.shared(name)))
    assert errors_and_warnings(found) == []
    assert {each.id for each in found} <= NORMAL.keys()


@pytest.mark.parametrize("name", golden.names())
def test_the_partitions_of_a_pack_are_healthy_each_on_its_own(name: str) -> None:
    """A partition directory is accepted without its log dir, and a log without anything."""
    for log_dir in golden.log_dirs(golden.shared(name)):
        for partition in sorted(each for each in log_dir.iterdir() if each.is_dir()):
            assert errors_and_warnings(audit(partition)) == [], partition
            for log in sorted(partition.glob("*.log"))[:2]:
                assert errors_and_warnings(audit(log)) == [], log


def test_a_minute_of_a_live_broker_is_healthy(tmp_path: Path) -> None:
    life = live.write("4.3.1", 0, tmp_path, partitions=15)
    found = audit(*life.log_dirs)
    assert errors_and_warnings(found) == [], life
    assert {each.id for each in found} <= LIVE_NORMAL.keys()


@pytest.mark.soak
@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_thousands_of_partitions_of_live_brokers_are_healthy(version: str, tmp_path: Path) -> None:
    partitions = seed = 0
    ends: Counter[bool] = Counter()
    while partitions < PARTITIONS:
        seed += 1
        scratch = tmp_path / f"{version}-{seed}"
        scratch.mkdir()
        life = live.write(version, seed, scratch)
        found = audit(*life.log_dirs, *life.replica_dirs)
        assert errors_and_warnings(found, "DIR014") == [], life
        assert {each.id for each in found} <= LIVE_NORMAL.keys(), life
        partitions += life.partitions
        ends[life.was_killed] += 1
    assert min(ends.values()) > 2
