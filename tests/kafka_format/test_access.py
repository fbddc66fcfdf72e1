"""The one door to the evidence: what it lets in, and what it says of a file that changes."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from kafka_format.access import (
    JAVA_MAX,
    Access,
    ChangedError,
    LinkError,
    absolute_roots,
    access,
    forget,
    open_evidence,
    using,
    watching,
)
from kafka_format.errors import CorruptError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "evidence" / "a"
    path.parent.mkdir()
    path.write_bytes(b"0123456789")
    return path


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path has room for 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("make", "found"),
    [(make_fifo, "a named pipe"), (Path.mkdir, "a directory"), (make_socket, None)],
)
def test_only_regular_files_are_opened(tmp_path, make, found):
    path = tmp_path / "x"
    make(path)
    with pytest.raises((CorruptError, OSError)) as caught:
        open_evidence(path)
    if found is not None:
        assert str(caught.value) == f"{path}: found {found}, expected a regular file"


def test_a_file_larger_than_kafka_writes_is_refused_before_a_byte_is_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as sparse:
        sparse.truncate(JAVA_MAX + 1)
    with pytest.raises(CorruptError, match="found 2147483648 bytes, expected at most 2147483647"):
        open_evidence(path)
    with open_evidence(path, limit=JAVA_MAX + 1) as opened:
        assert opened.read(4) == bytes(4)


def test_nothing_can_be_written_through_it(file):
    with open_evidence(file) as opened:
        assert not opened.writable()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(opened.fileno(), b"x")


def test_reads_and_seeks_as_a_file_does(file):
    with open_evidence(file) as opened:
        assert (opened.seek(0, os.SEEK_END), opened.read()) == (10, b"")
        assert (opened.seek(-3, os.SEEK_CUR), opened.read(2), opened.tell()) == (7, b"78", 9)
        assert (opened.seek(2), opened.readall()) == (2, b"23456789")
        with pytest.raises(OSError, match="Invalid argument"):
            opened.seek(-1)


def shrink(path: Path) -> None:
    os.truncate(path, 4)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def overwrite(path: Path) -> None:
    with path.open("r+b") as opened:
        opened.write(b"x")
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


CHANGES = {
    "shrank from 10 to 4 bytes": shrink,
    "was replaced": replace,
    "vanished": Path.unlink,
    "was written to": overwrite,
}


@pytest.mark.parametrize(("how", "change"), CHANGES.items())
def test_a_file_that_changes_is_an_error_when_it_is_closed(file, how, change):
    with (
        pytest.raises(ChangedError, match=f"a.*changed while it was read: it {how}|{how}"),
        open_evidence(file) as opened,
    ):
        assert opened.read(2) == b"01"
        change(file)


@pytest.mark.parametrize(("how", "change"), CHANGES.items())
def test_a_watch_sees_what_changed_after_it_was_closed(file, how, change):
    with watching() as watch:
        open_evidence(file).close()
        assert watch.changes() == []
        change(file)
        (error,) = watch.changes()
        assert (error.filename, error.strerror) == (
            str(file),
            f"changed while it was read: it {how}",
        )
        assert watch.changes() == []  # said once


def segment(directory: Path, base: int = 0, kind: str = "log") -> Path:
    path = directory / f"{base:020d}.{kind}"
    path.write_bytes(b"0123456789" * 20_000)
    return path


def append(path: Path, data: bytes = b"abc") -> None:
    with path.open("ab") as more:
        more.write(data)


def test_a_last_segment_that_grows_is_a_note_and_what_was_there_is_read(tmp_path):
    file = segment(tmp_path)
    with watching() as watch:
        with open_evidence(file) as opened:
            append(file)
            opened.seek(0, os.SEEK_END)
            assert opened.tell() == 200_000
        assert (watch.changes(), watch.grown) == ([], {str(file)})


@pytest.mark.parametrize("name", ["index", "timeindex", "txnindex", "log.cleaned"])
def test_so_is_what_a_broker_appends_to_beside_it(tmp_path, name):
    file = segment(tmp_path, kind=name)
    with watching() as watch:
        open_evidence(file).close()
        append(file)
        assert (watch.changes(), watch.grown) == ([], {str(file)})


def changed_after(change, *files: Path) -> list[str]:
    """How files changed that were opened before."""
    with watching() as watch:
        for file in files:
            open_evidence(file).close()
        change()
        found = [error.how for error in watch.changes()]
        assert len(found) + len(watch.grown) <= len(files)
    return found


def test_a_segment_with_another_after_it_does_not_grow(tmp_path):
    first, _ = segment(tmp_path), segment(tmp_path, 7)
    assert changed_after(lambda: append(first), first) == ["it grew from 200000 to 200003 bytes"]
    index, _ = segment(tmp_path, kind="index"), segment(tmp_path, 8)
    assert changed_after(lambda: append(index), index) == ["it grew from 200000 to 200003 bytes"]


def test_no_other_file_grows(file):
    assert changed_after(lambda: append(file), file) == ["it grew from 10 to 13 bytes"]
    with pytest.raises(ChangedError, match="it grew from 13 to 16"), open_evidence(file):
        append(file)


@pytest.mark.parametrize("position", [0, 65_535, 200_000 - 65_536, 199_999])
def test_a_last_segment_that_was_written_over_and_grew_is_no_note(tmp_path, position):
    """It was one: who appends a byte could change all the others unseen."""
    file = segment(tmp_path)

    def rewrite() -> None:
        with file.open("r+b") as opened:
            opened.seek(position)
            opened.write(b"x")
        append(file, b"y")

    assert changed_after(rewrite, file) == ["it was written to"]


def test_a_file_that_was_written_to_and_dated_back_is_seen(file):
    """It was not: size and time of modification were as before."""
    status = file.stat()

    def rewrite() -> None:
        file.write_bytes(b"9876543210")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    how = "it was written to and dated back, or its mode, owner or links changed"
    assert changed_after(rewrite, file) == [how]


def test_a_file_that_is_only_read_does_not_change(file):
    assert changed_after(file.read_bytes, file) == []


def test_bytes_that_were_there_and_are_not_are_an_error_at_once(file):
    opened = open_evidence(file)
    shrink(file)
    assert opened.read(4) == b"0123"
    with pytest.raises(ChangedError, match="it shrank from 10 to 4 bytes"):
        opened.read(1)
    opened.close()


def test_what_this_process_changes_itself_is_not_watched(file):
    with watching() as watch:
        open_evidence(file).close()
        forget(str(file))
        file.unlink()
        assert watch.changes() == []


# -------------------------------------------------------------------------------------- links


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "secret"
    path.parent.mkdir()
    path.write_bytes(b"secret")
    return path


def opens(path: Path, **policy: Any) -> bool:
    with using(Access(**policy)):
        try:
            open_evidence(path).close()
        except LinkError:
            return False
    return True


def test_a_link_out_of_what_was_given_is_not_followed(file, secret):
    link = file.with_name("link")
    link.symlink_to(secret)
    roots = absolute_roots([str(file.parent)])
    assert not opens(link, roots=roots)
    assert opens(link, roots=roots, follow_links=True)
    assert opens(link), "without roots every path is one that was given"
    assert opens(link, roots=absolute_roots([str(link)])), "a path that was given may be a link"
    assert opens(link, roots=absolute_roots([str(file.parent), str(secret.parent)]))


def test_neither_is_a_directory_on_the_way(file, secret):
    (file.parent / "t-0").symlink_to(secret.parent)
    roots = absolute_roots([str(file.parent)])
    assert not opens(file.parent / "t-0" / "secret", roots=roots)
    assert opens(file.parent / "t-0" / "secret", roots=absolute_roots([str(file.parent / "t-0")]))


def test_a_link_inside_is_followed(file):
    link = file.with_name("link")
    link.symlink_to(file.name)
    assert opens(link, roots=absolute_roots([str(file.parent)]))


def test_what_lies_beside_is_opened_unless_it_is_a_link(file, secret):
    roots = absolute_roots([str(file.parent / "t-0")])
    assert opens(file, roots=roots)  # a checkpoint of the log dir around a partition
    link = file.with_name("link")
    link.symlink_to(secret)
    assert not opens(link, roots=roots)


def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(file, secret):
    """It was: whether the way stays inside was asked once for a directory."""
    partition = file.parent / "t-0"
    partition.mkdir()
    (partition / "secret").write_bytes(b"mine")
    with using(Access(roots=absolute_roots([str(file.parent)]))):
        open_evidence(partition / "secret").close()
        partition.rename(file.parent.parent / "moved")
        partition.symlink_to(secret.parent)
        with pytest.raises(LinkError, match=r"elsewhere/secret, not followed"):
            open_evidence(partition / "secret")


def test_nor_where_the_system_does_not_say_where_a_file_lies(file, secret, monkeypatch):
    def refuse(_path: str) -> str:
        raise FileNotFoundError

    partition = file.parent / "t-0"
    partition.mkdir()
    (partition / "secret").write_bytes(b"mine")
    with using(Access(roots=absolute_roots([str(file.parent)]))):
        with monkeypatch.context() as patched:
            patched.setattr(os, "readlink", refuse)
            open_evidence(partition / "secret").close()
        partition.rename(file.parent.parent / "moved")
        partition.symlink_to(secret.parent)
        real = os.readlink
        monkeypatch.setattr(
            os, "readlink", lambda path: refuse(path) if "fd" in str(path) else real(path)
        )
        with pytest.raises(LinkError):
            open_evidence(partition / "secret")


def test_a_root_that_is_a_link_may_be_read_and_what_takes_its_place_not(file, secret):
    root = file.parent.parent / "given"
    root.symlink_to(file.parent)
    (secret.parent / "a").write_bytes(b"secret")
    with using(Access(roots=absolute_roots([str(root)]))):
        open_evidence(root / "a").close()
        root.unlink()
        root.symlink_to(secret.parent)
        with pytest.raises(LinkError):
            open_evidence(root / "a")


def test_the_rules_are_those_of_before_when_a_block_ends():
    before = access()
    with pytest.raises(KeyError), using(Access(max_decompressed_bytes=1)):
        assert access().max_decompressed_bytes == 1
        raise KeyError
    assert access() is before
