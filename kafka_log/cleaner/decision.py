"""Decides on each batch, and on each record in it: one reason code (reasons.py) for each.

    batch    reason          what happens if no record is left: the header is kept
                             (EMPTY_BATCH_KEPT_…), the batch is removed (EMPTY_BATCH_REMOVED), or
                             its records are not even read (BATCH_DROPPED)
             record_reason   the decision on all its records (ABORTED, MARKER_…), or
                             RECORD_BY_RECORD
    record   it is kept if its offset is after the last that the map covers; else it needs a key, no
             later record with that key, and a value (or a delete horizon in the future)

Each decision is one scalar function, marked as a kernel. Rows call it as plain Python; columns
call it in a compiled loop (`decide_rows`, `decide_batches`).

Mirrors the RecordFilter of Cleaner.cleanInto and Cleaner.shouldRetainRecord.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_format.attributes import DELETE_HORIZON, TRANSACTIONAL
from kafka_format.batch import NO_PRODUCER_ID, RecordBatch
from kafka_format.columnar.compilation import Kernels
from kafka_format.columnar.kernels import (
    ATTRIBUTES,
    BASE_TIMESTAMP,
    KEY_LENGTH,
    MAGIC,
    OFFSET,
    VALUE_LENGTH,
)
from kafka_format.control import ControlRecordType, decode_control_key
from kafka_format.errors import FormatError
from kafka_format.record import wrap_int64
from kafka_log.cleaner.columns.blocks import are_special
from kafka_log.cleaner.reasons import BY_CODE, REMOVED_FROM, Reason
from kafka_log.cleaner.releases import KAFKA_4_3

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import SimpleNamespace

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.window import Scratch
    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.cleaner import Round
    from kafka_log.cleaner.columns.blocks import Block, BlockPiece
    from kafka_log.cleaner.offset_map import LatestOffsets
    from kafka_log.cleaner.releases import CleanerRules
    from kafka_log.log.unified_log import PartitionLog

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

# Codes as kernels compare them.
LATEST = Reason.LATEST.code
KEY_NOT_DIRTY = Reason.KEY_NOT_DIRTY.code
SUPERSEDED = Reason.SUPERSEDED.code
TOMBSTONE_GETS_HORIZON = Reason.TOMBSTONE_GETS_HORIZON.code
TOMBSTONE_IN_HORIZON = Reason.TOMBSTONE_IN_HORIZON.code
TOMBSTONE_PAST_HORIZON = Reason.TOMBSTONE_PAST_HORIZON.code
TOMBSTONE_SUPERSEDED = Reason.TOMBSTONE_SUPERSEDED.code
TOMBSTONE_OF_YOUNG_SEGMENT = Reason.TOMBSTONE_OF_YOUNG_SEGMENT.code
TOMBSTONE_OF_OLD_SEGMENT = Reason.TOMBSTONE_OF_OLD_SEGMENT.code
NO_KEY = Reason.NO_KEY.code
AFTER_MAP = Reason.AFTER_MAP.code
ABORTED = Reason.ABORTED.code
MARKER_KEPT = Reason.MARKER_KEPT.code
MARKER_GETS_HORIZON = Reason.MARKER_GETS_HORIZON.code
MARKER_IN_HORIZON = Reason.MARKER_IN_HORIZON.code
MARKER_PAST_HORIZON = Reason.MARKER_PAST_HORIZON.code
CONTROL_KEPT = Reason.CONTROL_KEPT.code
EMPTY_BATCH_KEPT_LAST_OF_PRODUCER = Reason.EMPTY_BATCH_KEPT_LAST_OF_PRODUCER.code
EMPTY_BATCH_KEPT_END_OF_ROUND = Reason.EMPTY_BATCH_KEPT_END_OF_ROUND.code
EMPTY_BATCH_REMOVED = Reason.EMPTY_BATCH_REMOVED.code
BATCH_DROPPED = Reason.BATCH_DROPPED.code

RECORD_BY_RECORD = 255
"""In place of a batch's record reason: each record has its own."""
BY_ROWS = 254
"""In place of a record's reason in columns: its batch is decided on by rows."""

# Columns of `counts`, per batch.
RECORDS_KEPT = 0
NULL_VALUES_KEPT = 1
WITHOUT_KEY = 2
COUNT_FIELDS = 3

