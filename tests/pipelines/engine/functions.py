"""Functions that other processes can find by name."""

import os
import signal
import time
from collections.abc import Iterator

from kafka_format.errors import CorruptError, Location
from kafka_log.disk.output import whole_partition
from kafka_log.errors import LogLoadError
from pipelines.engine import progress


def double(task: int) -> list[int]:
    return [task, 2 * task]


def plus(number: int, task: int) -> list[int]:
    return [number + task]


def slow_first(task: int) -> list[tuple[int, int]]:
    if task == 0:
        time.sleep(0.5)
    return [(task, os.getpid())]


FAILING = ["fine", "corrupt", "unloadable", "gone", "bug", "last"]
FAILURES = [
    ("corrupt", "t-0/5.log@7: found magic 9, expected 0, 1 or 2"),
    ("unloadable", "two directories of t-0"),
    ("gone", "/nowhere/at-all: No such file or directory"),
    ("bug", "internal error: KeyError: 'surprise'"),
]
"""What `fails` makes of them: task and message."""


def fails(task: str) -> Iterator[str]:
    yield f"{task}: begun"
    if task == "corrupt":
        raise CorruptError(Location("t-0/5.log", 7), "magic 9", "0, 1 or 2")
    if task == "unloadable":
        raise LogLoadError("two directories of t-0")
    if task == "gone":
        open("/nowhere/at-all").close()
    if task == "bug":
        raise KeyError("surprise")
    if task == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "exits":
        os._exit(7)
    yield f"{task}: done"


def unpicklable(task: int) -> list[object]:
    return [lambda: task]


def sleeps(task: str) -> list[str]:
    """Tells where it runs, then sleeps for a minute."""
    with open(task, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)
    return [task]


def writes_twice(task: tuple[str, str, str]) -> list[str]:
    """Begins to write a partition; the first attempt is killed in the midst of it."""
    marker, target, scratch = task
    with whole_partition(target, scratch) as attempt:
        (attempt / "00000000000000000000.log").write_bytes(b"a")
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            (attempt / "00000000000000000000.index").write_bytes(b"b")
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return [target]


def half_done(task: int) -> Iterator[int]:
    progress.report(0.5)
    yield task


def in_quarters(task: int) -> list[int]:
    """Takes two seconds, and tells of each quarter that is done."""
    for quarter in range(4):
        progress.report(quarter / 4)
        time.sleep(0.5)
    return [task]


def large_in_quarters(task: int) -> list[int]:
    return in_quarters(task) if task >= 1000 else [task]


def in_quarters_at_last(marker: str) -> list[str]:
    """The same, but the first attempt is killed when it is nearly done."""
    progress.report(0.9)
    time.sleep(0.5)
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        in_quarters(0)
        return [marker]
    os.kill(os.getpid(), signal.SIGKILL)
    return []
