"""Open local files of the evidence. Nothing else in the project opens them.

    with open_evidence(path, limit=JAVA_MAX) as file:     an io.RawIOBase; also `file.path`
    with watching() as opened: …; opened.ensure_unchanged()

A file is opened read-only and non-blocking. It must be a regular file, not larger than `limit`, and
must lie inside the paths that the user gave (`Access.roots`) unless links are followed. Its
identity (device, inode, size, times of modification and of change) is recorded, and compared when
the file or the watch is closed: a file that shrank, was replaced, was written to or vanished raises
ChangedError. A file that a broker appends to may grow if its earlier content is unchanged; it is
then listed in `Watch.grown`.

One `Access` per process says what may be read, and how much of it at once. A caller that starts
other processes passes it on (`using`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from kafka_format.errors import FormatError, Location, UnfitFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JAVA_MAX = 2**31 - 1
"""Kafka stores positions in logs and indexes as a Java int: none of its files is larger."""
DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024

_KINDS = (
    (stat.S_ISREG, "a regular file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
)


class ChangedError(OSError):
    """A file that changed after it was opened."""

    def __init__(self, path: str, how: str) -> None:
        super().__init__(errno.ESTALE, f"changed while it was read: {how}", path)
        self.how = how


class LinkError(OSError):
    """A link that leads out of the paths that the user gave."""

    def __init__(self, path: str, target: str) -> None:
        super().__init__(
            errno.ELOOP, f"a link to {target}, not followed (use --follow-links)", path
        )
        self.target = target


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Which files of the evidence may be read, and how much of them at once."""

    roots: tuple[str, ...] = ()
    """Absolute paths that the user gave; links must stay inside them. Empty: no restriction."""
    follow_links: bool = False
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    """The limit for the decompressed records of one batch, and for one row of a table."""

    def allows(self, path: str) -> bool:
        """Return whether no link on the path leads out of the roots.

        A root may itself be a link. A path below none of the roots (a checkpoint in the log dir of
        a partition, one of our scratch files) only must not be a link.
        """
        if self.follow_links or not self.roots:
            return True
        absolute = os.path.abspath(path)  # noqa: PTH100  # resolves no link
        if absolute in self.roots:
            return True
        if os.path.islink(absolute):  # noqa: PTH114
            return _stays_inside(absolute, self.roots)
        return _is_directory_inside(os.path.dirname(absolute), self.roots)  # noqa: PTH120


@lru_cache(maxsize=1024)
def _is_directory_inside(directory: str, roots: tuple[str, ...]) -> bool:
    """Return whether no link above a file leads out. Cached, since a directory has many files."""
    return not _is_inside(directory, roots) or _stays_inside(directory, roots)


def _stays_inside(path: str, roots: tuple[str, ...]) -> bool:
    return _is_inside(os.path.realpath(path), tuple(map(os.path.realpath, roots)))


def _is_inside(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)


