"""The witness that turns reason codes into rows while a cleaner works."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, cast

import numpy as np

from kafka_format.batch import RecordBatch
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_log.cleaner.decision import RECORDS_KEPT
from kafka_log.cleaner.explain.rows import (
    NONE,
    RowBuilder,
    RowPlace,
    batch_rows,
    record_rows,
    stored_horizons,
)
from kafka_log.cleaner.reasons import BY_CODE, CODES, IS_KEPT, REMOVED_FROM, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

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
    from kafka_log.cleaner.explain.rows import ReasonRows, Unreached
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.log_segment import LogSegment

_ENOUGH_ROWS = 4096
_NAMES_SUCCESSOR = np.isin(
    np.arange(CODES), [Reason.SUPERSEDED.code, Reason.TOMBSTONE_SUPERSEDED.code]
)


class Explainer:
    """A Witness for all rounds of a log."""

    def __init__(self, sink: Callable[[ReasonRows], None]) -> None:
        self._sink = sink
        self._rows = RowBuilder()
        self._round = 0
        self._segment = NONE
        self._filter: RecordFilter
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}

    def finish(self) -> None:
        """Pass the collected rows to the sink."""
        if len(self._rows):
            self._sink(self._rows.take(RowPlace(self._round, self._segment)))

    # ------------------------------------------------------------------ what a cleaner reports

    @property
    def is_ordered(self) -> bool:
        return True

    def on_round(self, log: PartitionLog) -> None:
        self._round += 1
        ranges = defaultdict(list)
        for txn in log.collect_aborted_transactions(log.log_start_offset, log.log_end_offset):
            ranges[txn.producer_id].append((txn.first_offset, txn.last_offset))
        self._aborted = {
            producer_id: (
                [first for first, _ in sorted(spans)],
                [last for _, last in sorted(spans)],
            )
            for producer_id, spans in ranges.items()
        }

    def on_segment(self, segment: CleanableSegment, record_filter: RecordFilter) -> None:
        self.finish()
        self._filter = record_filter
        self._segment = segment.base_offset

    def on_piece(
        self, piece: BlockPiece, decisions: BlockDecisions, records: PieceDecisions
    ) -> None:
        is_ours = ~piece.by_rows[piece.records.batch]  # on_batch gets the others
        if is_ours.any():
            rows = self._rows_of(piece, decisions, records)
            self._sink(rows if is_ours.all() else rows.chosen(np.flatnonzero(is_ours)))
        is_empty = (records.counts[:, RECORDS_KEPT] == 0) & ~piece.by_rows
        for i in np.flatnonzero(is_empty).tolist():
            count = int(piece.edges[i + 1] - piece.edges[i])
            self._add_batch(piece.batches[i], decisions.batch(i), count)

    def on_batch(
        self,
        batch: AnyBatch,
        decision: BatchDecision,
        records: Sequence[Record],
        reasons: Sequence[int],
        latest_of: Sequence[int],
    ) -> None:
        if decision.is_dropped:
            try:
                records = batch.records()
            except FormatError:
                records = ()  # the cleaner did not read them either
            reasons = [decision.record_reason] * len(records)
            latest_of = [NONE] * len(records)
        for record, code, latest in zip(records, reasons, latest_of, strict=True):
            self._add_record(batch, record, BY_CODE[code], latest)
        if not any(code < REMOVED_FROM for code in reasons):
            self._add_batch(batch, decision, len(records))
        if len(self._rows) >= _ENOUGH_ROWS:
            self.finish()

    # -------------------------------------------------------------------------------- by columns

    def _rows_of(
        self, piece: BlockPiece, decisions: BlockDecisions, decided: PieceDecisions
    ) -> ReasonRows:
        records, batches = piece.records, piece.records.batches
        batch, reasons = records.batch, decided.reasons
        is_tombstone = records.value_length < 0
        stored = stored_horizons(batches)[batch]
        set_now = np.where(IS_KEPT[reasons], self._filter.new_delete_horizon_ms, NONE)
        horizon = np.where(stored == NONE, set_now, stored)
        markers = np.full(len(batches), NONE, np.int64)
        for i in np.flatnonzero(decisions.record_reasons == Reason.ABORTED.code).tolist():
            markers[i] = self._marker_of(piece.batches[i])
        return record_rows(
            RowPlace(self._round, self._segment),
            records,
            reasons,
            first_position=piece.batches[0].position if piece.batches else 0,
            superseded_by=np.where(_NAMES_SUCCESSOR[reasons], decided.latest_of, NONE),
            delete_horizon=np.where(is_tombstone, horizon, NONE),
            marker_offset=markers[batch],
        )

    # ---------------------------------------------------------------------------------- by rows

    def _add_record(self, batch: AnyBatch, record: Record, reason: Reason, latest: int) -> None:
        horizon = batch.header.delete_horizon_ms if isinstance(batch, RecordBatch) else None
        if horizon is None and self._gets_horizon(batch, reason):
            horizon = self._filter.new_delete_horizon_ms
        is_control = isinstance(batch, RecordBatch) and batch.header.is_control
        self._rows.add(
            reason,
            batch,
            record,
            superseded_by=latest if _NAMES_SUCCESSOR[reason.code] else NONE,
            delete_horizon=horizon if is_control or record.value is None else None,
            marker_offset=self._marker_of(batch) if reason is Reason.ABORTED else NONE,
        )

    def _gets_horizon(self, batch: AnyBatch, reason: Reason) -> bool:
        """Return whether a null value or a marker gets one. Magic 0 and 1 cannot have it."""
        if isinstance(batch, RecordBatch) and batch.header.is_control:
            return reason is Reason.MARKER_GETS_HORIZON
        has_place = isinstance(batch, RecordBatch) or self._filter.rules.converts_old_magics
        return reason.is_kept and has_place

    def _add_batch(self, batch: AnyBatch, decision: BatchDecision, records: int) -> None:
        """Add a row for a batch that keeps no record, unless the rows of its records say it."""
        reason = decision.reason_without_records(records)
        if reason is not None:
            self._rows.add(reason, batch, None, record_count=records)

    def _marker_of(self, batch: AnyBatch) -> int:
        if not isinstance(batch, RecordBatch):
            return NONE
        firsts, lasts = self._aborted.get(batch.header.producer_id, ((), ()))
        at = bisect_right(firsts, batch.header.last_offset) - 1
        return lasts[at] if at >= 0 else NONE

    # ------------------------------------------------------------------- what no round reached

    def add_rest(self, segment: LogSegment, unreached: Unreached) -> None:
        """Add rows for a whole segment that no round reached."""
        self.finish()
        place = RowPlace(max(1, self._round), segment.base_offset, unreached)
        source = cast("BinaryIO", segment.log.reader())
        for records in RecordScan(source, path=segment.log.path, end=segment.size, verify=False):
            batches = records.batches
            is_tombstone = records.value_length < 0
            if len(records):
                self._sink(
                    record_rows(
                        place,
                        records,
                        np.full(len(records), unreached.reason.code, np.uint8),
                        first_position=int(batches.position[0]),
                        delete_horizon=np.where(
                            is_tombstone, stored_horizons(batches)[records.batch], NONE
                        ),
                    )
                )
            empty = np.flatnonzero(np.bincount(records.batch, minlength=len(batches)) == 0)
            if len(empty):
                self._sink(batch_rows(place, batches, empty, unreached.reason))
