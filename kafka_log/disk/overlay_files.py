"""An overlay of a directory: changes are kept in memory, the directory itself is only read."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.access import ChangedError, open_evidence
from kafka_log.clock import Clock, system_clock
from kafka_log.disk.files import DiskFiles, File, Files, modified_ms_of
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.primitives import Buffer

_COPY_CHUNK = 4 * 1024 * 1024


class Change(NamedTuple):
    """A change of one file of the directory; sizes in bytes."""

    name: str
    action: str  # created, deleted, renamed, truncated, extended, rewritten
    size_before: int | None
    size_after: int | None
    renamed_to: str | None = None


class Content:
    """A file's bytes: the first `kept` of an original, then `tail`, then zeros up to `size`."""

    def __init__(self, original: str | None, size: int, modified_ms: int) -> None:
        self.original = original  # path of the file on disk
        self.kept = self.size = self.size_before = size
        self.tail = bytearray()
        self.modified_ms = modified_ms
        self.is_changed = original is None

    @property
    def is_original(self) -> bool:
        return not self.is_changed

    def readinto_at(self, position: int, target: memoryview) -> int:
        length = max(0, min(len(target), self.size - position))
        from_original = max(0, min(length, self.kept - position))
        if from_original and self.original is not None:
            self._read_original(position, target[:from_original])
        start = position + from_original - self.kept
        part = self.tail[start : start + length - from_original]
        target[from_original : from_original + len(part)] = part
        zeros = length - from_original - len(part)
        target[length - zeros : length] = bytes(zeros)
        return length

    def write_at(self, position: int, data: Buffer) -> None:
        if not len(data):  # an empty write does not extend a file
            return
        if position < self.kept:
            self._take_over(position)
        start = position - self.kept
        if len(self.tail) < start:
            self.tail.extend(bytes(start - len(self.tail)))
        view = memoryview(data).cast("B")
        self.tail[start : start + len(view)] = view
        self.size = max(self.size, position + len(view))

    def truncate(self, size: int) -> None:
        self.kept = min(self.kept, size)
        del self.tail[max(0, size - self.kept) :]
        self.size = size

    def save(self, files: DiskFiles, name: str) -> None:
        """Write the content to a new file. Holes stay holes: preallocation takes no disk space."""
        Path(files.path(name)).open("xb").close()  # nothing is ever overwritten
        target = files.open(name)
        try:
            if self.original is not None:
                self._copy_original(target)
            target.write_at(self.kept, self.tail)
            target.truncate(self.size)
        finally:
            target.close()

    def _copy_original(self, target: File) -> None:
        """Copy the kept part of the original; bytes appended since then are not copied."""
        buffer = memoryview(bytearray(min(_COPY_CHUNK, self.kept)))
        for start, end in _extents(self.original or "", self.kept):
            for position in range(start, end, _COPY_CHUNK):
                part = buffer[: min(_COPY_CHUNK, end - position)]
                self._read_original(position, part)
                target.write_at(position, part)

    def drop(self) -> None:
        """Release the content, which will not be read again."""

    def _read_original(self, position: int, target: memoryview) -> None:
        if self.original is not None:
            _read_exactly(self.original, position, target, size=self.size_before)

    def _take_over(self, position: int) -> None:
        """Read the original from `position` on into memory, so that it can be overwritten."""
        moved = bytearray(self.kept - position)
        if self.original is not None:
            self._read_original(position, memoryview(moved))
        self.tail = moved + self.tail
        self.kept = position


def _read_exactly(path: str, position: int, target: memoryview, *, size: int) -> None:
    """Fill `target` from a file that had `size` bytes."""
    file = open_evidence(path, limit=_limit(path))
    try:
        got = 0
        while got < len(target):
            read = file.read_into_at(position + got, target[got:])
            if not read:
                raise ChangedError(path, f"it shrank from {size} to {file.size} bytes")
            got += read
    finally:
        file.close()


def _limit(path: str) -> int:
    return largest_size(parse_file_name(os.path.basename(path)).kind)  # noqa: PTH119


