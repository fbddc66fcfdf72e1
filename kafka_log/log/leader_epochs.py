"""The leader epochs of a partition and their start offsets, in `leader-epoch-checkpoint`.

Epochs and start offsets both increase. The first batch with an epoch assigns it; an assignment
removes earlier ones that contradict it. Assignments are on disk before the call returns;
truncations may be written later, because loading a log truncates again.

Mirrors LeaderEpochFileCache and LeaderEpochCheckpointFile.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.leader_epoch_file import (
    MAX_SIZE,
    EpochEntry,
    LeaderEpochCheckpoint,
    decode_leader_epoch_checkpoint,
    encode_leader_epoch_checkpoint,
)
from kafka_log.errors import IllegalArgumentError
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka_log.clock import Scheduler
    from kafka_log.disk.files import Files

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

_CHECKPOINT = FileKind.LEADER_EPOCH_CHECKPOINT.value


class EpochEndOffset(NamedTuple):
    epoch: int
    end_offset: int


class LeaderEpochFileCache:
    """The leader epochs of one partition. A missing file is created empty."""

    def __init__(
        self, files: Files, scheduler: Scheduler, *, entries: Iterable[EpochEntry] | None = None
    ) -> None:
        """Read the file. If `entries` (ordered by epoch) are given, they are used instead."""
        self._files = files
        self._scheduler = scheduler
        self._entries = list(entries or ())
        files.open(_CHECKPOINT, create=True).close()
        if entries is None:
            for entry in self._read():
                self._assign(entry)

    def __repr__(self) -> str:
        return f"LeaderEpochFileCache({self._files.directory}: {self._entries})"

    def _read(self) -> tuple[EpochEntry, ...]:
        data = self._files.read(_CHECKPOINT, limit=MAX_SIZE)
        path = self._files.path(_CHECKPOINT)
        return decode_leader_epoch_checkpoint(data, path=path).entries

    def with_checkpoint(self, files: Files) -> LeaderEpochFileCache:
        """Return a cache with the same epochs and the file of another directory."""
        return LeaderEpochFileCache(files, self._scheduler, entries=self._entries)

    # ------------------------------------------------------------------------- assignments

    def assign(self, epoch: int, start_offset: int) -> None:
        if self._assign(EpochEntry(epoch, start_offset)):
            self._write()

    def assign_all(self, entries: Iterable[EpochEntry]) -> None:
        """Assign several epochs and write the file once, even if nothing changed."""
        assigned = list(entries)
        for entry in assigned:
            self._assign(entry)
        if assigned:
            self._write()

    def _assign(self, entry: EpochEntry) -> bool:
        return _assign(self._entries, entry, self._files.path(_CHECKPOINT))

    # ------------------------------------------------------------------------- lookup

    @property
    def epoch_entries(self) -> Sequence[EpochEntry]:
        return list(self._entries)

    @property
    def non_empty(self) -> bool:
        return bool(self._entries)

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self._entries[0] if self._entries else None

    def previous_epoch(self, epoch: int | None = None) -> int | None:
        """Return the epoch before `epoch`, or before the latest."""
        if epoch is None:
            return self._entries[-2].epoch if len(self._entries) > 1 else None
        entry = self.previous_entry(epoch)
        return None if entry is None else entry.epoch

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        place = bisect_left(self._entries, epoch, key=_epoch)
        return self._entries[place - 1] if place else None

    def next_epoch(self, epoch: int) -> int | None:
        entry = self._higher_entry(epoch)
        return None if entry is None else entry.epoch

    def epoch_entry(self, epoch: int) -> EpochEntry | None:
        place = bisect_left(self._entries, epoch, key=_epoch)
        found = self._entries[place : place + 1]
        return found[0] if found and found[0].epoch == epoch else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the largest epoch up to the requested one, and where the next epoch starts.

        The latest epoch ends at the log end. An epoch before the first known one ends where that
        one starts: its records are gone.
        """
        undefined = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if requested_epoch == UNDEFINED_EPOCH:
            return undefined
        if requested_epoch == self.latest_epoch:
            return EpochEndOffset(requested_epoch, log_end_offset)
        higher = self._higher_entry(requested_epoch)
        if higher is None:
            return undefined
        place = bisect_right(self._entries, requested_epoch, key=_epoch)
        epoch = self._entries[place - 1].epoch if place else requested_epoch
        return EpochEndOffset(epoch, higher.start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        found = None
        for entry in self._entries:
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def epoch_entries_in_range(self, start_offset: int, end_offset: int) -> list[EpochEntry]:
        entries = list(self._entries)
        if start_offset >= 0:
            _truncate_from_start(entries, start_offset)
        _truncate_from_end(entries, end_offset)
        return entries

    def _higher_entry(self, epoch: int) -> EpochEntry | None:
        place = bisect_right(self._entries, epoch, key=_epoch)
        return self._entries[place] if place < len(self._entries) else None

    # ------------------------------------------------------------------------- truncation

    def truncate_from_end_async_flush(self, end_offset: int) -> None:
        """Remove the epochs that start at or after `end_offset`."""
        if _truncate_from_end(self._entries, end_offset):
            self._schedule_flush()

    def truncate_from_start_async_flush(self, start_offset: int) -> None:
        """Remove the epochs before that of `start_offset`, which then starts there."""
        if _truncate_from_start(self._entries, start_offset):
            self._schedule_flush()

    def clear_and_flush(self) -> None:
        self._entries.clear()
        self._write()

    def clear(self) -> None:
        self._entries.clear()

    # ------------------------------------------------------------------------- the file

    def _schedule_flush(self) -> None:
        self._scheduler.schedule("leader-epoch-cache-flush", self._write_if_dir_exists)

    def _write(self) -> None:
        checkpoint = LeaderEpochCheckpoint(tuple(self._entries))
        self._files.replace(_CHECKPOINT, encode_leader_epoch_checkpoint(checkpoint))

    def _write_if_dir_exists(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # the directory was renamed for deletion
            self._write()


def loaded_entries(rows: Iterable[EpochEntry], path: str) -> list[EpochEntry]:
    """Return the entries that a load keeps of the rows of a file. Raises IllegalArgumentError."""
    entries: list[EpochEntry] = []
    for row in rows:
        _assign(entries, row, path)
    return entries


def _assign(entries: list[EpochEntry], entry: EpochEntry, path: str) -> bool:
    if entry.epoch < 0 or entry.start_offset < 0:
        raise IllegalArgumentError(f"{path}: {entry}, expected an epoch and an offset of 0 or more")
    latest = entries[-1] if entries else None
    if (
        latest is not None
        and entry.epoch == latest.epoch
        and entry.start_offset >= latest.start_offset
    ):
        return False
    while entries and (
        entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset
    ):
        entries.pop()
    entries.append(entry)
    return True


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _truncate_from_start(entries: list[EpochEntry], start_offset: int) -> int:
    """Remove entries up to an offset; return how many. The last one is kept with that offset."""
    removed = 0
    while removed < len(entries) and entries[removed].start_offset <= start_offset:
        removed += 1
    if removed:
        entries[:removed] = [EpochEntry(entries[removed - 1].epoch, start_offset)]
    return removed


def _truncate_from_end(entries: list[EpochEntry], end_offset: int) -> int:
    removed = 0
    while end_offset >= 0 and entries and entries[-1].start_offset >= end_offset:
        entries.pop()
        removed += 1
    return removed
