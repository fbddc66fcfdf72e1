"""Replay producers over columns of batch headers, without an object per batch.

There are two ways, as in Kafka. They differ in when a transaction counts as complete, and therefore
in the last stable offset that is written to a transaction index, and in what an older epoch leaves
in the window of batches:

    replay_batches    each batch is applied before the next (LogSegment.recover)
    ProducerReplay    all batches, then all producers, then all completed transactions
                      (rebuildProducerState, a follower's append)

Python code runs per run and per producer, not per batch. They are found by sorting the batches by
producer:

    runs      a producer's batches between two of its markers, all inside or all outside
              transactions: only the first can start a transaction. Applied in log order.
    latest    a producer's last batches of its last epoch, and its last timestamp: earlier ones have
              no effect
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from kafka_format.attributes import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from kafka_format.batch import HEADER_SIZE, decode_batch
from kafka_format.columnar.record_columns import DamagedBatch
from kafka_format.errors import FormatError
from kafka_format.primitives import Buffer
from kafka_format.record import NO_SEQUENCE, increment_sequence, wrap_int64
from kafka_log.appends.origin import AppendOrigin
from kafka_log.errors import IllegalControlRecordError
from kafka_log.producers.append import (
    EndTransactionMarker,
    outside_of_transaction,
    read_end_transaction_marker,
)
from kafka_log.producers.entry import (
    BATCHES_TO_RETAIN,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
)
from kafka_log.producers.map_order import in_map_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.producers.append import ProducerAppendInfo
    from kafka_log.producers.producer_state import ProducerStateManager

    Int64s = npt.NDArray[np.int64]

BatchReader = Callable[[int, int], Buffer]
"""Reads a number of bytes at a position of the segment's file: one control batch."""
OnCompleted = Callable[[CompletedTxn, int], None]

_MAX_SEQUENCE = 2**31 - 1

# A marker as every coordinator writes it: one record, with varints of one byte.
_MARKER = struct.Struct(
    ">B"  # length: 16
    "B"  # attributes
    "B"  # timestamp delta
    "B"  # offset delta
    "B"  # key length: 4
    "h"  # key version
    "h"  # key type
    "B"  # value length: 6
    "h"  # value version
    "i"  # coordinator epoch
    "B"  # headers: none
)
_MARKER_BATCH_SIZE = HEADER_SIZE + _MARKER.size
_MARKER_SHAPE = (16 << 1, 4 << 1, 6 << 1, 0)
_MORE_BYTES = 0x80
_ABORT = 0
_COMMIT = 1


class Transactions(Protocol):
    """Provides producers to a replay, and receives the transactions it finds."""

    def entry(self, producer_id: int) -> ProducerStateEntry: ...

    def started(self, txn: TxnMetadata) -> None: ...

    def completed(self, completed: CompletedTxn) -> None: ...

    def applied(self, run: BatchRun, marker: EndTransactionMarker | None) -> None: ...

    def marked(
        self, run: BatchRun, marker: EndTransactionMarker, entry: ProducerStateEntry
    ) -> None:
        """Receive a marker before it changes the entry."""


def replay(
    batches: BatchColumns, read_batch: BatchReader, transactions: Transactions
) -> DamagedBatch | None:
    """Replay all batches, or those before the first undecodable marker, which is returned."""
    rows = np.flatnonzero(batches.producer_id >= 0)
    if not len(rows):
        return None
    markers, stop, error = _read_markers(batches, rows, read_batch)
    if error is not None:
        rows = rows[rows < stop]
    ordered = rows[np.argsort(batches.producer_id[rows], kind="stable")]
    for run in _runs(batches, ordered):
        entry = transactions.entry(run.producer_id)
        marker = markers.get(run.row) if run.flags & CONTROL else None
        if run.flags & CONTROL:
            _apply_marker(entry, run, marker, transactions)
        else:
            _apply_data(entry, run, batches, transactions)
        transactions.applied(run, marker)
    for latest in _latest(batches, ordered, markers):
        latest.apply(transactions.entry(latest.producer_id))
    if isinstance(error, FormatError):
        return DamagedBatch(stop, error)
    if error is not None:
        raise error
    return None


