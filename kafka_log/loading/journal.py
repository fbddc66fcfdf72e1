"""What a loader did to the files of a log, and why: one row a decision.

The loader works either way; a journal only listens. Together with what an OverlayFiles says of the
files (what became of each) it is a plan that can be read before anything is done.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """What happens to a file."""

    DELETE = "delete"
    RENAME = "rename"
    CUT = "cut"  # some bytes at the end go
    EMPTY = "empty"  # all of them
    REBUILD = "rebuild"  # written anew from the log
    RESIZE = "resize"
    WRITE = "write"  # a file that did not exist, or whose content is another now
    READ = "read"
    SPLIT = "split"


class JournalEntry(NamedTuple):
    """One decision about one file."""

    file: str
    """Its name when the decision was taken."""
    action: Action
    why: str
    renamed_to: str | None = None
    position: int | None = None
    """Where it is cut."""
    bytes_read: int = 0
    """What a broker must read of a log to do this."""


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
