"""Run the same sessions on both sides, and find the first difference."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogLoadError
from tests.kafka_log.driver import Session, brief_state, file_content, files_of
from tests.kafka_log.steps import SessionPlan, Step, session_of
from tests.kafka_log.workload import Workload
from tests.oracle.client import Oracle
from tests.show import seen_by

MEMORY_DISK = Path("/dev/shm")
CHECK_FILES_EVERY = 8  # steps, where Kafka's changed none: what we changed there is found later

OracleAnswer = dict[str, Any]
"""The oracle's answer to a session."""


class Difference(AssertionError):
    pass


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder, in memory if possible: each step of a workload may flush."""
    fast = MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        yield Path(folder)


def run_kafka(oracle: Oracle, runs: Iterable[Mapping[str, Any]]) -> list[list[OracleAnswer]]:
    return oracle.call("run_sessions", runs=list(runs), timeout=600)


def compare_workloads(oracle: Oracle, workloads: Sequence[Workload]) -> None:
    """Run workloads on both sides. Raises Difference at the first thing that is not the same."""
    with scratch() as folder:
        runs = [
            {"path": folder / f"kafka-{workload.seed}", "sessions": workload.sessions}
            for workload in workloads
        ]
        for workload, answers in zip(workloads, run_kafka(oracle, runs), strict=True):
            directory = folder / f"ours-{workload.seed}"
            directory.mkdir()
            comparison = Comparison(f"seed {workload.seed}", directory)
            with seen_by(workload.suite, workload.seed):
                comparison.sessions(workload.sessions, answers)


class Comparison:
    """Compares our log in a directory with Kafka's answers to the same sessions, step by step.

    `files` is what Kafka's directory contained at the start, if it was not empty.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        files: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = self.where = name
        self.directory = directory
        self.files = dict(files or {})
        self.state: dict[str, Any] = {}
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.steps = 0

    def sessions(
        self, sessions: Iterable[SessionPlan | Mapping[str, Any]], answers: Iterable[OracleAnswer]
    ) -> None:
        for i, (plan, theirs) in enumerate(zip(sessions, answers, strict=True)):
            self.session(f"{self.name}, session {i}", session_of(plan), theirs)

    def session(self, name: str, plan: SessionPlan, theirs: OracleAnswer) -> None:
        self.where = f"{name}, opening"
        self.state = {}
        opening = plan.opening.after(
            log_start_offset=self.log_start_offset, recovery_point=self.recovery_point
        )
        try:
            session = Session(DiskFiles(self.directory), opening)
        except LogLoadError as problem:
            if "error" not in theirs:
                self.differ("an error", problem, None)
            self.compare_files(theirs["files"])
            return
        log = session.log
        try:
            if "error" in theirs:
                self.differ("opening", None, theirs["error"])
            self.compare(session, theirs["opened"])
            self.take_steps(name, session, plan.steps, theirs["steps"])
        except BaseException:
            log.close_handlers()
            raise
        self.where = f"{name}, close"
        session.close(plan.close)
        self.log_start_offset, self.recovery_point = log.log_start_offset, log.recovery_point
        ours = {"log_start_offset": log.log_start_offset, "recovery_point": log.recovery_point}
        closed = dict(theirs["closed"])
        self.compare_files(closed.pop("files"))
        self.compare_parts("closed", ours, closed)

    def take_steps(
        self,
        name: str,
        session: Session,
        steps: Sequence[Step],
        answers: Sequence[OracleAnswer],
    ) -> None:
        for i, (step, theirs) in enumerate(zip(steps, answers, strict=True)):
            self.where = f"{name}, step {i} {brief(step)}"
            self.steps += 1
            ours = session.try_step(step)
            self.compare_answers(ours, theirs["answer"])
            self.compare(session, theirs)

    def compare(self, session: Session, theirs: OracleAnswer) -> None:
        self.state |= theirs["state"]
        self.compare_parts("state", brief_state(session.log), self.state)
        if theirs["files"] or self.steps % CHECK_FILES_EVERY == 0:
            self.compare_files(theirs["files"])

    def compare_answers(self, ours: Any, theirs: Any) -> None:
        is_error = isinstance(theirs, dict) and "error" in theirs
        if is_error != (isinstance(ours, dict) and "error" in ours):
            self.differ("answer", ours, theirs)
        if is_error:
            if theirs["error"]["class"].rsplit(".", 1)[-1] not in ours["error"]:
                self.differ("error", ours, theirs)
        elif isinstance(ours, dict) and isinstance(theirs, dict):
            self.compare_parts("answer", settled(ours), settled(theirs))
        elif ours != theirs:
            self.differ("answer", ours, theirs)

    def compare_files(self, changed: Mapping[str, str | None]) -> None:
        apply_changes(self.files, changed)
        self.compare_parts("files", files_of(self.directory), self.files)

    def compare_parts(self, what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        for name in sorted(ours.keys() | theirs.keys()):
            mine, other = ours.get(name), theirs.get(name)
            if mine != other:
                self.differ(f"{what} {name}", mine, other)

    def differ(self, what: str, ours: Any, theirs: Any) -> None:
        raise Difference(f"{self.where}: {what}\n  ours  {ours!r}\n  kafka {theirs!r}")


def apply_changes(files: dict[str, Any], changed: Mapping[str, str | None]) -> None:
    for name, content in changed.items():
        if content is None:
            del files[name]
        else:
            files[name] = file_content(name, content)


def unfolded(answers: Iterable[OracleAnswer], files: Mapping[str, Any] | None = None) -> list[Any]:
    """Return the answers, states and files after each event in full, instead of what changed."""
    files, events = dict(files or {}), []
    for session in answers:
        state: dict[str, Any] = {}
        for event in _events(session):
            apply_changes(files, event["files"])
            state |= event.get("state", {})
            answer = event.get("answer")
            answer = settled(answer) if isinstance(answer, dict) else answer
            rest = event.get("error", {}).get("class"), event.get("log_start_offset")
            events.append((answer, dict(state), dict(files), *rest))
    return events


def _events(session: OracleAnswer) -> list[OracleAnswer]:
    if "error" in session:
        return [session]
    return [session["opened"], *session["steps"], session["closed"]]


def settled(answer: dict[str, Any]) -> dict[str, Any]:
    """Remove what cannot be compared: the number of tasks that ran, messages, modification times.

    A segment without timestamps has the modification time of its file.
    """
    if "ran" in answer:
        return {}
    if "error" in answer:
        return {"error": answer["error"]["class"]}
    if "segments" not in answer:
        return answer
    segments = [dict(segment) for segment in answer["segments"]]
    for segment in segments:
        if segment["largest_timestamp"] > 1_750_000_000_000:
            segment["largest_timestamp"] = "modification time"
    return answer | {"segments": segments}


def brief(step: Step | Mapping[str, Any]) -> dict[str, Any]:
    """Describe a step without its records."""
    request = step if isinstance(step, Mapping) else step.request()
    shown = {name: value for name, value in request.items() if name not in {"bytes", "may_fail"}}
    return shown | ({"size": len(request["bytes"])} if "bytes" in request else {})
