"""What Kafka's own tools see of a changed file: kafka-dump-log, and the start of a broker.

    DumpLog(oracle, bench).sees(change)         it prints a problem, or fails
    Start(oracle, bench, scratch).sees(change)  it fails, cuts, repairs or removes something

The bench has the change while they look.
"""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from tests.audit.auditing import NOW
from tests.audit.bench import Bench
from tests.audit.changes import Change
from tests.oracle.client import Oracle, OracleError

_PROBLEM = re.compile(
    r"isvalid: false|^Mismatches in|^Non-consecutive offsets|^Found |^Error|Exception"
    r"|invalid bytes at the end|^  Index (?:offset|timestamp)|^Failed",
    re.MULTILINE,
)
_LOG = ("--deep-iteration", "--print-data-log")
_DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}


class DumpLog:
    """kafka-dump-log with every option that checks something, over a changed file."""

    def __init__(self, oracle: Oracle, bench: Bench) -> None:
        self._oracle = oracle
        self._bench = bench
        self._healthy: dict[str, list[tuple[bool, int]]] = {}

    def sees(self, change: Change) -> bool:
        """Whether it fails, or prints more problems than about the healthy file."""
        if change.file not in self._healthy:
            raise KeyError(f"{change.file}: healthy() first")
        return self._problems(change.file) != self._healthy[change.file]

    def look_at_healthy(self) -> None:
        self._healthy = {name: self._problems(name) for name in self._bench.files}

    def _problems(self, name: str) -> list[tuple[bool, int]]:
        found = []
        for options in _options(name):
            dump = self._oracle.call(
                "dump", args=[*options, "--files", str(self._bench.root / name)]
            )
            failed = bool(dump["error"]) or dump["exit"] is not None
            problems = len(_PROBLEM.findall(dump["stdout"])) + dump["stderr"].count("\n")
            found.append((failed, problems))
        return found


def _options(name: str) -> list[tuple[str, ...]]:
    topic = name.split("/", maxsplit=1)[0].rpartition("-")[0] or "__cluster_metadata"
    decoder = (_DECODERS[topic],) if topic in _DECODERS else ()
    if name.endswith("index"):
        return [(), ("--index-sanity-check",)]
    if name.endswith((".log", ".checkpoint")):
        return [(*_LOG, *decoder)]
    return [()]


class _Started(NamedTuple):
    answers: list[Any]
    files: dict[str, str]


class Start:
    """Kafka's start on a copy: its properties, the metadata log, and LogManager with every log."""

    def __init__(
        self, oracle: Oracle, bench: Bench, scratch: Path, *, is_clean: bool = True
    ) -> None:
        self._oracle = oracle
        self._bench = bench
        self._copy = scratch / bench.root.name
        self._is_clean = is_clean
        self._healthy = self._start()

    def sees(self, change: Change) -> bool:
        """Whether the start fails, or leaves anything else than the healthy one, plus the change.

        So a file that is rewritten counts as well: the damage is gone after it, said or not.
        """
        if not self._is_clean and change.file == _RECOVERY_POINTS:
            return False  # it was replaced
        now = self._start()
        expected = dict(self._healthy.files)
        if change.file in expected:
            expected[change.file] = _digest(change.apply(self._bench.files[change.file]))
        return now.answers != self._healthy.answers or now.files != expected

    def _start(self) -> _Started:
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._bench.root, self._copy)
        if not self._is_clean:
            (self._copy / ".kafka_cleanshutdown").unlink()
            (self._copy / _RECOVERY_POINTS).write_text("0\n0\n")
        metadata = self._copy / "__cluster_metadata-0"
        answers = [
            self._ask("read_file", kind="meta_properties", path=self._copy / "meta.properties"),
            self._ask("read_file", kind="quorum_state", path=metadata / "quorum-state"),
            self._ask("read_file", kind="clean_shutdown", path=self._copy / ".kafka_cleanshutdown")
            if self._is_clean
            else None,
            self._ask("open_metadata_log", path=metadata, time=NOW),
            self._ask("start_log_manager", paths=[self._copy], config=_CONFIG, time=NOW),
        ]
        answers[:3] = [isinstance(each, str) for each in answers[:3]]  # only whether it is refused
        files = {
            path.relative_to(self._copy).as_posix(): _digest(path.read_bytes())
            for path in sorted(self._copy.rglob("*"))
            if path.is_file()
        }
        return _Started(answers, files)

    def _ask(self, request: str, **arguments: Any) -> Any:
        try:
            answer = self._oracle.call(request, timeout=120, **arguments)
        except OracleError as error:
            return error.error_class
        if isinstance(answer, dict) and answer.get("error"):
            answer["error"] = answer["error"]["class"]
        return answer


_CONFIG = {"segment.index.bytes": 4096}
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
