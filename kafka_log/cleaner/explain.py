"""Why each record stays or goes: a witness of the cleaner that makes rows of reason codes.

    explain(log, checkpoint, sink, make_cleaner=…, now_ms=…)

A row is a record, or a batch where there is something to say of the batch itself: it was dropped
whole, or has no records. Rows are columns, some thousand at a time, handed to `sink`; nothing is
held back. All that a round does not come to has rows too, with what keeps the cleaner from it.

    removed rows of all rounds + kept rows of the last = every record that was there

Of the records that a round came to (`Reason.is_decided`), those kept are its `messages_written`,
those by NO_KEY its `invalid_messages_read`, and all but what was dropped with its batch, unread,
its `messages_read`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kafka_format.batch import RecordBatch
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_log.cleaner.cleanable import LimitKind, cleanable_limit, select
from kafka_log.cleaner.cleaner_thread import CleanerThread
from kafka_log.cleaner.decision import RECORDS_KEPT
from kafka_log.cleaner.passes import Passes
from kafka_log.cleaner.reasons import BY_CODE, CODES, IS_KEPT, REMOVED_FROM, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.records import RecordColumns
    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record
    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.cleaner import CleanableSegment, Cleaned, Cleaner
    from kafka_log.cleaner.decision import (
        BatchDecision,
        BlockDecisions,
        PieceDecisions,
        RecordFilter,
    )
    from kafka_log.cleaner.passes import PassCount
    from kafka_log.cleaner.pieces import Piece
    from kafka_log.cleaner.witness import Witness
    from kafka_log.log import PartitionLog
    from kafka_log.segment import LogSegment

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

NONE = -1
_HORIZON, _CONTROL = 0x40, 0x20
_ENOUGH_ROWS = 4096
_NAMES_SUCCESSOR = np.isin(
    np.arange(CODES), [Reason.SUPERSEDED.code, Reason.TOMBSTONE_SUPERSEDED.code]
)


class Unreached(NamedTuple):
    """Why no round came to a part of the log."""

    reason: Reason
    until_ms: int = NONE
    """When that ends; -1 if no clock ends it."""
    producer_id: int = NONE
    """Whose open transaction it is."""


_LIMITS = {
    LimitKind.ACTIVE_SEGMENT: Reason.NOT_CLEANABLE_ACTIVE_SEGMENT,
    LimitKind.OPEN_TRANSACTION: Reason.NOT_CLEANABLE_OPEN_TRANSACTION,
    LimitKind.HIGH_WATERMARK: Reason.NOT_CLEANABLE_HIGH_WATERMARK,
    LimitKind.COMPACTION_LAG: Reason.NOT_CLEANABLE_COMPACTION_LAG,
}


@dataclass(frozen=True, slots=True)
class ReasonRows:
    """Rows of one segment, a column each, good until the sink returns. -1 is null."""

    round_number: int
    """From 1 on."""
    segment: int
    """Base offset of the segment that was read."""
    held: Unreached | None
    """Of rows that no round came to."""
    reason: Uint8s
    """Its code."""
    offset: Int64s
    """-1 of a row that is a batch's."""
    base_offset: Int64s
    last_offset: Int64s
    """Of the batch, as base_offset."""
    position: Int64s
    timestamp: Int64s
    producer_id: Int64s
    record_count: Int64s
    """Of a batch's row: how many it had; -1 of a record's."""
    is_tombstone: Bools
    superseded_by: Int64s
    delete_horizon: Int64s
    """Of tombstones and markers: as stored, or as this round sets it."""
    marker_offset: Int64s
    key_position: Int64s
    key_length: npt.NDArray[np.int32]
    data: Uint8s
    """Where keys lie."""

    def __len__(self) -> int:
        return len(self.reason)

    @property
    def is_kept(self) -> Bools:
        kept: Bools = IS_KEPT[self.reason]
        return kept

    @property
    def is_record(self) -> Bools:
        return self.record_count < 0  # not by the offset: a lying batch has any

    def key(self, row: int) -> bytes | None:
        start, length = int(self.key_position[row]), int(self.key_length[row])
        return None if length < 0 else self.data[start : start + length].tobytes()


