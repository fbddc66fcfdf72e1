"""Every transaction of a partition directory: its offsets, times, records and bytes.

    ended       yielded while the log is read, so that millions of them need no memory
    empty       a marker without data before it: it ends nothing. Its producer wrote nothing here,
                or its data was removed by the cleaner or by retention
    open        without a marker; known after the last segment

Data batches are counted per transaction in numpy columns. A transaction that began in a segment
that is gone has only the records that are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.attributes import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from kafka_log.producers.transactions import EndedTransaction, TransactionReplay

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.disk.files import Files
    from kafka_log.producers.append import EndTransactionMarker
    from kafka_log.producers.entry import ProducerStateEntry
    from kafka_log.producers.replay import BatchRun
    from kafka_log.producers.transactions import OpenTransaction, TransactionReport

    Int64s = npt.NDArray[np.int64]

_NO_MARKER = 2**63 - 1


class PartitionTransaction(NamedTuple):
    """A transaction in one partition."""

    producer_id: int
    producer_epoch: int
    """The epoch of its data; if it has none, that of the marker."""
    first_offset: int | None
    """None for an empty one."""
    last_offset: int | None
    """The last offset of its data; None if it has none."""
    marker_offset: int | None
    """None if it is open."""
    is_aborted: bool
    coordinator_epoch: int
    """That of its marker; if it is open, of its producer's last marker. -1 if there is none."""
    start_timestamp: int | None
    """That of its first record; None if that is no longer in the log."""
    last_timestamp: int
    """The timestamp of its last batch, or of its marker."""
    records: int = 0
    size_in_bytes: int = 0

    @property
    def is_open(self) -> bool:
        return self.marker_offset is None

    @property
    def is_empty(self) -> bool:
        return self.first_offset is None


@dataclass(slots=True)
class _Totals:
    """The data of a transaction that was read so far."""

    producer_epoch: int
    start_timestamp: int | None
    last_offset: int = -1
    last_timestamp: int = -1
    records: int = 0
    size_in_bytes: int = 0


class _Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    offset: int
    is_abort: bool
    coordinator_epoch: int
    timestamp: int
    first_offset: int | None
    """Where the transaction that it ends began; None if it ends none."""