_NO_OFFSET = 1 - 2**63
"""An offset at which no batch ends."""
_NO_DATA = -1
_MARKERS = (ControlRecordType.COMMIT, ControlRecordType.ABORT)

kernel = Kernels()


@cache
def load() -> SimpleNamespace:
    """Return the compiled kernels; rows call the plain functions of this module."""
    return kernel.compiled(globals())


# ------------------------------------------------------------------------ the scalar decisions


class Limits(NamedTuple):
    """The values that decisions on one segment compare with."""

    map_end_offset: int
    """The last offset that the offset map covers."""
    current_time: int
    legacy_tombstone_reason: int
    """For a tombstone of magic 0 or 1, which has no delete horizon."""
    round_end_offset: int
    """The last batch of the round ends before it; _NO_OFFSET if that one is not kept."""


class ActiveProducers(NamedTuple):
    """The last record of each active producer, sorted by producer id."""

    producer_id: Int64s
    last_data_offset: Int64s
    """-1 for a producer that has written only markers."""
    producer_epoch: Int64s


@kernel
def is_past_horizon(has_horizon: bool, horizon: int, current_time: int) -> bool:
    return has_horizon and horizon <= current_time


@kernel
def needs_horizon(has_horizon: bool, null_values_kept: int) -> bool:
    """Return whether a batch gets a delete horizon: it keeps a null value and has none yet."""
    return null_values_kept > 0 and not has_horizon


@kernel
def tombstone_reason(
    is_legacy: bool, has_horizon: bool, horizon: int, current_time: int, legacy_reason: int
) -> int:
    """Decide on the tombstones of a batch whose keys have no later record."""
    if is_legacy:
        return legacy_reason
    if not has_horizon:
        return TOMBSTONE_GETS_HORIZON
    if is_past_horizon(has_horizon, horizon, current_time):
        return TOMBSTONE_PAST_HORIZON
    return TOMBSTONE_IN_HORIZON


@kernel
def record_reason(
    offset: int,
    key_length: int,
    value_length: int,
    latest_of_key: int,
    map_end_offset: int,
    tombstone: int,
) -> int:
    """Decide on one data record. `latest_of_key` is -1 if the map does not have its key."""
    if offset > map_end_offset:
        return AFTER_MAP
    if key_length < 0:
        return NO_KEY
    if latest_of_key > offset:
        return TOMBSTONE_SUPERSEDED if value_length < 0 else SUPERSEDED
    if value_length < 0:
        return tombstone
    return KEY_NOT_DIRTY if latest_of_key < 0 else LATEST


@kernel
def marker_reason(can_discard: bool, has_horizon: bool, horizon: int, current_time: int) -> int:
    """Decide on a control batch; `can_discard` if its transaction has no batch left."""
    if not can_discard:
        return MARKER_KEPT
    if not has_horizon:
        return MARKER_GETS_HORIZON
    if is_past_horizon(has_horizon, horizon, current_time):
        return MARKER_PAST_HORIZON
    return MARKER_IN_HORIZON


@kernel
def batch_reason(is_last_of_round: bool, is_last_of_producer: bool, of_records: int) -> int:
    """Decide what happens to a batch if none of its records is left."""
    if is_last_of_round:
        return EMPTY_BATCH_KEPT_END_OF_ROUND
    if is_last_of_producer:
        return EMPTY_BATCH_KEPT_LAST_OF_PRODUCER
    if of_records in (ABORTED, MARKER_PAST_HORIZON):
        return BATCH_DROPPED
    return EMPTY_BATCH_REMOVED


@kernel
def ends_producer(
    producers: Any, producer_id: int, last_offset: int, is_control: bool, producer_epoch: int
) -> bool:
    """Return whether a batch is the last of an active producer, whose sequence its header keeps."""
    if producer_id <= NO_PRODUCER_ID:
        return False
    at = np.searchsorted(producers.producer_id, producer_id)
    if at == len(producers.producer_id) or producers.producer_id[at] != producer_id:
        return False
    if producers.last_data_offset[at] != _NO_DATA:
        return producers.last_data_offset[at] == last_offset  # type: ignore[no-any-return]
    return is_control and producers.producer_epoch[at] == producer_epoch


# ------------------------------------------------------------------------- loops over columns


class PieceArrays(NamedTuple):
    """Batches and records of a piece, as kernels take them."""

    table: Int64s
    """Fields of batch headers."""
    longs: Int64s
    ints: npt.NDArray[np.int32]
    edges: Int64s
    """The rows of batch i are those from edges[i] to edges[i + 1]."""


