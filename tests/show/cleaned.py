"""Suites of the cleaner: its rounds, its explained rows, and its manager's calls."""

import dataclasses
import random
import shutil
from pathlib import Path

from tests.kafka_log.cleaner.cleaning import (
    CleaningCase,
    draw_plan,
    kafka_runs,
    lived_cases,
    open_case,
    our_passes,
    planned_case,
    set_times,
)
from tests.kafka_log.cleaner.managed import Managed, tidied
from tests.kafka_log.driver import brief_state
from tests.oracle.client import Oracle
from tests.show.sides import Row, Shown, row, rows_of
from tests.show.text import batch_lines, drawn_lines, file_rows, files_in


def show_planned(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return show_case(oracle, planned_case(oracle, folder, seed), folder)


def show_snappy(oracle: Oracle, seed: int, folder: Path) -> Shown:
    """The same log in snappy, whose bytes are its library's own choice."""
    plan = dataclasses.replace(draw_plan(seed), magic=2, codecs=("snappy",))
    case = planned_case(oracle, folder, seed, plan)
    return show_case(oracle, dataclasses.replace(case, passes=case.passes[:1]), folder)


def show_lived(oracle: Oracle, seed: int, folder: Path) -> Shown:
    (case,) = lived_cases(oracle, folder, [seed])
    return show_case(oracle, case, folder)


def show_case(oracle: Oracle, case: CleaningCase, folder: Path) -> Shown:
    """The passes, the state of the log, every file, and the times that were set."""
    shown = Shown(_drawn(case))
    (run,) = kafka_runs(folder, [case])
    (theirs,) = oracle.call("clean_logs", runs=[run], timeout=600)
    if "error" in theirs:
        shown.rows.append(row("the directory does not load", theirs["error"], "not tried"))
        return shown
    ours = folder / "ours" / case.source.name
    shutil.copytree(case.source, ours)
    try:
        shown.rows += _pass_rows(case, ours, theirs)
    except Exception as error:  # noqa: BLE001 - whatever ours raises is shown
        shown.rows.append(row("passes", "no error", repr(error)))
    kafka = run["path"]
    shown.rows += file_rows(files_in(kafka), files_in(ours))
    shown.rows += rows_of("modification times", set_times(kafka), set_times(ours))
    return shown


def _drawn(case: CleaningCase) -> list[str]:
    lines = [f"  {case.name}, keys {case.keys.name}, rules {case.rules}"]
    lines += drawn_lines({"arguments": case.arguments, "passes": case.passes})
    for path in sorted(case.source.glob("*.log")):
        lines += [f"  {path.name}", *(f"    {line}" for line in batch_lines(path.read_bytes()))]
    return lines


def _pass_rows(
    case: CleaningCase, ours: Path, theirs: dict[str, list[dict[str, object]]]
) -> list[Row]:
    rows: list[Row] = []
    session = open_case(case, ours)
    for i, (found, expected) in enumerate(
        zip(our_passes(case, session), theirs["passes"], strict=True)
    ):
        if "error" in found or "error" in expected:
            is_same = ("error" in found) == ("error" in expected)
            sides = expected.get("error", "no error"), repr(found.get("error", "no error"))
            rows.append(row(f"pass {i} error", *sides, is_same=is_same))
        else:
            rows += rows_of(f"pass {i}", expected, found)
    state = brief_state(session.log)
    session.close(case.arguments["close"])
    return rows + rows_of("state", theirs.get("state", state), state)


def show_explained(oracle: Oracle, seed: int, folder: Path) -> Shown:
    """The rows that say what stays, and the offsets that Kafka's cleaner left."""
    return _show_explained(oracle, planned_case(oracle, folder, seed), folder)


def show_explained_life(oracle: Oracle, seed: int, folder: Path) -> Shown:
    (case,) = lived_cases(oracle, folder, [seed])
    return _show_explained(oracle, case, folder)


def _show_explained(oracle: Oracle, case: CleaningCase, folder: Path) -> Shown:
    from tests.kafka_log.cleaner.explain.test_explain_oracle import left_by_kafka, run_case

    shown = Shown(_drawn(case))
    (run,) = kafka_runs(folder, [case])
    (theirs,) = oracle.call("clean_logs", runs=[run], timeout=600)
    ours = folder / "ours" / case.source.name
    shutil.copytree(case.source, ours)
    try:
        reported = run_case(case, ours, theirs)
    except Exception as error:  # noqa: BLE001 - whatever ours raises is shown
        shown.rows.append(row("passes", "no error", repr(error)))
        return shown
    left = left_by_kafka(run["path"])
    if left is not None and len(reported) == len(case.passes):  # else a pass failed, or was not due
        shown.rows.append(row("records that stay", left[0], reported[-1].kept))
        shown.rows.append(row("batches without records", left[1], reported[-1].kept_batches))
    for i, each in enumerate(reported):
        rules = {offset: rule.name for offset, rule in each.records}
        shown.rows.append(row(f"pass {i}: rule of each record", rules, rules))
    return shown


def show_manager(oracle: Oracle, seed: int, folder: Path) -> Shown:
    from tests.kafka_log.cleaner import test_manager_oracle as states

    rng = random.Random(seed)
    world = states.draw_world(rng)
    operations = [states.draw_operation(rng, world) for _ in range(states.CALLS)]
    world.write(folder / "source")
    shutil.copytree(folder / "source", folder / "ours")
    run = world.run() | {"copy_from": folder / "source", "root": folder / "kafka"}
    (reported,) = oracle.call(
        "run_cleaner_states", runs=[run | {"operations": operations}], timeout=600
    )
    rows: list[Row] = []
    with Managed(folder / "ours", run) as ours:
        for i, (operation, expected) in enumerate(zip(operations, reported, strict=True)):
            kafka, found = tidied(expected, ours.after(operation))
            rows += rows_of(f"{i} {operation.name()}", kafka, found)
    for path in run["logs"]:
        sides = files_in(folder / "kafka" / path), files_in(folder / "ours" / path)
        rows += file_rows(*sides, f"{path} ")
    return Shown(drawn_lines({"logs": world.configs, "operations": operations}), rows)
