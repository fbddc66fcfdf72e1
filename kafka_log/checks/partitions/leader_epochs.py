"""Compare leader-epoch-checkpoint with the epochs of the batches.

Every offset of a batch must be in the batch's epoch. Epochs without batches are normal: an election
adds one, and so does a batch that compaction removed later. Below the log start, nothing is
compared; an offset before the first epoch is only a finding after a clean stop, because a broker
removes epochs before it writes the new log start to its checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_log.checks.finding import Finding
from kafka_log.errors import IllegalArgumentError
from kafka_log.log.leader_epochs import loaded_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.leader_epoch_file import EpochEntry
    from kafka_log.checks.finding import About

_NO_EPOCH = -1


class LeaderEpochCheck:
    """The checkpoint of one partition, and what its batches have shown so far."""

    def __init__(
        self,
        about: About,
        rows: Sequence[EpochEntry],
        *,
        log_start_offset: int,
        knows_log_start: bool,
    ) -> None:
        """`rows` are those of the file, none if it is missing."""
        self._about = about
        self._rows = rows
        self._log_start_offset = log_start_offset
        self._knows_log_start = knows_log_start
        self._entries: list[EpochEntry] = []
        self._found: set[tuple[int, int]] = set()
        self._uncovered: list[Finding] = []
        """Findings that a later batch of an old format would explain: it clears the epochs."""

    @property
    def start_offset(self) -> int:
        """The offset of the first epoch, which is not below the log start; 0 without any."""
        return self._entries[0].start_offset if self._entries else 0

    def load(self) -> Iterator[Finding]:
        """Load the rows as a broker does, and yield what is wrong with them."""
        try:
            self._entries = loaded_entries(self._rows, self._about.path)
        except IllegalArgumentError:
            expected = "epochs and offsets of 0 or more"
            yield Finding.of("LEP001", self._about, "a negative number", expected)
            self._rows = ()
            return
        dropped = sorted(set(self._rows) - set(self._entries))
        if dropped:
            found = ", ".join(
                f"epoch {each.epoch} from {each.start_offset}" for each in dropped[:3]
            )
            expected = "ascending epochs and offsets"
            yield Finding.of("LEP004", self._about, f"{len(dropped)} dropped: {found}", expected)

    def add(self, batches: BatchColumns) -> Iterator[Finding]:
        """Yield the first batch of each epoch that the checkpoint does not have there."""
        legacy = np.flatnonzero(batches.is_legacy)
        if len(legacy):
            self._uncovered.clear()
            self._found = {pair for pair in self._found if pair[1] != _NO_EPOCH}
            batches = batches[int(legacy[-1]) + 1 :]
        epoch = batches.partition_leader_epoch
        rows = np.flatnonzero((batches.last_offset >= self._log_start_offset) & (epoch >= 0))
        if not len(rows):
            return
        if not self._rows:
            self._note_missing(int(epoch[rows[0]]), int(batches.base_offset[rows[0]]))
            return
        starts = np.array([each.start_offset for each in self._entries], np.int64)
        epochs = np.array([_NO_EPOCH, *(each.epoch for each in self._entries)], np.int64)
        first = np.maximum(batches.base_offset[rows], self._log_start_offset)
        for offset in (first, batches.last_offset[rows]):
            stored = epochs[np.searchsorted(starts, offset, side="right")]
            for place in np.flatnonzero(stored != epoch[rows]).tolist():
                pair = int(epoch[rows[place]]), int(stored[place])
                if pair in self._found:
                    continue
                self._found.add(pair)
                finding = self._mismatch(*pair, int(offset[place]))
                if pair[1] != _NO_EPOCH:
                    yield finding
                elif self._knows_log_start:
                    self._uncovered.append(finding)

    def finish(self, log_end_offset: int) -> Iterator[Finding]:
        yield from self._uncovered
        for entry in self._entries:
            if entry.start_offset > log_end_offset:
                yield Finding.of(
                    "LEP003",
                    self._about,
                    f"epoch {entry.epoch} from offset {entry.start_offset}",
                    f"at most {log_end_offset}, the log end",
                    offset=entry.start_offset,
                    entry=f"epoch {entry.epoch}",
                )

    def _note_missing(self, epoch: int, offset: int) -> None:
        if not self._uncovered:
            expected = f"epoch {epoch}, which the batch at offset {offset} has"
            self._uncovered.append(
                Finding.of("LEP005", self._about, "no leader epoch", expected, offset=offset)
            )

    def _mismatch(self, epoch: int, stored: int, offset: int) -> Finding:
        return Finding.of(
            "LEP002",
            self._about,
            "no epoch" if stored == _NO_EPOCH else f"epoch {stored}",
            f"epoch {epoch}, which the batch has",
            offset=offset,
            entry=f"epoch {epoch}",
        )
