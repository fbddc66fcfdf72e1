"""Files on disk, seen through an overlay, and dying: all are the same directory to the rules."""

import contextlib
import io
import os
import random
import resource
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import CorruptError, UnfitFileError
from kafka_log.disk.crash_points import Crash, CrashingFiles, PowerLossFiles
from kafka_log.disk.files import DiskFiles, Files, opened
from kafka_log.disk.overlay_files import Change, OverlayFiles

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


def content(files: Files, name: str) -> bytes:
    return files.read(name, limit=2**20)


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


# --------------------------------------------------------------------------------- random changes


class _Model:
    """A directory as a dict."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = {name: bytearray(data) for name, data in contents.items()}

    def write_at(self, name: str, position: int, data: bytes) -> None:
        content = self.contents[name]
        if data:
            content.extend(bytes(max(0, position - len(content))))
            content[position : position + len(data)] = data

    def truncate(self, name: str, size: int) -> None:
        content = self.contents[name]
        content[size:] = bytes(max(0, size - len(content)))

    def create(self, name: str) -> None:
        self.contents.setdefault(name, bytearray())

    def rename(self, old: str, new: str) -> None:
        self.contents[new] = self.contents.pop(old)

    def delete(self, name: str) -> None:
        del self.contents[name]


class _Applied:
    """The same changes to `Files`."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def write_at(self, name: str, position: int, data: bytes) -> None:
        with contextlib.closing(self.files.open(name)) as file:
            file.write_at(position, data)

    def truncate(self, name: str, size: int) -> None:
        with contextlib.closing(self.files.open(name)) as file:
            file.truncate(size)

    def create(self, name: str) -> None:
        self.files.open(name, create=True).close()

    def rename(self, old: str, new: str) -> None:
        self.files.rename(old, new)

    def delete(self, name: str) -> None:
        self.files.delete(name)


