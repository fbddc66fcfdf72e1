"""Replay the producers of a partition batch by batch, and note what the checks compare.

The replay is that of recovery (kafka_log.producers.replay). It begins with the snapshot at the
first base offset, if there is one, and continues after damage, as far as batches are found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_log.checks.finding import Finding
from kafka_log.checks.partitions.continuity import Continuity
from kafka_log.checks.partitions.producer_snapshots import DerivedProducers
from kafka_log.checks.partitions.sequences import check_sequences
from kafka_log.checks.partitions.transaction_indexes import (
    BareMarker,
    EndedInSegment,
    SegmentTransactions,
)
from kafka_log.clock import FixedClock
from kafka_log.errors import LogError
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.producers.replay import replay
from kafka_log.producers.transactions import NoFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.checks.facts import AuditedPartition
    from kafka_log.checks.finding import About
    from kafka_log.producers.append import EndTransactionMarker
    from kafka_log.producers.entry import CompletedTxn, ProducerStateEntry, TxnMetadata
    from kafka_log.producers.replay import BatchReader, BatchRun

    Int64s = npt.NDArray[np.int64]


class PartitionReplay:
    """The producers of a partition while its batches are read."""

    def __init__(
        self, audited: AuditedPartition, start_offset: int, *, is_never_compacted: bool
    ) -> None:
        self.manager = ProducerStateManager(
            NoFiles(audited.path), audited.config, FixedClock(audited.now_ms)
        )
        self.producers = DerivedProducers(self.manager)
        self.continuity = Continuity(start_offset)
        self.segment = SegmentTransactions()
        self.is_known = start_offset == 0
        """Whether the producers at `known_from` were complete."""
        self.known_from = start_offset
        self.is_damaged = False
        """Whether there was damage anywhere."""
        self.is_lost = False
        """Whether damage makes the producers unknown until the next snapshot."""
        self.largest_timestamp = -1
        self._is_never_compacted = is_never_compacted
        self.start_offset = start_offset
        self.open_here: set[int] = set()
        """The first offsets of open transactions that have data in the log."""
        self.last_markers: dict[int, tuple[int, bool]] = {}
        """The epoch of each producer's last marker, and whether it is an ABORT."""

    @property
    def is_exact(self) -> bool:
        """Whether the producers follow exactly from those at `known_from`."""
        return self.is_known and not self.is_lost and self.continuity.since <= self.known_from

    def begin_segment(self) -> None:
        self.segment = SegmentTransactions()
        self.segment.is_damaged = self.is_lost

    def lose(self) -> None:
        """Note damage: what follows is not exact until the next snapshot."""
        self.is_lost = self.is_damaged = self.segment.is_damaged = True
        self.continuity.interrupt()

    def know_from(self, offset: int) -> None:
        """Note that the producers are now those of a snapshot at this offset."""
        self.is_known, self.is_lost, self.known_from = True, False, offset

    def add(
        self, batches: BatchColumns, read_batch: BatchReader, about: About, *, is_sound: bool
    ) -> Iterator[Finding]:
        """Replay consecutive batches. Those of a segment with damage are not judged."""
        since = self.continuity.add(batches)
        self.largest_timestamp = max(self.largest_timestamp, int(batches.max_timestamp.max()))
        if is_sound and not self.is_lost:
            yield from check_sequences(
                batches,
                since,
                self.manager.active_producers,
                about,
                is_never_compacted=self._is_never_compacted,
            )
        self.producers.touch(batches)
        while len(batches):
            observer = _Observer(self, since, batches)
            try:
                damage = replay(batches, read_batch, observer)
            except LogError as error:
                yield _refused(error, batches, about)
                self.lose()
                damage = None
            yield from observer.findings(about)
            if damage is None:
                return
            self.lose()
            batches, since = batches[damage.batch + 1 :], since[damage.batch + 1 :]


