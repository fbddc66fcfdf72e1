"""Check whether a broker holds the `.lock` of a log dir, without taking the lock."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import NamedTuple

from kafka_format.access import open_evidence
from kafka_format.errors import FormatError
from kafka_log.names import FileKind

_FLOCK = struct.Struct("hhqqi")


class _Lock(NamedTuple):
    """Linux's 64-bit `struct flock`."""

    type: int
    whence: int
    start: int
    length: int
    pid: int


def is_held(log_dir: str | os.PathLike[str]) -> bool:
    """Return whether another process holds it (FileLock.tryLock). Always False outside Linux."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        file = open_evidence(os.path.join(log_dir, FileKind.LOCK.value))  # noqa: PTH118
    except (FormatError, OSError):
        return False
    try:
        query = _FLOCK.pack(*_Lock(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        answer = fcntl.fcntl(file.fileno(), fcntl.F_GETLK, query)
        return _Lock(*_FLOCK.unpack(answer)).type != fcntl.F_UNLCK
    except OSError:  # a file system without locks
        return False
    finally:
        file.close()
