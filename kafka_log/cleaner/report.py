"""Why records went: counted while a cleaner works, a few additions for thousands of records.

    superseded    a later record has the key
    tombstone     a null value whose delete horizon has come
    aborted       of a transaction that was aborted
    without_key   a compacted topic has no place for it; Kafka calls it invalid
    marker        of a transaction of which nothing is left

Kafka does not count the records of a batch that goes whole (aborted, or a marker) as read; those
are `unread` here. So read and unread together are those that stay and those that went.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from kafka_format.batch import RecordBatch
from kafka_log.cleaner.verdict import BatchRetention
from kafka_log.cleaner.write_kernels import DELETE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record
    from kafka_log.cleaner.pieces import Piece
    from kafka_log.cleaner.verdict import BatchVerdict, Decided
    from kafka_log.cleaner.witness import Witness
    from kafka_log.segment import LogSegment

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]


@dataclass(slots=True, kw_only=True)
class Removed:
    """How many records went, by what took them."""

    superseded: int = 0
    tombstone: int = 0
    aborted: int = 0
    without_key: int = 0
    marker: int = 0
    unread: int = 0
    """Those of them that Kafka's statistics do not know of."""

    @property
    def total(self) -> int:
        return self.superseded + self.tombstone + self.aborted + self.without_key + self.marker

    def __add__(self, other: Removed) -> Removed:
        theirs = asdict(other)
        return Removed(**{name: count + theirs[name] for name, count in asdict(self).items()})


_counting = threading.Lock()


class Removals:
    """A witness that counts; another one may stand behind it."""

    def __init__(self, behind: Witness | None = None) -> None:
        self.is_superseded: Callable[[bytes, int], bool] | None = None
        """Where batches are judged record by record: whether the map has the key later on."""
        self._behind = behind
        self._removed = Removed()

    def add(self, removed: Removed) -> None:
        """What was counted elsewhere, or on one of several threads."""
        with _counting:
            self._removed += removed

    def take(self) -> Removed:
        """What was counted since the last time."""
        taken, self._removed = self._removed, Removed()
        return taken

    @property
    def is_ordered(self) -> bool:
        return self._behind is not None and self._behind.is_ordered

    def on_segment(self, segment: LogSegment, group_base_offset: int) -> None:
        if self._behind is not None:
            self._behind.on_segment(segment, group_base_offset)

    def on_piece(
        self,
        piece: Piece,
        decided: Decided,
        is_kept: Uint8s,
        latest_of: Int64s,
        retains_deletes: Uint8s,
    ) -> None:
        self._count(piece, decided, is_kept, latest_of)
        if self._behind is not None:
            self._behind.on_piece(piece, decided, is_kept, latest_of, retains_deletes)

    def _count(self, piece: Piece, decided: Decided, is_kept: Uint8s, latest_of: Int64s) -> None:
        removed, rows = Removed(), np.diff(piece.edges)
        is_judged = ~piece.by_rows  # the others are told one by one
        is_aborted = is_judged & (decided.discards != 0)
        if is_aborted.any():
            removed.aborted += int(rows[is_aborted].sum())
            removed.unread += int(rows[is_aborted & (decided.fates == DELETE)].sum())
            is_judged &= ~is_aborted
        gone = is_kept == 0
        if not is_judged.all():
            gone &= np.repeat(is_judged, rows)
        keyless = gone & (piece.records.key_length < 0)
        superseded = gone & (piece.records.offset < latest_of)  # which is -1 without a key
        counts = [int(np.count_nonzero(each)) for each in (gone, keyless, superseded)]
        removed.without_key += counts[1]
        removed.superseded += counts[2]
        removed.tombstone += counts[0] - counts[1] - counts[2]
        self.add(removed)

    def on_batch(
        self,
        batch: AnyBatch,
        verdict: BatchVerdict,
        records: Sequence[Record],
        kept: Sequence[Record],
    ) -> None:
        removed = Removed()
        if verdict.discards_records and isinstance(batch, RecordBatch):
            _count_whole(removed, batch, verdict)
        elif len(kept) < len(records):
            stays = {record.offset for record in kept}
            for record in records:
                if record.offset not in stays:
                    self._count_record(removed, record)
        if removed.total:
            self.add(removed)
        if self._behind is not None:
            self._behind.on_batch(batch, verdict, records, kept)

    def _count_record(self, removed: Removed, record: Record) -> None:
        if record.key is None:
            removed.without_key += 1
        elif record.value is None and not self._has_successor(record.key, record.offset):
            removed.tombstone += 1
        else:
            removed.superseded += 1

    def _has_successor(self, key: bytes, offset: int) -> bool:
        return self.is_superseded is not None and self.is_superseded(key, offset)


def _count_whole(removed: Removed, batch: RecordBatch, verdict: BatchVerdict) -> None:
    count = batch.header.record_count
    if batch.header.is_control:
        removed.marker += count
    else:
        removed.aborted += count
    if verdict.retention is BatchRetention.DELETE:
        removed.unread += count