class _Rows:
    """Rows of what is judged one by one, until they are enough for columns."""

    def __init__(self) -> None:
        self._numbers: list[tuple[int, ...]] = []
        self._keys = bytearray()

    def __len__(self) -> int:
        return len(self._numbers)

    def add(
        self,
        reason: Reason,
        batch: AnyBatch,
        record: Record | None,
        *,
        record_count: int = NONE,
        superseded_by: int = NONE,
        delete_horizon: int | None = None,
        marker_offset: int = NONE,
    ) -> None:
        header = batch.header
        modern = batch.header if isinstance(batch, RecordBatch) else None
        key = None if record is None else record.key
        self._numbers.append(
            (
                reason.code,
                NONE if record is None else record.offset,
                header.last_offset if modern is None else modern.base_offset,
                header.last_offset,
                batch.position,
                header.max_timestamp if record is None else record.timestamp,
                NONE if modern is None else modern.producer_id,
                record_count,
                int(record is not None and record.value is None),
                superseded_by,
                NONE if delete_horizon is None else delete_horizon,
                marker_offset,
                len(self._keys),
                NONE if key is None else len(key),
            )
        )
        self._keys += key or b""

    def take(self, round_number: int, segment: int, held: Unreached | None) -> ReasonRows:
        columns = np.array(self._numbers, np.int64).T
        data = np.frombuffer(bytes(self._keys), np.uint8)
        self._numbers, self._keys = [], bytearray()
        rest = (columns[0].astype(np.uint8), *columns[1:8], columns[8].astype(np.bool_))
        keys = (columns[12], columns[13].astype(np.int32), data)
        return ReasonRows(*(round_number, segment, held, *rest, *columns[9:12], *keys))


