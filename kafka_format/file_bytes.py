"""The bytes of one small file, read-only, and never more than the caller allows.

A side file is read whole. Its size is looked at before a byte is loaded, and no more is read than
that size: a file that a live broker is still growing gives the bytes it had.
"""

import os
import stat
from pathlib import Path

from kafka_format.errors import CorruptError, Location

JAVA_MAX = 2**31 - 1
"""Kafka maps indexes and loads snapshots with Java's int positions: none can be larger."""


def read_file_bytes(path: str | os.PathLike[str], *, limit: int) -> bytes:
    """The whole of a regular file of at most `limit` bytes."""
    path = Path(path)
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # asked first: opening a pipe would wait for its writer
        raise CorruptError(Location(str(path), 0), "something else", "a regular file")
    if status.st_size > limit:
        raise CorruptError(
            Location(str(path), limit), f"{status.st_size} bytes", f"at most {limit} in such a file"
        )
    with path.open("rb") as file:
        return file.read(status.st_size)
