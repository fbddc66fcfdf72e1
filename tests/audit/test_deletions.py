"""Every file removed, one at a time; segments swapped, duplicated, and taken from elsewhere."""

from collections.abc import Iterator
from itertools import combinations, permutations
from pathlib import Path

import pytest

from tests import golden
from tests.audit.bench import Bench

PARTITIONS = ("orders-0", "orders-1", "compacted-0")
UNSEEN = {
    ".kafka_cleanshutdown": "a broker that was killed leaves none, and a restart recovers the logs",
    "bootstrap.checkpoint": "read only while the metadata log is empty",
    "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint": "a newer snapshot is there",
    "__cluster_metadata-0/00000000000000000051-0000000001.checkpoint": "the log has all of it",
    "__cluster_metadata-0/00000000000000000000.index": "the last segment of a Raft log that is in "
    "use may have none yet, and the marker of a clean stop is not about that log",
    "__cluster_metadata-0/00000000000000000000.timeindex": "as its offset index",
    "__cluster_metadata-0/00000000000000000052.snapshot": "of an earlier stop: Kafka deletes those",
    "__transaction_state-0/00000000000000000020.snapshot": "of an earlier stop",
    "orders-0/00000000000000000033.snapshot": "of an earlier stop",
    "orders-1/00000000000000000024.snapshot": "of an earlier stop",
    "compacted-0/00000000000000000008.snapshot": "a cleaned segment may begin where none was taken",
}
"""Files whose absence is no finding, and why."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(golden.shared("small-4.3.1") / "data", tmp_path_factory.mktemp("deletions"))


def test_the_healthy_directory_has_an_open_transaction_and_no_findings(bench: Bench) -> None:
    assert [each.id for each in bench.healthy] == ["TRN001"]


def test_every_file_that_is_removed_is_missed(bench: Bench) -> None:
    unseen = []
    for name in bench.files:
        with bench.with_files({name: None}):
            seen = bench.seen()
        about = Path(bench.root, name).parent
        if not any(Path(each.path).is_relative_to(about) for each in seen.new):
            unseen.append(name)
    assert sorted(unseen) == sorted(UNSEEN)


def _contents(bench: Bench, source: str, target: str, endings: set[str]) -> dict[str, bytes | None]:
    """The files of a segment with the contents of another; a stem is `partition/base offset`."""
    return {
        f"{target}.{ending}": bench.files.get(f"{source}.{ending}")
        for ending in endings
        if f"{source}.{ending}" in bench.files or f"{target}.{ending}" in bench.files
    }


LOG, SEGMENT = {"log"}, {"log", "index", "timeindex", "txnindex"}


def _pairs(bench: Bench) -> Iterator[tuple[str, str]]:
    for partition in PARTITIONS:
        stems = [f"{partition}/{stem}" for stem in bench.segments(partition)]
        yield from combinations(stems, 2)


@pytest.mark.parametrize("endings", [LOG, SEGMENT], ids=["log", "segment"])
def test_two_segments_that_are_swapped_are_reported(bench: Bench, endings: set[str]) -> None:
    pairs = list(_pairs(bench))
    assert len(pairs) > 30
    for one, other in pairs:
        changes = _contents(bench, one, other, endings) | _contents(bench, other, one, endings)
        with bench.with_files(changes):
            assert bench.seen().damage, (one, other)


@pytest.mark.parametrize("endings", [LOG, SEGMENT], ids=["log", "segment"])
def test_a_segment_in_place_of_another_is_reported(bench: Bench, endings: set[str]) -> None:
    for one, other in _pairs(bench):
        for source, target in permutations((one, other)):
            with bench.with_files(_contents(bench, source, target, endings)):
                assert bench.seen().damage, (source, target)


@pytest.mark.parametrize("endings", [LOG, SEGMENT], ids=["log", "segment"])
def test_a_segment_of_another_partition_is_reported(bench: Bench, endings: set[str]) -> None:
    """Not in a compacted log: a segment that fits its gaps may be its own."""
    stems = [f"{each}/{stem}" for each in bench.partitions() for stem in bench.segments(each)]
    foreign = [
        (source, target)
        for source, target in permutations(stems, 2)
        if source.split("/")[0] != target.split("/")[0]
        and target.startswith("orders-")
        and bench.files[f"{source}.log"]
    ]
    assert len(foreign) > 100
    for source, target in foreign[::5] if endings == SEGMENT else foreign[::3]:
        with bench.with_files(_contents(bench, source, target, endings)):
            assert bench.seen().damage, (source, target)


def test_a_foreign_segment_beside_the_others_is_reported(bench: Bench) -> None:
    """Under its own name: its offsets are already there, or leave a gap."""
    for source, target in permutations(("orders-0", "orders-1", "codecs-0", "trimmed-0"), 2):
        for stem in bench.segments(source):
            if f"{target}/{stem}.log" in bench.files:
                continue
            with bench.with_files(
                _contents(bench, f"{source}/{stem}", f"{target}/{stem}", SEGMENT)
            ):
                assert bench.seen().damage, (source, target, stem)
