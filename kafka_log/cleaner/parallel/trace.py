"""Traces the transactions of a part, as far as the reader of the next part must know them.

CleanedTransactionMetadata reads a log batch by batch. Its state after a part depends on only a few
batches: every control batch, and for each producer the first and the last transactional batch
between two control batches (an aborted transaction begins somewhere between them, and lasts to the
end). The other batches only advance the offset. A trace contains these batches, so that parts can
be read in parallel: a short replay gives each part the state that it begins with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.attributes import CONTROL, TRANSACTIONAL
from kafka_format.batch import HEADER_SIZE, BatchHeader, RecordBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.cleaner.transactions import CleanedTransactionMetadata

    Int64s = npt.NDArray[np.int64]

NOTHING = -1


class Event(NamedTuple):
    """A batch of a trace, and the largest last offset before it in the part."""

    before: int
    raw: bytes
    """All bytes of a control batch; only the header of any other."""


class Trace(NamedTuple):
    path: str
    events: list[Event]
    end: int
    """The largest last offset of the part; -1 if it has no batch."""


class Tracer:
    """Follows the batches of a part, in order."""

    def __init__(self, path: str, read: Callable[[int, int], bytes]) -> None:
        self._path = path
        self.read = read
        self._end = NOTHING
        self._rows: list[Int64s] = []

    def add(self, batches: BatchColumns) -> None:
        last = last_offsets(batches)
        before = np.maximum.accumulate(np.r_[self._end, last])
        self._end = int(before[-1])
        chosen = np.flatnonzero(kinds(batches))
        if len(chosen):
            self._rows.append(
                np.stack(
                    (
                        batches.position[chosen],
                        batches.size_in_bytes[chosen],
                        batches.producer_id[chosen],
                        (batches.attributes[chosen] & CONTROL) != 0,
                        before[chosen],
                    )
                )
            )

    def trace(self) -> Trace:
        if not self._rows:
            return Trace(self._path, [], self._end)
        position, size, producer, is_control, before = np.concatenate(self._rows, axis=1)
        events = []
        for row in np.flatnonzero(_matters(producer, is_control)).tolist():
            length = int(size[row]) if is_control[row] else HEADER_SIZE
            events.append(Event(int(before[row]), self.read(int(position[row]), length)))
        return Trace(self._path, events, self._end)


def last_offsets(batches: BatchColumns) -> Int64s:
    """Return the last offset of each batch; that of a legacy message is its own."""
    last: Int64s = np.where(batches.is_legacy, batches.base_offset, batches.last_offset)
    return last


def kinds(batches: BatchColumns) -> Int64s:
    """Return a number per batch: not 0 if it is transactional or control."""
    kind: Int64s = np.where(batches.is_legacy, 0, batches.attributes & (TRANSACTIONAL | CONTROL))
    return kind


def _matters(producer: Int64s, is_control: Int64s) -> npt.NDArray[np.bool_]:
    """Choose control batches, and the first and last batch of each producer between two."""
    keep: npt.NDArray[np.bool_] = is_control.astype(np.bool_)
    data = np.flatnonzero(~keep)
    if not len(data):
        return keep
    stretch = np.cumsum(is_control)[data]
    order = np.lexsort((data, producer[data], stretch))
    key = np.stack((stretch[order], producer[data][order]))
    differs = np.any(key[:, 1:] != key[:, :-1], axis=0)
    keep[data[order[np.r_[True, differs]]]] = True
    keep[data[order[np.r_[differs, True]]]] = True
    return keep


def replay(transactions: CleanedTransactionMetadata, trace: Trace) -> None:
    """Bring it to the state it would have after the part. Raises FormatError."""
    for event in trace.events:
        transactions.consume_up_to(event.before)
        raw = memoryview(event.raw)
        batch = RecordBatch(BatchHeader.unpack(raw), trace.path, 0, raw)
        if batch.header.is_control:
            transactions.on_control_batch_read(batch)
        else:
            transactions.on_batch_read(batch)
    transactions.consume_up_to(trace.end)
