"""Dumping, the whole process with start-up: `kafka-forensics dump` and DumpLogSegments."""

import subprocess
import time
from collections.abc import Iterable, Iterator

from benchmarks import installed
from benchmarks.files import SegmentFile
from tests.oracle.client import BENCHMARK_FLAGS, java_command

ROUNDS = 2
MODES = {
    "headers": [],
    "deep": ["--deep-iteration"],
    "payload": ["--print-data-log"],
}


def seconds_of(command: list[str]) -> float:
    nowhere = subprocess.DEVNULL
    begin = time.perf_counter()
    subprocess.run(
        command, stdout=nowhere, stderr=nowhere, check=False, env=installed.environment()
    )
    return time.perf_counter() - begin


def compare(segment: SegmentFile, mode: str) -> dict[str, float]:
    theirs = java_command("org.apache.kafka.tools.DumpLogSegments", flags=BENCHMARK_FLAGS)
    theirs += ["--files", str(segment.path), *MODES[mode]]
    ours = installed.command("dump", segment.path, *MODES[mode])
    json = [*ours, "--format", "json"]
    times: dict[str, list[float]] = {"original": [], "text": [], "json": []}
    for _ in range(ROUNDS):
        times["original"].append(seconds_of(theirs))
        times["text"].append(seconds_of(ours))
        times["json"].append(seconds_of(json))
    return {name: min(seconds) for name, seconds in times.items()}


def table(segments: Iterable[SegmentFile]) -> Iterator[str]:
    yield (
        "| file | mode | DumpLogSegments MB/s (Mrec/s) | ours, text | ratio | ours, JSON | ratio |"
    )
    yield "|---|---|---|---|---|---|---|"
    for one in segments:
        for mode in MODES:
            best = compare(one, mode)
            theirs, text, json = best["original"], best["text"], best["json"]
            yield (
                f"| {one.shape} | {mode} | {_rate(one, theirs)} "
                f"| {_rate(one, text)} | **{theirs / text:.1f}** "
                f"| {_rate(one, json)} | **{theirs / json:.1f}** |"
            )


def _rate(one: SegmentFile, seconds: float) -> str:
    return f"{one.size / seconds / 1e6:.0f} ({one.records / seconds / 1e6:.2f})"
