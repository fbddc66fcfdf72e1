"""Every byte of every file changed, one at a time, and a full audit each time."""

import re

import pytest

from tests import golden
from tests.audit.bench import Bench
from tests.audit.changes import Change, How, all_changes, sample
from tests.audit.kinds import KINDS, kind_of
from tests.audit.sweep import Sweep
from tests.audit.unseen import CLASSES

POSITIONS = 500


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(golden.shared("small-4.3.1") / "data", tmp_path)


def test_the_directory_has_every_kind_of_file_in_32_kib(bench: Bench) -> None:
    assert {kind_of(name) for name in bench.files} == set(KINDS)
    assert 24 * 1024 < sum(map(len, bench.files.values())) < 32 * 1024


def test_a_change_is_reported_or_of_a_class_that_nobody_can_see(bench: Bench) -> None:
    """500 positions, each in one of the two ways, in turn."""
    sweep = Sweep(bench)
    changes = sample(bench.files, POSITIONS)
    for both, how in zip(zip(*[iter(changes)] * 2, strict=True), (0, 1) * POSITIONS, strict=False):
        sweep.look_at(both[how])
    assert sweep.changes.total() == POSITIONS
    assert set(sweep.changes) == set(KINDS)
    assert sweep.missed == []


@pytest.mark.soak
def test_every_byte_changed_in_both_ways(bench: Bench) -> None:
    sweep = Sweep(bench)
    for change in all_changes(bench.files):
        sweep.look_at(change)
    assert sweep.changes.total() == 2 * sum(map(len, bench.files.values()))
    assert sweep.missed == []
    assert set(sweep.unseen) == {each.name for each in CLASSES}


def test_a_change_is_always_the_same_one() -> None:
    files = {"a": b"abc", "b": b"", "c": bytes(100)}
    assert sample(files, 50) == sample(files, 50)
    assert {each.file for each in sample(files, 10)} == {"a", "c"}
    assert len(set(all_changes(files))) == 2 * 103
    both = [each for each in all_changes(files) if each.file == "a"]
    assert [each.how for each in both] == [How.ALL_BITS, How.ONE_BIT] * 3
    assert both[2].apply(b"abc") == b"a\x9dc"
    assert all((each.mask & (each.mask - 1)) == 0 for each in both[1::2])


@pytest.mark.parametrize("unseen", CLASSES, ids=lambda each: each.name)
def test_every_class_has_a_change_and_a_reason(bench: Bench, unseen) -> None:
    def includes(change: Change) -> bool:
        before = bench.files[change.file]
        return unseen.includes(change, before, change.apply(before))

    small = {name: data for name, data in bench.files.items() if len(data) < 300}
    assert any(map(includes, all_changes(small)))
    assert re.fullmatch(r"[A-Z].*\.", unseen.reason)
