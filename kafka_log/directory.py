"""What lies in a log directory: the only module that lists one. Nothing here opens a file.

    log dir       its own files, then partition directories by topic and partition
    partition     its own files, then segment by segment: .log, .index, .timeindex, .txnindex,
                  .snapshot

Names are only parsed (names.py): a file is what its name says, until someone reads it.
"""

import os
from collections.abc import Iterator
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
