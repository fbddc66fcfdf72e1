"""What lies in a log directory: the only module that lists one. Nothing here opens a file.

    log dir       its own files, then partition directories by topic and partition
    partition     its own files, then segment by segment: .log, .index, .timeindex, .txnindex,
                  .snapshot

Names are only parsed (names.py): a file is what its name says, until someone reads it. What the
names and small files of a log dir mean together, evidence/inventory.py tells.
"""

import os
import stat
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kafka_log.names import (
    DirectoryKind,
    DirectoryName,
    FileKind,
    FileName,
    FileState,
    parse_directory_name,
    parse_file_name,
)

_KIND_ORDER = {
    kind: place
    for place, kind in enumerate(
        (
            FileKind.LOG,
            FileKind.OFFSET_INDEX,
            FileKind.TIME_INDEX,
            FileKind.TRANSACTION_INDEX,
            FileKind.PRODUCER_SNAPSHOT,
            FileKind.METADATA_SNAPSHOT,
        )
    )
}
_STATE_ORDER = {state: place for place, state in enumerate(FileState)}


class EntryKind(Enum):
    FILE = "file"
    DIRECTORY = "directory"
    DANGLING = "a link to nothing"
    OTHER = "neither a file nor a directory"
    VANISHED = "vanished while it was listed"
    UNREADABLE = "not to be looked at"


class Entry(NamedTuple):
    """What stands in a directory; links are followed."""

    path: str
    name: str
    kind: EntryKind
    size: int = 0
    modified_ms: int = 0
    identity: tuple[int, int] = (0, 0)
    """Device and inode: the same for every way that leads there."""
    problem: str = ""


class Listing(NamedTuple):
    """A directory's entries by name, or why there are none."""

    path: str
    entries: tuple[Entry, ...]
    problem: str | None = None


def list_directory(path: str) -> Listing:
    """Whatever the disk says is a value."""
    try:
        with os.scandir(path) as scanned:
            entries = sorted((_entry(path, each) for each in scanned), key=lambda each: each.name)
    except OSError as error:
        return Listing(path, (), error.strerror or str(error))
    return Listing(path, tuple(entries))


def entry_of(path: str) -> Entry:
    """A path that somebody gave."""
    try:
        return _entry_of_status(path, Path(path).name, Path(path).stat())
    except OSError as error:
        said = error.strerror or str(error)
        return Entry(path, Path(path).name, EntryKind.UNREADABLE, problem=said)


def _entry(directory: str, scanned: os.DirEntry[str]) -> Entry:
    path = os.path.join(directory, scanned.name)  # noqa: PTH118  # keeps a leading `./`
    try:
        return _entry_of_status(path, scanned.name, scanned.stat())
    except FileNotFoundError:
        kind = EntryKind.DANGLING if Path(path).is_symlink() else EntryKind.VANISHED
        return Entry(path, scanned.name, kind, problem=kind.value)
    except OSError as error:
        said = error.strerror or str(error)
        return Entry(path, scanned.name, EntryKind.UNREADABLE, problem=said)


def _entry_of_status(path: str, name: str, status: os.stat_result) -> Entry:
    if stat.S_ISDIR(status.st_mode):
        kind = EntryKind.DIRECTORY
    else:
        kind = EntryKind.FILE if stat.S_ISREG(status.st_mode) else EntryKind.OTHER
    return Entry(
        path,
        name,
        kind,
        size=status.st_size,
        modified_ms=status.st_mtime_ns // 1_000_000,
        identity=(status.st_dev, status.st_ino),
        problem=kind.value if kind is EntryKind.OTHER else "",
    )


class FoundFile(NamedTuple):
    """A file by its name and that of its directory."""

    path: str
    name: FileName
    directory: DirectoryName
    size: int

    @property
    def topic(self) -> str | None:
        return None if self.directory.partition is None else self.directory.topic

    @property
    def partition(self) -> int | None:
        return self.directory.partition


def find_files(path: str | os.PathLike[str]) -> Iterator[FoundFile]:
    """A file itself, or every file of a directory and of those inside. Raises OSError."""
    text = os.fspath(path)
    if not Path(text).is_dir():
        yield found_file(text)
        return
    yield from _walk(text, seen=set())


def found_file(path: str) -> FoundFile:
    status = Path(path).stat()
    directory = parse_directory_name(Path(path).absolute().parent.name)
    return FoundFile(path, parse_file_name(Path(path).name), directory, status.st_size)


def _walk(directory: str, seen: set[tuple[int, int]]) -> Iterator[FoundFile]:
    status = Path(directory).stat()
    if (status.st_dev, status.st_ino) in seen:  # a link back to where we came from
        return
    seen.add((status.st_dev, status.st_ino))
    files: list[str] = []
    directories: list[str] = []
    for path in Path(directory).iterdir():
        joined = os.path.join(directory, path.name)  # noqa: PTH118  # keeps a leading `./`
        (directories if path.is_dir() else files).append(joined)
    found = [found_file(path) for path in files if not _is_dangling(path)]
    yield from sorted(found, key=_file_order)
    for each in sorted(directories, key=_directory_order):
        yield from _walk(each, seen)


def _is_dangling(path: str) -> bool:
    return not Path(path).exists()


def _file_order(file: FoundFile) -> tuple[int, int, int, int, str]:
    kind, state = file.name.kind, file.name.state
    if kind not in _KIND_ORDER:
        return (0, 0, 0, _STATE_ORDER[state], file.path)
    return (1, file.name.offset or 0, _KIND_ORDER[kind], _STATE_ORDER[state], file.path)


def _directory_order(path: str) -> tuple[int, str, int, str]:
    name = parse_directory_name(Path(path).name)
    if name.kind is DirectoryKind.UNKNOWN or name.partition is None:
        return (1, "", 0, path)
    return (0, name.topic, name.partition, path)