@kernel
def decide_rows(
    piece: Any, latest_of: Any, record_reasons: Any, limits: Any, reasons: Any, counts: Any
) -> None:
    """Decide on every record of a piece, into `reasons` and, per batch, `counts`."""
    table = piece.table
    longs = piece.longs
    ints = piece.ints
    edges = piece.edges
    for batch in range(edges.shape[0] - 1):
        if record_reasons[batch] != RECORD_BY_RECORD:
            for row in range(edges[batch], edges[batch + 1]):
                reasons[row] = record_reasons[batch]
            continue
        tombstone = tombstone_reason(
            table[MAGIC, batch] < 2,
            (table[ATTRIBUTES, batch] & DELETE_HORIZON) != 0,
            table[BASE_TIMESTAMP, batch],
            limits.current_time,
            limits.legacy_tombstone_reason,
        )
        kept = 0
        null_values = 0
        without_key = 0
        for row in range(edges[batch], edges[batch + 1]):
            value_length = ints[VALUE_LENGTH, row] + 0
            reason = record_reason(
                longs[OFFSET, row],
                ints[KEY_LENGTH, row] + 0,
                value_length,
                latest_of[row],
                limits.map_end_offset,
                tombstone,
            )
            reasons[row] = reason
            if reason < REMOVED_FROM:
                kept += 1
                if value_length < 0:
                    null_values += 1
            elif reason == NO_KEY:
                without_key += 1
        counts[batch, RECORDS_KEPT] = kept
        counts[batch, NULL_VALUES_KEPT] = null_values
        counts[batch, WITHOUT_KEY] = without_key


@kernel
def decide_batches(
    producer_id: Any,
    last_offset: Any,
    producers: Any,
    round_end_offset: int,
    record_reasons: Any,
    reasons: Any,
) -> None:
    """Decide on batches of magic 2 with data, into `reasons`."""
    for batch in range(reasons.shape[0]):
        reasons[batch] = batch_reason(
            last_offset[batch] == round_end_offset - 1,
            ends_producer(producers, producer_id[batch], last_offset[batch], False, 0),
            record_reasons[batch],
        )


# ------------------------------------------------------------------------------------- results


class BatchDecision(NamedTuple):
    """The decision on one batch, by codes."""

    reason: int
    """What happens if no record is left."""
    record_reason: int
    """The decision on all its records, or RECORD_BY_RECORD."""

    @property
    def is_dropped(self) -> bool:
        """Whether its records are not even read."""
        return self.reason == BATCH_DROPPED

    @property
    def is_kept_empty(self) -> bool:
        return self.reason < REMOVED_FROM

    def reason_without_records(self, records: int) -> Reason | None:
        """Return why it is kept or removed, given that none of its `records` is kept.

        None if the reasons of its records already say it.
        """
        if self.is_kept_empty:
            return BY_CODE[self.reason]
        if not records:
            return Reason.EMPTY_BATCH_REMOVED
        return Reason.BATCH_DROPPED if self.is_dropped else None


@dataclass(slots=True)
class BlockDecisions:
    """The decisions on the batches of a block, in the order of the log."""

    reasons: Uint8s
    """One per batch; those of special batches are not set."""
    record_reasons: Uint8s
    """One per batch: ABORTED, or RECORD_BY_RECORD."""
    special: dict[int, BatchDecision]
    """Decisions on control batches, and on those of magic 0 and 1."""
    aborted: dict[int, AbortedTransaction]
    """Transactions for the index, by the batch that is the marker."""
    problem: tuple[int, Exception] | None = None
    """The first batch that cannot be decided on; later ones are not decided on either."""

    def __len__(self) -> int:
        return len(self.reasons)

    def batch(self, number: int) -> BatchDecision:
        special = self.special.get(number)
        return special or BatchDecision(int(self.reasons[number]), int(self.record_reasons[number]))

    def part(self, first: int, count: int) -> BlockDecisions:
        """Return the decisions on `count` batches from `first` on, numbered from 0."""
        chosen = slice(first, first + count)
        special = {
            i - first: each for i, each in self.special.items() if first <= i < first + count
        }
        return BlockDecisions(self.reasons[chosen], self.record_reasons[chosen], special, {})


