"""Calls to the disk: counted, and one of them made to fail.

with Calls(root, Fault("EIO", 17)) as calls: ...       every call on a path below `root` counts
calls.fired                                            the call that failed, None if none did

What is counted: functions of `os` that take a path below the root or a descriptor of such a file,
`fcntl.lockf`, and what `open` and `Path.open` make of them. Closing a file is not counted.
"""

import _pyio  # type: ignore[import-not-found]
import builtins
import errno
import fcntl
import io
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

_LOOKS = ("stat", "lstat", "readlink", "access")
_LISTS = ("scandir", "listdir")
_CHANGES = ("mkdir", "rmdir", "unlink", "remove", "truncate", "utime", "chmod", "chown")
_PAIRS = ("rename", "replace", "link", "symlink")
_READS = ("preadv", "pread", "read", "readv")
_WRITES = ("pwrite", "pwritev", "write", "writev")
_OF_FILES = ("fstat", "ftruncate", "fsync", "fdatasync", "lseek", "posix_fallocate", "fchmod")
_COPIES = ("sendfile", "copy_file_range")

READS = frozenset(_READS)
WRITES = frozenset(_WRITES)
TAKING_SPACE = WRITES | {"create", "mkdir", "ftruncate", "truncate", "posix_fallocate"}
"""What a full disk refuses."""
CHANGING = TAKING_SPACE | {*_CHANGES, *_PAIRS, "fsync", "fdatasync", "fchmod", *_COPIES}
BY_PATH = frozenset({"open", "create", "mkdir", "rmdir", "unlink", "remove", *_LOOKS, *_LISTS}) | {
    *_PAIRS
}
"""What a missing permission refuses."""
_BY_OTHERS = ("shrink", "vanish", "replace")
_KILLED = 137

os_exit: Callable[[int], NoReturn] = os._exit


class Call(NamedTuple):
    number: int
    name: str
    path: str
    is_opened: bool
    """Whether the file had been opened, and its size seen, before."""
    place: str = ""
    """Where in the code it was made."""


class Fault(NamedTuple):
    """What happens at a call.

    EIO, EACCES, ENOSPC, …: it fails. `DEAD`: it and all that follow fail with EIO. `FULL`: it and
    all that follow and need space fail with ENOSPC. `short`: half is read or written. `shrink`,
    `vanish`, `replace`: somebody does that to the file just before. `kill`: the process ends.
    `torn`: half is written, then the process ends.
    """

    kind: str
    number: int

    def fits(self, call: Call) -> bool:
        """Whether this can happen at such a call."""
        if self.kind == "short":
            return call.name in READS | WRITES
        if self.kind == "torn":
            return call.name in WRITES
        if self.kind in ("ENOSPC", "FULL"):
            return call.name in TAKING_SPACE | {"rename", "replace", "link", "fsync", "fdatasync"}
        if self.kind == "EACCES":
            return call.name in BY_PATH
        if self.kind in _BY_OTHERS:
            return call.name not in CHANGING
        return True


