"""The interface between a log and the disk: all operations on the files of a directory.

    DiskFiles       a real directory
    OverlayFiles    (overlay_files.py) a directory that is never written to: changes stay in
                    memory, are listed as a plan, and can be written to a copy
    CrashingFiles   (crash_points.py) either, with a simulated crash at the n-th change

All operations of a log (append, roll, truncate, recover, retain) use `Files`. So a plan is the
operation itself, run on an overlay, and evidence cannot be written to by mistake.
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
    """An open file of a directory. It stays valid when the file is renamed."""

    path: str
    """The path under which it was opened, for messages."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def readinto_at(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; fewer bytes only at the end of the file."""

    @abstractmethod
    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite or extend the file; a gap reads as zeros."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it with zeros."""

    @abstractmethod
    def sync(self) -> None:
        """Flush the file to disk."""

    @abstractmethod
    def close(self) -> None: ...

    def start_sync(self, position: int, size: int) -> None:  # noqa: B027  # optional
        """Hint that these bytes will not change again, so that the disk may begin to write them."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer at the end of the file."""
        target = bytearray(max(0, min(size, self.size - position)))
        with memoryview(target) as view:
            got = self.readinto_at(position, view)
        del target[got:]
        return bytes(target)

    def append(self, data: Buffer) -> None:
        self.write_at(self.size, data)

    def reader(self) -> io.RawIOBase:
        """Return a raw stream for decoders, with a separate position."""
        return _FileStream(self)


class _FileStream(io.RawIOBase):
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
    """The regular files of one directory, by name. Disk errors are raised as OSError."""

    directory: str

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the regular files, sorted."""

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
        """Open a file. Raises FileNotFoundError if it does not exist, unless `create` is set."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None:
        """Rename a file, atomically replacing `new` if it exists."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file. Raises FileNotFoundError."""

    @abstractmethod
    def sync_directory(self) -> None:
        """Flush renames and new names to disk."""

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)  # noqa: PTH118  # Path would normalise the name

    def can_read(self, name: str) -> bool:
        """Return whether this process may open the file."""
        return os.access(self.path(name), os.R_OK)

    def delete_if_exists(self, name: str) -> bool:
        try:
            self.delete(name)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, *, limit: int) -> bytes:
        """Read a small file whole. Raises UnfitFileError if it is larger than `limit`."""
        file = self.open(name, write=False)
        try:
            ensure_size(file.path, file.size, limit=limit)
            return file.read_at(0, file.size)
        finally:
            file.close()

    def write(self, name: str, data: Buffer, *, sync: bool = True) -> None:
        """Write a file with these bytes, over the old content."""
        file = self.open(name, create=True)
        try:
            file.truncate(0)
            file.write_at(0, data)
            if sync:
                file.sync()
        finally:
            file.close()

    def replace(self, name: str, data: Buffer) -> None:
        """Replace a file atomically: write `.tmp` and rename it, as Kafka does with checkpoints."""
        self.write(f"{name}.tmp", data)
        self.rename(f"{name}.tmp", name)
        self.sync_directory()


@cache
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return the C function, which only Linux has. Its errors are ignored: `sync` reports them."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (AttributeError, OSError):
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return cast("Callable[[int, int, int, int], int]", function)


def _with_path_in_errors(method: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Add the path of the file to an OSError: errors of a descriptor do not have it."""

    @wraps(method)
    def named(*args: _Args.args, **options: _Args.kwargs) -> _Result:
        try:
            return method(*args, **options)
        except OSError as error:
            error.filename = error.filename or cast("File", args[0]).path
            raise

    return named


def open_to_write(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file to write, never through a symbolic link, whose target may be any file.

    `--follow-links` only applies to reading. O_NONBLOCK, because opening a named pipe would wait
    for its reader.
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
    """Reject a file with other hard links, since it would change under all of its names."""
    if status.st_nlink > 1:
        raise OSError(errno.EMLINK, f"not written to: it has {status.st_nlink} hard links", path)


class _DiskFile(File):
    _is_closed = True  # until it is open

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._fd = open_to_write(path, flags)
        try:
            status = self._status()
            # No limit here: FileRecords checks the size, as in Kafka.
            ensure_regular(path, status, limit=sys.maxsize)
            _ensure_one_link(path, status)
        except (CorruptError, OSError):
            os.close(self._fd)
            raise
        self._size = status.st_size
        self._is_closed = False

    @property
    def size(self) -> int:
        return self._size

    @_with_path_in_errors
    def _status(self) -> os.stat_result:
        return os.fstat(self._fd)

    @_with_path_in_errors
    def readinto_at(self, position: int, target: memoryview) -> int:
        got = 0
        while got < len(target):
            read = os.preadv(self._fd, [target[got:]], position + got)
            if not read:
                break
            got += read
        return got

    @_with_path_in_errors
    def read_at(self, position: int, size: int) -> bytes:
        length = max(0, min(size, self._size - position))
        data = os.pread(self._fd, length, position)
        # The kernel may return less than requested if the request is large.
        return data if len(data) == length else super().read_at(position, size)

    @_with_path_in_errors
    def write_at(self, position: int, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            written += os.pwrite(self._fd, view[written:], position + written)
            self._size = max(self._size, position + written)  # a full disk may accept a part

    @_with_path_in_errors
    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    @_with_path_in_errors
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
        self.close()  # releases the descriptors of a log that was not closed


class _EvidenceFile(File):
    """A file that is only read, through `open_evidence`."""

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
        length = max(0, min(size, self._size - position))
        data = cast("EvidenceFile", self._file).read_at(position, length)
        return data if len(data) == length else super().read_at(position, size)

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
    """Return whether this is a regular file, or a link to one that may be followed."""
    return entry.is_file() and (not entry.is_symlink() or access().allows(entry.path))


def _delete_stale(path: str) -> None:
    """Delete a temporary file that a killed process left, if it is a regular file."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            Path(path).unlink()


def modified_ms_of(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000


class DiskFiles(Files):
    """A real directory."""

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
        return self.status(name).st_size

    def modified_ms(self, name: str) -> int:
        return modified_ms_of(self.status(name))

    def status(self, name: str) -> os.stat_result:
        return os.stat(self.path(name))  # noqa: PTH116  # a Path costs more than the call

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
            flags |= os.O_EXCL  # always a new file: an existing one may have other hard links
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
    """Open an existing file for reading, and close it at the end of the block."""
    file = files.open(name, write=False)
    try:
        yield file
    finally:
        file.close()
