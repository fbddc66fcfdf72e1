"""Write a new log dir atomically; lock and check a log dir that is written in place.

    with whole_directory(out, evidence) as attempt:      a hidden directory beside `out`
        ...                                              renamed to `out` at the end, or removed
    with whole_partition(target, scratch) as attempt:    the same for one partition; if several
        ...                                              attempts run, the first to finish wins
    with whole_file(report, evidence) as file:           a text file, the same
    with exclusive(log_dir):                             `.lock` held, as a broker holds it
        ...

An output has the structure of a log dir: partition directories, the checkpoint files with the rows
of only these partitions, meta.properties. Never `.lock`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kafka_format.access import Access, access, kind_of
from kafka_format.checkpoint_file import (
    OffsetCheckpoint,
    OffsetCheckpointEntry,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
)
from kafka_format.errors import FormatError
from kafka_log.disk.files import open_to_write
from kafka_log.errors import LogError
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafka_log.disk.files import Files

TopicPartition = tuple[str, int]

CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_OFFSET_CHECKPOINT,
    FileKind.REPLICATION_OFFSET_CHECKPOINT,
    FileKind.CLEANER_OFFSET_CHECKPOINT,
)
_COPIED = (FileKind.META_PROPERTIES, FileKind.BOOTSTRAP_CHECKPOINT, FileKind.CLEAN_SHUTDOWN)
"""Files of a log dir that are copied unchanged."""
_REPLACED = tuple(kind.value for kind in (*CHECKPOINTS, FileKind.CLEAN_SHUTDOWN))
_WRITTEN = (
    *_REPLACED,
    *(f"{name}{FileState.TEMPORARY.value}" for name in _REPLACED),
    FileKind.LOCK.value,
)
"""Names of files in a log dir that are written in place."""
_NAME_PART = 50
"""In characters of up to 4 bytes; a file name has at most 255 bytes."""


class OutputError(LogError):
    """A path that must not be written to."""

    is_damage = False


# ---------------------------------------------------------------------------- a new directory


def check_output(
    output: str | os.PathLike[str], evidence: Iterable[str | os.PathLike[str]]
) -> None:
    """Raise OutputError if the output exists or is inside the evidence. Writes nothing."""
    out = Path(output)
    target = out.resolve()
    ensure_outside(out, evidence)
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        found = "a symbolic link" if out.is_symlink() else "a file"
        raise OutputError(f"{out}: found {found}, expected a new or empty directory")
    if out.is_dir() and any(out.iterdir()):
        raise OutputError(f"{out}: found a directory with files, expected a new or empty one")
    if not target.parent.is_dir():
        raise OutputError(
            f"{out.parent}: found no such directory, expected the parent of the output"
        )


def ensure_outside(
    output: str | os.PathLike[str], evidence: Iterable[str | os.PathLike[str]]
) -> None:
    """Raise OutputError if the output is, or is inside, one of the paths of the evidence."""
    target = Path(output).resolve()
    for source in evidence:
        resolved = Path(source).resolve()
        if target == resolved or resolved in target.parents:
            raise OutputError(f"{output}: output must not be inside the evidence ({source})")


def check_output_file(
    output: str | os.PathLike[str], evidence: Iterable[str | os.PathLike[str]]
) -> None:
    """Raise OutputError if a file cannot be written here. An existing file will be replaced."""
    out = Path(output)
    ensure_outside(out, evidence)
    if os.path.lexists(out) and (out.is_symlink() or not out.is_file()):
        found = "a symbolic link" if out.is_symlink() else kind_of(out.stat())
        raise OutputError(f"{out}: found {found}, expected a new or a regular file")
    if not out.absolute().parent.is_dir():
        raise OutputError(
            f"{out.parent}: found no such directory, expected the parent of the output"
        )


@contextlib.contextmanager
def whole_file(
    output: str | os.PathLike[str], evidence: Iterable[str | os.PathLike[str]]
) -> Iterator[TextIO]:
    """Yield a text file to write. It gets its name at the end, and is removed after an error."""
    check_output_file(output, evidence)
    target = Path(output).absolute()
    with _attempt(target, target.parent, hidden=True) as attempt:
        own = attempt / "file"
        with own.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        own.replace(target)
    _sync(target.parent)


@contextlib.contextmanager
def whole_directory(
    output: str | os.PathLike[str], evidence: Iterable[str | os.PathLike[str]]
) -> Iterator[Path]:
    """Yield a directory to fill. It becomes `output` at the end, and is removed after an error.

    Its parent belongs only to this attempt, is removed with it, and can hold unfinished files.
    """
    check_output(output, evidence)
    target = Path(output).resolve()
    with _attempt(target, target.parent, hidden=True) as attempt:
        yield attempt
        attempt.chmod(0o755)
        sync_tree(attempt)
        attempt.rename(target)  # atomically, also over an empty directory
    _sync(target.parent)


@contextlib.contextmanager
def whole_partition(
    target: str | os.PathLike[str], scratch: str | os.PathLike[str]
) -> Iterator[Path]:
    """Yield a directory in `scratch` to fill. It becomes `target` at the end, unless another did.

    A cluster may run a task again, or twice at once. All attempts write the same bytes; the first
    to finish wins, and files of different attempts are never mixed.
    """
    with _attempt(Path(target), scratch) as attempt:
        yield attempt
        sync_tree(attempt)
        try:
            attempt.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@contextlib.contextmanager
def _attempt(
    target: Path, parent: str | os.PathLike[str], *, hidden: bool = False
) -> Iterator[Path]:
    """Yield an empty directory within a unique one, also across machines."""
    # Only part of the name: the target's may be as long as the file system allows.
    prefix = f"{'.' if hidden else ''}{target.name[:_NAME_PART]}.attempt-"
    try:
        own = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    except OSError as error:  # report the path that the user knows, not the temporary one
        reported = target if error.errno == errno.ENAMETOOLONG else parent
        raise OSError(error.errno, error.strerror, os.fspath(reported)) from error
    try:
        attempt = own / "whole"
        attempt.mkdir()
        yield attempt
    finally:  # after Ctrl-C as well
        with contextlib.suppress(OSError):  # rmtree raises some in spite of ignore_errors
            shutil.rmtree(own, ignore_errors=True)


def sync_tree(root: Path) -> None:
    """Flush every file and directory of a tree to disk."""
    for directory, _, names in os.walk(root):
        for name in names:
            _sync(Path(directory) / name)
        _sync(Path(directory))


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        error.filename = os.fspath(path)  # a descriptor has no name
        raise
    finally:
        os.close(fd)


def copy_log_dir_files(log_dir: Files, target: Files, *, is_cleanly_stopped: bool) -> None:
    """Copy the other files of a log dir unchanged. For checkpoints see `write_checkpoints`."""
    for kind in _COPIED:
        if kind is FileKind.CLEAN_SHUTDOWN and not is_cleanly_stopped:
            continue
        if log_dir.exists(kind.value):
            target.replace(kind.value, log_dir.read(kind.value, limit=largest_size(kind)))


# -------------------------------------------------------------------------------- checkpoints


def write_checkpoints(
    log_dir: Files,
    target: Files,
    changes: Mapping[FileKind, Mapping[TopicPartition, int | None]],
    *,
    is_included: Callable[[TopicPartition], bool] = lambda _: True,
) -> None:
    """Write the checkpoints of `log_dir` to `target`, for some partitions and with changed offsets.

    None in `changes` removes a row. Rows keep their order, new ones follow. In place (`target` is
    `log_dir`), a file whose rows do not change is not written.
    """
    for kind in CHECKPOINTS:
        before = _read_checkpoint(log_dir, kind)
        changed = changes.get(kind, {})
        rows = {key: offset for key, offset in (before or {}).items() if is_included(key)}
        for key, offset in changed.items():
            if offset is None:
                rows.pop(key, None)
            else:
                rows[key] = offset
        is_same = rows == before or (before is None and not rows)
        if (is_same and target is log_dir) or (before is None and not rows):
            continue
        entries = tuple(OffsetCheckpointEntry(*key, offset) for key, offset in rows.items())
        target.replace(kind.value, encode_offset_checkpoint(OffsetCheckpoint(entries)))


def check_checkpoints(log_dir: Files) -> None:
    """Raise OutputError, before anything is written, if a checkpoint cannot be decoded.

    A broker takes a log dir with such a file offline; its content is not guessed here.
    """
    for kind in CHECKPOINTS:
        try:
            _read_checkpoint(log_dir, kind)
        except FormatError as error:
            raise OutputError(
                f"{error}; nothing was written: repair the file, or move it away"
            ) from error


def _read_checkpoint(log_dir: Files, kind: FileKind) -> dict[TopicPartition, int] | None:
    if not log_dir.exists(kind.value):
        return None
    data = log_dir.read(kind.value, limit=largest_size(kind))
    return decode_offset_checkpoint(data, path=log_dir.path(kind.value)).offsets()


# ----------------------------------------------------------------------------------- in place


def check_in_place(directory: str | os.PathLike[str]) -> None:
    """Raise OutputError if a change in this directory would change files outside it.

    A symbolic link may lead to another log dir. A file with more than one hard link may be part of
    a backup (`cp -al`), which must not change with the original. Anything else with the name of a
    Kafka file, such as a named pipe, could not be written.
    """
    if Path(directory).is_symlink():
        raise OutputError(
            f"{directory}: found a symbolic link, expected a directory of this log dir to write in"
            " place; --output copies what it leads to"
        )
    _check_links_above(directory)
    with os.scandir(directory) as entries:
        for entry in entries:
            is_kafka_file = parse_file_name(entry.name).kind is not FileKind.UNKNOWN
            status = entry.stat(follow_symlinks=False)
            _check_writable(entry.path, status, is_kafka_file=is_kafka_file)


def check_log_dir_in_place(log_dir: str | os.PathLike[str]) -> None:
    """Check the files of a log dir that are written after the partitions in the same way."""
    _check_links_above(log_dir)
    for name in _WRITTEN:
        path = Path(log_dir) / name
        with contextlib.suppress(FileNotFoundError):
            _check_writable(str(path), path.lstat(), is_kafka_file=True)


def _check_links_above(directory: str | os.PathLike[str]) -> None:
    """Raise OutputError for a directory reached through a link, even with --follow-links."""
    if not Access(roots=access().roots).allows(os.fspath(directory)):
        real = os.path.realpath(directory)
        raise OutputError(
            f"{directory}: found a link to {real}, expected a directory inside the given paths to"
            " write in place; --output writes a copy"
        )


def _check_writable(path: str, status: os.stat_result, *, is_kafka_file: bool) -> None:
    """Raise OutputError for a link, several hard links, and a Kafka file that is not regular."""
    if stat.S_ISLNK(status.st_mode):
        raise OutputError(
            f"{path}: found a symbolic link, expected a file of this directory to write in place;"
            " --output writes a copy"
        )
    if not stat.S_ISREG(status.st_mode):
        if is_kafka_file:
            raise OutputError(
                f"{path}: found {kind_of(status)}, expected a regular file to write in place;"
                " --output writes a copy"
            )
    elif status.st_nlink > 1:
        raise OutputError(
            f"{path}: found {status.st_nlink} hard links to this file, expected 1 to write in"
            " place: the others would change too; --output writes a copy"
        )


@contextlib.contextmanager
def exclusive(log_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a log dir's `.lock` as a broker does (FileLock.tryLock). Raises OutputError if held.

    A directory that no broker ever used (neither `.lock` nor meta.properties) is not locked.
    """
    path = Path(log_dir) / FileKind.LOCK.value
    is_new = not os.path.lexists(path)
    if is_new and not path.with_name(FileKind.META_PROPERTIES.value).exists():
        yield
        return
    fd = open_to_write(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if is_new else 0))
    try:
        _check_writable(str(path), _status(fd, path), is_kafka_file=True)
        _lock(fd, path)
        try:
            yield
        finally:
            if is_new:
                path.unlink(missing_ok=True)
    finally:
        os.close(fd)  # releases the lock


def _status(fd: int, path: Path) -> os.stat_result:
    try:
        return os.fstat(fd)
    except OSError as error:
        error.filename = os.fspath(path)  # a descriptor has no name
        raise


def _lock(fd: int, path: Path) -> None:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise OutputError(
            f"{path}: found a lock that another process holds, expected no live broker"
        ) from error
