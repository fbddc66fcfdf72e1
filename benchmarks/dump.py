"""Dumping as a whole process, start-up included: `kafka-forensics dump` and DumpLogSegments."""

import subprocess
import sys
import time

from benchmarks.files import Segment
from tests.oracle.client import BENCHMARK_FLAGS, java_command

ROUNDS = 2
MODES = {
    "headers": [],
    "deep": ["--deep-iteration"],
    "payload": ["--print-data-log"],
}


def _seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - begin


def compare(segment: Segment, mode: str) -> dict[str, float]:
    theirs = java_command("org.apache.kafka.tools.DumpLogSegments", flags=BENCHMARK_FLAGS)
    theirs += ["--files", str(segment.path), *MODES[mode]]
    ours = [sys.executable, "-m", "jobs.cli", "dump", str(segment.path), *MODES[mode]]
    json = [*ours, "--format", "json"]
    times: dict[str, list[float]] = {"original": [], "text": [], "json": []}
    for _ in range(ROUNDS):
        times["original"].append(_seconds(theirs))
        times["text"].append(_seconds(ours))
        times["json"].append(_seconds(json))
    return {name: min(seconds) for name, seconds in times.items()}
