"""An overlay for whole logs: new large files are kept in a scratch directory, or not at all.

    OverlayFiles(directory)                   all in memory: side files, tails of segments
    ScratchFiles(directory, scratch=folder)   new `.log` files in `folder`; a copy of the directory
                                              moves them there
    ScratchFiles(directory)                   only the size of a new `.cleaned` log is kept: for a
                                              dry run, whose output is not read
    ScratchFiles(…, scratch=folder, keeps_cleaned=False)
                                              both: other new `.log` files in `folder`

As with any overlay, the directory itself is only read.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_log.clock import system_clock
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.overlay_files import Content, OverlayFiles
from kafka_log.disk.watched_files import ReadWatch, WatchedFile
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.primitives import Buffer
    from kafka_log.clock import Clock
    from kafka_log.disk.files import File


class ScratchFiles(OverlayFiles):
    """An overlay with a `scratch` directory, which must exist, on the file system of a copy."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        clock: Clock = system_clock,
        *,
        scratch: str | os.PathLike[str] | None = None,
        keeps_cleaned: bool = True,
    ) -> None:
        super().__init__(directory, clock)
        self._scratch = None if scratch is None else os.fspath(scratch)
        self._keeps_cleaned = keeps_cleaned and scratch is not None
        self._keeps = False
        self.watch = ReadWatch()

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep everything that is written, in memory if there is no scratch directory.

        For a load, which may split a segment and reads what it wrote.
        """
        self._keeps = True
        try:
            yield
        finally:
            self._keeps = False

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        return WatchedFile(super().open(name, create=create, write=write), self.watch)

    def path_on_disk(self, name: str) -> str | None:
        """Return the path of a file on disk with exactly this content, if there is one."""
        content = self._content(name)
        if isinstance(content, _ScratchContent):
            return content.path
        return content.original if content.is_original else None

    def adopt(self, name: str, path: str | os.PathLike[str]) -> None:
        """Add a file that another process wrote, on the file system of the scratch directory."""
        content = self._new_content(name)
        source = Path(path)
        modified_ms = source.stat().st_mtime_ns // 1_000_000
        if isinstance(content, _ScratchContent):
            source.replace(content.path)
            content.size = Path(content.path).stat().st_size
        elif isinstance(content, _SizeOnly):
            content.size = source.stat().st_size
        else:
            content.write_at(0, source.read_bytes())
        content.modified_ms = modified_ms
        self._contents[name] = content

    def _new_content(self, name: str) -> Content:
        parsed = parse_file_name(name)
        if parsed.kind is FileKind.LOG:
            is_kept = self._keeps_cleaned or self._keeps or parsed.state is not FileState.CLEANED
            if not is_kept:
                return _SizeOnly(None, 0, self._clock())
            if self._scratch is not None:
                return _ScratchContent(self._scratch, self._clock())
        return super()._new_content(name)


class _SizeOnly(Content):
    """Written bytes that are not kept."""

    def write_at(self, position: int, data: Buffer) -> None:
        self.size = max(self.size, position + len(memoryview(data).cast("B")))

    def readinto_at(self, position: int, target: memoryview) -> int:
        raise OSError(f"{len(target)} bytes at {position} of a dry run that keeps none")

    def save(self, files: DiskFiles, name: str) -> None:
        raise OSError(f"{files.path(name)}: a dry run has nothing to write")


class _ScratchContent(Content):
    """A file in the scratch directory. It is opened for each access, to save file descriptors."""

    def __init__(self, scratch: str, modified_ms: int) -> None:
        super().__init__(None, 0, modified_ms)
        fd, path = tempfile.mkstemp(dir=scratch)
        os.close(fd)
        self._files = DiskFiles(scratch)
        self._name = Path(path).name

    @property
    def path(self) -> str:
        return self._files.path(self._name)

    def _open(self) -> File:
        return self._files.open(self._name)

    def readinto_at(self, position: int, target: memoryview) -> int:
        file = self._open()
        try:
            return file.readinto_at(position, target)
        finally:
            file.close()

    def write_at(self, position: int, data: Buffer) -> None:
        file = self._open()
        try:
            file.write_at(position, data)
            self.size = file.size
        finally:
            file.close()

    def truncate(self, size: int) -> None:
        file = self._open()
        try:
            file.truncate(size)
            self.size = size
        finally:
            file.close()

    def drop(self) -> None:
        self._files.delete_if_exists(self._name)

    def save(self, files: DiskFiles, name: str) -> None:
        """Rename the file to its target, so that the bytes are written only once."""
        target = Path(files.path(name))
        target.open("xb").close()  # nothing is ever overwritten
        path = Path(self.path)
        path.chmod(0o644)
        path.replace(target)
        self._files, self._name = files, name
