"""Limits: what is decoded at once, how large a file may be, and how much is said about it."""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from tests.kafka_log.dump.comparison import ENGINES, run

ROOT = Path(__file__).parents[3]
NAME = f"{0:020d}"
JAVA_MAX = 2**31 - 1
GOOD = encode_batch([SimpleRecord(1, b"k", b"v")], base_offset=5)
CODECS = [
    (codec, magic)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    for magic in (0, 1, 2)
    if codec is not Codec.ZSTD or magic == 2
]


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def batch(codec: Codec, magic: int, size: int) -> bytes:
    records = [SimpleRecord(1, b"a", bytes(size))]
    if magic == 2:
        return encode_batch(records, codec=codec)
    return encode_legacy_batch(records, magic=magic, base_offset=0, codec=codec)


# ------------------------------------------------------------------------- decompressed bytes


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("codec", "magic"), CODECS)
def test_a_batch_above_the_limit_is_shown_by_its_header_and_the_rest_follows(
    tmp_path: Path, codec: Codec, magic: int, engine: str
) -> None:
    path = write(tmp_path / "t-0" / f"{NAME}.log", batch(codec, magic, 100_000) + GOOD)
    flags = ("--print-data-log", "--max-decompressed-bytes")
    ours = run(path, *flags, 50_000, engine=engine)
    assert ours.code == 1
    assert ours.stdout.count("isvalid: true") == 2
    assert [line[:11] for line in ours.stdout.splitlines() if line[:1] == "|"] == ["| offset: 5"]
    said = "compressed records of more than 50000 bytes, not decoded, expected at most 50000 bytes"
    assert f"found {said} (--max-decompressed-bytes)\n" in ours.stderr
    assert "1 file: 1 with findings (1 batch above the limit)\n" in ours.stderr
    (finding,) = run(path, *flags, 50_000, "--format", "json", engine=engine).of_kind("finding")
    assert finding["problem"] == "over_limit"
    assert run(path, *flags, 200_000, engine=engine).code == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_compressed_has_the_same_limit(tmp_path: Path, engine: str) -> None:
    data = batch(Codec.NONE, 2, 100_000) + encode_batch(
        [SimpleRecord(1, b"k", b"v")], codec=Codec.LZ4
    )
    path = write(tmp_path / "t-0" / f"{NAME}.log", data)
    ours = run(path, "--deep-iteration", "--max-decompressed-bytes", 50_000, engine=engine)
    assert (ours.code, ours.stdout.count("| offset"), ours.stdout.count("isvalid")) == (1, 1, 2)
    said = "found a batch of 100073 bytes, not decoded, expected at most 50000 bytes"
    assert f"{path}@0: {said} (--max-decompressed-bytes)\n" in ours.stderr
    ours = run(path, "--deep-iteration", "--max-decompressed-bytes", 200_000, engine=engine)
    assert (ours.code, ours.stdout.count("| offset")) == (0, 2)


# ------------------------------------------------------------------------------ files as such