class PieceDecisions(NamedTuple):
    """The decisions on the records of a piece."""

    latest_of: Int64s
    """Per row: the latest offset of its key, -1 if unknown."""
    reasons: Uint8s
    """Per row; BY_ROWS where the batch is decided on by rows."""
    counts: Int64s
    """Per batch: RECORDS_KEPT, NULL_VALUES_KEPT, WITHOUT_KEY."""


# -------------------------------------------------------------------------------- one segment


class LastRecord(NamedTuple):
    """The last data offset of an active producer; without data, the epoch of its marker counts."""

    last_data_offset: int | None
    producer_epoch: int


class RecordFilter:
    """Decides on the batches and records of one source segment."""

    def __init__(
        self,
        this_round: Round,
        last_records: Mapping[int, LastRecord],
        *,
        delete_retention_ms: int,
        retains_legacy_deletes: bool,
        rules: CleanerRules = KAFKA_4_3,
    ) -> None:
        """`retains_legacy_deletes`: whether tombstones of magic 0 and 1 are kept."""
        self._latest = this_round.latest
        self.transactions = this_round.transactions
        self.rules = rules
        self.new_delete_horizon_ms = wrap_int64(this_round.current_time + delete_retention_ms)
        """What this round sets as the delete horizon of batches that get one."""
        young = TOMBSTONE_GETS_HORIZON if rules.converts_old_magics else TOMBSTONE_OF_YOUNG_SEGMENT
        self.limits = Limits(
            this_round.latest.latest_offset,
            this_round.current_time,
            young if retains_legacy_deletes else TOMBSTONE_OF_OLD_SEGMENT,
            this_round.end_offset if rules.keeps_last_batch_of_round else _NO_OFFSET,
        )
        self._producers = _sorted_by_id(last_records)

    # -------------------------------------------------------------------------------- batches

    def decide_batch(self, batch: AnyBatch) -> BatchDecision:
        """Decide on one batch. Call it for every batch in order: it follows transactions."""
        is_control, producer_id, epoch = False, NO_PRODUCER_ID, -1
        if isinstance(batch, RecordBatch):
            header = batch.header
            is_control, producer_id = header.is_control, header.producer_id
            epoch = header.producer_epoch
        if isinstance(batch, RecordBatch) and is_control:
            of_records = marker_reason(
                self.transactions.on_control_batch_read(batch),
                batch.header.has_delete_horizon,
                batch.header.base_timestamp,
                self.limits.current_time,
            )
        else:
            is_aborted = self.transactions.on_batch_read(batch)
            of_records = ABORTED if is_aborted else RECORD_BY_RECORD
        last_offset = batch.header.last_offset
        reason = batch_reason(
            last_offset == self.limits.round_end_offset - 1,
            ends_producer(self._producers, producer_id, last_offset, is_control, epoch),
            of_records,
        )
        return BatchDecision(reason, of_records)

    def decide_block(self, block: Block) -> BlockDecisions:
        """Decide on the batches of a block up to the first error, as `decide_batch` does."""
        batches, held = block.batches, self.transactions.hold()
        reasons, record_reasons = np.zeros((2, len(batches)), np.uint8)
        decisions = BlockDecisions(reasons, record_reasons, {}, {})
        first = 0
        try:
            for stop in [*np.flatnonzero(are_special(batches)).tolist(), len(batches)]:
                if stop > first:
                    span = slice(first, stop)
                    self._decide_data_batches(batches, span, record_reasons[span], reasons[span])
                if stop < len(batches):
                    decisions.special[stop] = self.decide_batch(block.batch(stop))
                    if held:
                        decisions.aborted[stop] = held.pop()
                first = stop + 1
        except Exception as error:  # noqa: BLE001  # it is raised where the batch is reached
            decisions.problem = stop, error
        finally:
            self.transactions.held = None
        return decisions

    def _decide_data_batches(
        self, batches: BatchColumns, span: slice, record_reasons: Uint8s, reasons: Uint8s
    ) -> None:
        """Decide on consecutive batches of magic 2, none a control batch."""
        last_offset, producer_id = batches.last_offset[span], batches.producer_id[span]
        largest = np.maximum.accumulate(last_offset)
        record_reasons[:] = RECORD_BY_RECORD
        is_transactional = batches.attributes[span] & TRANSACTIONAL != 0
        for i in np.flatnonzero(is_transactional).tolist():
            self.transactions.consume_up_to(int(largest[i]))
            if self.transactions.on_transactional_batch_read(int(producer_id[i])):
                record_reasons[i] = ABORTED
        self.transactions.consume_up_to(int(largest[-1]))
        load().decide_batches(
            producer_id,
            last_offset,
            self._producers,
            self.limits.round_end_offset,
            record_reasons,
            reasons,
        )

    # -------------------------------------------------------------------------------- records

    def decide_records(
        self,
        batch: AnyBatch,
        decision: BatchDecision,
        records: Sequence[Record],
        latest_of: Sequence[int],
    ) -> list[int]:
        """Return one reason code per record; `latest_of` are the latest offsets of their keys."""
        if decision.record_reason == MARKER_KEPT:
            return [_control_reason(record) for record in records]
        if decision.record_reason != RECORD_BY_RECORD:
            return [decision.record_reason] * len(records)
        horizon = batch.header.delete_horizon_ms if isinstance(batch, RecordBatch) else None
        tombstone = tombstone_reason(
            not isinstance(batch, RecordBatch),
            horizon is not None,
            0 if horizon is None else horizon,
            self.limits.current_time,
            self.limits.legacy_tombstone_reason,
        )
        return [
            record_reason(
                record.offset,
                -1 if record.key is None else len(record.key),
                -1 if record.value is None else len(record.value),
                latest,
                self.limits.map_end_offset,
                tombstone,
            )
            for record, latest in zip(records, latest_of, strict=True)
        ]

    def decide_piece(
        self, piece: BlockPiece, decisions: BlockDecisions, latest: LatestOffsets, scratch: Scratch
    ) -> PieceDecisions:
        """Decide on the records of a piece, except in batches that are decided on by rows."""
        first = piece.first_batch
        record_reasons = decisions.record_reasons[first : first + len(piece)].copy()
        record_reasons[piece.by_rows] = BY_ROWS
        latest_of = latest.latest_of(piece)
        reasons = scratch.shaped(1, len(piece.records))[0]
        counts = np.zeros((len(piece), COUNT_FIELDS), np.int64)
        records = piece.records
        arrays = PieceArrays(records.batches.table, records.longs, records.ints, piece.edges)
        load().decide_rows(arrays, latest_of, record_reasons, self.limits, reasons, counts)
        return PieceDecisions(latest_of, reasons, counts)

    def latest_of(self, records: Sequence[Record]) -> list[int]:
        """Return the latest offset of each record's key; -1 if the map does not have it."""
        find = self._latest.get  # type: ignore[union-attr]  # others are asked for columns
        return [-1 if record.key is None else find(record.key) for record in records]

    def new_horizon(
        self, batch: AnyBatch, decision: BatchDecision, retained: Sequence[Record]
    ) -> int | None:
        """Return the delete horizon that a batch with these records gets; None if it gets none."""
        null_values = sum(record.value is None for record in retained)
        if decision.record_reason == MARKER_GETS_HORIZON:
            null_values += 1  # a marker is kept for as long as a tombstone
        has_horizon = isinstance(batch, RecordBatch) and batch.header.has_delete_horizon
        return self.new_delete_horizon_ms if needs_horizon(has_horizon, null_values) else None


def _control_reason(record: Record) -> int:
    """Decide on a control record whose transaction, if it ends one, still had batches."""
    try:
        is_marker = decode_control_key(record.key).type in _MARKERS
    except FormatError:
        is_marker = False
    return MARKER_KEPT if is_marker else CONTROL_KEPT


def _sorted_by_id(last_records: Mapping[int, LastRecord]) -> ActiveProducers:
    rows = [
        (
            producer_id,
            _NO_DATA if last.last_data_offset is None else last.last_data_offset,
            last.producer_epoch,
        )
        for producer_id, last in sorted(last_records.items())
    ]
    columns = np.array(rows, np.int64).reshape(len(rows), 3)
    return ActiveProducers(*np.ascontiguousarray(columns.T))


def last_records_of_active_producers(log: PartitionLog) -> dict[int, LastRecord]:
    """Return the last record of each producer of the whole log, the active segment included."""
    return {
        producer_id: LastRecord(
            entry.last_data_offset if entry.last_data_offset >= 0 else None, entry.producer_epoch
        )
        for producer_id, entry in log.producer_state_manager.active_producers.items()
    }
