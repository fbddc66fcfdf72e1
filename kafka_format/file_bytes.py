"""Read one small file of the evidence, up to a limit that the caller sets.

A side file is read whole. Its size is checked before a byte is read, and no more than that size is
read: of a file that a live broker appends to, only the bytes that it had when it was opened.
"""

import os

from kafka_format.access import JAVA_MAX, open_evidence

__all__ = ["JAVA_MAX", "read_file_bytes"]


def read_file_bytes(path: str | os.PathLike[str], *, limit: int) -> bytes:
    """Return the whole of a regular file of at most `limit` bytes."""
    with open_evidence(path, limit=limit) as file:
        return file.read(file.size) or b""