class Calls:
    """Replaces the functions while the block runs, in this process."""

    def __init__(self, root: str | os.PathLike[str], fault: Fault | None = None) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100  # resolves no link
        self.fault = fault
        self.made: list[Call] = []
        self.fired: Call | None = None
        self._paths: dict[int, str] = {}
        self._opened: set[str] = set()
        self._lock = threading.RLock()
        self._real: dict[tuple[Any, str], Any] = {}
        self._own = threading.local()

    # -------------------------------------------------------------------------- in and out

    def __enter__(self) -> Self:
        for name in (*_LOOKS, *_CHANGES):
            self._replace(os, name, self._by_path(name, getattr(os, name)))
        for name in _PAIRS:
            self._replace(os, name, self._by_path(name, getattr(os, name)))
        for name in (*_READS, *_WRITES, *_OF_FILES):
            self._replace(os, name, self._by_fd(name, getattr(os, name)))
        for name in _COPIES:
            self._replace(os, name, self._by_fd(name, getattr(os, name)))
        self._replace(fcntl, "lockf", self._by_fd("lockf", fcntl.lockf))
        self._replace(os, "listdir", self._by_path("listdir", os.listdir))
        self._replace(os, "scandir", self._scandir(os.scandir))
        self._replace(os, "open", self._open(os.open))
        self._replace(os, "close", self._close(os.close))
        self._replace(builtins, "open", self._python_open(io.open))
        self._replace(io, "open", builtins.open)
        return self

    def __exit__(self, *_: object) -> None:
        for (module, name), real in self._real.items():
            setattr(module, name, real)

    def _replace(self, module: Any, name: str, made: Any) -> None:
        self._real[module, name] = getattr(module, name)
        setattr(module, name, made)

    # ------------------------------------------------------------------------- replacements

    def _by_path(self, name: str, real: Any) -> Any:
        def replaced(path: Any, *args: Any, **named: Any) -> Any:
            found = self._below(path, named.get("dir_fd"))
            if found is None and name in _PAIRS:
                found = self._below(args[0], None)
            if found is None:
                return real(path, *args, **named)
            if name == "access" and self._fails(name, found):
                return False
            return self._call(name, found, lambda: real(path, *args, **named))

        replaced.__name__ = name
        return replaced

    def _by_fd(self, name: str, real: Any) -> Any:
        def replaced(fd: Any, *args: Any, **named: Any) -> Any:
            found = self._paths.get(fd) if isinstance(fd, int) else None
            if found is None:
                return real(fd, *args, **named)
            short = _half(name, real, fd, args) if name in READS | WRITES else None
            result = self._call(name, found, lambda: real(fd, *args, **named), short)
            if name in READS | {"fstat"}:
                self._opened.add(found)
            return result

        return replaced

    def _open(self, real: Any) -> Any:
        def replaced(path: Any, flags: int, *args: Any, **named: Any) -> int:
            found = self._below(path, named.get("dir_fd"))
            if found is None:
                return int(real(path, flags, *args, **named))
            name = "create" if flags & os.O_CREAT and not self._exists(found) else "open"
            fd = int(self._call(name, found, lambda: real(path, flags, *args, **named)))
            self._paths[fd] = found
            return fd

        return replaced

    def _close(self, real: Any) -> Any:
        def replaced(fd: int) -> None:
            self._paths.pop(fd, None)
            real(fd)

        return replaced

    def _python_open(self, real: Any) -> Any:
        """Below the root, the one in Python: it calls the functions above."""

        def replaced(file: Any, *args: Any, **named: Any) -> Any:
            found = self._paths.get(file) if isinstance(file, int) else self._below(file, None)
            return (real if found is None else _pyio.open)(file, *args, **named)

        return replaced

    def _scandir(self, real: Any) -> Any:
        def replaced(path: Any = ".") -> Any:
            found = self._below(path, None)
            if found is None:
                return real(path)
            return _Entries(self, self._call("scandir", found, lambda: real(path)), found)

        return replaced

    # ------------------------------------------------------------------------------- calls

    def _below(self, path: Any, dir_fd: int | None) -> str | None:
        """The path, if it counts."""
        if getattr(self._own, "is_inside", False):
            return None
        if isinstance(path, int):
            return self._paths.get(path)
        text = os.fsdecode(path)
        if dir_fd is not None:
            if dir_fd not in self._paths:
                return None
            text = f"{self._paths[dir_fd]}/{text}"
        text = os.path.abspath(text)  # noqa: PTH100  # resolves no link
        return text if text == self.root or text.startswith(f"{self.root}/") else None

    def _exists(self, path: str) -> bool:
        self._own.is_inside = True
        try:
            return os.path.lexists(path)
        finally:
            self._own.is_inside = False

    def _noted(self, name: str, path: str) -> Call:
        call = Call(len(self.made) + 1, name, path, path in self._opened)
        self.made.append(call)
        return call

    def _fails(self, name: str, path: str) -> bool:
        """For a call that has no error: whether it says no."""
        with self._lock:
            call = self._noted(name, path)
            if self.fault is None or not self._is_due(call):
                return False
            if self.fault.kind in ("kill", *_BY_OTHERS):
                self._happen(self.fault.kind, call, lambda: None, None)
                return False
            return True

    def _call(self, name: str, path: str, run: Any, short: Any = None) -> Any:
        with self._lock:
            call = self._noted(name, path)
            if self.fault is None or not self._is_due(call):
                return run()
            return self._happen(self.fault.kind, call, run, short)

    def _is_due(self, call: Call) -> bool:
        fault = self.fault
        if fault is None or call.number < fault.number or not fault.fits(call):
            return False
        if call.number > fault.number and fault.kind not in ("DEAD", "FULL"):
            return False
        if self.fired is None:
            self.fired = call._replace(place=_place())
        return True

    def _happen(self, kind: str, call: Call, run: Any, short: Any) -> Any:
        if kind == "short":
            return short()
        if kind == "torn":
            short()
        if kind in ("kill", "torn"):
            os_exit(_KILLED)
        if kind in _BY_OTHERS:
            self._own.is_inside = True
            try:
                _change(kind, Path(call.path))
            finally:
                self._own.is_inside = False
            return run()
        number = {"DEAD": errno.EIO, "FULL": errno.ENOSPC}.get(kind) or getattr(errno, kind)
        if call.name in READS | WRITES | {*_OF_FILES} | {"lockf"}:
            raise OSError(number, os.strerror(number))  # as the system: a descriptor has no name
        raise OSError(number, os.strerror(number), call.path)


