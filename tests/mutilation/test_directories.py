"""Every file of three small directories, cut at every length and flipped at every bit.

A value or a FormatError that is a coordinate: never another exception, a hang, or memory beyond the
bound. `make test` asks the careful reader about every cut and flip (test_report), every reader
about those of the small files and a sample of the rest; `make soak` asks all about all.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_format.errors import FormatError
from kafka_log.names import FileKind
from tests.kafka_format.damage import cuts, flips
from tests.mutilation import directories, guard, readers

FILES = directories.files()
SMALL = [file for file in FILES if readers.kind_of(file[1]) not in readers.LOGS]
SAMPLE = 24
"""Cases of a log, in `make test`, for which every reader is asked."""
MEASURED = 4
"""Cases of a file, in `make test`, whose memory is measured (which takes its time)."""


def ids(files: list[tuple[str, str, bytes]]) -> list[str]:
    return [f"{directory}/{path}" for directory, path, _ in files]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories on disk."""
    root = tmp_path_factory.mktemp("mutilated")
    for directory, path, data in FILES:
        file = root / directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return root


def damaged(data: bytes) -> list[tuple[str, bytes]]:
    return [
        *((f"cut to {size}", cut) for size, cut in enumerate(cuts(data))),
        *((f"bit {bit} flipped", flipped) for bit, flipped in flips(data)),
    ]


def sample(cases: list[tuple[str, bytes]], size: int) -> list[tuple[str, bytes]]:
    """The same ones every time."""
    chosen = random.Random(len(cases)).sample(range(len(cases)), min(size, len(cases)))
    return [cases[i] for i in sorted(chosen)]


def is_log(path: str) -> bool:
    return readers.kind_of(path) in readers.LOGS


def test_the_directories_hold_every_kind_of_file() -> None:
    kinds = {readers.kind_of(path) for _, path, _ in FILES}
    elsewhere = {
        FileKind.UNKNOWN,
        FileKind.LOCK,
        *(kind for kind in FileKind if kind.name.startswith(("REMOTE_", "PARTITION_SNAPSHOT"))),
    }
    assert set(FileKind) - kinds <= elsewhere


def test_the_directories_hold_every_magic_and_codec_and_kind_of_batch() -> None:
    found = set()
    for _, path, data in FILES:
        if is_log(path):
            for batch in readers.LogFile(data).batches():
                control = batch.magic == 2 and batch.header.is_control
                found.add((batch.magic, batch.header.attributes & 7, control))
    plain = {(magic, codec, False) for magic in (0, 1, 2) for codec in range(4)}
    assert found == plain | {(2, 4, False), (2, 0, True)}


@pytest.mark.parametrize(("directory", "path", "data"), FILES, ids=ids(FILES))
def test_a_whole_file_is_well(directory: str, path: str, data: bytes, root: Path) -> None:
    found = readers.read_in_full(f"{directory}/{path}", data)
    assert not readers.is_noticed(found), found
    assert readers.write_again(path, data) == data
    # An index whose log is gone cannot be verified, and dump says so.
    assert check_dump(root / directory / path, data) is path.startswith("moved-0.")


@pytest.mark.parametrize(("directory", "path", "data"), SMALL, ids=ids(SMALL))
def test_every_reader_survives_every_cut_and_flip_of_a_small_file(
    directory: str, path: str, data: bytes
) -> None:
    """The careful reader flips those of logs too, for the report: test_report."""
    name = f"{directory}/{path}"
    with guard.watchdog(300):
        for what, bytes_ in damaged(data):
            with guard.time_limit(f"{name} {what}"):
                readers.read_in_full(name, bytes_)


@pytest.mark.parametrize(("directory", "path", "data"), FILES, ids=ids(FILES))
def test_every_reader_and_the_dump_survive_a_sample(
    directory: str, path: str, data: bytes, root: Path
) -> None:
    with guard.watchdog(300):
        examine(directory, path, data, root, sample(damaged(data), SAMPLE))


@pytest.mark.parametrize(("directory", "path", "data"), FILES, ids=ids(FILES))
def test_memory_stays_within_the_bound_in_a_sample(
    directory: str, path: str, data: bytes, root: Path
) -> None:
    cases = sample(damaged(data), 2 * SAMPLE)[:: 2 * SAMPLE // MEASURED]
    for what, bytes_ in cases:
        with guard.memory_limit(f"{directory}/{path} {what}"):
            examine(directory, path, data, root, [(what, bytes_)])


@pytest.mark.soak
@pytest.mark.parametrize(("directory", "path", "data"), FILES, ids=ids(FILES))
def test_every_reader_and_the_dump_survive_every_cut_and_flip(
    directory: str, path: str, data: bytes, root: Path
) -> None:
    examine(directory, path, data, root, [("whole", data)])
    for cases in pieces(damaged(data), 500):
        with guard.watchdog(600), guard.resident_limit(f"{directory}/{path}"):
            examine(directory, path, data, root, cases)


def pieces(cases: list[tuple[str, bytes]], size: int) -> Iterator[list[tuple[str, bytes]]]:
    for start in range(0, len(cases), size):
        yield cases[start : start + size]


def examine(
    directory: str, path: str, data: bytes, root: Path, cases: list[tuple[str, bytes]]
) -> None:
    name = f"{directory}/{path}"
    file = root / name
    try:
        for what, bytes_ in cases:
            with guard.time_limit(f"{name} {what}"):
                found = readers.read_in_full(name, bytes_)
                was_told = check_dump(file, bytes_)
            if isinstance(found, FormatError):
                assert was_told, f"{name} {what}: {found}, and dump says nothing"
    finally:
        file.write_bytes(data)


def check_dump(file: Path, data: bytes) -> bool:
    """Whether `dump` finds damage: in text and JSON, by rows and columns, the same."""
    file.write_bytes(data)
    is_partition = file.parent.parent.parent.name.startswith("mutilated")
    path = file.parent if is_partition else file
    text = readers.dump_paths(readers.dump_options("text"), path)
    rows = readers.dump_paths(readers.dump_options("json"), path)
    for line in rows[1].splitlines():
        json.loads(line)
    assert text[0] == rows[0]
    if is_log(str(file)):
        for output_format, found in (("text", text), ("json", rows)):
            options = readers.dump_options(output_format, "columns")
            assert readers.dump_paths(options, path) == found
    return text[0]