class Explainer:
    """A Witness for all rounds of a log."""

    def __init__(self, sink: Callable[[ReasonRows], None]) -> None:
        self._sink = sink
        self._rows = _Rows()
        self._round = 0
        self._segment = NONE
        self._filter: RecordFilter
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}

    def finish(self) -> None:
        """Hand on what waits."""
        if len(self._rows):
            self._sink(self._rows.take(self._round, self._segment, None))

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

    def on_piece(self, piece: Piece, decisions: BlockDecisions, records: PieceDecisions) -> None:
        is_ours = ~piece.by_rows[piece.records.batch]  # the others come to on_batch
        if is_ours.any():
            rows = self._rows_of(piece, decisions, records)
            self._sink(rows if is_ours.all() else _chosen(rows, np.flatnonzero(is_ours)))
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
                records = ()  # the cleaner did not look at them either
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
        self, piece: Piece, decisions: BlockDecisions, decided: PieceDecisions
    ) -> ReasonRows:
        records, batches = piece.records, piece.records.batches
        of, reasons = records.batch, decided.reasons
        is_tombstone = records.value_length < 0
        has_horizon = (batches.attributes & _HORIZON != 0)[of]
        set_now = np.where(IS_KEPT[reasons], self._filter.new_delete_horizon_ms, NONE)
        horizon = np.where(has_horizon, batches.base_timestamp[of], set_now)
        markers = np.full(len(batches), NONE, np.int64)
        for i in np.flatnonzero(decisions.record_reasons == Reason.ABORTED.code).tolist():
            markers[i] = self._marker_of(piece.batches[i])
        return _columns(
            self._round,
            self._segment,
            None,
            records,
            piece.batches[0].position if piece.batches else 0,
            reasons,
            superseded_by=np.where(_NAMES_SUCCESSOR[reasons], decided.latest_of, NONE),
            delete_horizon=np.where(is_tombstone, horizon, NONE),
            marker_offset=markers[of],
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
        """Return whether a null value or a marker gets one. Magic 0 and 1 have no place for it."""
        if isinstance(batch, RecordBatch) and batch.header.is_control:
            return reason is Reason.MARKER_GETS_HORIZON
        has_place = isinstance(batch, RecordBatch) or self._filter.rules.converts_old_magics
        return reason.is_kept and has_place

    def _add_batch(self, batch: AnyBatch, decision: BatchDecision, records: int) -> None:
        """Add a row for a batch of which no record stays, where their rows do not say it all."""
        reason = decision.reason_without_records(records)
        if reason is not None:
            self._rows.add(reason, batch, None, record_count=records)

    def _marker_of(self, batch: AnyBatch) -> int:
        if not isinstance(batch, RecordBatch):
            return NONE
        firsts, lasts = self._aborted.get(batch.header.producer_id, ((), ()))
        at = bisect_right(firsts, batch.header.last_offset) - 1
        return lasts[at] if at >= 0 else NONE

    # ------------------------------------------------------------------- what was not come to

    def add_rest(self, segment: LogSegment, held: Unreached) -> None:
        """All of a segment that no round came to."""
        self.finish()
        source = cast("BinaryIO", segment.log.reader())
        for records in RecordScan(source, path=segment.log.path, end=segment.size, verify=False):
            reasons = np.full(len(records), held.reason.code, np.uint8)
            none = np.full(len(records), NONE, np.int64)
            is_tombstone = records.value_length < 0
            horizon = np.where(is_tombstone, _horizons(records.batches)[records.batch], NONE)
            if len(records):
                self._sink(
                    _columns(
                        max(1, self._round),
                        segment.base_offset,
                        held,
                        records,
                        int(records.batches.position[0]),
                        reasons,
                        superseded_by=none,
                        delete_horizon=horizon,
                        marker_offset=none,
                    )
                )
            self._add_rest_of_batches(records, segment, held)

    def _add_rest_of_batches(
        self, records: RecordColumns, segment: LogSegment, held: Unreached
    ) -> None:
        batches = records.batches
        counts = np.bincount(records.batch, minlength=len(batches))
        empty = np.flatnonzero(counts == 0)
        if not len(empty):
            return
        none = np.full(len(empty), NONE, np.int64)
        self._sink(
            ReasonRows(
                max(1, self._round),
                segment.base_offset,
                held,
                np.full(len(empty), held.reason.code, np.uint8),
                none,
                batches.base_offset[empty],
                batches.last_offset[empty],
                batches.position[empty],
                batches.max_timestamp[empty],
                batches.producer_id[empty],
                np.maximum(batches.record_count[empty], 0),
                np.zeros(len(empty), np.bool_),
                none,
                none,
                none,
                none,
                none.astype(np.int32),
                np.empty(0, np.uint8),
            )
        )


def _horizons(batches: BatchColumns) -> Int64s:
    has_horizon = (batches.attributes & _HORIZON != 0) & ~batches.is_legacy
    return np.where(has_horizon, batches.base_timestamp, NONE)


def _columns(
    round_number: int,
    segment: int,
    held: Unreached | None,
    records: RecordColumns,
    first_position: int,
    reasons: Uint8s,
    *,
    superseded_by: Int64s,
    delete_horizon: Int64s,
    marker_offset: Int64s,
) -> ReasonRows:
    """`first_position` is where the first batch lies: columns may count from a chunk's start."""
    batches, of = records.batches, records.batch
    shift = first_position - int(batches.position[0]) if len(batches) else 0
    is_control = (batches.attributes & _CONTROL != 0) & ~batches.is_legacy
    return ReasonRows(
        round_number,
        segment,
        held,
        reasons,
        records.offset,
        batches.base_offset[of],
        batches.last_offset[of],
        batches.position[of] + shift,
        records.timestamp,
        np.where(batches.is_legacy, NONE, batches.producer_id)[of],
        np.full(len(reasons), NONE, np.int64),
        (records.value_length < 0) & ~is_control[of],
        superseded_by,
        delete_horizon,
        marker_offset,
        records.key_position,
        records.key_length,
        records.data,
    )


def _chosen(rows: ReasonRows, which: npt.NDArray[np.intp]) -> ReasonRows:
    """Return only those rows; `data` is where it was."""
    fixed = {"round_number", "segment", "held", "data"}
    columns = [each.name for each in fields(rows) if each.name not in fixed]
    chosen: Any = {name: getattr(rows, name)[which] for name in columns}
    return replace(rows, **chosen)


# ------------------------------------------------------------------------------------ a whole log


def explain(
    log: PartitionLog,
    last_clean_offset: int | None,
    sink: Callable[[ReasonRows], None],
    *,
    make_cleaner: Callable[[Witness], Cleaner],
    now_ms: int,
    first_dirty_offset: int | None = None,
    rounds: PassCount = 1,
    only_when_due: bool = False,
) -> list[Cleaned]:
    """Clean a log and explain it; return what each round read and wrote.

    On an overlay nothing is written: that is a dry run. There are as many rounds as asked for
    (passes.py) while something is dirty, however little (unless `only_when_due`). Rows for all
    that the last round did not come to follow at the end.
    """
    explainer = Explainer(sink)
    passes = Passes(rounds, log.files, last_clean_offset, first_dirty_offset)
    done: list[Cleaned] = []
    with make_cleaner(explainer).released() as cleaner:
        thread = CleanerThread(log, cleaner, passes, lambda: now_ms, only_when_due=only_when_due)
        for turn in thread.turns():
            explainer.finish()
            done.append(turn.result())
    cleanable = thread.cleanable or select(log, passes.start, now_ms)
    unreached = Reason.NOT_REACHED if done else Reason.NOT_DIRTY
    if thread.is_not_due and cleanable.cleanable_bytes:
        unreached = Reason.NOT_DUE
    end_offset = done[-1].next_dirty_offset if done else 0
    for segment in log.log_segments:
        if segment.base_offset >= end_offset:
            explainer.add_rest(segment, _why_unreached(cleanable, segment, unreached, now_ms))
    return done


def _why_unreached(
    cleanable: LogToClean, segment: LogSegment, unreached: Reason, now_ms: int
) -> Unreached:
    """Return why no round came to a segment; `unreached` if it is cleanable."""
    if segment.base_offset >= cleanable.log.active_segment.base_offset:
        return Unreached(Reason.NOT_CLEANABLE_ACTIVE_SEGMENT)
    if segment.base_offset < cleanable.first_uncleanable_offset:
        return Unreached(unreached)
    limit = cleanable_limit(cleanable.log, cleanable.first_dirty_offset, now_ms)
    return Unreached(
        _LIMITS[limit.kind],
        NONE if limit.until_ms is None else limit.until_ms,
        NONE if limit.producer_id is None else limit.producer_id,
    )