def _half(name: str, real: Any, fd: int, args: tuple[Any, ...]) -> Any:
    """The same call, for the first half of the bytes; one byte at least."""

    def cut(buffer: Any) -> Any:
        view = memoryview(buffer).cast("B")
        return view[: max(1, len(view) // 2)] if len(view) > 1 else view

    def short() -> Any:
        first, *rest = args
        if name in ("preadv", "readv", "pwritev", "writev"):
            return real(fd, [cut(first[0])], *rest)
        if name in ("pwrite", "write"):
            return real(fd, cut(first), *rest)
        return real(fd, max(1, first // 2) if first > 1 else first, *rest)

    return short


def _change(kind: str, path: Path) -> None:
    """What somebody else does to a file; a directory is moved away or stays."""
    if path.is_dir():
        if kind == "vanish":
            shutil.rmtree(path)
        return
    if not path.exists():
        return
    if kind == "vanish":
        path.unlink()
    elif kind == "shrink":
        os.truncate(path, path.stat().st_size // 2)
    else:
        other = path.with_name(f"{path.name}.other")
        other.write_bytes(path.read_bytes())
        other.replace(path)


def _place() -> str:
    """The calls of our own packages, the innermost first."""
    frames: list[str] = []
    frame = sys._getframe(2)
    root = str(Path(__file__).parents[2])
    while frame is not None and len(frames) < 6:
        code = frame.f_code
        name = code.co_filename
        if name.startswith(root) and "/tests/" not in name and "/.venv/" not in name:
            frames.append(f"{name[len(root) + 1 :]}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(frames)


class _Entries:
    """What scandir gives; looking at an entry more closely is a call."""

    def __init__(self, calls: Calls, real: Any, directory: str) -> None:
        self._calls, self._real, self._directory = calls, real, directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._real.close()

    def close(self) -> None:
        self._real.close()

    def __iter__(self) -> "_Entries":
        return self

    def __next__(self) -> "_DirEntry":
        return _DirEntry(self._calls, next(self._real), self._directory)


class _DirEntry:
    def __init__(self, calls: Calls, real: os.DirEntry[str], directory: str) -> None:
        self._calls, self._real = calls, real
        self.name, self.path = real.name, real.path
        self._whole = f"{directory}/{real.name}"

    def __fspath__(self) -> str:
        return self.path

    def inode(self) -> int:
        return self._real.inode()

    def is_symlink(self) -> bool:
        return self._real.is_symlink()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._real.is_dir(follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._real.is_file(follow_symlinks=follow_symlinks)

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._calls._call(
            "stat", self._whole, lambda: self._real.stat(follow_symlinks=follow_symlinks)
        )
