"""A writing process is killed over and over: what was flushed is there, and Kafka opens the log."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_format.log_file import LogFile
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock
from kafka_log.loading.partition_recovery import plan_partition
from tests.kafka_log.loading.crash_writer import CONFIG, SETTINGS, START_MS, record_at
from tests.oracle.client import Oracle

ROUNDS_A_LOG = 10
STEPS = 60  # at most, before a writer is killed
A_STEP_S = 0.003  # about


class Writers:
    """The process that forks writers, and what they said."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.kafka_log.loading.crash_writer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run_and_kill(self, words: int, then_s: float, **arguments: object) -> int:
        """Let a writer say so many words, kill it a moment later; up to where it had flushed."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        said = flushed = pid = 0
        for line in self.process.stdout:
            word, _, number = line.strip().partition(" ")
            if word == "ended":
                return flushed
            said += word != "pid"
            pid = int(number) if word == "pid" else pid
            flushed = int(number) if word == "flushed" else flushed
            if pid and said >= words:
                time.sleep(then_s)
                os.kill(pid, signal.SIGKILL)  # it waits for that, so it is nobody else
                words = sys.maxsize
        raise AssertionError("the process that forks the writers is gone")


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    writers = Writers()
    with writers.process:  # closes its pipes, at which it ends
        yield writers
    assert writers.process.returncode == 0


def _offsets_of(directory: Path) -> list[int]:
    """Every record is the one that was written at its offset."""
    offsets = []
    for path in sorted(directory.glob("*.log")):
        for batch in LogFile(path.read_bytes(), path=path.name).batches():
            batch.ensure_valid()
            for record in batch.records():
                wanted = record_at(record.offset)
                assert (record.timestamp, record.key, record.value) == wanted[:3]
                offsets.append(record.offset)
    return offsets


def _digest(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def _crash_and_recover(
    oracle: Oracle, writers: Writers, folder: Path, rng: random.Random, rounds: int
) -> int:
    """One log, killed over and over; how many records it had in the end."""
    directory = folder / "events-0"
    directory.mkdir(parents=True)
    promised = checkpoint = 0
    offsets: list[int] = []
    for number in range(rounds):
        flushed = writers.run_and_kill(
            rng.randint(0, STEPS),
            rng.uniform(0, 2 * A_STEP_S),
            directory=str(directory),
            seed=rng.randrange(1000),
            recovery_point=checkpoint,
        )
        promised = max(promised, flushed)
        if rng.random() < 0.7:  # a checkpoint is written now and then, never ahead of a flush
            checkpoint = promised
        ours, theirs = folder / f"ours-{number}", folder / f"theirs-{number}" / "events-0"
        plan = plan_partition(
            directory,
            CONFIG,
            LastRun(clean_shutdown=False, recovery_point=checkpoint),
            clock=FixedClock(START_MS),
        )
        ours.mkdir()
        plan.write_to(ours)
        offsets = _offsets_of(ours)
        assert offsets == list(range(len(offsets))), "records are missing, or out of place"
        assert len(offsets) >= promised, "something flushed is lost"
        shutil.copytree(directory, theirs)
        (opened,) = oracle.call(
            "open_logs",
            logs=[
                {
                    "path": theirs,
                    "config": SETTINGS,
                    "time": START_MS,
                    "clean_shutdown": False,
                    "recovery_point": checkpoint,
                }
            ],
        )
        assert "error" not in opened, opened
        assert opened["opened"]["log_end_offset"] == len(offsets)
        assert _digest(ours).keys() == _digest(theirs).keys()
        assert {n: b for n, b in _digest(ours).items() if not n.endswith(".snapshot")} == {
            n: b for n, b in _digest(theirs).items() if not n.endswith(".snapshot")
        }
        shutil.rmtree(ours)
        shutil.rmtree(theirs.parent)
    return len(offsets)


def test_a_killed_writer_loses_nothing_flushed(
    oracle: Oracle, writers: Writers, tmp_path: Path
) -> None:
    rng = random.Random(4)
    records = [
        _crash_and_recover(oracle, writers, tmp_path / f"{log}", rng, ROUNDS_A_LOG)
        for log in range(5)
    ]
    assert sum(records) > 500, "the writers were killed before they wrote"


@pytest.mark.soak
@pytest.mark.parametrize("log", range(100))
def test_a_thousand_kills(oracle: Oracle, writers: Writers, tmp_path: Path, log: int) -> None:
    _crash_and_recover(oracle, writers, tmp_path, random.Random(log), ROUNDS_A_LOG)
