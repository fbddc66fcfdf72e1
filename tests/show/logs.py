"""Suites of the log and its parts: both sides take the same steps, one after the other."""

import base64
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafka_log.clock import FixedClock, Scheduler
from kafka_log.disk.files import DiskFiles
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from tests.kafka_log.compare import Comparison, Difference, brief, run_kafka
from tests.kafka_log.indexes import test_index_files as indexes
from tests.kafka_log.log import test_leader_epochs as epochs
from tests.kafka_log.producer_driver import ERRORS, Driver
from tests.kafka_log.producer_operations import Operation, ProducerRun
from tests.kafka_log.producer_operations import draw_run as draw_producers
from tests.kafka_log.segment_driver import OurSegment
from tests.kafka_log.segment_steps import draw_run as draw_segment
from tests.kafka_log.workload import Workload, draw_long_workload, draw_workload
from tests.oracle.client import Oracle
from tests.show.sides import Row, Shown, row, rows_of
from tests.show.text import drawn_lines, file_rows, files_in

_NO_ERROR = "no error"


def show_log(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return show_workload(oracle, draw_workload(seed), folder)


def show_log_without_crashes(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return show_workload(oracle, draw_workload(seed, crashes=False), folder)


def show_long_log(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return show_workload(oracle, draw_long_workload(seed), folder)


def show_workload(oracle: Oracle, workload: Workload, folder: Path) -> Shown:
    kafka, ours = folder / "kafka-0", folder / "ours-0"
    ours.mkdir()
    (reported,) = run_kafka(oracle, [{"path": kafka, "sessions": workload.sessions}])
    compared = _Recorded("", ours)
    try:
        compared.sessions(workload.sessions, reported)
    except Exception as error:  # noqa: BLE001 - whatever ours raises is shown
        compared.rows.append(row(f"{compared.where}: ended", _NO_ERROR, repr(error)))
    rows = compared.rows + file_rows(files_in(kafka), files_in(ours))
    return Shown(drawn_lines({"sessions": workload.sessions}), rows)


class _Recorded(Comparison):
    """A comparison that goes on after a difference, and keeps all rows."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name, directory)
        self.rows: list[Row] = []

    def compare_answers(self, ours: Any, theirs: Any) -> None:
        try:
            super().compare_answers(ours, theirs)
        except Difference:
            self.rows += rows_of(self._step(), theirs, ours)
        else:
            self.rows.append(row(self._step(), theirs, ours, is_same=True))

    def compare_parts(self, what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        if ours != theirs:
            self.rows += rows_of(f"{self._step()}: {what}", dict(theirs), dict(ours))

    def _step(self) -> str:
        """`session 2, step 29 append`: the rest of a step is in the drawing."""
        return re.sub(r"\{.*'do': '(\w+)'.*\}", r"\1", self.where).removeprefix(", ")


# ------------------------------------------------------------------------------ parts of a log


def show_segment(oracle: Oracle, seed: int, folder: Path) -> Shown:
    run = draw_segment(seed)
    request = run.request(folder / "kafka")
    for name in ("kafka", "ours"):
        (folder / name).mkdir()
    (reported,) = oracle.call("run_segments", runs=[request], timeout=300)
    ours = OurSegment(DiskFiles(folder / "ours"), run)
    rows: list[Row] = []
    for i, (step, kafkas) in enumerate(zip(run.steps, reported, strict=True)):
        rows += _answer_rows(f"{i} {_told_step(step)}", kafkas, ours, step)
        rows += _differing(f"{i} files", kafkas["files"], ours.digests())
    rows += file_rows(files_in(folder / "kafka"), files_in(folder / "ours"))
    return Shown(drawn_lines(request), rows)


def show_offset_index(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_index(oracle, "offset", seed, folder)


def show_time_index(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_index(oracle, "time", seed, folder)


def show_transaction_index(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_index(oracle, "transaction", seed, folder)


def _show_index(oracle: Oracle, kind: str, seed: int, folder: Path) -> Shown:
    run = indexes.run_of(folder / "kafka", kind, indexes.DRAW[kind](random.Random(seed)))
    (folder / "ours").mkdir()
    (reported,) = oracle.call("run_indexes", runs=[run])
    ours = indexes.OurIndex(DiskFiles(folder / "ours"), run)
    rows: list[Row] = []
    for i, (step, kafkas) in enumerate(zip(run["steps"], reported, strict=True)):
        rows += _answer_rows(f"{i} {_told_step(step)}", kafkas, ours, step)
        content = None if kafkas["bytes"] is None else base64.b64decode(kafkas["bytes"])
        rows += _differing(f"{i} bytes", content, ours.content())
        shape = ours.shape()
        rows += _differing(f"{i} shape", {name: kafkas[name] for name in shape}, shape)
    return Shown(drawn_lines(run), rows)


def _answer_rows(label: str, kafkas: Mapping[str, Any], ours: Any, step: Any) -> list[Row]:
    """The answers to a step; of refusals only that both are one is compared."""
    refused = "error" in kafkas
    try:
        answer = ours.step(step)
    except Exception as error:  # noqa: BLE001 - whatever ours raises is shown
        theirs = kafkas["error"] if refused else kafkas["answer"]
        return [row(label, theirs, repr(error), is_same=refused)]
    if refused:
        return [row(label, kafkas["error"], answer, is_same=False)]
    return rows_of(label, kafkas["answer"], answer)


def show_epochs(oracle: Oracle, seed: int, folder: Path) -> Shown:
    run = epochs.run_of(folder / "kafka", epochs.draw_operations(seed))
    (folder / "ours").mkdir()
    files = DiskFiles(folder / "ours")
    cache = LeaderEpochFileCache(files, Scheduler(FixedClock()))
    (answers,) = oracle.call("leader_epochs", runs=[run], timeout=300)
    rows = rows_of("opened", answers[0], epochs.reported(cache, files))
    for i, (operation, expected) in enumerate(zip(run["operations"], answers[1:], strict=True)):
        refusal = expected.pop("error", None)
        rows += _refusal_rows(f"{i} {operation}", refusal, cache, operation)
        rows += rows_of(f"{i} cache", expected, epochs.reported(cache, files))
    return Shown(drawn_lines({"operations": run["operations"]}), rows)


def _refusal_rows(
    label: str, refusal: Any, cache: LeaderEpochFileCache, operation: dict[str, Any]
) -> list[Row]:
    error: Exception | None = None
    try:
        epochs.apply(cache, operation)
    except Exception as raised:  # noqa: BLE001 - whatever ours raises is shown
        error = raised
    is_same = (error is None) == (refusal is None)
    return [row(label, refusal, None if error is None else repr(error), is_same=is_same)]


def show_producers(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_producers(oracle, draw_producers(seed, folder / "kafka"), folder)


def show_long_producers(oracle: Oracle, seed: int, folder: Path) -> Shown:
    return _show_producers(oracle, draw_producers(seed, folder / "kafka", operations=80), folder)


def _show_producers(oracle: Oracle, run: ProducerRun, folder: Path) -> Shown:
    """Show our side twice: row by row, and over columns."""
    (answers,) = oracle.call("producer_states", runs=[run], timeout=300)
    rows: list[Row] = []
    for way in ("rows", "columns"):
        driver = Driver(replace(run, path=folder / way), columnar=way == "columns")
        for i, (operation, kafkas) in enumerate(zip(run.operations, answers, strict=True)):
            rows += _producer_rows(f"{way} {i} {operation.name()}", kafkas, driver, operation)
        rows += file_rows(files_in(folder / "kafka"), files_in(folder / way), f"{way} ")
    return Shown(drawn_lines({"operations": run.operations}), rows)


def _producer_rows(
    label: str, kafkas: Mapping[str, Any], driver: Driver, operation: Operation
) -> list[Row]:
    found = driver.attempt(operation)
    if "error" in kafkas or "error" in found:
        classes = {each.__name__ for each in type(found.get("error")).__mro__}
        kafka_class = kafkas.get("error", {}).get("class")
        is_same = ERRORS.get(kafka_class) in classes
        sides = kafkas.get("error", kafkas.get("answer")), repr(found.get("error"))
        rows = [row(label, *sides, is_same=is_same)]
    else:
        rows = rows_of(label, kafkas["answer"], found["answer"])
    return rows + _differing(f"{label}: state", kafkas["state"], found["state"])


def _differing(label: str, kafka: Any, ours: Any) -> list[Row]:
    return [] if kafka == ours else rows_of(label, kafka, ours)


def _told_step(step: Any) -> str:
    return " ".join(str(value) for value in brief(step).values())
