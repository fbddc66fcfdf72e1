"""List log directories. No other module does, and no file is opened here.

    log dir       its own files, then partition directories by topic and partition
    partition     its own files, then segment by segment: .log, .index, .timeindex, .txnindex,
                  .snapshot

Names are only parsed (names.py): a file is what its name says until it is read. log_dir_scan.py
interprets the names and small files of a log dir together.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kafka_format.access import access, kind_of
from kafka_format.file_kinds import SEGMENT_KINDS
from kafka_log.inventory.nearby import names_near
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
        (*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT, FileKind.METADATA_SNAPSHOT)
    )
}
_STATE_ORDER = {state: place for place, state in enumerate(FileState)}


FOLLOWED = "link followed"
NOT_FOLLOWED = "a link out of the given paths, not followed (use --follow-links)"


class EntryKind(Enum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    DANGLING = "a link to nothing"
    LINK = "a link that leads out of the given paths"
    CIRCLE = "a link in a circle"
    OTHER = "neither a file nor a directory"
    VANISHED = "vanished while it was listed"
    UNREADABLE = "cannot be accessed"


class DirectoryEntry(NamedTuple):
    """An entry of a directory. Links are followed where access.Access allows it."""

    path: str
    name: str
    kind: EntryKind
    size: int = 0
    modified_ms: int = 0
    identity: tuple[int, int] = (0, 0)
    """Device and inode: the same for every path to the entry."""
    problem: str = ""
    found: str = ""
    """What it is, if it is neither a file nor a directory."""
    target: str = ""
    """The target, if it is a link."""


class Listing(NamedTuple):
    """A directory's entries by name, or why there are none."""

    path: str
    entries: tuple[DirectoryEntry, ...]
    problem: str | None = None


def list_directory(path: str) -> Listing:
    """List a directory. Disk errors are part of the result."""
    try:
        with os.scandir(path) as scanned:
            entries = sorted((_entry(path, each) for each in scanned), key=lambda each: each.name)
    except OSError as error:
        return Listing(path, (), error.strerror or str(error))
    return Listing(path, tuple(entries))


def entry_of(path: str) -> DirectoryEntry:
    """Return the entry of a path that the user gave."""
    try:
        return _entry_of_status(path, Path(path).name, Path(path).stat())
    except OSError as error:
        problem = error.strerror or str(error)
        if isinstance(error, FileNotFoundError):
            problem += names_near(path)
        return DirectoryEntry(path, Path(path).name, EntryKind.UNREADABLE, problem=problem)


def _entry(directory: str, scanned: os.DirEntry[str]) -> DirectoryEntry:
    path = os.path.join(directory, scanned.name)  # noqa: PTH118  # keeps a leading `./`
    target = ""
    try:
        if scanned.is_symlink():
            target = os.readlink(path)  # noqa: PTH115
            if not access().allows(path):
                problem = f"{scanned.name} -> {target}: {NOT_FOLLOWED}"
                return DirectoryEntry(
                    path, scanned.name, EntryKind.LINK, problem=problem, target=target
                )
        return _entry_of_status(path, scanned.name, scanned.stat())._replace(target=target)
    except FileNotFoundError:
        kind = EntryKind.DANGLING if target else EntryKind.VANISHED
        problem = f"{scanned.name} -> {target}: {kind.value}" if target else kind.value
        return DirectoryEntry(path, scanned.name, kind, problem=problem, target=target)
    except OSError as error:
        if target and error.errno == errno.ELOOP:
            kind = EntryKind.CIRCLE
            problem = f"{scanned.name} -> {target}: {kind.value}"
            return DirectoryEntry(path, scanned.name, kind, problem=problem, target=target)
        problem = error.strerror or str(error)
        unreadable = EntryKind.UNREADABLE
        return DirectoryEntry(path, scanned.name, unreadable, problem=problem, target=target)


