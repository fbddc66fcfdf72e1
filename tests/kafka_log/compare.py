"""The same sessions on both sides, and the first thing in which they differ."""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_log.errors import LogLoadError
from kafka_log.files import DiskFiles
from tests.kafka_log.driver import Session, brief_state, files_of, told_by_oracle
from tests.kafka_log.workload import Workload
from tests.oracle.client import Oracle

MEMORY_DISK = Path("/dev/shm")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder, in memory where that is possible: each step of a workload may flush."""
    fast = MEMORY_DISK if os.access(MEMORY_DISK, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        yield Path(folder)


class Difference(AssertionError):
    pass


def compare_workloads(
    oracle: Oracle, workloads: Iterable[Workload], *, timeout: float = 300
) -> None:
    """AssertionError with the first difference of the first workload that has one."""
    drawn = list(workloads)
    with scratch() as folder:
        runs = [
            {"path": folder / f"kafka-{workload.seed}", "sessions": workload.sessions}
            for workload in drawn
        ]
        told = oracle.call("run_sessions", runs=runs, timeout=timeout)
        for workload, theirs in zip(drawn, told, strict=True):
            compare_run(workload, theirs, folder / f"ours-{workload.seed}")


def compare_run(workload: Workload, told: list[dict[str, Any]], directory: Path) -> None:
    comparison = _Comparison(workload, directory)
    for session, theirs in zip(workload.sessions, told, strict=True):
        comparison.session(session, theirs)


class _Comparison:
    def __init__(self, workload: Workload, directory: Path) -> None:
        self.workload = workload
        self.directory = directory
        self.files: dict[str, Any] = {}  # of Kafka's directory
        self.state: dict[str, Any] = {}
        self.log_start_offset = self.recovery_point = 0
        self.where = ""
        self.sessions = 0
        directory.mkdir()

    def session(self, arguments: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        self.where = f"seed {self.workload.seed}, session {self.sessions}, opening"
        self.sessions += 1
        self.state = {}
        carried = {"log_start_offset": self.log_start_offset, "recovery_point": self.recovery_point}
        try:
            session = Session(DiskFiles(self.directory), carried | arguments)
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
            for i, (step, answer) in enumerate(
                zip(arguments["steps"], theirs["steps"], strict=True)
            ):
                self.where = f"seed {self.workload.seed}, session {self.sessions - 1}, step {i} {brief(step)}"
                ours = session.try_step(step)
                self.compare_answers(ours, answer["answer"])
                self.compare(session, answer)
            self.where = f"seed {self.workload.seed}, session {self.sessions - 1}, close"
        except BaseException:
            log.close_handlers()
            raise
        session.close(arguments["close"])
        self.log_start_offset, self.recovery_point = log.log_start_offset, log.recovery_point
        if log.recovery_point != theirs["closed"]["recovery_point"]:
            self.differ("recovery point", log.recovery_point, theirs["closed"]["recovery_point"])
        self.compare_files(theirs["closed"]["files"])

    def compare(self, session: Session, theirs: Mapping[str, Any]) -> None:
        self.state |= theirs["state"]
        self.compare_parts("state", brief_state(session.log), self.state)
        self.compare_files(theirs["files"])

    def compare_answers(self, ours: Any, theirs: Any) -> None:
        is_error = isinstance(theirs, dict) and "error" in theirs
        if is_error != (isinstance(ours, dict) and "error" in ours):
            self.differ("answer", ours, theirs)
        if is_error:
            if theirs["error"]["class"].rsplit(".", 1)[-1] not in ours["error"]:
                self.differ("error", ours, theirs)
        elif isinstance(ours, dict):
            self.compare_parts("answer", _settled(ours), _settled(theirs))
        elif ours != theirs:
            self.differ("answer", ours, theirs)

    def compare_files(self, changed: Mapping[str, str | None]) -> None:
        for name, told in changed.items():
            if told is None:
                del self.files[name]
            else:
                self.files[name] = told_by_oracle(name, told)
        self.compare_parts("files", files_of(self.directory), self.files)

    def compare_parts(self, what: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        for name in sorted(ours.keys() | theirs.keys()):
            mine, other = ours.get(name), theirs.get(name)
            if mine != other:
                self.differ(f"{what} {name}", mine, other)

    def differ(self, what: str, ours: Any, theirs: Any) -> None:
        raise Difference(f"{self.where}: {what}\n  ours  {ours!r}\n  kafka {theirs!r}")


def _settled(answer: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on the clock of the disk: the time of a segment without timestamps."""
    if not isinstance(answer, dict) or "segments" not in answer:
        return answer
    segments = [dict(segment) for segment in answer["segments"]]
    for segment in segments:
        if segment["largest_timestamp"] > 1_750_000_000_000:
            segment["largest_timestamp"] = "modification time"
    return answer | {"segments": segments}


def brief(step: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in step.items() if name not in {"bytes", "may_fail"}}
    return shown | ({"size": len(step["bytes"])} if "bytes" in step else {})