@lru_cache(maxsize=1024)
def _roots_above(directory: str, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the roots that a directory lies in by its name."""
    return tuple(root for root in roots if _is_inside(directory, (root,)))


@lru_cache(maxsize=1024)
def _real_root(root: str) -> str:
    """Resolve a root once: a link that replaces it later may lead elsewhere."""
    return os.path.realpath(root)


def place_outside(fd: int, path: str) -> str | None:
    """Return the location of an open file, if its path is inside the roots but the file is not.

    `Access.allows` checks a path before the file is opened; a directory may become a link after
    that.
    """
    roots = _access.roots
    absolute = os.path.abspath(path)  # noqa: PTH100  # resolves no link
    near = _roots_above(os.path.dirname(absolute), roots)  # noqa: PTH120
    if not near or absolute in roots:
        return None
    place = os.path.realpath(path)
    for place in _places_of(fd, path):
        if _is_inside(place, map(_real_root, near)) or _is_inside(place, map(_real_root, roots)):
            return None
    return place


def _places_of(fd: int, path: str) -> Iterator[str]:
    """Yield the location of an open file: from /proc, and its path if that is the same file."""
    with contextlib.suppress(OSError):
        yield os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  # Linux
    real = os.path.realpath(path)
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(real), os.fstat(fd)):  # noqa: PTH116
            yield real


_access = Access()
_watches: list[Watch] = []


def access() -> Access:
    """Return what this process may read."""
    return _access


@contextlib.contextmanager
def using(rules: Access) -> Iterator[None]:
    """Apply these rules until the end of the block."""
    global _access  # noqa: PLW0603  # one value per process, shared by its threads
    before, _access = _access, rules
    _real_root.cache_clear()
    try:
        yield
    finally:
        _access = before


def absolute_roots(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the roots for `Access` from paths as the user wrote them."""
    return tuple(sorted({os.path.abspath(path) for path in paths}))  # noqa: PTH100  # no link


# --------------------------------------------------------------------------------- identities


class Identity(NamedTuple):
    """What identifies a file, apart from its name."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    """The inode's time of change. Unlike the time of modification, a user cannot set it."""

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )


class _Sample(NamedTuple):
    """A checksum of some bytes of a file, taken when it was opened."""

    position: int
    size: int
    checksum: int
    """Python's hash of bytes: fast, and keyed per process, so that it cannot be forged."""

    @classmethod
    def of(cls, fd: int, position: int, size: int) -> _Sample:
        data = os.pread(fd, size, position)
        return cls(position, len(data), hash(data))


class _OpenedFile(NamedTuple):
    """A file as it was when it was opened."""

    path: str
    identity: Identity
    samples: tuple[_Sample, ...] = ()

    @classmethod
    def of(cls, path: str, fd: int, identity: Identity) -> _OpenedFile:
        """Sample the beginning and the end of a file that a broker may append to."""
        samples: tuple[_Sample, ...] = ()
        if _APPENDED.fullmatch(os.path.basename(path)):  # noqa: PTH119
            starts = dict.fromkeys((0, max(0, identity.size - _SAMPLE_SIZE)))
            with contextlib.suppress(OSError):  # the error is raised when these bytes are read
                samples = tuple(
                    _Sample.of(fd, start, min(_SAMPLE_SIZE, identity.size)) for start in starts
                )
        return cls(path, identity, samples)

    def has_same_samples(self) -> bool:
        """Return whether the sampled bytes are unchanged."""
        try:
            fd = _open_to_read(self.path)
        except OSError:
            return False
        try:
            return all(
                _Sample.of(fd, sample.position, sample.size) == sample for sample in self.samples
            )
        except OSError:
            return False
        finally:
            os.close(fd)


_SAMPLE_SIZE = 64 * 1024
_APPENDED = re.compile(
    r"(?P<base>\d{20})\.(log|index|timeindex|txnindex)(?P<cleaned>\.cleaned)?|.+\.checkpoint\.part"
)
"""Names of files that brokers append to: segments, the cleaner's output, a new snapshot."""


def is_appended_to(path: str) -> bool:
    """Return whether a broker may append to this file: the last segment, or an unfinished file."""
    directory, name = os.path.split(path)
    found = _APPENDED.fullmatch(name)
    if found is None or not found["base"] or found["cleaned"]:
        return found is not None
    last = f"{found['base']}.log"
    try:
        with os.scandir(directory or os.curdir) as entries:
            return not any(
                entry.name > last
                and entry.name.endswith(".log")
                and _APPENDED.fullmatch(entry.name)
                for entry in entries
            )
    except OSError:
        return False


def _difference(opened: _OpenedFile) -> str | None:
    """Return how a file changed since it was opened; None if it did not."""
    path, before, _ = opened
    try:
        now = Identity.of(os.stat(path))  # noqa: PTH116
    except FileNotFoundError:
        return "it vanished"
    except OSError as error:
        return error.strerror or str(error)
    if now == before:
        return None
    if now[:2] != before[:2]:
        return "it was replaced"
    if now.size < before.size:
        return f"it shrank from {before.size} to {now.size} bytes"
    if now.size > before.size:
        if not is_appended_to(path):
            return f"it grew from {before.size} to {now.size} bytes"
        return _GREW if opened.has_same_samples() else "it was written to"
    return "it was written to" if now.modified_ns != before.modified_ns else TOUCHED