def _extents(path: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that have data; all of it if the file system does not know."""
    file = open_evidence(path, limit=_limit(path))
    fd = file.fileno()
    try:
        end = 0
        while end < size:
            try:
                start = os.lseek(fd, end, os.SEEK_DATA)
                hole = os.lseek(fd, start, os.SEEK_HOLE)
            except OSError as error:
                if error.errno != errno.ENXIO:  # ENXIO: only a hole from `end` on
                    yield end, size
                    return
                start = os.fstat(fd).st_size
                if start < size:
                    yield start, size  # the file shrank: reading this range raises the error
                return
            end = min(size, hole)
            yield start, end
    finally:
        file.close()


class _OverlayFile(File):
    def __init__(self, path: str, content: Content, now: Clock) -> None:
        self.path = path
        self._content = content
        self._now = now

    @property
    def size(self) -> int:
        return self._content.size

    def readinto_at(self, position: int, target: memoryview) -> int:
        return self._content.readinto_at(position, target)

    def write_at(self, position: int, data: Buffer) -> None:
        self._touch()
        self._content.write_at(position, data)

    def truncate(self, size: int) -> None:
        if size != self._content.size:
            self._touch()
            self._content.truncate(size)

    def _touch(self) -> None:
        self._content.is_changed = True
        self._content.modified_ms = self._now()

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class OverlayFiles(Files):
    """A directory with changes that are kept in memory; the files on disk are only read.

    Meant for small changes: side files and tails of segments, not whole logs.
    """

    def __init__(self, directory: str | os.PathLike[str], clock: Clock = system_clock) -> None:
        self.directory = os.fspath(directory)
        self._clock = clock
        beneath = DiskFiles(directory)
        self._contents = {}
        for name in beneath.names():
            status = beneath.status(name)
            content = Content(beneath.path(name), status.st_size, modified_ms_of(status))
            self._contents[name] = content
        self._sizes_before = {name: content.size for name, content in self._contents.items()}

    def __repr__(self) -> str:
        return f"OverlayFiles({self.directory}, {len(self.changes())} changes)"

    def names(self) -> list[str]:
        return sorted(self._contents)

    def exists(self, name: str) -> bool:
        return name in self._contents

    def can_read(self, name: str) -> bool:
        original = self._content(name).original
        return original is None or os.access(original, os.R_OK)

    def size(self, name: str) -> int:
        return self._content(name).size

    def modified_ms(self, name: str) -> int:
        return self._content(name).modified_ms

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        self._content(name).modified_ms = modified_ms

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:  # noqa: ARG002
        if create and name not in self._contents:
            self._contents[name] = self._new_content(name)
        return _OverlayFile(self.path(name), self._content(name), self._clock)

    def _new_content(self, name: str) -> Content:  # noqa: ARG002  # for subclasses
        return Content(None, 0, self._clock())

    def rename(self, old: str, new: str) -> None:
        content = self._content(old)
        del self._contents[old]
        self._contents[new] = content

    def delete(self, name: str) -> None:
        self._content(name).drop()
        del self._contents[name]

    def replace(self, name: str, data: Buffer) -> None:
        """Replace a file without a `.tmp`, which would otherwise be listed as a change."""
        self._contents.pop(f"{name}.tmp", None)
        self._contents[name] = Content(None, 0, self._clock())
        self.write(name, data)

    def sync_directory(self) -> None:
        pass

    def _content(self, name: str) -> Content:
        try:
            return self._contents[name]
        except KeyError:
            raise FileNotFoundError(2, "no such file", self.path(name)) from None

    def changes(self) -> list[Change]:
        """Return the changes by file name; unchanged files are not listed."""
        now_at = {
            content.original: name for name, content in self._contents.items() if content.original
        }
        found = []
        for name, before in sorted(self._sizes_before.items()):
            now = now_at.get(self.path(name))
            if now is None:
                found.append(Change(name, "deleted", before, None))
                continue
            content = self._contents[now]
            if now != name:
                found.append(Change(name, "renamed", before, content.size, now))
            elif content.is_changed and (action := _action(content, before)):
                found.append(Change(name, action, before, content.size))
        for name, content in sorted(self._contents.items()):
            if content.original is None:
                replaced = name in self._sizes_before and self.path(name) not in now_at
                found.append(
                    Change(name, "rewritten" if replaced else "created", None, content.size)
                )
        return _without_replaced(found)

    def is_same_as_before(self, name: str) -> bool:
        """Return whether the directory on disk has this file with the same content."""
        content = self._contents.get(name)
        if content is None or self._sizes_before.get(name) != content.size:
            return False
        before = DiskFiles(self.directory).open(name, write=False)
        try:
            for position in range(0, content.size, _COPY_CHUNK):
                now = memoryview(bytearray(min(_COPY_CHUNK, content.size - position)))
                content.readinto_at(position, now)
                if before.read_at(position, len(now)) != now:
                    return False
        finally:
            before.close()
        return True

    def write_to(self, directory: str | os.PathLike[str]) -> None:
        """Write all files with their changes to `directory`, which must exist."""
        target = DiskFiles(directory)
        for name, content in sorted(self._contents.items()):
            content.save(target, name)
            target.set_modified_ms(name, content.modified_ms)


def _action(content: Content, before: int) -> str | None:
    if content.kept < before and content.kept == content.size:
        return "truncated"
    if content.kept == before:
        return "extended" if content.size > before else None
    return "rewritten"


def _without_replaced(changes: list[Change]) -> list[Change]:
    """Merge the deletion and the new creation of a file into one change."""
    deleted = {change.name: change for change in changes if change.action == "deleted"}
    merged = [
        change._replace(size_before=deleted[change.name].size_before)
        if change.action == "rewritten" and change.name in deleted
        else change
        for change in changes
    ]
    rewritten = {change.name for change in merged if change.action == "rewritten"}
    return [
        change for change in merged if change.action != "deleted" or change.name not in rewritten
    ]
