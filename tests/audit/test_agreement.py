"""Audit, recover, offsets and retain agree with each other, and with Kafka, on damaged logs."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.audit.agreement import disagreements
from tests.audit.auditing import NOW, audit
from tests.audit.bench import Bench
from tests.audit.changes import sample
from tests.kafka_log.damaged.cases import Case, draw_case, make
from tests.kafka_log.damaged.sources import Source, build_sources
from tests.oracle.client import Oracle
from tests.pipelines.source.tables.test_findings import CASES, TIME, log_dir, write

SEEDS = 120
MORE_SEEDS = 3000


@pytest.fixture(scope="module")
def sources(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return build_sources(oracle, tmp_path_factory.mktemp("sources"))


def damaged_log_dir(case: Case, root: Path) -> Path:
    """The damaged partition of a case in a log dir whose files say what its arguments say."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    make(case, root)
    start = case.arguments["log_start_offset"]
    rows = {
        "recovery-point": f"0\n1\norders 0 {case.arguments['recovery_point']}\n",
        "log-start": f"0\n1\norders 0 {start}\n" if start else "0\n0\n",
        "replication": "0\n0\n",
    }
    for name, text in rows.items():
        (root / f"{name}-offset-checkpoint").write_text(text)
    if case.arguments["clean_shutdown"]:
        (root / ".kafka_cleanshutdown").write_text("")
    return root


def kafkas_end(oracle: Oracle, case: Case, root: Path, scratch: Path) -> int | None:
    """Where the log ends after Kafka has opened a copy; None if it does not open it."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(root, scratch)
    log: dict[str, Any] = case.arguments | {"path": scratch / case.directory}
    (answer,) = oracle.call("open_logs", logs=[log], timeout=120)
    return None if "error" in answer else answer["opened"]["log_end_offset"]


def check(oracle: Oracle, case: Case, folder: Path) -> None:
    root = damaged_log_dir(case, folder / "data")
    now = case.arguments["time"]
    assert disagreements(root, case.source.settings, now) == [], case
    reported = [each for each in audit(root, now_ms=now) if each.severity != "note"]
    if kafkas_end(oracle, case, root, folder / "kafka") != case.source.log_end_offset:
        assert reported, case


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_damaged_directory_is_judged_alike(
    seed: int, oracle: Oracle, sources: list[Source], tmp_path: Path
) -> None:
    case = draw_case(seed, sources)
    if case.directory == "orders-0":  # others are not loaded as logs of this partition
        check(oracle, case, tmp_path)


@pytest.mark.soak
def test_many_damaged_directories_are_judged_alike(
    oracle: Oracle, sources: list[Source], tmp_path: Path
) -> None:
    for seed in range(SEEDS, SEEDS + MORE_SEEDS):
        case = draw_case(seed, sources)
        if case.directory == "orders-0":
            check(oracle, case, tmp_path)


@pytest.mark.parametrize("rule", CASES)
@pytest.mark.parametrize("is_clean", [False, True])
def test_the_directory_of_every_finding_is_judged_alike(
    rule: str, is_clean: bool, tmp_path: Path
) -> None:
    root = log_dir(tmp_path)
    write(root, CASES[rule].name, CASES[rule].data)
    if is_clean:
        write(root, ".kafka_cleanshutdown", b"")
    assert disagreements(root, {}, TIME) == []


@pytest.mark.parametrize("is_clean", [False, True], ids=["killed", "stopped"])
def test_a_changed_byte_is_judged_alike(tmp_path: Path, is_clean: bool) -> None:
    """Without the marker of a clean stop every log is recovered from its first record."""
    source = Path(shutil.copytree(golden.shared("small-4.3.1") / "data", tmp_path / "data"))
    if not is_clean:
        (source / ".kafka_cleanshutdown").unlink()
        (source / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    bench = Bench(source, tmp_path / "bench")
    assert disagreements(bench.root, {}, NOW) == []
    for change in sample(bench.files, 60, seed=2):
        with bench.with_files({change.file: change.apply(bench.files[change.file])}):
            assert disagreements(bench.root, {}, NOW) == [], change
