"""An audit of a whole disk: whole commands, beside Kafka's recovery and kafka-dump-log.

The disk has many partitions of one segment each, with the indexes and snapshots that Kafka's own
loader wrote. Kafka's side is UnifiedLog.create on each partition as after a crash, in a warm JVM on
one thread: it reads headers and checksums, not records. A broker recovers with two threads per log
dir by default, so half of that time is the one to compare with on two cores. DumpLogSegments reads
the records of some of the files, and its time is multiplied.

`after start` is without the time of an audit of a directory of 10 MB.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.dump import seconds_of
from benchmarks.files import SegmentFile, SegmentShape, segment
from benchmarks.installed import Measured, command, measured
from tests.oracle.client import BENCHMARK_FLAGS, Oracle, java_command

PARTITIONS = 200
MEGABYTES = 10_240
SMALL_MEGABYTES = 10
ROUNDS = 2
SHAPES = [
    SegmentShape(codec=codec, value_size=value_size, records_per_batch=count)
    for codec in ("none", "lz4")
    for value_size, count in ((100, 128), (1024, 16))
]
"""Batches of 16 KB before compression, as producers send them."""
MODES: dict[str, list[str]] = {"full": [], "headers": ["--headers"]}
_DUMPED = 10
_OPTIONS = ("--quiet", "--fail-on", "never", "--engine", "local")


class Disk(NamedTuple):
    path: Path
    logs: list[Path]
    size: int


def table(
    oracle: Oracle, megabytes: int = MEGABYTES, partitions: int = PARTITIONS, only: str = ""
) -> Iterator[str]:
    yield (
        "| disk | mode | s | after start | GB/s | memory MB | Kafka's recovery s, one thread "
        "| ratio to two threads | DumpLogSegments s | ratio |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for shape in SHAPES:
        if only in str(shape):
            yield from _lines(oracle, shape, megabytes, partitions)


def _lines(oracle: Oracle, shape: SegmentShape, megabytes: int, partitions: int) -> Iterator[str]:
    one = segment(oracle, shape, raw_bytes=(megabytes << 20) // partitions)
    few = max(1, SMALL_MEGABYTES * partitions // megabytes)
    with tempfile.TemporaryDirectory() as scratch:
        small, disk = (
            _disk(Path(scratch, name), one, count)
            for name, count in (("small", min(few, partitions)), ("disk", partitions))
        )
        kafka = min(_recovery(oracle, each) for each in [disk] * ROUNDS)
        _recovery(oracle, small)
        dumped = _dump(disk)
        for mode, words in MODES.items():
            start = _best(small, words)
            yield _line(shape, disk, mode, _best(disk, words), start, kafka, dumped)


def _disk(path: Path, one: SegmentFile, partitions: int) -> Disk:
    logs = []
    for number in range(partitions):
        directory = path / f"orders-{number}"
        directory.mkdir(parents=True)
        logs.append(Path(shutil.copy(one.path, directory)))
    return Disk(path, logs, one.size * partitions)


def _recovery(oracle: Oracle, disk: Disk) -> float:
    """Return the seconds of Kafka's loader; the indexes and snapshots of the last run stay."""
    took = 0.0
    for log in disk.logs:
        for snapshot in log.parent.glob("*.snapshot"):
            snapshot.unlink()
        wanted = [{"path": log.parent, "config": {}, "clean_shutdown": False}]
        (answer,) = oracle.call("open_logs", logs=wanted, timeout=600)
        took += answer["seconds"]
    return took


def _dump(disk: Disk) -> float:
    some = disk.logs[:_DUMPED]
    words = java_command("org.apache.kafka.tools.DumpLogSegments", flags=BENCHMARK_FLAGS)
    words += ["--files", ",".join(map(str, some)), "--deep-iteration"]
    return seconds_of(words) * len(disk.logs) / len(some)


def _best(disk: Disk, words: list[str]) -> Measured:
    audit = command("audit", disk.path, *_OPTIONS, *words)
    return min((measured(audit) for _ in range(ROUNDS)), key=lambda each: each.seconds)


def _line(  # one argument per figure
    shape: SegmentShape,
    disk: Disk,
    mode: str,
    found: Measured,
    start: Measured,
    kafka: float,
    dumped: float,
) -> str:
    after = max(found.seconds - start.seconds, 0.01)
    gigabytes = disk.size / 1e9
    return (
        f"| {shape}: {gigabytes:.1f} GB | {mode} | {found.seconds:.1f} | {after:.1f} "
        f"| {gigabytes / after:.2f} | {found.peak_rss >> 20} | {kafka:.1f} "
        f"| **{kafka / 2 / after:.1f}** | {dumped:.0f} | **{dumped / after:.0f}** |"
    )
