"""A file that changes while `dump` reads it: what was read is printed, and the exit code is 3.

The command's pipe makes this deterministic. It holds 64 KiB; the command waits there, in the middle
of a file, until somebody reads on.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord

ROOT = Path(__file__).parents[2]
BATCH = encode_batch([SimpleRecord(1, b"k", b"v" * 1000)])


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"x")


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "shrinks": (lambda path: os.truncate(path, 10_000), "it shrank from {size} to 10000 bytes"),
    "vanishes": (Path.unlink, "it vanished"),
    "replaced": (replace, "it was replaced"),
    "overwritten": (overwrite, "it was written to"),
}


@contextmanager
def dumping(*words: object) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs.cli", "dump", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # else `communicate` does not know what `readline` has read
        cwd=ROOT,
    )
    with process:
        yield process


def dumped_while(change: Callable[[Path], None], path: Path, *flags: object):
    """Change the file when the first line has come, and read to the end."""
    with dumping(path, *flags) as process:
        first = process.stdout.readline()
        change(path)
        out, err = process.communicate(timeout=60)
    return process.returncode, (first + out).decode(), err.decode()


def write_log(tmp_path: Path) -> Path:
    """A log of whose batches the pipe takes a small part."""
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(BATCH * 8000)
    return path


@pytest.mark.parametrize("engine", ["rows", "columns"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_log_that_changes_ends_with_3_and_what_was_read_is_there(
    tmp_path: Path, kind: str, engine: str
) -> None:
    path = write_log(tmp_path)
    change, words = CHANGES[kind]
    said = words.format(size=path.stat().st_size)
    # A decoder of our own is for rows; numbers of it do not matter here.
    flags = ("--print-data-log",) if engine == "columns" else ("--offsets-decoder",)
    code, out, err = dumped_while(change, path, *flags)
    assert code == 3
    assert f"{path}: changed while it was read: {said}\n" in err
    assert err.endswith("1 file: 1 changed while being read\n") or engine == "rows"
    assert out.count("isvalid: true") > 5
    assert "invalid bytes at the end" not in out
    assert "Traceback" not in err


@pytest.mark.parametrize("kind", CHANGES)
def test_json_has_a_row_for_it_and_no_end(tmp_path: Path, kind: str) -> None:
    path = write_log(tmp_path)
    change, words = CHANGES[kind]
    said = words.format(size=path.stat().st_size)
    code, out, err = dumped_while(change, path, "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 3
    assert rows[0]["kind"] == "file"
    assert {row["kind"] for row in rows[1:-1]} == {"batch"}
    last = rows[-1]
    assert (last["kind"], last["problem"], last["found"]) == ("finding", "changed", said)
    assert (last["path"], last["topic"], last["partition"]) == (str(path), "t", 0)
    assert f"changed while it was read: {said}" in err


SIDE_FILES = {
    f"{0:020d}.index": b"".join(n.to_bytes(4, "big") * 2 for n in range(1, 40_000)),
    f"{0:020d}.timeindex": b"".join(
        n.to_bytes(8, "big") + n.to_bytes(4, "big") for n in range(1, 40_000)
    ),
    f"{0:020d}.txnindex": b"".join(
        bytes(2) + b"".join((n + k).to_bytes(8, "big") for k in range(4)) for n in range(1, 40_000)
    ),
    "recovery-point-offset-checkpoint": b"0\n20000\n" + b"orders 0 5\n" * 20_000,
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("name", SIDE_FILES)
def test_a_side_file_that_changes_ends_with_3(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    path.write_bytes(SIDE_FILES[name])
    change, words = CHANGES[kind]
    said = words.format(size=path.stat().st_size)
    code, out, err = dumped_while(change, path)
    assert (code, f"{path}: changed while it was read: {said}\n" in err) == (3, True)
    assert out.count("\n") > 100


def test_a_log_beside_an_index_that_changes_is_blamed_by_its_own_name(tmp_path: Path) -> None:
    log = write_log(tmp_path)
    index = log.with_suffix(".index")
    index.write_bytes(SIDE_FILES[f"{0:020d}.index"])
    with dumping(index) as process:
        process.stdout.readline()
        os.truncate(log, 100)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert f"{log}: changed while it was read: it shrank from ".encode() in err


def test_a_log_that_grows_is_a_note(tmp_path: Path) -> None:
    path = write_log(tmp_path)

    def grow(grown: Path) -> None:
        with grown.open("ab") as file:
            file.write(BATCH)

    code, out, err = dumped_while(grow, path)
    assert code == 0
    assert out.count("isvalid: true") == 8000
    assert err == f"{path}: note: the file grew while it was read\n"
    assert dumped_while(grow, path, "--quiet")[2] == ""


def rewrite_and_grow(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(1000))
        file.seek(0, os.SEEK_END)
        file.write(b"x")


def rewrite_and_date_back(path: Path) -> None:
    status = path.stat()
    with path.open("r+b") as file:
        file.write(bytes(1000))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("change", [rewrite_and_grow, rewrite_and_date_back])
def test_a_rewrite_that_is_hidden_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """The exit code was 0, with a note that it grew or with nothing."""
    path = write_log(tmp_path)
    code, out, err = dumped_while(change, path, "--format", "json")
    assert code == 3
    assert f"{path}: changed while it was read: it was written to" in err
    assert json.loads(out.splitlines()[-1])["problem"] == "changed"


def test_a_first_segment_that_grows_has_changed(tmp_path: Path) -> None:
    path = write_log(tmp_path)
    path.with_name(f"{9000:020d}.log").write_bytes(BATCH)
    size = path.stat().st_size
    code, _, err = dumped_while(lambda log: os.truncate(log, size + 9), path)
    assert code == 3
    assert f"{path}: changed while it was read: it grew from {size} to {size + 9} bytes" in err


def test_a_file_that_vanished_before_its_turn_ends_with_3(tmp_path: Path) -> None:
    path = write_log(tmp_path)
    later = path.with_name(f"{9:020d}.log")
    later.write_bytes(BATCH)
    code, out, err = dumped_while(lambda _: later.unlink(), path.parent)
    assert code == 3
    assert out.count("isvalid: true") == 8000
    assert err == (
        f"{later}: changed while it was read: it vanished\n2 files: 1 changed while being read\n"
    )


def test_a_reader_that_leaves_is_no_error_though_the_file_changed(tmp_path: Path) -> None:
    path = write_log(tmp_path)
    with dumping(path) as process:
        process.stdout.readline()
        path.unlink()
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""