_GREW = "it grew"
TOUCHED = "it was written to and dated back, or its mode, owner or links changed"
"""The difference if only the inode's time of change differs: the cause cannot be determined."""


class Watch:
    """The files opened since the watch began, as they were when they were opened."""

    def __init__(self) -> None:
        self._opened: dict[str, _OpenedFile] = {}
        self._forgotten: set[str] = set()
        self.grown: set[str] = set()
        """Paths of files that grew; complete after `changes`."""
        self.raised: list[ChangedError] = []
        """Changes that a reader found, whether or not its caller passed the error on."""

    def is_new(self, path: str) -> bool:
        key = _key(path)
        return key not in self._opened and key not in self._forgotten

    def add(self, opened: _OpenedFile) -> None:
        self._opened[_key(opened.path)] = opened

    def forget(self, path: str) -> None:
        """Stop watching a file: we change it ourselves, or an error has already reported it."""
        self._forgotten.add(key := _key(path))
        self._opened.pop(key, None)

    def changes(self) -> list[ChangedError]:
        """Return one error for each file that changed."""
        found = []
        for opened in list(self._opened.values()):
            how = _difference(opened)
            if how == _GREW:
                self.grown.add(opened.path)
            elif how is not None:
                found.append(ChangedError(opened.path, how))
                forget(opened.path)
        return found

    def ensure_unchanged(self) -> None:
        for error in (*self.changes(), *self.raised):
            raise error


def _key(path: str) -> str:
    """Return one key for all the ways to write a path."""
    return os.path.abspath(path)  # noqa: PTH100  # resolves no link


def forget(path: str) -> None:
    """Stop watching a file, because this process is about to change it."""
    for watch in _watches:
        watch.forget(path)


def _recorded(error: ChangedError) -> ChangedError:
    """Record an error in every watch, so that it is reported even if a caller catches it."""
    for watch in _watches:
        watch.raised.append(error)
    return error


def ensure_unchanged() -> None:
    """Raise ChangedError if a file that this process read has changed."""
    for watch in _watches:
        watch.ensure_unchanged()


def note_grown(paths: Iterable[str]) -> None:
    """Record files that a worker process saw grow."""
    for watch in _watches:
        watch.grown.update(paths)


@contextlib.contextmanager
def watching() -> Iterator[Watch]:
    """Watch every file that is opened in the block."""
    watch = Watch()
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)


# -------------------------------------------------------------------------------------- files


