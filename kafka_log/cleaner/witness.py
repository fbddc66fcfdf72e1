"""Observers of a cleaner: they see each decision, with its reason.

    Witness     the protocol
    Removals    counts removed records by cause

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
    from kafka_log.cleaner.columns.blocks import BlockPiece
    from kafka_log.cleaner.decision import (
        BatchDecision,
        BlockDecisions,
        PieceDecisions,
        RecordFilter,
    )
    from kafka_log.log.unified_log import PartitionLog

    Int64s = npt.NDArray[np.int64]


class Witness(Protocol):
    """Sees each decision. Arrays and pieces are valid only until the call returns."""

    @property
    def is_ordered(self) -> bool:
        """Whether calls must come in the order of the log; else they come from several threads."""
        ...

    def on_round(self, log: PartitionLog) -> None:
        """Called before the groups of a round are rewritten."""

    def on_segment(self, segment: CleanableSegment, record_filter: RecordFilter) -> None:
        """Called before a segment is filtered."""

    def on_piece(
        self, piece: BlockPiece, decisions: BlockDecisions, records: PieceDecisions
    ) -> None:
        """Called with batches that were decided on by columns.

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
        """Called with a batch that was decided on by rows.

        Each record has a reason and the latest offset of its key. All three are empty if the
        records were not read.
        """


_counting = threading.Lock()


class Removals:
    """A witness that counts removed records by cause."""

    is_ordered = False

    def __init__(self) -> None:
        self._removed = Removed()

    def add(self, removed: Removed) -> None:
        """Add what was counted elsewhere, or on one of several threads."""
        with _counting:
            self._removed += removed

    def take(self) -> Removed:
        """Return what was counted since the last call."""
        taken, self._removed = self._removed, Removed()
        return taken

    def on_round(self, log: PartitionLog) -> None: ...

    def on_segment(self, segment: CleanableSegment, record_filter: RecordFilter) -> None: ...

    def on_piece(
        self, piece: BlockPiece, decisions: BlockDecisions, records: PieceDecisions
    ) -> None:
        is_dropped = (decisions.reasons == BATCH_DROPPED) & ~piece.by_rows
        unread = int(np.diff(piece.edges)[is_dropped].sum()) if is_dropped.any() else 0
        self._count(np.bincount(records.reasons, minlength=CODES), unread)

    def on_batch(
        self,
        batch: AnyBatch,
        decision: BatchDecision,
        records: Sequence[Record],  # noqa: ARG002  # the protocol has it
        reasons: Sequence[int],
        latest_of: Sequence[int],  # noqa: ARG002
    ) -> None:
        if decision.record_reason != RECORD_BY_RECORD and isinstance(batch, RecordBatch):
            count = batch.header.record_count  # its records may not have been read
            occurrences = np.zeros(CODES, np.int64)
            occurrences[decision.record_reason] = count
            self._count(occurrences, count if decision.is_dropped else 0)
        elif max(reasons, default=0) >= REMOVED_FROM:
            self._count(np.bincount(np.array(reasons, np.int64), minlength=CODES), 0)

    def _count(self, occurrences: Int64s, unread: int) -> None:
        removed = Removed(**removed_counts(occurrences), unread=unread)
        if removed.total:
            self.add(removed)