def _draw_changes(rng: random.Random, model: _Model) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Changes that the model allows, drawn as it goes."""
    for _ in range(25):
        names = sorted(model.contents)
        choices: list[tuple[str, tuple[Any, ...]]] = [("create", (rng.choice("abcdef"),))]
        if names:
            name, other = rng.choice(names), rng.choice([*names, "g"])
            data = rng.randbytes(rng.randrange(20))
            choices += [
                ("write_at", (name, rng.randrange(60), data)),
                ("write_at", (name, len(model.contents[name]), data)),
                ("truncate", (name, rng.randrange(60))),
                ("rename", (name, other)),
                ("delete", (name,)),
            ]
        yield rng.choice(choices)


def _beneath(rng: random.Random, directory: Path) -> dict[str, bytes]:
    contents = {name: rng.randbytes(rng.randrange(50)) for name in "abc"}
    for name, data in contents.items():
        (directory / name).write_bytes(data)
        os.utime(directory / name, (1_600_000_000, 1_600_000_000))
    return contents


@pytest.mark.parametrize("kind", list(_MAKERS))
def test_random_changes_leave_what_a_dict_of_bytes_holds(tmp_path: Path, kind: str) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        directory = tmp_path / str(seed)
        directory.mkdir()
        model = _Model(_beneath(rng, directory))
        files = _MAKERS[kind](directory)
        for do, arguments in _draw_changes(rng, model):
            getattr(model, do)(*arguments)
            getattr(_Applied(files), do)(*arguments)
            found = {name: content(files, name) for name in files.names()}
            assert found == model.contents, f"seed {seed}: {do} {arguments}"
            assert {name: files.size(name) for name in found} == {
                name: len(data) for name, data in model.contents.items()
            }


def test_the_directory_under_an_overlay_is_left_alone_and_its_copy_has_the_changes(
    tmp_path: Path,
) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        beneath, copy = tmp_path / f"beneath-{seed}", tmp_path / f"copy-{seed}"
        beneath.mkdir()
        copy.mkdir()
        contents = _beneath(rng, beneath)
        model, files = _Model(contents), OverlayFiles(beneath, lambda: 1_700_000_000_000)
        for do, arguments in _draw_changes(rng, model):
            getattr(model, do)(*arguments)
            getattr(_Applied(files), do)(*arguments)
        files.write_to(copy)
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == model.contents
        assert {path.name: path.read_bytes() for path in beneath.iterdir()} == contents
        assert {path.stat().st_mtime for path in beneath.iterdir()} <= {1_600_000_000}
        _check_changes(files, contents, model)


def _check_changes(files: OverlayFiles, before: dict[str, bytes], after: _Model) -> None:
    """A file that no change mentions is what it was; sizes are true."""
    changes = files.changes()
    mentioned = {change.name for change in changes} | {change.renamed_to for change in changes}
    for name in before.keys() | after.contents.keys():
        if name not in mentioned:
            assert after.contents.get(name) == before.get(name)
    for change in changes:
        is_new = change.action == "created"  # or its namesake has another name now
        assert change.size_before == (None if is_new else len(before[change.name]))
        now = change.renamed_to or change.name
        if change.action == "deleted":
            assert change.size_after is None
        else:
            assert change.size_after == len(after.contents[now])


# --------------------------------------------------------------------------------------- overlay


@pytest.fixture
def overlay(tmp_path: Path) -> OverlayFiles:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "b").write_bytes(b"b")
    return OverlayFiles(tmp_path, lambda: 1_700_000_000_000)


def test_an_overlay_says_what_became_of_each_file(overlay: OverlayFiles) -> None:
    overlay.open("a").truncate(4)
    overlay.rename("b", "c")
    overlay.write("d", b"dd")
    assert overlay.changes() == [
        Change("a", "truncated", 10, 4),
        Change("b", "renamed", 1, 1, "c"),
        Change("d", "created", None, 2),
    ]


def test_a_file_that_became_what_it_was_is_no_change(overlay: OverlayFiles) -> None:
    overlay.rename("b", "c")
    overlay.rename("c", "b")
    overlay.open("a").truncate(10)
    file = overlay.open("a")
    file.append(b"x")
    file.truncate(10)
    assert overlay.changes() == []


def test_extended_rewritten_and_deleted_files_are_told_apart(overlay: OverlayFiles) -> None:
    overlay.open("a").append(b"xy")
    overlay.delete("b")
    assert overlay.changes() == [Change("a", "extended", 10, 12), Change("b", "deleted", 1, None)]
    overlay.open("a").write_at(0, b"z")
    overlay.write("b", b"anew")
    assert overlay.changes() == [Change("a", "rewritten", 10, 12), Change("b", "rewritten", 1, 4)]


def test_a_changed_file_has_the_time_of_its_change(overlay: OverlayFiles, tmp_path: Path) -> None:
    before = (tmp_path / "b").stat().st_mtime_ns // 1_000_000
    overlay.open("a").append(b"x")
    assert overlay.modified_ms("a") == 1_700_000_000_000
    assert overlay.modified_ms("b") == before


def test_a_file_that_became_shorter_under_an_overlay_is_an_error(
    overlay: OverlayFiles, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"0")
    with pytest.raises(OSError, match="changed while it was read: it shrank from 10 to 1 bytes"):
        content(overlay, "a")


def test_a_file_that_grew_under_an_overlay_is_seen_as_it_was(
    overlay: OverlayFiles, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"0123456789 and more")
    assert content(overlay, "a") == b"0123456789"


def test_a_copy_has_what_was_seen_of_a_file_that_grew(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir(), after.mkdir()
    (before / "a").write_bytes(b"0123456789")
    overlay = OverlayFiles(before)
    with (before / "a").open("ab") as file:
        file.write(b"more")
    overlay.write_to(after)
    assert (after / "a").read_bytes() == b"0123456789"


def test_a_copy_of_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir(), after.mkdir()
    (before / "a").write_bytes(b"0123456789")
    overlay = OverlayFiles(before)
    (before / "a").write_bytes(b"0123")
    with pytest.raises(OSError, match="changed while it was read: it shrank from 10 to 4 bytes"):
        overlay.write_to(after)


def test_holes_of_a_file_stay_holes_in_a_copy(tmp_path: Path) -> None:
    """Indexes of a broker that crashed are ten megabytes of nothing, each."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir(), after.mkdir()
    size = 64 * 2**20
    with (before / "a").open("wb") as file:
        file.write(b"begin")
        file.seek(32 * 2**20)
        file.write(b"middle")
        file.truncate(size)
    (before / "hole").touch()
    os.truncate(before / "hole", size)
    OverlayFiles(before).write_to(after)
    assert (after / "a").read_bytes() == (before / "a").read_bytes()
    assert ((after / "hole").stat().st_size, (after / "hole").stat().st_blocks) == (size, 0)
    assert (after / "a").stat().st_blocks * 512 <= 2**20


