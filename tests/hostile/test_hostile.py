"""Every verb over hostile directories: a sample here, all of them by `make soak`.

An attempt is a process with 4 GiB of address space. It must end in time with the documented exit
code, without a traceback, without control characters on stderr, without an import from the
evidence, with the evidence unchanged, and with the healthy partition still in what it prints.
"""

import re
from pathlib import Path

import pytest

from tests.hostile import corpus, runner
from tests.hostile.attempts import attempts, problems
from tests.hostile.case import VERBS
from tests.hostile.corpus import CASES

SAMPLE = (
    "names/partition-escape",
    "names/partition-not-utf-8",
    "names/segment-newline",
    "names/checkpoint-bidi",
    "names/property-escape",
    "names/record-newline",
    "links/etc",
    "links/circle",
    "links/segment-out",
    "links/given",
    "special/index-fifo",
    "special/log-socket",
    "special/snapshot-character-device",
    "special/replication-offset-checkpoint-directory",
    "special/meta.properties-block-device",
    "sparse/index-8GiB",
    "sparse/txnindex-1TiB",
    "bombs/gzip-3MiB-limit-1MiB",
    "bombs/zstd-magic2-1GiB",
    "bombs/snappy-block-of-4GiB",
    "lengths/record-length-max",
    "lengths/snapshot-count-max",
    "lies/base-offset--5",
    "lies/control-key-garbage",
    "places/empty",
    "places/poisoned-modules",
)
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


@pytest.fixture(scope="module")
def sample() -> dict[str, list[dict]]:
    """What became of the sample, by case."""
    found: dict[str, list[dict]] = {name: [] for name in SAMPLE}
    for attempt in attempts(SAMPLE):
        found[attempt["case"]].append(attempt)
    return found


@pytest.mark.parametrize("name", SAMPLE)
def test_every_verb_ends_as_documented(sample: dict[str, list[dict]], name: str) -> None:
    assert [attempt["verb"] for attempt in sample[name]] == [*VERBS]
    assert _bad(sample[name]) == {}


@pytest.mark.soak
@pytest.mark.parametrize("group", sorted({case.group for case in CASES.values()}))
def test_every_verb_ends_as_documented_for_every_case(group: str) -> None:
    names = [case.name for case in CASES.values() if case.group == group]
    done = [*attempts(names)]
    assert {attempt["case"] for attempt in done} == set(names)
    assert _bad(done) == {}


def _bad(done: list[dict]) -> dict[str, list[str]]:
    return {
        f"{attempt['case']}: {attempt['verb']}": [*problems(attempt), attempt.get("said", "")]
        for attempt in done
        if problems(attempt)
    }


# ----------------------------------------------------------------------------- the test's own tools


def test_the_sample_has_a_case_of_every_class() -> None:
    assert {CASES[name].group for name in SAMPLE} == {case.group for case in CASES.values()}


def test_a_snapshot_sees_every_change(tmp_path: Path) -> None:
    with corpus.built(CASES["places/healthy"], tmp_path) as base:
        before = runner.snapshot(base)
        assert runner.snapshot(base) == before
        log = base / "evidence" / "transactions-0" / f"{0:020}.log"
        log.write_bytes(log.read_bytes())
        assert runner.snapshot(base) != before  # its time of change
        again = runner.snapshot(base)
        (base / "evidence" / "new").touch()
        assert runner.snapshot(base) != again


def test_a_verb_that_raises_hangs_or_dies_is_noticed() -> None:
    good = {
        "case": "places/healthy",
        "verb": "list",
        "code": 0,
        "seconds": 0.1,
        **dict.fromkeys(("traceback", "controls", "forged", "poisoned"), False),
        **dict.fromkeys(("healthy", "json"), True),
    }
    assert problems(good) == []
    assert problems(good | {"code": 1}) == ["exit code 1, expected 0"]
    assert problems(good | {"code": None, "raised": "the process ended"}) == ["the process ended"]
    assert problems(good | {"traceback": True}) == ["a traceback"]
    assert problems(good | {"poisoned": True}) == ["imported from the evidence"]
    assert problems(good | {"healthy": False}) == ["the healthy partition is missing"]
    assert problems(good | {"changed": ["x"]}) == ["changed x"]


def test_the_page_has_the_number_of_cases() -> None:
    (stated,) = re.findall(r"^(\d+) hostile directories", PAGE.read_text(), re.MULTILINE)
    assert int(stated) == len(CASES)
