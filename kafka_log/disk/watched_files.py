"""Files that count the bytes that are read, to show the progress of long operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.disk.files import DiskFiles, File

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_format.primitives import Buffer

    OnRead = Callable[[int], None]


class ReadWatch:
    """Holds the function that is called with each number of bytes read; None until it is set."""

    def __init__(self) -> None:
        self.on_read: OnRead | None = None


class WatchedFile(File):
    def __init__(self, file: File, watch: ReadWatch) -> None:
        self.path = file.path
        self._file = file
        self._watch = watch

    @property
    def size(self) -> int:
        return self._file.size

    def readinto_at(self, position: int, target: memoryview) -> int:
        got = self._file.readinto_at(position, target)
        if self._watch.on_read is not None:
            self._watch.on_read(got)
        return got

    def read_at(self, position: int, size: int) -> bytes:
        data = self._file.read_at(position, size)
        if self._watch.on_read is not None:
            self._watch.on_read(len(data))
        return data

    def write_at(self, position: int, data: Buffer) -> None:
        self._file.write_at(position, data)

    def append(self, data: Buffer) -> None:
        self._file.append(data)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._file.sync()

    def start_sync(self, position: int, size: int) -> None:
        self._file.start_sync(position, size)

    def close(self) -> None:
        self._file.close()


class WatchedDiskFiles(DiskFiles):
    """A real directory that counts the bytes that are read."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.watch = ReadWatch()

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        return WatchedFile(super().open(name, create=create, write=write), self.watch)
