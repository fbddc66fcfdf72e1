"""Suites of whole directories and of appends: recovery, retention, validation."""

import random
import shutil
from pathlib import Path
from typing import Any

from tests.kafka_log.append_cases import AppendCase, draw_case, draw_fetch, draw_large_case
from tests.kafka_log.appends import test_validation_oracle as validation
from tests.kafka_log.damaged.cases import draw_case as draw_damage
from tests.kafka_log.damaged.cases import make
from tests.kafka_log.damaged.sources import build_sources
from tests.kafka_log.loading import test_partition_recovery_oracle as recovery
from tests.kafka_log.retention import test_plan_oracle as retention
from tests.oracle.client import Oracle
from tests.show.sides import Row, Shown, row, rows_of
from tests.show.text import batch_lines, drawn_lines, file_rows, files_in


def show_recovery(oracle: Oracle, seed: int, folder: Path) -> Shown:
    """A damaged directory after a restart; what the comparison says is the first row."""
    case = draw_damage(seed, build_sources(oracle, folder / "sources"))
    make(case, folder / "before")
    before = files_in(folder / "before" / case.directory)
    for copy in ("kafka", "ours"):
        shutil.copytree(folder / "before" / case.directory, folder / copy / case.directory)
    path = folder / "kafka" / case.directory
    (answer,) = oracle.call("open_logs", logs=[{**case.arguments, "path": path}], timeout=300)
    problem = recovery.compare(case, answer, folder)
    drawn = [str(case), *drawn_lines({"arguments": case.arguments})]
    drawn += [f"  {name} {len(data)} bytes" for name, data in sorted(before.items())]
    kafka = answer.get("error", "opened")
    rows = [row("loaded", kafka, problem or "the same", is_same=problem is None)]
    return Shown(drawn, rows + file_rows(files_in(path), files_in(folder / "ours" / path.name)))


def show_retention(oracle: Oracle, seed: int, folder: Path) -> Shown:
    """One log, and four runs of retention over it: planned, and by a log that is open."""
    drawn = drawn_lines({"steps": retention.draw_log(random.Random(seed))})
    rows: list[Row] = []
    for i, run in enumerate(retention.run_cases(oracle, folder, [seed])):
        drawn.append(f"  case {i}: {run.case}")
        left = {int(name[:20]) for name in run.kafka if name.endswith(".log")}
        gone = [base for base in run.bases if base not in left]
        planned = [facts.base_offset for facts in run.plan.deleted]
        rows.append(row(f"case {i}: segments that go", gone, planned))
        rows.append(row(f"case {i}: deleted by the open log", run.deleted, run.logged))
        rows += file_rows(run.kafka, run.ours, f"case {i} planned ")
        rows += file_rows(run.kafka, run.log, f"case {i} open log ")
    return Shown(drawn, rows)


def show_append(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_append(oracle, draw_case(seed), folder, ways=(None,))


def show_large_append(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_append(oracle, draw_large_case(seed), folder, ways=(False, True))


def show_fetch(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_append(oracle, draw_fetch(seed), folder, ways=(False, True, None))


def _show_append(
    oracle: Oracle, case: AppendCase, folder: Path, ways: tuple[bool | None, ...]
) -> Shown:
    """`ways`: by rows (False), by kernels (True), or as the size of each batch says."""
    (answer,) = validation.ask(oracle, folder / "orders-0", [case])
    rows: list[Row] = []
    for compiled in ways:
        found = validation.ours(case, compiled=compiled)
        ours, kafka = map(_with_batches, validation.comparable(found, validation.kafkas(answer)))
        for part in sorted(kafka.keys() | ours.keys()):
            label = f"{part}, compiled {compiled}"
            rows += rows_of(label, kafka.get(part), ours.get(part))
    fields = {name: getattr(case, name) for name in case.__dataclass_fields__}
    return Shown(drawn_lines(fields), rows)


def _with_batches(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer that holds records, with their batches beside them."""
    data = answer.get("validation", {}).get("bytes")
    if not isinstance(data, bytes | bytearray | memoryview):
        return answer  # refused, or in batches already
    validated = answer["validation"] | {"bytes": bytes(data), "batches": batch_lines(bytes(data))}
    return answer | {"validation": validated}