class ProducerReplay:
    """Collects the batches of one append or segment; `finish` applies them to the manager.

    Until then only verifications change: they end with the first batch of their transaction.
    """

    def __init__(self, manager: ProducerStateManager) -> None:
        self._manager = manager
        self._producers: dict[int, ProducerAppendInfo] = {}
        self._completed: list[CompletedTxn] = []

    def add(self, batches: BatchColumns, read_batch: BatchReader) -> None:
        """Add batches. Raises the FormatError of a marker that cannot be decoded."""
        damage = replay(batches, read_batch, self)
        if damage is not None:
            raise damage.error

    def finish(self, on_completed: OnCompleted | None = None) -> list[CompletedTxn]:
        """Apply the batches to the manager. The caller updates the map end offset."""
        for info in in_map_order(self._producers):
            self._manager.update(info)
        for completed in self._completed:
            self._manager.complete_with(completed, on_completed)
        return self._completed

    def entry(self, producer_id: int) -> ProducerStateEntry:
        return self._info(producer_id).to_entry()

    def started(self, txn: TxnMetadata) -> None:
        self._info(txn.producer_id).started_transactions.append(txn)

    def completed(self, completed: CompletedTxn) -> None:
        self._completed.append(completed)

    def marked(
        self, run: BatchRun, marker: EndTransactionMarker, entry: ProducerStateEntry
    ) -> None:
        """Do nothing: an append and a rebuild need no markers but those that end something."""

    def applied(self, run: BatchRun, marker: EndTransactionMarker | None) -> None:  # noqa: ARG002
        if run.flags & TRANSACTIONAL and self._manager.has_verifications:
            self._manager.end_verification(
                run.producer_id, run.producer_epoch, is_control=bool(run.flags & CONTROL)
            )

    def _info(self, producer_id: int) -> ProducerAppendInfo:
        info = self._producers.get(producer_id)
        if info is None:
            info = self._manager.prepare_update(producer_id, AppendOrigin.REPLICATION)
            self._producers[producer_id] = info
        return info


# ---------------------------------------------------------------------------------- runs


class BatchRun(NamedTuple):
    """Consecutive batches of a producer with the same flags and epoch; or one marker."""

    row: int
    producer_id: int
    producer_epoch: int
    flags: int
    first_offset: int


OnMarker = Callable[[BatchRun, EndTransactionMarker, ProducerStateEntry], None]
"""Receives a marker, and the entry of its producer before the marker changes it. The epoch and the
window of the entry may still be those before this piece of the log."""


def _runs(batches: BatchColumns, ordered: Int64s) -> Iterator[BatchRun]:
    """Yield the runs in log order. `ordered` are rows by producer, then by position."""
    producer_id = batches.producer_id[ordered]
    producer_epoch = batches.producer_epoch[ordered]
    flags = batches.attributes[ordered] & (TRANSACTIONAL | CONTROL)
    is_control = (flags & CONTROL).astype(np.bool_)
    starts = _group_starts(is_control, producer_id, producer_epoch, flags)
    first_rows = ordered[starts]
    in_log_order = np.argsort(first_rows)
    starts, first_rows = starts[in_log_order], first_rows[in_log_order]
    columns = (
        first_rows,
        producer_id[starts],
        producer_epoch[starts],
        flags[starts],
        batches.base_offset[first_rows],
    )
    return map(BatchRun._make, zip(*(column.tolist() for column in columns), strict=True))


def _group_starts(is_single: npt.NDArray[np.bool_], *columns: Int64s) -> Int64s:
    """Return where groups start: where a column changes, or where a row is a group by itself."""
    begins = is_single.copy()
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(begins)


