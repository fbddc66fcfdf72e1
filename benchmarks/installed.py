"""Runs `kafka-forensics` as a user's installation does, to time whole processes.

There pip has compiled the byte code. And coverage and yaml, which numba imports if they exist, are
not there: they come only with developer tools.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = (
    "import sys; sys.modules.update(coverage=None, yaml=None); "
    "from jobs.cli import program; sys.exit(program())"
)
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", _PROGRAM, *map(str, words)]


def environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass
class Measured:
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss: int = 0


def measured(command: list[str]) -> Measured:
    """Measure a process and its descendants, by samples."""
    found = Measured()
    cpu: dict[int, float] = {}
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(0.2):
            rss = 0
            for pid in _tree(process.pid):
                try:
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
                except OSError:
                    continue
                cpu[pid] = (int(stat[11]) + int(stat[12])) / _TICK
                rss += int(stat[21]) * _PAGE
            found.peak_rss = max(found.peak_rss, rss)

    sampler = threading.Thread(target=sample)
    sampler.start()
    code = process.wait()
    ended.set()
    sampler.join()
    if code:
        raise SystemExit(f"{command}: exit code {code}")
    found.seconds = time.monotonic() - began
    found.cpu_seconds = sum(cpu.values())
    return found


def _tree(root: int) -> Iterator[int]:
    """Yield a process and its descendants, those of a forkserver included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])
