"""How often a log is cleaned, and where each time begins.

    N                 so many rounds; each goes on where the one before ended, as a broker's do
    UNTIL_CLEAN       rounds until nothing is dirty
    UNTIL_UNCHANGED   rounds from the same offset until one leaves every file as it was

An offset of one's own is where every one of N rounds begins. That shows the life of tombstones and
markers in one go: a round sets their delete horizon, a later one takes them, another the empty
batch that they leave.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Literal

from kafka_log.disk.files import opened
from kafka_log.names import FileState, parse_file_name

if TYPE_CHECKING:
    from kafka_log.disk.files import Files

UNTIL_CLEAN: Final = None
UNTIL_UNCHANGED: Final = "until-unchanged"
MOST_PASSES = 100
"""Of those until nothing changes: a few are enough, unless something goes to and fro."""
_CHUNK = 4 * 1024 * 1024

PassCount = int | Literal["until-unchanged"] | None


class Passes:
    """Ask `is_over` before a round and `count` it after; `start` is where the next begins."""

    def __init__(
        self,
        asked: PassCount,
        files: Files,
        checkpoint: int | None,
        first_dirty_offset: int | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.start = checkpoint if first_dirty_offset is None else first_dirty_offset
        is_own = first_dirty_offset is not None and asked is not UNTIL_CLEAN
        self.is_repeated = is_own or asked == UNTIL_UNCHANGED
        """Whether all begin at the same offset."""
        self.is_settled: bool | None = None
        """Whether the last one left every file as it was; None if that was not asked for."""
        self._left = MOST_PASSES if asked == UNTIL_UNCHANGED else asked
        self._files = files
        self._before = b""
        if asked == UNTIL_UNCHANGED:
            self.is_settled = False
            self._before = _digest(files)

    @property
    def is_over(self) -> bool:
        """Whether there were enough, or nothing changes any more."""
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

    def rest(self) -> None:
        """Note that there is nothing left to clean, which changes nothing."""
        if self.is_settled is not None:
            self.is_settled = True


def _digest(files: Files) -> bytes:
    """Of every file by name, but for those that only wait to be unlinked."""
    found = hashlib.blake2b()
    for name in sorted(files.names()):
        if parse_file_name(name).state is FileState.DELETED:
            continue
        found.update(f"{name}\0{files.size(name)}\0".encode(errors="surrogateescape"))
        with opened(files, name) as file:
            for position in range(0, file.size, _CHUNK):
                found.update(file.read_at(position, _CHUNK))
    return found.digest()
