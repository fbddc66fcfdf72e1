"""The one seam between the rules of a log and a disk: what may be done to a directory's files.

    DiskFiles       a real directory
    OverlayFiles    (overlay_files.py) a directory that is never written to: changes stay in
                    memory, are listed as a plan, and can be written out as a copy
    CrashingFiles   (crash_points.py) either, that dies at the n-th change

All rules (append, roll, truncate, recover, retain) run on `Files`. So a plan is the rule itself,
run on an overlay, and evidence cannot be written to by mistake.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import stat
import sys
from abc import ABC, abstractmethod
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

from kafka_format.access import (
    access,
    ensure_regular,
    ensure_size,
    forget,
    open_evidence,
    place_outside,
)
from kafka_format.errors import CorruptError
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileState, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.access import EvidenceFile
    from kafka_format.primitives import Buffer

_SYNC_FILE_RANGE_WRITE = 2
_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")


class File(ABC):
    """An open file of a directory. It stays good when the file is renamed."""

    path: str
    """Where it was opened, for messages."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def readinto_at(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; fewer bytes only at the end of the file."""

    @abstractmethod
    def write_at(self, position: int, data: Buffer) -> None:
        """Write over what is there, or beyond it: a gap reads as zeros."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros."""

    @abstractmethod
    def sync(self) -> None:
        """Have it on disk, whatever happens next."""

    @abstractmethod
    def close(self) -> None: ...

    def start_sync(self, position: int, size: int) -> None:  # noqa: B027  # one may pass it over
        """A hint: what was written there stays as it is, so the disk may begin with it."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file."""
        target = bytearray(max(0, min(size, self.size - position)))
        with memoryview(target) as view:
            got = self.readinto_at(position, view)
        del target[got:]
        return bytes(target)

    def append(self, data: Buffer) -> None:
        self.write_at(self.size, data)

    def reader(self) -> io.RawIOBase:
        """The file for decoders: reads, seeks, and has a position of its own."""
        return _Reader(self)