class _Observer:
    """Provides the manager's producers to a replay, and notes transactions and markers."""

    def __init__(self, owner: PartitionReplay, since: Int64s, batches: BatchColumns) -> None:
        self._owner = owner
        self._manager = owner.manager
        self._since = since
        self._batches = batches
        self._before = (-1, False)  # coordinator epoch, and whether a transaction is open
        self._completed: CompletedTxn | None = None
        self._last_stable_offset = -1
        self._back: list[tuple[int, int, int, int]] = []
        self._bare: list[tuple[int, int]] = []

    def entry(self, producer_id: int) -> ProducerStateEntry:
        entry = self._manager.replayed_entry(producer_id)
        self._before = entry.coordinator_epoch, entry.current_txn_first_offset is not None
        self._completed = None
        return entry

    def started(self, txn: TxnMetadata) -> None:
        self._owner.segment.starts.add(txn.first_offset)
        self._owner.open_here.add(txn.first_offset)
        self._manager.start_txn(txn)

    def completed(self, completed: CompletedTxn) -> None:
        self._completed = completed
        self._last_stable_offset = self._manager.last_stable_offset(completed)
        self._manager.complete_txn(completed)
        self._manager.on_high_watermark_updated(completed.last_offset + 1)

    def marked(
        self, run: BatchRun, marker: EndTransactionMarker, entry: ProducerStateEntry
    ) -> None:
        """Do nothing: `applied` gets every marker as well."""

    def applied(self, run: BatchRun, marker: EndTransactionMarker | None) -> None:
        if not run.flags & CONTROL or marker is None:
            return
        owner, since = self._owner, int(self._since[run.row])
        owner.producers.note_marker(run.producer_id)
        coordinator_epoch, _ = self._before
        if marker.coordinator_epoch < coordinator_epoch:
            self._back.append(
                (run.row, run.producer_id, marker.coordinator_epoch, coordinator_epoch)
            )
        if self._completed is None or not self._has_data(self._completed, since):
            owner.segment.bare[run.first_offset] = BareMarker(
                run.producer_id, marker.is_abort, since
            )
            if self._completed is None and self._is_unusual(run, marker, since):
                self._bare.append((run.row, run.producer_id))
        elif marker.is_abort:
            owner.segment.aborted[run.first_offset] = EndedInSegment(
                *self._completed[:3], self._last_stable_offset, since
            )
        owner.last_markers[run.producer_id] = run.producer_epoch, marker.is_abort

    def _has_data(self, completed: CompletedTxn, since: int) -> bool:
        """Whether data of the transaction is in the log, or only retention can have deleted it.

        A transaction that began before the first segment may have been compacted since.
        """
        owner = self._owner
        is_here = completed.first_offset in owner.open_here
        owner.open_here.discard(completed.first_offset)
        return is_here or since <= owner.start_offset

    def _is_unusual(self, run: BatchRun, marker: EndTransactionMarker, since: int) -> bool:
        """Whether a marker without data is not explained by a retry, or by what is missing."""
        owner = self._owner
        last = owner.last_markers.get(run.producer_id)
        if last is None and self._before[0] >= 0:
            return False  # the marker before it is older than the snapshot
        is_complete = owner.is_known and not owner.is_lost and since <= owner.known_from
        return is_complete and last != (run.producer_epoch, marker.is_abort)

    def findings(self, about: About) -> Iterator[Finding]:
        for row, producer_id, epoch, before in self._back:
            found = f"coordinator epoch {epoch} in a marker of producer {producer_id}"
            yield self._finding("PRD005", about, row, found, f"at least {before}", producer_id)
        for row, producer_id in self._bare:
            found = f"a marker of producer {producer_id}"
            expected = "data of the producer before it"
            yield self._finding("PRD006", about, row, found, expected, producer_id)

    def _finding(  # one argument per field
        self, rule: str, about: About, row: int, found: str, expected: str, producer_id: int
    ) -> Finding:
        return Finding.of(
            rule,
            about,
            found,
            expected,
            position=int(self._batches.position[row]),
            offset=int(self._batches.base_offset[row]),
            entry=f"producer {producer_id}",
        )


def _refused(error: LogError, batches: BatchColumns, about: About) -> Finding:
    """Return the finding for a batch that a replay refuses; the error begins with its place."""
    text = str(error)
    place = text.removeprefix(f"{batches.path}@").partition(":")[0]
    position = int(place) if place.isdecimal() else None
    row = np.flatnonzero(batches.position == (-1 if position is None else position))
    found, _, expected = text.rpartition(": ")[2].partition(", expected ")
    return Finding.of(
        "PRD007",
        about,
        found,
        expected or "a batch that fits",
        position=position,
        offset=int(batches.base_offset[row[0]]) if len(row) else None,
    )