def _entry_of_status(path: str, name: str, status: os.stat_result) -> DirectoryEntry:
    if stat.S_ISDIR(status.st_mode):
        kind = EntryKind.DIRECTORY
    else:
        kind = EntryKind.FILE if stat.S_ISREG(status.st_mode) else EntryKind.OTHER
    found = kind_of(status)
    return DirectoryEntry(
        path,
        name,
        kind,
        size=status.st_size,
        modified_ms=status.st_mtime_ns // 1_000_000,
        identity=(status.st_dev, status.st_ino),
        problem=not_a_file(found) if kind is EntryKind.OTHER else "",
        found=found if kind is EntryKind.OTHER else "",
    )


def not_a_file(found: str) -> str:
    """Return the message for something that has the name of a file but is none."""
    return f"found {found}, expected a regular file"


class FoundFile(NamedTuple):
    """A file, with the parsed names of it and its directory."""

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


def _ignore(path: str, target: str) -> None:
    """Do nothing: the caller does not need to know about links."""


def find_files(
    path: str | os.PathLike[str],
    on_problem: Callable[[str, str], None] = _raise,
    on_link: Callable[[str, str], None] = _ignore,
) -> Iterator[FoundFile]:
    """Yield a file itself, or every file below a directory.

    Raises OSError if `path` does not exist. `on_problem` is called with a path that cannot be read
    and the reason, `on_link` with a link that is followed and its target; then the search
    continues. Anything with the name of a Kafka file counts as a file; opening it reports what it
    is.
    """
    text = os.fspath(path)
    if not Path(text).is_dir():
        yield found_file(text)
        return
    waiting, seen = [entry_of(text)], set[tuple[int, int]]()
    while waiting:
        directory = waiting.pop()
        if directory.identity in seen:  # a link back to a parent
            continue
        seen.add(directory.identity)
        files, directories = _sorted_entries(directory.path, on_problem, on_link)
        yield from files
        waiting += reversed(directories)


def found_file(path: str) -> FoundFile:
    status = Path(path).stat()
    directory = parse_directory_name(Path(path).absolute().parent.name)
    return FoundFile(path, parse_file_name(Path(path).name), directory, status.st_size)


def _sorted_entries(
    path: str, on_problem: Callable[[str, str], None], on_link: Callable[[str, str], None]
) -> tuple[list[FoundFile], list[DirectoryEntry]]:
    listing = list_directory(path)
    if listing.problem is not None:
        on_problem(path, listing.problem)
    name = parse_directory_name(Path(path).absolute().name)
    files: list[FoundFile] = []
    directories: list[DirectoryEntry] = []
    for entry in listing.entries:
        exists = entry.kind in (EntryKind.FILE, EntryKind.OTHER, EntryKind.DIRECTORY)
        if not exists:
            on_problem(entry.path, entry.problem)
            continue
        if entry.target:
            on_link(entry.path, entry.target)
        if entry.kind is EntryKind.DIRECTORY and not is_named_as_file(entry.name):
            directories.append(entry)
        else:
            files.append(FoundFile(entry.path, parse_file_name(entry.name), name, entry.size))
    return sorted(files, key=_file_order), sorted(directories, key=_directory_order)


def is_named_as_file(name: str) -> bool:
    """Whether this is the name of a Kafka file, even if it is not a file."""
    return parse_file_name(name).kind is not FileKind.UNKNOWN


def _file_order(file: FoundFile) -> tuple[int, int, int, int, str]:
    kind, state = file.name.kind, file.name.state
    if kind not in _KIND_ORDER:
        return (0, 0, 0, _STATE_ORDER[state], file.path)
    return (1, file.name.offset or 0, _KIND_ORDER[kind], _STATE_ORDER[state], file.path)


def _directory_order(directory: DirectoryEntry) -> tuple[int, str, int, str]:
    name = parse_directory_name(directory.name)
    if name.kind is DirectoryKind.UNKNOWN or name.partition is None:
        return (1, "", 0, directory.path)
    return (0, name.topic, name.partition, directory.path)
