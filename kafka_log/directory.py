"""What lies in a log directory: the only module that lists one. Nothing here opens a file.

    log dir       its own files, then partition directories by topic and partition
    partition     its own files, then segment by segment: .log, .index, .timeindex, .txnindex,
                  .snapshot

Names are only parsed (names.py): a file is what its name says, until someone reads it. What the
names and small files of a log dir mean together, evidence/inventory.py tells.
"""

import os
import stat
from collections.abc import Callable, Iterator
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


def _raise(path: str, problem: str) -> None:
    raise OSError(f"{path}: {problem}")


def find_files(
    path: str | os.PathLike[str], on_problem: Callable[[str, str], None] = _raise
) -> Iterator[FoundFile]:
    """A file itself, or every file of a directory and of those inside.

    Raises OSError if `path` is not there. `on_problem` is told what inside cannot be looked at, a
    path and why, and then the rest follows.
    """
    text = os.fspath(path)
    if not Path(text).is_dir():
        yield found_file(text)
        return
    yield from _walk(entry_of(text), set(), on_problem)


def found_file(path: str) -> FoundFile:
    status = Path(path).stat()
    directory = parse_directory_name(Path(path).absolute().parent.name)
    return FoundFile(path, parse_file_name(Path(path).name), directory, status.st_size)


def _walk(
    directory: Entry, seen: set[tuple[int, int]], on_problem: Callable[[str, str], None]
) -> Iterator[FoundFile]:
    if directory.identity in seen:  # a link back to where we came from
        return
    seen.add(directory.identity)
    listing = list_directory(directory.path)
    if listing.problem is not None:
        on_problem(directory.path, listing.problem)
    name = parse_directory_name(Path(directory.path).absolute().name)
    files: list[FoundFile] = []
    directories: list[Entry] = []
    for entry in listing.entries:
        if entry.kind is EntryKind.DIRECTORY:
            directories.append(entry)
        elif entry.kind in (EntryKind.FILE, EntryKind.OTHER):
            files.append(FoundFile(entry.path, parse_file_name(entry.name), name, entry.size))
        else:
            on_problem(entry.path, entry.problem)
    yield from sorted(files, key=_file_order)
    for each in sorted(directories, key=_directory_order):
        yield from _walk(each, seen, on_problem)


def _file_order(file: FoundFile) -> tuple[int, int, int, int, str]:
    kind, state = file.name.kind, file.name.state
    if kind not in _KIND_ORDER:
        return (0, 0, 0, _STATE_ORDER[state], file.path)
    return (1, file.name.offset or 0, _KIND_ORDER[kind], _STATE_ORDER[state], file.path)


def _directory_order(directory: Entry) -> tuple[int, str, int, str]:
    name = parse_directory_name(directory.name)
    if name.kind is DirectoryKind.UNKNOWN or name.partition is None:
        return (1, "", 0, directory.path)
    return (0, name.topic, name.partition, directory.path)
