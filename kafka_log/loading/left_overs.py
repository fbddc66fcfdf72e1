"""Files that an earlier process did not finish with: the first three passes of a load.

    1  delete .deleted files; a .cleaned file invalidates every .swap from its offset on; both are
       deleted
    2  delete the live files that the remaining .swap segments replace
    3  rename the .swap files to live ones

Mirrors the beginning of LogLoader.load.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kafka_format import java_text
from kafka_log.errors import LogLoadError
from kafka_log.loading.journal import Action, Journal
from kafka_log.names import FileKind, FileState, segment_file_name
from kafka_log.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files

_LONG_MAX = 2**63 - 1
_DELETED = FileState.DELETED.value
_CLEANED = FileState.CLEANED.value
_SWAP = FileState.SWAP.value
_METADATA_SNAPSHOT_DELETED = FileKind.METADATA_SNAPSHOT.value + _DELETED


def settle_left_overs(files: Files, config: LogConfig, clock: Clock, journal: Journal) -> None:
    """Finish or roll back an unfinished swap and delete the rest, before segments are loaded."""
    left_overs = LeftOvers(files, config, clock, journal)
    left_overs.complete_swap(left_overs.remove_temporary_files_and_collect_swap_files())


class LeftOvers:
    """The files with a suffix in a partition directory."""

    def __init__(self, files: Files, config: LogConfig, clock: Clock, journal: Journal) -> None:
        self._files = files
        self._config = config
        self._clock = clock
        self._journal = journal

    def remove_temporary_files_and_collect_swap_files(self) -> list[str]:
        swap_files, cleaned_files = [], []
        for name in self._files.names():
            if not self._files.can_read(name):
                raise PermissionError(errno.EACCES, "cannot be read", self._files.path(name))
            if name.endswith(_DELETED) and not name.endswith(_METADATA_SNAPSHOT_DELETED):
                self._delete(name, "marked as deleted before the broker stopped")
            elif name.endswith(_CLEANED):
                cleaned_files.append(name)
            elif name.endswith(_SWAP):
                swap_files.append(name)
        bases = [offset_of(self._files, name) for name in cleaned_files]
        min_cleaned = min(bases, default=_LONG_MAX)
        valid = []
        for name in swap_files:
            if offset_of(self._files, name) >= min_cleaned:
                self._delete(
                    name, f"incomplete swap: there is a .cleaned file at offset {min_cleaned}"
                )
            else:
                valid.append(name)
        for name in cleaned_files:
            self._delete(name, "unfinished output of the cleaner or of a split")
        return valid

    def complete_swap(self, swap_files: list[str]) -> None:
        """Delete the files that the swapped segments replace, then rename the segments."""
        bounds = self._swap_bounds(swap_files)
        if bounds is not None:
            low, high = bounds
            for name in self._files.names():
                offset = offset_from_file_name(name)
                if name.endswith(_SWAP) or offset is None or not low <= offset < high:
                    continue
                self._delete(name, f"replaced by .swap segments with offsets {low} to {high - 1}")
        for name in self._files.names():
            if name.endswith(_SWAP):
                self._rename(name, name.removesuffix(_SWAP))

    def _swap_bounds(self, swap_files: list[str]) -> tuple[int, int] | None:
        """Return the lowest base offset and the highest next offset of the swapped segments."""
        low, high = _LONG_MAX, -_LONG_MAX - 1
        for name in swap_files:
            if not name.removesuffix(_SWAP).endswith(FileKind.LOG.value):
                continue
            base_offset = offset_of(self._files, name)
            index = f"{segment_file_name(base_offset, FileKind.OFFSET_INDEX)}{_SWAP}"
            if not self._files.exists(index):
                self._journal.add(
                    index, Action.WRITE, "missing: created empty when the segment is opened"
                )
            segment = LogSegment.open(
                self._files, base_offset, self._config, self._clock, suffix=_SWAP
            )
            try:
                low = min(segment.base_offset, low)
                high = max(segment.read_next_offset(), high)
            finally:
                segment.close_handlers()
        return (low, high) if low < high else None

    def _rename(self, name: str, renamed: str) -> None:
        if self._files.exists(renamed):
            self._journal.add(renamed, Action.DELETE, f"replaced by {name}")
        self._files.rename(name, renamed)
        why = "completes an unfinished swap"
        self._journal.add(name, Action.RENAME, why, renamed_to=renamed)

    def _delete(self, name: str, why: str) -> None:
        self._files.delete_if_exists(name)
        self._journal.add(name, Action.DELETE, why)


def offset_of(files: Files, name: str) -> int:
    """Return the offset in a file name. Raises LogLoadError if there is none."""
    offset = offset_from_file_name(name)
    if offset is None:
        raise LogLoadError(
            f"{files.path(name)}: found no offset before the first dot, expected one: "
            "a broker does not start with such a name"
        )
    return offset


def offset_from_file_name(name: str) -> int | None:
    """Return the offset like LogFileUtils.offsetFromFileName; None where that throws."""
    stem, dot, _ = name.partition(".")
    return java_text.parse_long(stem) if dot else None
