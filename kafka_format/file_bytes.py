"""The bytes of one small file of the evidence, and never more than the caller allows.

A side file is read whole. Its size is looked at before a byte is loaded, and no more is read than
that size: a file that a live broker is still growing gives the bytes it had.
"""

import os

from kafka_format.access import JAVA_MAX, open_evidence

__all__ = ["JAVA_MAX", "read_file_bytes"]


def read_file_bytes(path: str | os.PathLike[str], *, limit: int) -> bytes:
    """Return the whole of a regular file of at most `limit` bytes."""
    with open_evidence(path, limit=limit) as file:
        return file.read(file.size) or b""