class _Reader(io.RawIOBase):
    def __init__(self, file: File) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}
        self._position = starts[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        got = self._file.readinto_at(self._position, memoryview(buffer).cast("B"))
        self._position += got
        return got


class Files(ABC):
    """The regular files of one directory, by name. OSError is what a disk says."""

    directory: str

    @abstractmethod
    def names(self) -> list[str]:
        """Names of the regular files, sorted."""

    @abstractmethod
    def exists(self, name: str) -> bool: ...

    @abstractmethod
    def size(self, name: str) -> int: ...

    @abstractmethod
    def modified_ms(self, name: str) -> int: ...

    @abstractmethod
    def set_modified_ms(self, name: str, modified_ms: int) -> None: ...

    @abstractmethod
    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        """FileNotFoundError unless it is there, or `create` makes it (empty)."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Replaces `new` if it is there, in one step."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """FileNotFoundError if it is not there."""

    @abstractmethod
    def sync_directory(self) -> None:
        """Have renames and new names on disk."""

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)  # noqa: PTH118  # a name may not be a path's part

    def can_read(self, name: str) -> bool:
        """Whether this process may open it."""
        return os.access(self.path(name), os.R_OK)

    def delete_if_exists(self, name: str) -> bool:
        try:
            self.delete(name)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, *, limit: int) -> bytes:
        """The whole of a small file. Raises UnfitFileError if it is larger than `limit`."""
        file = self.open(name, write=False)
        try:
            ensure_size(file.path, file.size, limit=limit)
            return file.read_at(0, file.size)
        finally:
            file.close()

    def write(self, name: str, data: Buffer, *, sync: bool = True) -> None:
        """A new file of these bytes, in place of an old one, written where it lies."""
        file = self.open(name, create=True)
        try:
            file.truncate(0)
            file.write_at(0, data)
            if sync:
                file.sync()
        finally:
            file.close()

    def replace(self, name: str, data: Buffer) -> None:
        """A file of these bytes, whole or not at all: by `.tmp` and a rename, as checkpoints."""
        self.write(f"{name}.tmp", data)
        self.rename(f"{name}.tmp", name)
        self.sync_directory()


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux alone has it, and Python no name for it. It fails without harm: sync tells."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return cast("Callable[[int, int, int, int], int]", function)


def _naming(method: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Errors of a descriptor have no name: they get that of the file."""

    @wraps(method)
    def named(*args: _Args.args, **options: _Args.kwargs) -> _Result:
        try:
            return method(*args, **options)
        except OSError as error:
            error.filename = error.filename or cast("File", args[0]).path
            raise

    return named


def open_to_write(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file to write, never through a symbolic link: its target may be anybody's file.

    `--follow-links` is about reading and changes nothing here. O_NONBLOCK, because a named pipe
    would wait for its reader.
    """
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a symbolic link, not written through", path) from error
        raise
    if (place := place_outside(fd, os.fspath(path))) is not None:
        os.close(fd)
        raise OSError(errno.ELOOP, f"by a link this is {place}, not written to", path)
    return fd


def _ensure_one_link(path: str, status: os.stat_result) -> None:
    """Refuse a file that has another name: whoever has it there would see it change."""
    if status.st_nlink > 1:
        raise OSError(errno.EMLINK, f"not written to: it has {status.st_nlink} hard links", path)


class _DiskFile(File):
    _is_closed = True  # until it is open

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._fd = open_to_write(path, flags)
        try:
            status = self._status()
            ensure_regular(path, status, limit=sys.maxsize)  # FileRecords refuses, as Kafka does
            _ensure_one_link(path, status)
        except (CorruptError, OSError):
            os.close(self._fd)
            raise
        self._size = status.st_size
        self._is_closed = False

    @property
    def size(self) -> int:
        return self._size

    @_naming
    def _status(self) -> os.stat_result:
        return os.fstat(self._fd)

    @_naming
    def readinto_at(self, position: int, target: memoryview) -> int:
        got = 0
        while got < len(target):
            read = os.preadv(self._fd, [target[got:]], position + got)
            if not read:
                break
            got += read
        return got

    @_naming
    def read_at(self, position: int, size: int) -> bytes:
        wanted = max(0, min(size, self._size - position))
        data = os.pread(self._fd, wanted, position)
        # The kernel may give less than there is, if that is much.
        return data if len(data) == wanted else super().read_at(position, size)

    @_naming
    def write_at(self, position: int, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.pwrite(self._fd, view[done:], position + done)
            self._size = max(self._size, position + done)  # a full disk may take a part

    @_naming
    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    @_naming
    def sync(self) -> None:
        os.fsync(self._fd)

    def start_sync(self, position: int, size: int) -> None:
        if (hint := _sync_file_range()) is not None:
            hint(self._fd, position, size, _SYNC_FILE_RANGE_WRITE)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            os.close(self._fd)

    def __del__(self) -> None:
        self.close()  # a log that nobody closed gives its handles back: a process has few


class _EvidenceFile(File):
    """A file that is only read: it comes through the one door to the evidence."""

    _file: EvidenceFile | None = None  # until it is open

    def __init__(self, path: str, *, limit: int) -> None:
        self.path = path
        self._file = open_evidence(path, limit=limit)
        self._size = self._file.size

    @property
    def size(self) -> int:
        return self._size

    def readinto_at(self, position: int, target: memoryview) -> int:
        got = 0
        file = cast("EvidenceFile", self._file)
        while got < len(target) and (read := file.read_into_at(position + got, target[got:])):
            got += read
        return got

    def read_at(self, position: int, size: int) -> bytes:
        wanted = max(0, min(size, self._size - position))
        data = cast("EvidenceFile", self._file).read_at(position, wanted)
        return data if len(data) == wanted else super().read_at(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        del position, data
        self._refuse()

    def truncate(self, size: int) -> None:
        del size
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EBADF, "opened for reading only", self.path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __del__(self) -> None:
        self.close()  # as _DiskFile


def _is_regular(entry: os.DirEntry[str]) -> bool:
    """A regular file, by a link only where that may be followed."""
    return entry.is_file() and (not entry.is_symlink() or access().allows(entry.path))


def _delete_stale(path: str) -> None:
    """Delete what a killed process left of a temporary file; nothing but a regular file."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            Path(path).unlink()


class DiskFiles(Files):
    """A real directory, written to."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)

    def __repr__(self) -> str:
        return f"DiskFiles({self.directory})"

    def names(self) -> list[str]:
        with os.scandir(self.directory) as entries:
            return sorted(entry.name for entry in entries if _is_regular(entry))

    def exists(self, name: str) -> bool:
        return Path(self.path(name)).is_file()

    def size(self, name: str) -> int:
        return Path(self.path(name)).stat().st_size

    def modified_ms(self, name: str) -> int:
        return Path(self.path(name)).stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, name: str, modified_ms: int) -> None:
        path, time_ns = self.path(name), modified_ms * 1_000_000
        forget(path)
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        path = self.path(name)
        if not write and not create:
            return _EvidenceFile(path, limit=largest_size(parse_file_name(name).kind))
        forget(path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        if create and name.endswith(FileState.TEMPORARY.value):
            _delete_stale(path)
            flags |= os.O_EXCL  # always a new file: what lies there may have other names
        return _DiskFile(path, flags)

    def rename(self, old: str, new: str) -> None:
        forget(self.path(old))
        forget(self.path(new))
        Path(self.path(old)).replace(self.path(new))

    def delete(self, name: str) -> None:
        forget(self.path(name))
        Path(self.path(name)).unlink()

    def sync_directory(self) -> None:
        fd = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            error.filename = self.directory
            raise
        finally:
            os.close(fd)


@contextlib.contextmanager
def opened(files: Files, name: str) -> Iterator[File]:
    """An existing file, for reading, closed afterwards."""
    file = files.open(name, write=False)
    try:
        yield file
    finally:
        file.close()
