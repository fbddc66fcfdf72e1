"""A seed is shown with its drawing and both sides; a wrong byte of ours is found on the page."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_log.cleaner.cleaning import compare, planned_case
from tests.kafka_log.compare import compare_workloads, scratch
from tests.kafka_log.damaged.cases import draw_case
from tests.kafka_log.damaged.sources import Source
from tests.kafka_log.driver import Session
from tests.kafka_log.loading import test_partition_recovery_oracle as recovery
from tests.kafka_log.segment_driver import OurSegment
from tests.kafka_log.segment_steps import State
from tests.kafka_log.workload import draw_long_workload, draw_workload
from tests.oracle.client import Oracle
from tests.show import command, seen_by
from tests.show.__main__ import main
from tests.show.sides import Shown, rows_of
from tests.show.suites import SUITES

TESTS = Path(__file__).parents[1]
SEED = 3

DRAWN = {  # a part of each drawing that only this case has
    "cleaner": "plan 3, keys",
    "cleaner-life": "life 3, keys",
    "cleaner-snappy": "plan 7, keys",
    "epochs": "assign",
    "explain": "plan 3, keys",
    "explain-life": "life 3, keys",
    "fetch": "origin 'REPLICATION'",
    "log": "append leader_epoch",
    "log-long": "append leader_epoch",
    "log-without-crashes": "append leader_epoch",
    "manager": "done_cleaning",
    "offset-index": "upper_bound position",
    "producers": "append origin",
    "producers-long": "append origin",
    "recovery": "seed 3: ",
    "retention": "case 3: Case(now=",
    "segment": "append largest_offset",
    "time-index": "append timestamp",
    "transaction-index": "append last_stable_offset",
    "validation": "to_magic",
    "validation-large": "note 'large'",
}


def show(oracle: Oracle, suite: str, seed: int = SEED) -> Shown:
    with scratch() as folder:
        return SUITES[suite].show(oracle, seed, folder)


LONG = {"log-long"}
SEEDS = {"cleaner-snappy": 7}  # of other seeds the library's choices differ


@pytest.mark.parametrize(
    "suite",
    [pytest.param(each, marks=[pytest.mark.soak] if each in LONG else []) for each in SUITES],
)
def test_a_seed_is_shown_with_its_drawing_and_both_sides(oracle: Oracle, suite: str) -> None:
    seed = SEEDS.get(suite, SEED)
    shown = show(oracle, suite, seed)
    page = shown.page(f"{suite} {seed}")
    assert shown.differing == []
    assert page.startswith(f"{suite} {seed}: both sides are the same\n\nDRAWN\n")
    drawing, table = re.split(r"\n\n  what +KAFKA +OURS\n", page)
    assert DRAWN[suite] in drawing
    assert len(table.splitlines()) >= len(shown.rows) > 0
    assert not re.search("^!", table, re.MULTILINE)


def test_the_command_prints_the_page_and_tells_whether_sides_differ(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["log", "3"]) == 0
    assert capsys.readouterr().out.startswith("log 3: both sides are the same\n")
    monkeypatch.setattr(Session, "close", _damaging(Session.close))
    assert main(["log", "3"]) == 1
    assert re.match(r"log 3: \d+ of \d+ rows differ\n", capsys.readouterr().out)


def test_without_a_suite_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SUITES)


# ------------------------------------------------------------------------------ what is wrong


def _damaging(close: Callable[[Session, str], None]) -> Callable[[Session, str], None]:
    """Close a log, then flip a bit of the last byte of its newest segment that has any."""

    def damage(self: Session, how: str) -> None:
        close(self, how)
        files = sorted(Path(self.log.files.directory).glob("*.log"))
        path = [each for each in files if each.stat().st_size][-1]
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    return damage


@pytest.mark.parametrize("suite", ["cleaner", "log"])
def test_a_wrong_byte_is_shown_with_its_position_and_its_batch(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch, suite: str
) -> None:
    monkeypatch.setattr(Session, "close", _damaging(Session.close))
    shown = show(oracle, suite)
    labels = [each.label for each in shown.differing]
    at = next(i for i, label in enumerate(labels) if re.fullmatch(r"\d{20}\.log", label))
    file, byte, batch = shown.differing[at : at + 3]
    assert file.kafka == file.ours
    size = int(file.kafka.split()[0])
    assert byte.label == f"  byte {size - 1} (from {size - 5} on)"
    assert int(byte.kafka[-2:], 16) ^ int(byte.ours[-2:], 16) == 1
    assert "BAD CHECKSUM" in batch.ours
    assert "BAD CHECKSUM" not in batch.kafka
    assert re.search(rf"^! {file.label} ", shown.page(""), re.MULTILINE)


def test_a_wrong_answer_is_shown_by_the_value_that_differs(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = OurSegment._state

    def wrong(self: OurSegment, step: State) -> list[Any]:
        size, *others = state(self, step)
        return [size + 1, *others]

    monkeypatch.setattr(OurSegment, "_state", wrong)
    differing = show(oracle, "segment").differing
    assert differing
    assert all(re.fullmatch(r"\d+ state\[0\]", each.label) for each in differing)
    assert [each.ours - each.kafka for each in differing] == [1] * len(differing)


def test_an_error_of_ours_is_a_row_and_no_end(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(Session, "try_step", fail)
    (ended,) = [row for row in show(oracle, "log").differing if "ended" in row.label]
    assert ended.ours == "ZeroDivisionError('by nothing')"


def test_parts_that_are_the_same_are_left_out_of_what_differs() -> None:
    kafka = {"state": {"end": 5, "start": 0}, "rows": [1, 2]}
    ours = {"state": {"end": 6, "start": 0}, "rows": [1, 3], "more": True}
    found = {each.label: (each.kafka, each.ours) for each in rows_of("log", kafka, ours)}
    assert found == {
        "log state end": (5, 6),
        "log rows[1]": (2, 3),
        "log more": ("(nothing)", True),
    }


# ------------------------------------------------------------------- what a failure tells to do


def test_a_failure_names_the_command_once() -> None:
    with pytest.raises(AssertionError) as raised, seen_by("log", 3), seen_by("log", 3):
        raise AssertionError("of something")
    assert raised.value.__notes__ == ["both sides of it: python -m tests.show log 3"]
    with pytest.raises(AssertionError) as raised, seen_by("log", None):
        raise AssertionError("of something")
    assert not hasattr(raised.value, "__notes__")


def test_a_log_and_a_cleaned_log_that_differ_name_theirs(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "close", _damaging(Session.close))
    with pytest.raises(AssertionError) as raised:
        compare_workloads(oracle, [draw_workload(SEED)])
    assert raised.value.__notes__ == [f"both sides of it: {command('log', SEED)}"]
    with pytest.raises(AssertionError) as raised, scratch() as folder:
        compare(oracle, folder, [planned_case(oracle, folder, SEED)])
    assert raised.value.__notes__ == [f"both sides of it: {command('cleaner', SEED)}"]


def test_a_directory_that_is_recovered_otherwise_names_its_own(
    oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sound" / "orders-0"
    built = oracle.build_log(path, seed=1, batches=20)
    end = built.state["log_end_offset"]
    source = Source(name="sound", path=path, log_end_offset=end)
    monkeypatch.setattr(recovery, "_compare_files", lambda *_: "some difference")
    (problem,) = recovery.run_cases(oracle, [source], [SEED], tmp_path / "work")
    assert problem.endswith("some difference; both sides of it: python -m tests.show recovery 3")
    assert "tests.show" not in str(draw_case(SEED, [source]))


def test_every_suite_that_a_failure_names_can_be_shown() -> None:
    named = {draw_workload(0, sessions=0).suite, draw_long_workload(0).suite}
    named |= {draw_workload(0, sessions=0, crashes=False).suite}
    for path in TESTS.rglob("*.py"):
        if path.parent != Path(__file__).parent:
            text = path.read_text()
            named.update(re.findall(r"""(?:seen_by|command)\(["']([\w-]+)["'],""", text))
            named.update(re.findall(r'suite="([\w-]+)"', text))
    assert {"cleaner-life", "epochs", "log-long", "manager", "recovery", "retention"} <= named
    assert named <= SUITES.keys()
