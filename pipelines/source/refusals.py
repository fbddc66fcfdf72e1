"""The finding for a file that cannot be read, or that changes while it is read.

Errors that may pass (too many open files, a store that does not answer) have no finding: they fail
a task, and Spark retries it.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_format.access import ChangedError, LinkError
from kafka_format.errors import FormatError, Location
from pipelines.source.storage import is_local, is_refused

_UNCHANGED = "a file that stays as it is while it is read"
VANISHED = "changed while it was read: it vanished"


class Refusal(NamedTuple):
    rule: str
    found: str
    expected: str

    def error(self, path: str, position: int = 0) -> FormatError:
        return FormatError(Location(path, position), self.found, self.expected)


def refusal_of(error: OSError | FormatError, path: str) -> Refusal | None:
    """Return the refusal that an error means; None if the error may pass."""
    if not is_local(path):
        return None
    if isinstance(error, FormatError):  # from open_evidence: not a regular file, or too large
        rule = "DIR005" if error.expected == "a regular file" else "DIR006"
        return Refusal(rule, error.found, error.expected)
    reason = error.strerror or str(error)
    if isinstance(error, ChangedError):
        return Refusal("DIR008", reason, _UNCHANGED)
    if isinstance(error, FileNotFoundError):
        return Refusal("DIR008", VANISHED, _UNCHANGED)
    if isinstance(error, LinkError):
        return Refusal("DIR007", reason, "a file inside the given paths")
    return Refusal("DIR001", reason, "a file that can be read") if is_refused(error, path) else None


def shrunk(planned: int, size: int) -> Refusal:
    """Return the refusal for a file that was larger when the query was planned."""
    found = f"changed while it was read: it shrank from {planned} to {size} bytes"
    return Refusal("DIR008", found, _UNCHANGED)
