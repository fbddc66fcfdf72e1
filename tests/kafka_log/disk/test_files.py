"""Files on disk, seen through an overlay, and dying: all are the same directory to the rules."""

import io
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_format.errors import CorruptError, UnfitFileError
from kafka_log.disk.crash_points import CrashingFiles, PowerLossFiles
from kafka_log.disk.files import DiskFiles, Files, opened
from kafka_log.disk.overlay_files import OverlayFiles
from tests.kafka_log.disk.random_changes import Applied, Model, content, draw_changes, fill

_MAKERS: dict[str, Callable[[Path], Files]] = {
    "disk": DiskFiles,
    "overlay": OverlayFiles,
    "crashing": lambda directory: CrashingFiles(DiskFiles(directory)),
    "power": lambda directory: PowerLossFiles(DiskFiles(directory)),
}


@pytest.fixture(params=list(_MAKERS))
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "directory").mkdir()
    return _MAKERS[request.param](tmp_path)


def test_directories_are_not_files(files: Files) -> None:
    assert files.names() == ["a"]


def test_what_is_no_regular_file_is_not_there_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files = DiskFiles(tmp_path)
    assert (files.names(), files.exists("pipe")) == ([], False)
    for write in (False, True):
        with pytest.raises(CorruptError, match="found a named pipe, expected a regular file"):
            files.open("pipe", write=write)


def test_a_file_is_made_only_when_asked_for(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        files.open("b")
    assert not files.exists("b")
    files.open("b", create=True).close()
    assert files.exists("b")
    assert files.size("b") == 0


def test_a_file_that_is_there_is_not_made_anew(files: Files) -> None:
    files.open("a", create=True).close()
    assert content(files, "a") == b"0123456789"


def test_a_write_beyond_the_end_leaves_zeros_between(files: Files) -> None:
    file = files.open("a")
    file.write_at(12, b"xy")
    assert (file.size, content(files, "a")) == (14, b"0123456789\0\0xy")


def test_a_write_of_nothing_changes_nothing(files: Files) -> None:
    file = files.open("a")
    file.write_at(12, b"")
    assert (file.size, content(files, "a")) == (10, b"0123456789")


def test_a_write_over_what_is_there_keeps_the_rest(files: Files) -> None:
    file = files.open("a")
    file.write_at(3, memoryview(b"xy"))
    assert (file.size, content(files, "a")) == (10, b"012xy56789")


def test_a_file_that_was_cut_and_extended_is_zeros_there(files: Files) -> None:
    file = files.open("a")
    file.truncate(4)
    assert content(files, "a") == b"0123"
    file.truncate(6)
    assert (file.size, content(files, "a")) == (6, b"0123\0\0")


def test_an_append_is_behind_the_last_byte(files: Files) -> None:
    file = files.open("a")
    file.append(b"x")
    file.append(b"y")
    assert content(files, "a") == b"0123456789xy"


def test_reads_end_with_the_file(files: Files) -> None:
    file = files.open("a", write=False)
    assert file.read_at(8, 5) == b"89"
    assert file.read_at(10, 5) == b""
    assert file.read_at(99, 5) == b""
    target = bytearray(b"......")
    assert file.readinto_at(7, memoryview(target)) == 3
    assert target == b"789..."


def test_an_open_file_stays_good_under_another_name(files: Files) -> None:
    file = files.open("a")
    files.rename("a", "b")
    file.write_at(0, b"x")
    assert files.names() == ["b"]
    assert content(files, "b") == b"x123456789"
    with pytest.raises(FileNotFoundError):
        files.size("a")


def test_a_rename_replaces_what_has_the_name(files: Files) -> None:
    files.write("b", b"new")
    files.rename("b", "a")
    assert files.names() == ["a"]
    assert content(files, "a") == b"new"


def test_what_is_gone_cannot_be_deleted(files: Files) -> None:
    files.delete("a")
    assert files.names() == []
    with pytest.raises(FileNotFoundError):
        files.delete("a")
    assert not files.delete_if_exists("a")


def test_a_file_is_written_anew_whole(files: Files) -> None:
    files.write("a", b"short")
    assert content(files, "a") == b"short"
    files.replace("a", b"other")
    assert content(files, "a") == b"other"
    assert files.names() == ["a"]
    files.sync_directory()


def test_a_file_larger_than_the_limit_is_not_read(files: Files) -> None:
    with pytest.raises(UnfitFileError, match="found 10 bytes, expected at most 9"):
        files.read("a", limit=9)


def test_times_are_milliseconds(files: Files) -> None:
    files.set_modified_ms("a", 1_700_000_000_123)
    assert files.modified_ms("a") == 1_700_000_000_123


def test_a_reader_has_a_position_of_its_own(files: Files) -> None:
    with opened(files, "a") as file:
        reader = file.reader()
        assert reader.read(3) == b"012"
        assert reader.seek(-2, io.SEEK_END) == 8
        assert reader.read(9) == b"89"
        assert reader.seek(2) == 2
        assert reader.seek(1, io.SEEK_CUR) == 3
        assert reader.read(1) == b"3"
        assert file.reader().tell() == 0


def test_a_closed_file_may_be_closed_again(files: Files) -> None:
    file = files.open("a")
    file.sync()
    file.close()
    file.close()


def test_a_full_disk_takes_a_part_of_a_write_and_says_so(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = DiskFiles(tmp_path).open("a", create=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            file.write_at(0, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (file.size, (tmp_path / "a").stat().st_size) == (4096, 4096)


def test_a_missing_directory_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DiskFiles(tmp_path / "none").names()
    with pytest.raises(FileNotFoundError):
        OverlayFiles(tmp_path / "none")


@pytest.mark.parametrize("kind", list(_MAKERS))
def test_random_changes_leave_what_a_dict_of_bytes_holds(tmp_path: Path, kind: str) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        directory = tmp_path / str(seed)
        directory.mkdir()
        model = Model(fill(rng, directory))
        files = _MAKERS[kind](directory)
        for do, arguments in draw_changes(rng, model):
            getattr(model, do)(*arguments)
            getattr(Applied(files), do)(*arguments)
            found = {name: content(files, name) for name in files.names()}
            assert found == model.contents, f"seed {seed}: {do} {arguments}"
            assert {name: files.size(name) for name in found} == {
                name: len(data) for name, data in model.contents.items()
            }