class EvidenceFile(io.RawIOBase):
    """A regular file, open for reading. Leaving its `with` block checks that it is unchanged."""

    def __init__(self, fd: int, opened: _OpenedFile) -> None:
        self.path = opened.path
        self.name = opened.path
        self.size = opened.identity.size
        self._fd = fd
        self._opened = opened
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_END:
            offset += self.size  # when it was opened: bytes appended since then are not read
        elif whence == io.SEEK_CUR:
            offset += self._position
        if offset < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Read as any raw file does, without a second buffer: a batch may fill a segment."""
        if size < 0:
            return self.readall()
        data = self._pread(size, self._position)
        self._position += len(data)
        while len(data) < size and self._position < self.size:  # as in `read_into_at`
            more = self._pread(size - len(data), self._position)
            if not more:
                self._raise_shrank()
            self._position += len(more)
            data += more
        return data

    def _pread(self, size: int, position: int) -> bytes:
        try:
            return os.pread(self._fd, size, position)
        except OSError as error:
            error.filename = self.path  # a descriptor has no name
            raise

    def readinto(self, buffer: Any, /) -> int:
        got = self.read_into_at(self._position, buffer)
        self._position += got
        return got

    def read_into_at(self, position: int, buffer: Any) -> int:
        """Fill `buffer`, with fewer bytes only at the end. Raises ChangedError if it shrank."""
        got = self._read(position, buffer)
        size = memoryview(buffer).nbytes
        while got < size and position + got < self.size:  # the system may return less than asked
            more = self._read(position + got, memoryview(buffer).cast("B")[got:])
            if not more:
                self._raise_shrank()
            got += more
        return got

    def _read(self, position: int, buffer: Any) -> int:
        try:
            return os.preadv(self._fd, [buffer], position)
        except OSError as error:
            error.filename = self.path  # a descriptor has no name
            raise

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes, without copying them twice."""
        data = self._pread(size, position)
        if not data and size and position < self.size:
            self._raise_shrank()
        return data

    def _raise_shrank(self) -> NoReturn:
        forget(self.path)
        try:
            now = os.fstat(self._fd).st_size
        except OSError as error:
            error.filename = self.path
            raise
        raise _recorded(ChangedError(self.path, f"it shrank from {self.size} to {now} bytes"))

    def ensure_unchanged(self) -> None:
        """Raise ChangedError if the file changed since it was opened."""
        how = _difference(self._opened)
        if how not in (None, _GREW):
            forget(self.path)
            raise _recorded(ChangedError(self.path, str(how)))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None or issubclass(kind, FormatError):  # do not hide any other exception
                self.ensure_unchanged()
        finally:
            self.close()

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()


def open_evidence(path: str | os.PathLike[str], *, limit: int = JAVA_MAX) -> EvidenceFile:
    """Open a file of the evidence.

    Raises UnfitFileError if it is not a regular file or is larger than `limit`, LinkError for a
    link that leads out of the evidence, and any other OSError that the system reports.
    """
    text = os.fspath(path)
    if not _access.allows(text):
        raise LinkError(text, os.path.realpath(text))
    # Check before opening: merely opening a device may rewind a tape or arm a watchdog, and a
    # socket cannot be opened at all. The second check catches a file that was replaced meanwhile;
    # the flags of `_open_to_read` keep a named pipe from blocking us, and a terminal from becoming
    # ours.
    ensure_regular(text, os.stat(text), limit=limit)  # noqa: PTH116
    fd = _open_to_read(text)
    try:
        _ensure_inside(fd, text)
        status = os.fstat(fd)
        ensure_regular(text, status, limit=limit)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, OSError):
            error.filename = text  # a descriptor has no name
        raise
    identity = Identity.of(status)
    watches = [watch for watch in _watches if watch.is_new(text)]
    # Samples are taken once per watch, because an overlay opens a file for each read.
    opened = _OpenedFile.of(text, fd, identity) if watches else _OpenedFile(text, identity)
    for watch in watches:
        watch.add(opened)
    return EvidenceFile(fd, opened)


def _ensure_inside(fd: int, path: str) -> None:
    if not _access.follow_links and (place := place_outside(fd, path)) is not None:
        raise LinkError(path, place)


def _open_to_read(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def ensure_regular(path: str, status: os.stat_result, *, limit: int = JAVA_MAX) -> None:
    """Raise UnfitFileError unless this is a regular file of at most `limit` bytes."""
    if not stat.S_ISREG(status.st_mode):
        raise UnfitFileError(Location(path, 0), kind_of(status), "a regular file")
    ensure_size(path, status.st_size, limit=limit)


def ensure_size(path: str, size: int, *, limit: int) -> None:
    """Raise UnfitFileError if a file of `size` bytes is larger than `limit`."""
    if size > limit:
        expected = f"at most {limit}, the largest that Kafka writes of this kind"
        raise UnfitFileError(Location(path, limit), f"{size} bytes", expected)


def kind_of(status: os.stat_result) -> str:
    """Return the kind of a file in words, such as "a named pipe"."""
    return next((name for test, name in _KINDS if test(status.st_mode)), "something else")
