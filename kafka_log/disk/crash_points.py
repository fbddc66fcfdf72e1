"""Simulate a crash at any change of a file, and a power loss, to test what survives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.disk.files import File, Files

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from kafka_format.primitives import Buffer


class Crash(Exception):  # not an Error: it simulates the end of a process
    """The process died here."""


class _WrappedFiles(Files):
    """Wraps another `Files`; subclasses implement the changes."""

    def __init__(self, files: Files) -> None:
        self.directory = files.directory
        self._files = files

    def names(self) -> list[str]:
        return self._files.names()

    def exists(self, name: str) -> bool:
        return self._files.exists(name)

    def size(self, name: str) -> int:
        return self._files.size(name)

    def modified_ms(self, name: str) -> int:
        return self._files.modified_ms(name)

    def sync_directory(self) -> None:
        pass  # names are never lost here


class _WrappedFile(File):
    def __init__(self, file: File) -> None:
        self.path = file.path
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def readinto_at(self, position: int, target: memoryview) -> int:
        return self._file.readinto_at(position, target)

    def close(self) -> None:
        self._file.close()


class CrashingFiles(_WrappedFiles):
    """Files that crash at the n-th change (from 1); neither it nor any later change happens.

    `torn` is how many bytes of that write still reach the file. If `crash_at` is None, changes are
    only counted.
    """

    def __init__(self, files: Files, crash_at: int | None = None, *, torn: int = 0) -> None:
        super().__init__(files)
        self.changes = 0
        self._crash_at = crash_at
        self._torn = torn

    def arm(self, crash_at: int, *, torn: int = 0) -> None:
        """Crash at this change, counted from the first."""
        self._crash_at, self._torn = crash_at, torn

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        self.change(lambda: self._files.set_modified_ms(name, modified_ms))

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        if create and not self._files.exists(name):
            self.change(lambda: self._files.open(name, create=True).close())
        return _CrashingFile(self._files.open(name, write=write), self)

    def rename(self, old: str, new: str) -> None:
        self.change(lambda: self._files.rename(old, new))

    def delete(self, name: str) -> None:
        self.change(lambda: self._files.delete(name))

    def change(
        self, apply: Callable[[], None], *, apply_part: Callable[[int], None] | None = None
    ) -> None:
        self.changes += 1
        if self._crash_at is not None and self.changes >= self._crash_at:
            if self.changes == self._crash_at and apply_part is not None and self._torn:
                apply_part(self._torn)
            raise Crash(f"at change {self._crash_at} of {self.directory}")
        apply()


class _CrashingFile(_WrappedFile):
    def __init__(self, file: File, files: CrashingFiles) -> None:
        super().__init__(file)
        self._files = files

    def write_at(self, position: int, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        self._files.change(
            lambda: self._file.write_at(position, view),
            apply_part=lambda torn: self._file.write_at(position, view[:torn]),
        )

    def truncate(self, size: int) -> None:
        self._files.change(lambda: self._file.truncate(size))

    def sync(self) -> None:
        pass  # the process crashes, not the disk


class _Synced:
    """How much of a file would survive a power loss; kept when the file is renamed."""

    def __init__(self, size: int) -> None:
        self.size = size


class PowerLossFiles(_WrappedFiles):
    """Files that lose what was not synced at a power loss: the tail is removed, or zeros.

    Names are durable, and so are overwrites within the synced length.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._synced = {name: _Synced(files.size(name)) for name in files.names()}

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        self._files.set_modified_ms(name, modified_ms)

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        file = self._files.open(name, create=create, write=write)
        return _UnsyncedFile(file, self._synced.setdefault(name, _Synced(0)))

    def rename(self, old: str, new: str) -> None:
        self._files.rename(old, new)
        self._synced[new] = self._synced.pop(old)

    def delete(self, name: str) -> None:
        self._files.delete(name)
        del self._synced[name]

    def lose_power(self, rng: random.Random) -> None:
        """Truncate every file at random after its synced part, and extend half with zeros."""
        for name, synced in self._synced.items():
            size = self._files.size(name)
            if size <= synced.size:
                continue
            file = self._files.open(name)
            file.truncate(rng.randint(synced.size, size))
            if rng.randrange(2):
                file.truncate(size)
            file.close()


class _UnsyncedFile(_WrappedFile):
    def __init__(self, file: File, synced: _Synced) -> None:
        super().__init__(file)
        self._synced = synced

    def write_at(self, position: int, data: Buffer) -> None:
        self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self._synced.size = min(self._synced.size, size)

    def sync(self) -> None:
        self._synced.size = self._file.size  # a real sync is not needed for a simulation
