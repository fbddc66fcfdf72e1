"""A stdout that takes nothing is one line on stderr and exit code 3, whatever the verb."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord

ROOT = Path(__file__).parents[2]
VERBS = ("audit", "compact", "dump", "list", "offsets", "recover", "retain", "transactions")
FULL = Path("/dev/full")
ANSWERS = [
    *((verb, "PATH", "--format", form) for verb in VERBS for form in ("text", "json")),
    ("dump", "--help"),
    ("dump", "--version"),
    ("--help",),
    ("--version",),
]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    record = SimpleRecord(1_700_000_000_000, b"k", b"v" * 5000)
    batch = encode_batch([record], producer_id=7, producer_epoch=0, base_sequence=0)
    (path / f"{0:020d}.log").write_bytes(batch * 100)
    return path


def command(partition: Path, words: tuple[str, ...], **options) -> subprocess.CompletedProcess:
    chosen = [str(partition) if word == "PATH" else word for word in words]
    return subprocess.run(
        [sys.executable, "-m", "jobs.cli", *chosen],
        stderr=subprocess.PIPE,
        check=False,
        cwd=ROOT,
        text=True,
        **options,
    )


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_a_full_disk_is_told(partition: Path, words: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        done = command(partition, words, stdout=full)
    verb = f" {words[0]}" if words[0] in VERBS else ""
    said = f"kafka-forensics{verb}: cannot write to stdout: No space left on device\n"
    assert (done.returncode, done.stderr) == (3, said)


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("flags", [(), ("--print-data-log",)])
def test_no_file_is_blamed_for_a_disk_that_fills_up_while_records_are_written(
    partition: Path, flags: tuple[str, ...]
) -> None:
    """More than is kept back until the end."""
    with FULL.open("wb") as full:
        done = command(partition, ("dump", "PATH", "PATH", *flags), stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "cannot be read" not in done.stderr


@pytest.mark.parametrize("words", [("dump", "PATH"), ("list", "PATH"), ("--help",)], ids=" ".join)
def test_a_stdout_that_is_closed_is_told(partition: Path, words: tuple[str, ...]) -> None:
    done = command(partition, words, preexec_fn=lambda: os.close(1))
    verb = f" {words[0]}" if words[0] in VERBS else ""
    assert (done.returncode, done.stderr) == (3, f"kafka-forensics{verb}: stdout is closed\n")


def test_a_stderr_that_is_closed_changes_no_exit_code(partition: Path) -> None:
    gone = command(
        partition, ("dump", "gone"), preexec_fn=lambda: os.close(2), stdout=subprocess.PIPE
    )
    assert gone.returncode == 3