def _apply_data(
    entry: ProducerStateEntry, run: BatchRun, batches: BatchColumns, transactions: Transactions
) -> None:
    if entry.current_txn_first_offset is None:
        if run.flags & TRANSACTIONAL:
            entry.current_txn_first_offset = run.first_offset
            transactions.started(TxnMetadata(run.producer_id, run.first_offset))
    elif not run.flags & TRANSACTIONAL:
        position = int(batches.position[run.row])
        where = f"{batches.path}@{position}: producer {run.producer_id}"
        raise outside_of_transaction(run.producer_epoch, where, entry.current_txn_first_offset)


def _apply_marker(
    entry: ProducerStateEntry,
    run: BatchRun,
    marker: EndTransactionMarker | None,
    transactions: Transactions,
) -> None:
    if marker is None:
        return
    transactions.marked(run, marker, entry)
    first_offset = entry.current_txn_first_offset
    entry.coordinator_epoch = marker.coordinator_epoch
    entry.current_txn_first_offset = None
    if first_offset is not None:
        transactions.completed(
            CompletedTxn(run.producer_id, first_offset, run.first_offset, marker.is_abort)
        )


# ---------------------------------------------------------------------------------- latest


class _Latest(NamedTuple):
    """The effect of batches on a producer's epoch, window and timestamp."""

    producer_id: int
    producer_epoch: int
    is_epoch_new: bool  # whether the epoch changed among these batches
    last_timestamp: int
    window: list[BatchMetadata]

    def apply(self, entry: ProducerStateEntry) -> None:
        if self.is_epoch_new or entry.producer_epoch != self.producer_epoch:
            entry.batch_metadata.clear()
            entry.producer_epoch = self.producer_epoch
        entry.batch_metadata.extend(self.window)
        entry.last_timestamp = self.last_timestamp


def _latest(
    batches: BatchColumns, ordered: Int64s, markers: dict[int, EndTransactionMarker]
) -> Iterator[_Latest]:
    """Yield one per producer. Control batches that compaction emptied have no effect."""
    is_control = (batches.attributes[ordered] & CONTROL).astype(np.bool_)
    has_effect = ~is_control | (batches.record_count[ordered] != 0)
    ordered, is_control = ordered[has_effect], is_control[has_effect]
    if not len(ordered):
        return
    producer_id = batches.producer_id[ordered]
    producer_epoch = batches.producer_epoch[ordered]
    no_singles = np.zeros(len(ordered), np.bool_)
    producer_starts = _group_starts(no_singles, producer_id)
    producer_ends = np.append(producer_starts[1:], len(ordered))
    epoch_starts = _group_starts(no_singles, producer_id, producer_epoch)
    # Where the last epoch of each producer begins.
    latest_starts = epoch_starts[np.searchsorted(epoch_starts, producer_ends) - 1]
    last_rows = ordered[producer_ends - 1]
    windows = _windows(batches, ordered, ~is_control, latest_starts, producer_ends)
    columns = (
        producer_id[producer_starts],
        producer_epoch[latest_starts],
        latest_starts != producer_starts,
        batches.max_timestamp[last_rows],
        last_rows,
    )
    for window, (pid, epoch, is_epoch_new, timestamp, last_row) in zip(
        windows, zip(*(column.tolist() for column in columns), strict=True), strict=True
    ):
        marker = markers.get(last_row)
        last_timestamp = timestamp if marker is None else marker.timestamp
        yield _Latest(pid, epoch, is_epoch_new, last_timestamp, window)


def _windows(
    batches: BatchColumns,
    ordered: Int64s,
    is_data: npt.NDArray[np.bool_],
    starts: Int64s,
    ends: Int64s,
) -> Iterator[list[BatchMetadata]]:
    """Yield the last data batches of each range of `ordered`."""
    data = np.flatnonzero(is_data)
    data_ends = np.searchsorted(data, ends)
    counts = np.minimum(data_ends - np.searchsorted(data, starts), BATCHES_TO_RETAIN)
    window_ends = np.cumsum(counts)
    kept = data[np.arange(window_ends[-1]) + np.repeat(data_ends - window_ends, counts)]
    metadata = _batch_metadata(batches, ordered[kept])
    for start, end in zip((window_ends - counts).tolist(), window_ends.tolist(), strict=True):
        yield metadata[start:end]


