"""What a loader did to the files of a log, and why: one entry per decision.

The journal only records; it does not influence the loader. Together with the changes that an
OverlayFiles reports, it is a plan that can be read before anything is done.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """What happens to a file."""

    DELETE = "delete"
    RENAME = "rename"
    CUT = "cut"  # bytes at the end are removed
    EMPTY = "empty"  # all bytes are removed
    REBUILD = "rebuild"  # written again from the log
    RESIZE = "resize"
    WRITE = "write"  # a new file, or one with new content
    READ = "read"
    SPLIT = "split"


class JournalEntry(NamedTuple):
    """One decision about one file."""

    file: str
    """The name of the file when the decision was made."""
    action: Action
    why: str
    renamed_to: str | None = None
    position: int | None = None
    """The position where the file is cut."""
    bytes_read: int = 0
    """How much of a log a broker must read to do this."""


class Journal:
    """Entries in the order of the decisions."""

    def __init__(self) -> None:
        self.entries: list[JournalEntry] = []

    def __repr__(self) -> str:
        return f"Journal({len(self.entries)} entries)"

    def add(
        self,
        file: str,
        action: Action,
        why: str,
        *,
        renamed_to: str | None = None,
        position: int | None = None,
        bytes_read: int = 0,
    ) -> None:
        entry = JournalEntry(file, action, why, renamed_to, position, bytes_read)
        self.entries.append(entry)

    @property
    def bytes_read(self) -> int:
        return sum(entry.bytes_read for entry in self.entries)