class TransactionHistory:
    """The transactions of a directory, in one pass over its batch headers.

    >>> history = TransactionHistory(files)
    >>> for txn in history.ended(): ...
    >>> history.unfinished(history.report)
    """

    def __init__(
        self, files: Files, *, log_start_offset: int = 0, high_watermark: int | None = None
    ) -> None:
        self._log_start_offset = log_start_offset
        self._high_watermark = high_watermark
        self._markers: list[_Marker] = []
        self._totals: dict[tuple[int, int], _Totals] = {}
        """By producer id and first offset, of transactions without a marker so far."""
        self._unreplicated: list[EndedTransaction] = []
        self.replay = TransactionReplay(files, past_damage=True, on_marker=self._on_marker)

    def ended(self) -> Iterator[PartitionTransaction]:
        """Yield the transactions with a marker, in the order of markers."""
        for batches in self.replay.pieces():
            self._add(batches)
            self._keep_unreplicated()
            for marker in self._markers:
                if marker.offset >= self._log_start_offset:
                    yield self._ended(marker)
                if marker.first_offset is not None:
                    self._totals.pop((marker.producer_id, marker.first_offset), None)
            self._markers.clear()

    @property
    def report(self) -> TransactionReport:
        """Return what the log says after `ended`. Only unreplicated transactions are among it."""
        self.replay.ended = self._unreplicated
        return self.replay.report(self._log_start_offset, self._high_watermark)

    def unfinished(self, report: TransactionReport) -> Iterator[PartitionTransaction]:
        """Yield the transactions without a marker, by first offset."""
        for txn in report.open:
            yield self._open(txn)

    def _on_marker(
        self, run: BatchRun, marker: EndTransactionMarker, entry: ProducerStateEntry
    ) -> None:
        self._markers.append(
            _Marker(
                run.producer_id,
                run.producer_epoch,
                run.first_offset,
                marker.is_abort,
                marker.coordinator_epoch,
                marker.timestamp,
                entry.current_txn_first_offset,
            )
        )

    def _keep_unreplicated(self) -> None:
        """Keep what can hold the last stable offset: with a marker beyond the high watermark."""
        watermark = self._high_watermark
        if watermark is not None:
            self._unreplicated += [txn for txn in self.replay.ended if txn.last_offset >= watermark]
        self.replay.ended.clear()

    def _ended(self, marker: _Marker) -> PartitionTransaction:
        first = marker.first_offset
        totals = None if first is None else self._totals.get((marker.producer_id, first))
        if totals is None:  # empty, or all its data is gone
            totals = _Totals(marker.producer_epoch, None)
        return PartitionTransaction(
            producer_id=marker.producer_id,
            producer_epoch=totals.producer_epoch,
            first_offset=first,
            last_offset=totals.last_offset if totals.last_offset >= 0 else first,
            marker_offset=marker.offset,
            is_aborted=marker.is_abort,
            coordinator_epoch=marker.coordinator_epoch,
            start_timestamp=totals.start_timestamp,
            last_timestamp=marker.timestamp,
            records=totals.records,
            size_in_bytes=totals.size_in_bytes,
        )

    def _open(self, txn: OpenTransaction) -> PartitionTransaction:
        totals = self._totals.get((txn.producer_id, txn.first_offset))
        if totals is None:  # it is only in a snapshot
            totals = _Totals(txn.producer_epoch, None, txn.last_offset)
        return PartitionTransaction(
            producer_id=txn.producer_id,
            producer_epoch=txn.producer_epoch,
            first_offset=txn.first_offset,
            last_offset=max(totals.last_offset, txn.first_offset),
            marker_offset=None,
            is_aborted=False,
            coordinator_epoch=txn.coordinator_epoch,
            start_timestamp=totals.start_timestamp,
            last_timestamp=txn.last_timestamp,
            records=totals.records,
            size_in_bytes=totals.size_in_bytes,
        )

    # ------------------------------------------------------------------ the data of transactions

    def _add(self, batches: BatchColumns) -> None:
        """Add the transactional data batches of a piece to the totals of their transactions."""
        flags = batches.attributes & (TRANSACTIONAL | CONTROL)
        rows = np.flatnonzero((flags == TRANSACTIONAL) & (batches.producer_id >= 0))
        if not len(rows):
            return
        known = self._known(batches, rows)
        rows, owners = _assigned(batches, rows, known)
        if not len(rows):
            return
        starts = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
        last_rows = rows[np.append(starts[1:], len(rows)) - 1]
        columns = (
            owners[starts],
            rows[starts],
            last_rows,
            np.add.reduceat(batches.record_count[rows], starts),
            np.add.reduceat(batches.size_in_bytes[rows], starts),
            np.maximum.reduceat(batches.last_offset[rows], starts),
            batches.max_timestamp[last_rows],
        )
        for owner, row, last_row, records, size, last_offset, last_timestamp in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            producer_id, first_offset = int(known[owner, 0]), int(known[owner, 1])
            totals = self._totals.get((producer_id, first_offset))
            if totals is None:
                start = _start_timestamp(batches, row, first_offset)
                totals = self._totals[producer_id, first_offset] = _Totals(0, start)
            totals.producer_epoch = int(batches.producer_epoch[last_row])
            totals.last_offset = max(totals.last_offset, last_offset)
            totals.last_timestamp = last_timestamp
            totals.records += records
            totals.size_in_bytes += size

    def _known(self, batches: BatchColumns, rows: Int64s) -> Int64s:
        """Return producer id, first offset and marker of the transactions that a piece may have."""
        known = [
            (marker.producer_id, marker.first_offset, marker.offset)
            for marker in self._markers
            if marker.first_offset is not None
        ]
        producers = self.replay.producers
        for producer_id in np.unique(batches.producer_id[rows]).tolist():
            entry = producers.get(producer_id)
            if entry is not None and entry.current_txn_first_offset is not None:
                known.append((producer_id, entry.current_txn_first_offset, _NO_MARKER))
        return np.array(known, np.int64).reshape(-1, 3)


def _assigned(batches: BatchColumns, rows: Int64s, known: Int64s) -> tuple[Int64s, Int64s]:
    """Return the batches of transactions and the index of each one's, grouped by transaction."""
    count = len(known)
    producer_id = np.append(known[:, 0], batches.producer_id[rows])
    offset = np.append(known[:, 1], batches.base_offset[rows])
    is_batch = np.append(np.zeros(count, np.bool_), np.ones(len(rows), np.bool_))
    order = np.lexsort((is_batch, offset, producer_id))
    places = np.where(is_batch[order], -1, np.arange(len(order)))
    latest = np.maximum.accumulate(places)
    found = np.flatnonzero(is_batch[order] & (latest >= 0))
    owners = order[latest[found]]
    members = order[found]
    of_rows = rows[members - count]
    fits = (known[owners, 0] == producer_id[members]) & (offset[members] <= known[owners, 2])
    return of_rows[fits], owners[fits]


def _start_timestamp(batches: BatchColumns, row: int, first_offset: int) -> int | None:
    """Return the timestamp of the first record; None if the batch is not the first one."""
    if int(batches.base_offset[row]) != first_offset:
        return None
    has_horizon = int(batches.attributes[row]) & DELETE_HORIZON
    column = batches.max_timestamp if has_horizon else batches.base_timestamp
    return int(column[row])