def _batch_metadata(batches: BatchColumns, rows: Int64s) -> list[BatchMetadata]:
    delta = batches.last_offset_delta[rows]
    columns = (
        last_sequences(batches.base_sequence[rows], delta),
        (batches.base_offset[rows] + delta).tolist(),
        delta.tolist(),
        batches.max_timestamp[rows].tolist(),
    )
    return list(map(BatchMetadata._make, zip(*columns, strict=True)))


def last_sequences(base: Int64s, delta: Int64s) -> list[int]:
    """Return DefaultRecordBatch.lastSequence. Values that only damage causes take a slow path."""
    if (delta < 0).any() or (base < NO_SEQUENCE).any():
        return [
            NO_SEQUENCE if sequence == NO_SEQUENCE else increment_sequence(sequence, increment)
            for sequence, increment in zip(base.tolist(), delta.tolist(), strict=True)
        ]
    last = base + delta
    last[last > _MAX_SEQUENCE] -= _MAX_SEQUENCE + 1
    last[base == NO_SEQUENCE] = NO_SEQUENCE
    found: list[int] = last.tolist()
    return found


# ---------------------------------------------------------------------------------- markers


def _read_markers(
    batches: BatchColumns, rows: Int64s, read_batch: BatchReader
) -> tuple[dict[int, EndTransactionMarker], int, FormatError | IllegalControlRecordError | None]:
    """Return the markers by row up to the first invalid one, and that one's row and error."""
    is_control = (batches.attributes[rows] & CONTROL).astype(np.bool_)
    found = rows[is_control & (batches.record_count[rows] != 0)]  # compaction empties some
    markers: dict[int, EndTransactionMarker] = {}
    columns = (
        found,
        batches.position[found],
        batches.size_in_bytes[found],
        batches.attributes[found],
        batches.record_count[found],
        batches.base_timestamp[found],
        batches.max_timestamp[found],
    )
    for row, position, size, attributes, count, base, latest in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        data = read_batch(position, size)
        if size == len(data) == _MARKER_BATCH_SIZE and count == 1 and not attributes & CODEC_MASK:
            log_append_time = latest if attributes & LOG_APPEND_TIME else None
            marker = _usual_marker(data, base, log_append_time)
            if marker is not None:
                markers[row] = marker
                continue
        try:
            batch = decode_batch(data, path=batches.path)
            batch.position = position
            unusual = read_end_transaction_marker(batch)
        except (FormatError, IllegalControlRecordError) as error:
            return markers, row, error
        if unusual is not None:
            markers[row] = unusual
    return markers, 0, None


def _usual_marker(
    data: Buffer, base_timestamp: int, log_append_time: int | None
) -> EndTransactionMarker | None:
    """Decode a marker in the usual form; None if it has another form."""
    (
        length,
        _,
        delta,
        offset_delta,
        key_length,
        key_version,
        type_,
        value_length,
        version,
        epoch,
        headers,
    ) = _MARKER.unpack_from(data, HEADER_SIZE)
    if (
        (length, key_length, value_length, headers) != _MARKER_SHAPE
        or delta >= _MORE_BYTES
        or offset_delta >= _MORE_BYTES
        or key_version < 0
        or not _ABORT <= type_ <= _COMMIT
        or version < 0
    ):
        return None
    if log_append_time is None:
        timestamp = wrap_int64(base_timestamp + ((delta >> 1) ^ -(delta & 1)))
    else:
        timestamp = log_append_time
    return EndTransactionMarker(type_ == _ABORT, epoch, timestamp)
