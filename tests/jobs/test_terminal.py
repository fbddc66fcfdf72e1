r"""`dump` on a real terminal: nothing in the evidence can act on it, or pass for a line of ours.

What counts as dangerous is written down here again, by the numbers in Unicode's tables.
"""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import Header, SimpleRecord

ROOT = Path(__file__).parents[2]
DANGEROUS = [
    *range(0x20),  # C0
    0x7F,
    *range(0x80, 0xA0),  # C1
    *range(0x202A, 0x202F),  # bidirectional embeddings and overrides
    *range(0x2066, 0x206A),  # bidirectional isolates
    *(0x2028, 0x2029),
]
ALL = "".join(map(chr, DANGEROUS))
TITLE = "\x1b]0;owned\x07\x1b[2J"
FORGED = "x\nbaseOffset: 0 lastOffset: 0 isvalid: true"


class Shown(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        return self.stdout.replace("\r\n", "\n").split("\n")[:-1]


def on_terminal(*words: object, stdout: bool = True, stderr: bool = True) -> Shown:
    """Run the command with these streams on a terminal each, and the others in pipes."""
    ends = [pty.openpty() if is_terminal else os.pipe() for is_terminal in (stdout, stderr)]
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs.cli", "dump", *map(os.fsencode, map(str, words))],
        stdin=subprocess.DEVNULL,
        stdout=ends[0][1],
        stderr=ends[1][1],
        cwd=ROOT,
        env=environment,
    )
    gathered: list[bytes] = [b"", b""]
    readers = [threading.Thread(target=_gather, args=(ends, each, gathered)) for each in range(2)]
    for reader in readers:
        reader.start()
    for _, end in ends:
        os.close(end)
    code = process.wait(timeout=60)
    for reader in readers:
        reader.join()
    out, err = gathered
    return Shown(code, os.fsdecode(out), err.decode())


def _gather(ends: list[tuple[int, int]], number: int, gathered: list[bytes]) -> None:
    end = ends[number][0]
    try:
        while data := os.read(end, 65536):
            gathered[number] += data
    except OSError:  # the terminal's other side is closed
        pass
    os.close(end)


def assert_harmless(text: str) -> None:
    """The only control characters left are our own line ends."""
    found = {f"{ord(each):#x}" for each in text.replace("\r\n", "").replace("\n", "")} & {
        f"{number:#x}" for number in DANGEROUS
    }
    assert not found