def in_four_gigabytes(*words: object) -> tuple[int, str, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", 'ulimit -v 4194304; exec "$0" -m jobs.cli dump "$@"', sys.executable]
        + [str(word) for word in words],
        capture_output=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode(), time.monotonic() - began


LIMITS = {
    f"{NAME}.log": JAVA_MAX,
    f"{NAME}.index": JAVA_MAX,
    f"{NAME}.timeindex": JAVA_MAX,
    f"{NAME}.txnindex": 936_082_594,
    f"{NAME}.snapshot": 64 * 1024 * 1024,
    f"{NAME}-{0:010d}.checkpoint": JAVA_MAX,
    "leader-epoch-checkpoint": 16_777_216,
    "meta.properties": 1_048_576,
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_file_larger_than_kafka_writes_is_damage_at_once(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"")
    os.truncate(path, 2**40)
    code, out, err, _ = in_four_gigabytes(path)
    assert (code, out) == (1, "")
    assert err == (
        f"{path}: found 1099511627776 bytes, expected at most {LIMITS[name]},"
        " the largest that Kafka writes of this kind\n"
        "1 file: 1 with findings (1 unfit file)\n"
    )
    os.truncate(path, LIMITS[name] + 1)
    assert run(path).code == 1


@pytest.mark.parametrize("name", LIMITS)
def test_zeros_of_a_legal_size_take_seconds_and_little_memory(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"")
    os.truncate(path, LIMITS[name])
    code, out, err, seconds = in_four_gigabytes(path, "--print-data-log", "--verify-index")
    assert code in (0, 1)
    assert out.startswith(f"Dumping {path}\n")
    assert "Traceback" not in err
    assert len(out.replace("\0", "")) < 1000  # a megabyte of zeros is one legal property
    assert seconds < 30  # one or two, if nobody else is busy


@pytest.mark.parametrize("name", LIMITS)
def test_what_is_no_regular_file_is_damage_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / name).mkdir()
    write(tmp_path / "t-0" / name / "leader-epoch-checkpoint", b"0\n0\n")
    code, out, err, _ = in_four_gigabytes(tmp_path)
    assert (code, out) == (1, "")
    assert err == (
        f"{tmp_path / name}: found a named pipe, expected a regular file\n"
        f"{tmp_path / 't-0' / name}: found a directory, expected a regular file\n"
        "2 files: 2 with findings (2 unfit files)\n"
    )
    for path in (tmp_path / name, tmp_path / "t-0" / name):
        assert run(path).code == 1
        assert len(run(path, "--format", "json").of_kind("finding")) == 1


def test_a_device_under_the_name_of_a_segment_is_damage(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.log").symlink_to("/dev/zero")
    dumped = run(tmp_path, "--follow-links")
    assert dumped.code == 1
    assert "found a character device, expected a regular file\n" in dumped.stderr


def test_an_index_beside_a_log_that_is_none_is_dumped_without_it(tmp_path: Path) -> None:
    index = write(tmp_path / f"{NAME}.index", struct.pack(">ii", 1, 100))
    os.mkfifo(tmp_path / f"{NAME}.log")
    dumped = run(index)
    assert dumped.code == 1
    assert "offset: 1 position: 100\n" in dumped.stdout
    assert f"{NAME}.log: found a named pipe, expected a regular file\n" in dumped.stderr


# ------------------------------------------------------------------------- nothing of Kafka's


def test_where_nothing_of_kafkas_is_the_exit_code_is_3(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(empty) == (3, "", f"{empty}: no Kafka files found\n")
    text = write(tmp_path / "notes.txt", b"hello")
    dumped = run(text)
    assert (dumped.code, dumped.stdout) == (3, f"Dumping {text}\n")
    assert f"{text}: no Kafka files found\n" in dumped.stderr
    log = write(tmp_path / "t-0" / f"{NAME}.log", GOOD)
    both = run(log, empty)
    assert both.code == 3
    assert "isvalid: true" in both.stdout
    assert run(log.parent.parent).code == 0  # an empty directory and a text file among Kafka's


# ------------------------------------------------------------------------- how much is said


def damaged(count: int) -> bytes:
    return (GOOD[:-1] + b"x") * count


def test_ten_lines_of_one_kind_for_one_file_and_then_how_many_more(tmp_path: Path) -> None:
    first = write(tmp_path / "t-0" / f"{NAME}.log", damaged(1234) + GOOD[:-3])
    second = write(tmp_path / "t-0" / f"{9:020d}.log", damaged(11))
    for engine in ENGINES:
        dumped = run(first, second, engine=engine)
        lines = dumped.stderr.splitlines()
        assert dumped.code == 1
        assert [line.partition("@")[0] for line in lines] == [
            *[str(first)] * 11,
            f"{first}: 1,224 more wrong checksums (--all-findings prints them)",
            *[str(second)] * 10,
            f"{second}: 1 more wrong checksum (--all-findings prints them)",
            "2 files: 2 with findings (1,245 wrong checksums, 1 truncated value)",
        ]
    everything = run(first, second, "--all-findings").stderr
    assert everything.count("stored crc") == 1245
    assert "more" not in everything
    quiet = run(first, second, "--quiet").stderr.splitlines()
    assert quiet == lines[:-1]
    assert len(run(first, second, "--format", "json").of_kind("finding")) == 1246


def test_the_reports_of_the_original_are_cut_after_ten_lines_too(tmp_path: Path) -> None:
    records = [SimpleRecord(1, b"k", b"v")]
    data = b"".join(encode_batch(records, base_offset=2 * number) for number in range(5000))
    log = write(tmp_path / "t-0" / f"{NAME}.log", data)
    index = write(
        tmp_path / "t-0" / f"{NAME}.index",
        b"".join(
            struct.pack(">ii", 2 * number + 1, number * (len(data) // 5000))
            for number in range(1, 5000)
        ),
    )
    dumped = run(log, index, "--deep-iteration")
    assert dumped.code == 1
    assert dumped.stderr.splitlines() == [
        f"Mismatches in :{index}",
        *[f"  Index offset: {2 * n + 1}, log offset: {2 * n}" for n in range(10, 0, -1)],
        "  and 4,989 more (--all-findings prints them)",
        f"Non-consecutive offsets in {log}",
        *[f"  {2 * n} is followed by {2 * n + 2}" for n in range(10)],
        "  and 4,989 more (--all-findings prints them)",
        "2 files: 1 with findings (4,999 index mismatches)",
    ]
    everything = run(log, index, "--deep-iteration", "--all-findings").stderr
    assert (everything.count("Index offset"), everything.count("is followed by")) == (4999, 4999)


def test_unknown_files_are_named_ten_times(tmp_path: Path) -> None:
    write(tmp_path / "t-0" / f"{NAME}.log", GOOD)
    for number in range(25):
        write(tmp_path / "t-0" / f"note-{number:02}", b"")
    dumped = run(tmp_path)
    assert dumped.code == 0
    assert dumped.stderr.count("Ignoring unknown file ") == 10
    assert dumped.stderr.endswith("Ignoring 15 more unknown files\n")
    assert run(tmp_path, "--quiet").stderr == ""
