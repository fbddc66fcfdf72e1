"""Observers of a cleaner: they see each decision, with its reason.

    Witness     the protocol
    Removals    counts removed records by cause; another witness may follow it

A cleaner without a witness pays nothing for it. Every batch that a cleaner filters is reported
once: with its piece, or by itself where `piece.by_rows` says so.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kafka_format.batch import RecordBatch
from kafka_log.cleaner.decision import BATCH_DROPPED, RECORD_BY_RECORD
from kafka_log.cleaner.reasons import CODES, REMOVED_FROM, removed_counts
from kafka_log.cleaner.stats import Removed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record
    from kafka_log.cleaner.cleaner import CleanableSegment
    from kafka_log.cleaner.columns.blocks import Piece
    from kafka_log.cleaner.decision import (
        BatchDecision,
        BlockDecisions,
        PieceDecisions,
        RecordFilter,
    )
    from kafka_log.log.unified_log import PartitionLog

    Int64s = npt.NDArray[np.int64]


class Witness(Protocol):
    """Sees what is decided. Arrays and pieces are good only until the call returns."""

    @property
    def is_ordered(self) -> bool:
        """Whether calls must come in the order of the log; else they come from several threads."""
        ...

    def on_round(self, log: PartitionLog) -> None:
        """Before the groups of a round are rewritten."""

    def on_segment(self, segment: CleanableSegment, record_filter: RecordFilter) -> None:
        """Before a segment is filtered."""

    def on_piece(self, piece: Piece, decisions: BlockDecisions, records: PieceDecisions) -> None:
        """Batches decided on by columns.

        `decisions` are those on the piece's batches, `records` those on its rows. Batches with
        `piece.by_rows` are among them so that rows can be counted, but `on_batch` reports them.
        """

    def on_batch(
        self,
        batch: AnyBatch,
        decision: BatchDecision,
        records: Sequence[Record],
        reasons: Sequence[int],
        latest_of: Sequence[int],
    ) -> None:
        """A batch decided on by rows, with a reason and the latest offset of the key per record.

        All three are empty if its records were not looked at.
        """


_counting = threading.Lock()


class Removals:
    """A witness that counts removed records by cause; `following` is called after it."""

    def __init__(self, following: Witness | None = None) -> None:
        self._next = following
        self._removed = Removed()

    def add(self, removed: Removed) -> None:
        """Add what was counted elsewhere, or on one of several threads."""
        with _counting:
            self._removed += removed

    def take(self) -> Removed:
        """Return what was counted since the last call."""
        taken, self._removed = self._removed, Removed()
        return taken

    @property
    def is_ordered(self) -> bool:
        return self._next is not None and self._next.is_ordered

    def on_round(self, log: PartitionLog) -> None:
        if self._next is not None:
            self._next.on_round(log)

    def on_segment(self, segment: CleanableSegment, record_filter: RecordFilter) -> None:
        if self._next is not None:
            self._next.on_segment(segment, record_filter)

    def on_piece(self, piece: Piece, decisions: BlockDecisions, records: PieceDecisions) -> None:
        is_dropped = (decisions.reasons == BATCH_DROPPED) & ~piece.by_rows
        unread = int(np.diff(piece.edges)[is_dropped].sum()) if is_dropped.any() else 0
        self._count(np.bincount(records.reasons, minlength=CODES), unread)
        if self._next is not None:
            self._next.on_piece(piece, decisions, records)

    def on_batch(
        self,
        batch: AnyBatch,
        decision: BatchDecision,
        records: Sequence[Record],
        reasons: Sequence[int],
        latest_of: Sequence[int],
    ) -> None:
        if decision.record_reason != RECORD_BY_RECORD and isinstance(batch, RecordBatch):
            count = batch.header.record_count  # its records may not have been read
            occurrences = np.zeros(CODES, np.int64)
            occurrences[decision.record_reason] = count
            self._count(occurrences, count if decision.is_dropped else 0)
        elif max(reasons, default=0) >= REMOVED_FROM:
            self._count(np.bincount(np.array(reasons, np.int64), minlength=CODES), 0)
        if self._next is not None:
            self._next.on_batch(batch, decision, records, reasons, latest_of)

    def _count(self, occurrences: Int64s, unread: int) -> None:
        removed = Removed(**removed_counts(occurrences), unread=unread)
        if removed.total:
            self.add(removed)