def write_log(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    records = [
        SimpleRecord(1, ALL.encode(), TITLE.encode(), (Header(ALL, ALL.encode()),)),
        SimpleRecord(2, FORGED.encode(), FORGED.encode(), (Header(FORGED, None),)),
        SimpleRecord(3, b"\x9b2J\xff", "früh € \N{GRINNING FACE}".encode()),
    ]
    data = [
        encode_batch(records, base_offset=0, codec=Codec.GZIP),
        encode_legacy_batch([SimpleRecord(4, FORGED.encode(), TITLE.encode())], magic=1),
        encode_batch([SimpleRecord(5, b"k", b"\n\x1b" * 300_000)], base_offset=9),  # in parts
    ]
    return write_log(tmp_path / "t-0" / f"{0:020d}.log", b"".join(data))


def test_no_control_of_a_record_reaches_the_terminal(log: Path) -> None:
    shown = on_terminal(log, "--print-data-log")
    assert shown.code == 0
    assert_harmless(shown.stdout)
    assert "key: \\x00\\x01\\x02" in shown.stdout
    assert "payload: \\x1b]0;owned\\x07\\x1b[2J" in shown.stdout
    assert "headerKeys: [\\x00\\x01" in shown.stdout
    assert "früh € \N{GRINNING FACE}" in shown.stdout
    assert "key: \N{REPLACEMENT CHARACTER}2J\N{REPLACEMENT CHARACTER}" in shown.stdout


def test_a_value_cannot_forge_a_line(log: Path) -> None:
    for flags in (("--print-data-log",), ("--print-data-log", "--skip-record-metadata")):
        lines = on_terminal(log, *flags).lines
        assert len(lines) == 2 + 3 + 5  # headings, batches, records
        assert [line for line in lines if line.startswith("baseOffset: 0 lastOffset: 0")] == []
        assert sum("x\\x0abaseOffset: 0" in line for line in lines) == 2


def test_in_a_pipe_stdout_has_the_bytes_as_they_are(log: Path) -> None:
    piped = on_terminal(log, "--print-data-log", stdout=False)
    assert f"payload: {TITLE}\n" in piped.stdout
    assert f"key: {FORGED} payload: {FORGED}\n" in piped.stdout
    assert piped.stdout.count("\x1b\n") == 300_000


def test_json_on_a_terminal_says_the_same_as_in_a_pipe(log: Path) -> None:
    shown = on_terminal(log, "--print-data-log", "--format", "json")
    assert_harmless(shown.stdout)
    piped = on_terminal(log, "--print-data-log", "--format", "json", stdout=False, stderr=False)
    rows = [json.loads(line) for line in shown.lines]
    assert rows == [json.loads(line) for line in piped.stdout.split("\n")[:-1]]
    assert rows[2]["key"] == ALL
    assert rows[2]["headers"] == [{"key": ALL, "value": ALL}]
    assert "\x7f" in piped.stdout


SIDE_FILES = {
    "recovery-point-offset-checkpoint": f"0\n1\n{TITLE}\u202e 0 5\n".encode(),
    "meta.properties": b"version=1\nnode.id=1\ncluster.id=a\\u001b]0;x\\u0007\\nversion: 0\x9b2J\n",
    ".kafka_cleanshutdown": f'{{"version": 0, "brokerEpoch": {TITLE}\nversion: 0'.encode(),
}


@pytest.mark.parametrize("name", SIDE_FILES)
def test_no_control_of_a_side_file_reaches_the_terminal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(SIDE_FILES[name])
    for flags in ((), ("--format", "json")):
        shown = on_terminal(path, *flags)
        assert_harmless(shown.stdout + shown.stderr)
        marks = ("\\x1b]0;", "\\u001b]0;", "unreadable_base64")
        assert any(mark in shown.stdout for mark in marks)
        assert not any(line.startswith("version: 0") for line in shown.lines)


@pytest.mark.parametrize("flags", [(), ("--format", "json")])
def test_no_control_of_a_path_reaches_either_terminal(tmp_path: Path, flags: tuple[str]) -> None:
    directory = tmp_path / f"{TITLE}\nisvalid: true-0"
    data = encode_batch([SimpleRecord(1, b"k", b"v")])
    log = write_log(directory / f"{0:020d}.log", data + data[:-1])
    (directory / f"note{TITLE}\n").write_bytes(b"")
    (directory / os.fsdecode(b"\x9b2J\xff.txt")).write_bytes(b"")
    log.with_suffix(".index").write_bytes(bytes(7) + b"\1" + bytes(3))
    os.mkfifo(log.with_suffix(".timeindex"))
    shown = on_terminal(directory, *flags)
    assert shown.code == 1
    assert_harmless(shown.stdout + shown.stderr)
    assert "\\x1b]0;owned\\x07\\x1b[2J\\x0aisvalid: true-0" in shown.stderr
    assert not any(line.startswith("isvalid: true") for line in shown.lines)
    # stderr is for people wherever it goes, also beside data in a pipe.
    for is_terminal in (True, False):
        piped = on_terminal(directory, *flags, stdout=False, stderr=is_terminal)
        assert_harmless(piped.stderr)
    assert flags or f"Dumping {log}\n" in piped.stdout


def test_what_is_damaged_is_told_without_its_controls(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(f"0\n1\n{TITLE}{ALL}\n", "utf-8", newline="")
    shown = on_terminal(path)
    assert shown.code == 1
    assert_harmless(shown.stderr)
    assert re.search(r"leader-epoch-checkpoint@\d+: found ", shown.stderr)


def test_a_summary_stands_at_the_end_on_a_terminal_and_not_beside_a_clean_pipe(log: Path) -> None:
    assert on_terminal(log).stderr == "1 file: no damage found\r\n"
    assert on_terminal(log, "--quiet").stderr == ""
    assert on_terminal(log, stderr=False).stderr == ""
