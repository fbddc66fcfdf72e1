"""What lies in a log directory: the only module that lists one. Nothing here opens a file.

    log dir       its own files, then partition directories by topic and partition
    partition     its own files, then segment by segment: .log, .index, .timeindex, .txnindex,
                  .snapshot

Names are only parsed (names.py): a file is what its name says, until someone reads it. What the
names and small files of a log dir mean together, evidence/inventory.py tells.
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
    FILE = "file"
    DIRECTORY = "directory"
    DANGLING = "a link to nothing"
    LINK = "a link that leads out of the given paths"
    CIRCLE = "a link in a circle"
    OTHER = "neither a file nor a directory"
    VANISHED = "vanished while it was listed"
    UNREADABLE = "cannot be accessed"


class Entry(NamedTuple):
    """What stands in a directory; links are followed as far as they may be (access.Access)."""

    path: str
    name: str
    kind: EntryKind
    size: int = 0
    modified_ms: int = 0
    identity: tuple[int, int] = (0, 0)
    """Device and inode: the same for every way that leads there."""
    problem: str = ""
    found: str = ""
    """What stands there, if it is neither a file nor a directory."""
    target: str = ""
    """Where it leads, if it is a link."""


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
    target = ""
    try:
        if scanned.is_symlink():
            target = os.readlink(path)  # noqa: PTH115
            if not access().allows(path):
                problem = f"{scanned.name} -> {target}: {NOT_FOLLOWED}"
                return Entry(path, scanned.name, EntryKind.LINK, problem=problem, target=target)
        return _entry_of_status(path, scanned.name, scanned.stat())._replace(target=target)
    except FileNotFoundError:
        kind = EntryKind.DANGLING if target else EntryKind.VANISHED
        problem = f"{scanned.name} -> {target}: {kind.value}" if target else kind.value
        return Entry(path, scanned.name, kind, problem=problem, target=target)
    except OSError as error:
        if target and error.errno == errno.ELOOP:
            kind = EntryKind.CIRCLE
            problem = f"{scanned.name} -> {target}: {kind.value}"
            return Entry(path, scanned.name, kind, problem=problem, target=target)
        said = error.strerror or str(error)
        return Entry(path, scanned.name, EntryKind.UNREADABLE, problem=said, target=target)


def _entry_of_status(path: str, name: str, status: os.stat_result) -> Entry:
    if stat.S_ISDIR(status.st_mode):
        kind = EntryKind.DIRECTORY
    else:
        kind = EntryKind.FILE if stat.S_ISREG(status.st_mode) else EntryKind.OTHER
    found = kind_of(status)
    return Entry(
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
    """What verbs say of something else under the name of a file."""
    return f"found {found}, expected a regular file"


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


def _pass_over(path: str, target: str) -> None:
    """Nothing: the caller does not care about links."""


def find_files(
    path: str | os.PathLike[str],
    on_problem: Callable[[str, str], None] = _raise,
    on_link: Callable[[str, str], None] = _pass_over,
) -> Iterator[FoundFile]:
    """A file itself, or every file of a directory and of those inside.

    Raises OSError if `path` is not there. `on_problem` is called with what cannot be looked at, a
    path and why; `on_link` with a link that is followed, and where it leads. The rest follows. What
    stands under a name of Kafka's files counts as a file, whatever it is: opening it says so.
    """
    text = os.fspath(path)
    if not Path(text).is_dir():
        yield found_file(text)
        return
    waiting, seen = [entry_of(text)], set[tuple[int, int]]()
    while waiting:
        directory = waiting.pop()
        if directory.identity in seen:  # a link back to where we came from
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
) -> tuple[list[FoundFile], list[Entry]]:
    listing = list_directory(path)
    if listing.problem is not None:
        on_problem(path, listing.problem)
    name = parse_directory_name(Path(path).absolute().name)
    files: list[FoundFile] = []
    directories: list[Entry] = []
    for entry in listing.entries:
        is_there = entry.kind in (EntryKind.FILE, EntryKind.OTHER, EntryKind.DIRECTORY)
        if not is_there:
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
    """Whether this is the name of a file of Kafka's, whatever stands there."""
    return parse_file_name(name).kind is not FileKind.UNKNOWN


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
