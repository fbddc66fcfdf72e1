"""How often a log is cleaned, and where each time begins.

    N                 so many rounds; each goes on where the one before ended, as a broker's do
    UNTIL_CLEAN       rounds until nothing is dirty
    UNTIL_UNCHANGED   rounds from the same offset until one leaves every file as it was

If the caller gives an offset, each of N rounds begins there. So one run shows the whole life of
tombstones and markers: a round sets their delete horizon, a later one removes them, another removes
the empty batch that they leave.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafka_log.disk.files import opened
from kafka_log.names import FileState, parse_file_name

if TYPE_CHECKING:
    from kafka_log.disk.files import Files

UNTIL_CLEAN: Final = None
UNTIL_UNCHANGED: Final = "until-unchanged"
MOST_PASSES = 100
"""The limit of UNTIL_UNCHANGED. A few are enough, unless rounds undo each other's work."""
_CHUNK = 4 * 1024 * 1024

PassCount = int | Literal["until-unchanged"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The rounds that a caller asks for."""

    passes: PassCount = 1
    first_dirty_offset: int | None = None
    """Where rounds begin; None for the checkpoint."""
    only_when_due: bool = False
    """Whether a log is skipped that a broker would not clean yet."""


class Passes:
    """Ask `is_over` before a round and `count` it after; `start` is where the next begins."""

    def __init__(self, schedule: Schedule, files: Files, checkpoint: int | None) -> None:
        count, first_dirty_offset = schedule.passes, schedule.first_dirty_offset
        self.checkpoint = checkpoint
        self.start = checkpoint if first_dirty_offset is None else first_dirty_offset
        starts_at_offset = first_dirty_offset is not None and count is not UNTIL_CLEAN
        self.is_repeated = starts_at_offset or count == UNTIL_UNCHANGED
        """Whether all rounds begin at the same offset."""
        self.only_when_due = schedule.only_when_due
        self.is_settled: bool | None = None
        """Whether the last round left every file as it was; None if that was not asked for."""
        self._left = MOST_PASSES if count == UNTIL_UNCHANGED else count
        self._files = files
        self._before = b""
        if count == UNTIL_UNCHANGED:
            self.is_settled = False
            self._before = _digest(files)

    @property
    def is_over(self) -> bool:
        """Whether all rounds are done, or the last one changed nothing."""
        return self._left == 0 or bool(self.is_settled)

    def count(self, next_dirty_offset: int) -> None:
        if not self.is_repeated:
            self.start = next_dirty_offset
        if self._left is not None:
            self._left -= 1
        if self.is_settled is not None:
            after = _digest(self._files)
            self.is_settled = after == self._before
            self._before = after

    def finish(self) -> None:
        """Note that nothing is left to clean: another round would change nothing."""
        if self.is_settled is not None:
            self.is_settled = True


def _digest(files: Files) -> bytes:
    """Return a digest of all files by name, except those that only wait to be unlinked."""
    found = hashlib.blake2b()
    for name in sorted(files.names()):
        if parse_file_name(name).state is FileState.DELETED:
            continue
        found.update(f"{name}\0{files.size(name)}\0".encode(errors="surrogateescape"))
        with opened(files, name) as file:
            for position in range(0, file.size, _CHUNK):
                found.update(file.read_at(position, _CHUNK))
    return found.digest()
