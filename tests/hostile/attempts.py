"""Starts runners, and another one where a case ended the first."""

import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.hostile.case import SHORT, VERBS
from tests.hostile.corpus import CASES

_ROOT = Path(__file__).parents[2]
Attempt = dict[str, Any]


def attempts(names: Sequence[str]) -> Iterator[Attempt]:
    """Every verb over these cases, in one process as long as it lives."""
    waiting = list(names)
    while waiting:
        done = 0
        for attempt in _run(waiting):
            yield attempt
            done = waiting.index(attempt["case"]) + (attempt["verb"] == [*VERBS][-1])
        if done >= len(waiting):
            return
        yield {"case": waiting[done], "verb": "?", "code": None, "raised": "the process ended"}
        waiting = waiting[done + 1 :]


def side_by_side(names: Sequence[str], count: int = 2) -> Iterator[Attempt]:
    """The same in several processes, in the order in which they end."""
    done: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()

    def work(part: Sequence[str]) -> None:
        try:
            for each in attempts(part):
                done.put(each)
        finally:
            done.put(None)

    with ThreadPoolExecutor(count) as threads:
        for number in range(count):
            threads.submit(work, names[number::count])
        for _ in range(count):
            yield from iter(done.get, None)


def _run(names: Sequence[str]) -> Iterator[Attempt]:
    command = [sys.executable, "-P", "-m", "tests.hostile.runner", *names]
    environment = os.environ | {"PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.PIPE) as runner:
        yield from map(json.loads, runner.stdout)


def problems(attempt: Attempt) -> list[str]:
    """What is wrong with it; nothing if all is as documented."""
    case = CASES[attempt["case"]]
    if attempt["code"] is None:
        return [attempt["raised"]]
    found = []
    wanted = case.codes[attempt["verb"]]
    if attempt["code"] not in wanted:
        found.append(f"exit code {attempt['code']}, expected {'/'.join(map(str, sorted(wanted)))}")
    if attempt["seconds"] > case.seconds:
        found.append(f"{attempt['seconds']} s of {case.seconds}")
    found += [
        what
        for name, what in (
            ("traceback", "a traceback"),
            ("controls", "control characters on stderr"),
            ("forged", "a forged line"),
            ("poisoned", "imported from the evidence"),
        )
        if attempt[name]
    ]
    if "changed" in attempt:
        found.append(f"changed {', '.join(attempt['changed'])}")
    if not attempt["json"]:
        found.append("a line that is not JSON")
    if case.has_healthy and not attempt["healthy"] and attempt["verb"] not in SHORT:
        found.append("the healthy partition is missing")
    return found