def test_an_overlay_needs_no_right_to_write(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    (tmp_path / "a").chmod(stat.S_IRUSR)
    overlay = OverlayFiles(tmp_path)
    overlay.open("a").write_at(0, b"x")
    assert content(overlay, "a") == b"x123456789"
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_copy_overwrites_nothing(overlay: OverlayFiles, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / "a").write_bytes(b"mine")
    overlay.open("a").truncate(4)
    with pytest.raises(FileExistsError):
        overlay.write_to(target)
    assert (target / "a").read_bytes() == b"mine"


def test_a_copy_overwrites_nothing_that_it_need_not_change(
    overlay: OverlayFiles, tmp_path: Path
) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    (target / "a").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        overlay.write_to(target)
    assert (target / "a").read_bytes() == b"mine"


# ---------------------------------------------------------------------------------- crash points


def _work(files: Files) -> None:
    """Ten changes."""
    file = files.open("b", create=True)
    file.write_at(0, b"bbbb")
    file.sync()
    file.truncate(2)
    file.close()
    files.rename("b", "c")
    files.set_modified_ms("c", 5)
    files.replace("a", b"new")
    files.delete("c")
    files.sync_directory()


@pytest.mark.parametrize(
    ("crash_at", "left"),
    [
        (1, {"a": b"old"}),
        (2, {"a": b"old", "b": b""}),
        (3, {"a": b"old", "b": b"bbbb"}),
        (4, {"a": b"old", "b": b"bb"}),
        (5, {"a": b"old", "c": b"bb"}),
        (6, {"a": b"old", "c": b"bb"}),
        (7, {"a": b"old", "a.tmp": b"", "c": b"bb"}),
        (8, {"a": b"old", "a.tmp": b"", "c": b"bb"}),
        (9, {"a": b"old", "a.tmp": b"new", "c": b"bb"}),
        (10, {"a": b"new", "c": b"bb"}),
        (11, {"a": b"new"}),
    ],
)
def test_a_process_may_die_at_every_change(
    tmp_path: Path, crash_at: int, left: dict[str, bytes]
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    files = CrashingFiles(DiskFiles(tmp_path), crash_at)
    if crash_at <= 10:
        with pytest.raises(Crash):
            _work(files)
        with pytest.raises(Crash):  # the dead do nothing
            files.delete("a")
    else:
        _work(files)
        assert files.changes == 10
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == left


def test_a_torn_write_leaves_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(Crash):
        _work(CrashingFiles(DiskFiles(tmp_path), 2, torn=3))
    assert (tmp_path / "b").read_bytes() == b"bbb"


def test_a_crash_can_be_armed_later(tmp_path: Path) -> None:
    files = CrashingFiles(DiskFiles(tmp_path))
    files.write("a", b"x")
    files.arm(files.changes + 1)
    with pytest.raises(Crash):
        files.delete("a")


def test_power_loss_keeps_what_was_synced(tmp_path: Path) -> None:
    for seed in range(20):
        files = PowerLossFiles(DiskFiles(tmp_path))
        file = files.open(f"a{seed}", create=True)
        file.write_at(0, b"synced")
        file.sync()
        file.write_at(6, b"and not")
        files.rename(f"a{seed}", f"b{seed}")
        file.close()
        files.lose_power(random.Random(seed))
        left = (tmp_path / f"b{seed}").read_bytes()
        assert left.startswith(b"synced")
        assert b"synced" + b"and not"[: len(left.rstrip(b"\0")) - 6] == left.rstrip(b"\0")
