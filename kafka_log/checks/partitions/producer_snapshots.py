"""Compare producer snapshots with the producers that the log implies.

The producers at a snapshot are those of the snapshot before it, and the batches since. Differences
that Kafka leaves are no findings:

    a producer that has expired is missing; when it comes back, its coordinator epoch and earlier
    batches are unknown
    a producer that was forgotten comes back when a restart replays the log from an older snapshot
    where batches are missing (compaction), a snapshot knows more than the log

Producers are kept as columns, so that a snapshot costs Python code only for what has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.producer_snapshot import DTYPE, ProducerSnapshotEntry
from kafka_log.checks.finding import Finding
from kafka_log.producers.snapshots import snapshot_entry, state_entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.checks.finding import About
    from kafka_log.producers.producer_state import ProducerStateManager

    Int64s = npt.NDArray[np.int64]

_FIELDS = DTYPE.names or ()
_NO_BATCH = (-1, -1, 0)
_NONE = -1


class Interval(NamedTuple):
    """What is known of the log between two snapshots."""

    start_offset: int
    is_exact: bool
    """Whether every batch is there, and the producers at the start are known."""
    log_start_offset: int
    expired_timestamp: int
    """A producer with this last timestamp, or an earlier one, may have expired."""
    with_data: AbstractSet[int]
    """The first offsets of open transactions that have data in the log."""


class Difference(NamedTuple):
    """A producer in the log and in a snapshot; None where it is missing."""

    producer_id: int
    ours: ProducerSnapshotEntry | None
    theirs: ProducerSnapshotEntry | None

    @property
    def is_about_transaction(self) -> bool:
        return _transaction(self.ours) != _transaction(self.theirs)


def _transaction(entry: ProducerSnapshotEntry | None) -> int:
    return _NONE if entry is None else entry.current_txn_first_offset


class DerivedProducers:
    """The producers of a manager as a table, compared with one snapshot after another."""

    def __init__(self, manager: ProducerStateManager) -> None:
        self._manager = manager
        self._table: Int64s = np.empty((len(_FIELDS), 0), np.int64)
        self._touched: list[Int64s] = []
        self._with_marker: set[int] = set()
        self._forgotten: dict[int, ProducerSnapshotEntry] = {}
        self._disputed: set[int] = set()

    def touch(self, batches: BatchColumns) -> None:
        """Note the producers of replayed batches."""
        producer_id = batches.producer_id
        self._touched.append(np.unique(producer_id[producer_id >= 0]))

    def note_marker(self, producer_id: int) -> None:
        self._with_marker.add(producer_id)

    def entries(self) -> tuple[ProducerSnapshotEntry, ...]:
        """Return every producer, as a snapshot has it now."""
        return tuple(map(snapshot_entry, self._manager.active_producers.values()))

    def replace_by(self, entries: npt.NDArray[np.void]) -> None:
        """Take over a snapshot, without comparing."""
        self._refresh()
        for difference in self._differences(_table(entries)):
            self._adopt(difference)
        self._end_interval(entries)

    def compare(self, entries: npt.NDArray[np.void], interval: Interval) -> list[Difference]:
        """Return what Kafka cannot have left, and take over everything else."""
        self._refresh()
        disputed, self._disputed = self._disputed, set()
        wrong = []
        for difference in list(self._differences(_table(entries))):
            if difference.producer_id in disputed or self._is_legal(difference, interval):
                self._adopt(difference)
            else:
                self._disputed.add(difference.producer_id)
                wrong.append(difference)
        self._end_interval(entries)
        return wrong

    def _end_interval(self, entries: npt.NDArray[np.void]) -> None:
        if self._disputed:
            self._refresh()
        else:
            self._table, self._touched = _table(entries), []
        self._with_marker.clear()

    # ------------------------------------------------------------------------- the table

    def _refresh(self) -> None:
        """Bring the table up to date with the manager."""
        if not self._touched:
            return
        touched = np.unique(np.concatenate(self._touched))
        self._touched = []
        producers = self._manager.active_producers
        rows = [
            snapshot_entry(producers[producer_id])
            for producer_id in touched.tolist()
            if producer_id in producers
        ]
        kept = self._table[:, ~np.isin(self._table[0], touched)]
        added = np.array(rows, np.int64).reshape(len(rows), len(_FIELDS)).T
        table = np.concatenate([kept, added], axis=1)
        self._table = table[:, np.argsort(table[0], kind="stable")]

    def _differences(self, theirs: Int64s) -> Iterator[Difference]:
        ours = self._table
        place = np.searchsorted(theirs[0], ours[0])
        is_there = np.zeros(ours.shape[1], np.bool_)
        inside = place < theirs.shape[1]
        is_there[inside] = theirs[0, place[inside]] == ours[0, inside]
        is_same = is_there.copy()
        is_same[is_there] = (theirs[:, place[is_there]] == ours[:, is_there]).all(axis=0)
        for column in np.flatnonzero(~is_same).tolist():
            entry = _entry(ours, column)
            other = _entry(theirs, int(place[column])) if is_there[column] else None
            yield Difference(entry.producer_id, entry, other)
        extra = np.ones(theirs.shape[1], np.bool_)
        extra[place[is_there]] = False
        for column in np.flatnonzero(extra).tolist():
            entry = _entry(theirs, column)
            yield Difference(entry.producer_id, None, entry)

    def _adopt(self, difference: Difference) -> None:
        producer_id, ours, theirs = difference
        self._manager.replace_producer(producer_id, None if theirs is None else state_entry(theirs))
        if theirs is None and ours is not None:
            self._forgotten[producer_id] = ours
        self._touched.append(np.array([producer_id], np.int64))

    # ------------------------------------------------------------------------- the rules

    def _is_legal(self, difference: Difference, interval: Interval) -> bool:
        producer_id, ours, theirs = difference
        if theirs is None:
            return ours is not None and _may_be_gone(ours, interval)
        if ours is None:
            return not interval.is_exact or self._forgotten.get(producer_id) == theirs
        if not interval.is_exact:
            return _knows_at_least(theirs, ours, interval)
        batch_is_older = ours.last_offset < interval.start_offset
        has_marker = producer_id in self._with_marker
        return (
            theirs.producer_epoch == ours.producer_epoch
            and theirs.timestamp == ours.timestamp
            and _transaction(theirs) == _transaction(ours)
            and (_batch(theirs) == _batch(ours) or (batch_is_older and _batch(theirs) == _NO_BATCH))
            and (
                theirs.coordinator_epoch == ours.coordinator_epoch
                or (not has_marker and theirs.coordinator_epoch == _NONE)
            )
        )


def _may_be_gone(ours: ProducerSnapshotEntry, interval: Interval) -> bool:
    """Whether the producer may have expired, or (before 2.5) lost its last batch to retention."""
    first_offset = _transaction(ours)
    if first_offset >= 0 and (interval.is_exact or first_offset in interval.with_data):
        return False
    is_deleted = 0 <= ours.last_offset < interval.log_start_offset
    return is_deleted or ours.timestamp <= interval.expired_timestamp


def _knows_at_least(
    theirs: ProducerSnapshotEntry, ours: ProducerSnapshotEntry, interval: Interval
) -> bool:
    """Whether a snapshot knows what the remaining batches show. It may know more."""
    first_offset = _transaction(ours)
    # A restart replays from the log start, and without its data a transaction may have ended.
    is_open = first_offset in interval.with_data and first_offset >= interval.log_start_offset
    if is_open and not 0 <= _transaction(theirs) <= first_offset:
        return False
    if theirs.producer_epoch != ours.producer_epoch:
        return theirs.producer_epoch > ours.producer_epoch
    is_new = ours.last_offset >= interval.start_offset
    return not is_new or theirs.last_offset >= ours.last_offset


def _batch(entry: ProducerSnapshotEntry) -> tuple[int, int, int]:
    return entry.last_sequence, entry.last_offset, entry.offset_delta


def _entry(table: Int64s, column: int) -> ProducerSnapshotEntry:
    return ProducerSnapshotEntry._make(table[:, column].tolist())


def _table(entries: npt.NDArray[np.void]) -> Int64s:
    """Return a snapshot as columns, by producer; of equal ids the last counts, as in a load."""
    table = np.stack([entries[name].astype(np.int64) for name in _FIELDS])
    table = table[:, np.argsort(table[0], kind="stable")]
    is_last = np.ones(table.shape[1], np.bool_)
    is_last[:-1] = table[0, 1:] != table[0, :-1]
    found: Int64s = table[:, is_last]
    return found


def snapshot_findings(
    about: About, differences: list[Difference], *, is_loaded: bool
) -> Iterator[Finding]:
    """Yield one finding per rule for a snapshot; `is_loaded` if a restart begins with it."""
    serious = [each for each in differences if is_loaded and each.is_about_transaction]
    others = [each for each in differences if not is_loaded or not each.is_about_transaction]
    for rule, wrong in (("SNP006", serious), ("SNP005", others)):
        if wrong:
            yield _finding(rule, about, wrong)


def _finding(rule: str, about: About, differences: list[Difference]) -> Finding:
    producer_id, ours, theirs = differences[0]
    others = len(differences) - 1
    more = f"; {others} more producer{'' if others == 1 else 's'} with differences" * bool(others)
    found = expected = f"no producer {producer_id}"
    if ours is not None:
        expected = f"producer {producer_id} with {_shown(ours, theirs)}"
    if theirs is not None:
        found = f"producer {producer_id} with {_shown(theirs, ours)}"
    return Finding.of(rule, about, found + more, expected, entry=f"producer {producer_id}")


def _shown(entry: ProducerSnapshotEntry, other: ProducerSnapshotEntry | None) -> str:
    """Return the fields in which an entry differs from another."""
    names = [
        name
        for name in ProducerSnapshotEntry._fields[1:]
        if other is None or getattr(entry, name) != getattr(other, name)
    ]
    return ", ".join(f"{name} {getattr(entry, name)}" for name in names)
