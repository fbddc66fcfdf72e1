"""Whether a batch stays, and each record in it.

    batch    DELETE         nothing of it is looked at
             DELETE_EMPTY   goes with its last record
             RETAIN_EMPTY   stays as a bare header: its producer's last one, or (since 4.0) the
                            round's
    record   stays if it lies behind what the map covers; else it needs a key, no later record of
             that key, and a value (or a delete horizon that has not come yet)

Mirrors the RecordFilter of Cleaner.cleanInto and Cleaner.shouldRetainRecord.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.batch import NO_PRODUCER_ID, RecordBatch
from kafka_log.cleaner.offset_map import OffsetMap
from kafka_log.cleaner.pieces import are_special
from kafka_log.cleaner.releases import KAFKA_4_3
from kafka_log.cleaner.write_kernels import DELETE, DELETE_EMPTY, RETAIN_EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.offset_map import LatestOffsets
    from kafka_log.cleaner.pieces import Block
    from kafka_log.cleaner.releases import CleanerRules
    from kafka_log.cleaner.transactions import CleanedTransactionMetadata
    from kafka_log.log import PartitionLog

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]
    Bools = npt.NDArray[np.bool_]

_TRANSACTIONAL = 0x10
_DELETE_HORIZON = 0x40
_NO_OFFSET = 1 - 2**63
"""Where no batch ends."""


class LastRecord(NamedTuple):
    """Where an active producer is: its last data, or without any the epoch of its marker."""

    last_data_offset: int | None
    producer_epoch: int


class BatchRetention(Enum):
    DELETE = "delete"
    RETAIN_EMPTY = "retain empty"
    DELETE_EMPTY = "delete empty"


class BatchVerdict(NamedTuple):
    retention: BatchRetention
    discards_records: bool
    is_marker_of_empty_transaction: bool


_VERDICTS = {
    (fate, discards): BatchVerdict(retention, bool(discards), False)
    for fate, retention in (
        (DELETE_EMPTY, BatchRetention.DELETE_EMPTY),
        (RETAIN_EMPTY, BatchRetention.RETAIN_EMPTY),
        (DELETE, BatchRetention.DELETE),
    )
    for discards in (0, 1)
}
"""By numbers, of batches that are not special."""


@dataclass(slots=True)
class Decided:
    """What becomes of the batches of a block, told in the order of the log."""

    fates: Uint8s
    """Of each; what is said of a special one counts for nothing here."""
    discards: Uint8s
    special: dict[int, BatchVerdict]
    """Of control batches, and of those of magic 0 and 1."""
    aborted: dict[int, AbortedTransaction]
    """Transactions for the index, by the batch that is the marker."""
    problem: tuple[int, Exception] | None = None
    """A batch of which nothing can be told, and so of none behind it."""

    def __len__(self) -> int:
        return len(self.fates)

    def on(self, batch: int) -> BatchVerdict:
        special = self.special.get(batch)
        return special or _VERDICTS[int(self.fates[batch]), int(self.discards[batch])]

    def part(self, first: int, count: int) -> Decided:
        """Of some of the batches, numbered anew."""
        some = slice(first, first + count)
        special = {
            i - first: each for i, each in self.special.items() if first <= i < first + count
        }
        return Decided(self.fates[some], self.discards[some], special, {})


class Verdicts:
    """The judge of one source segment."""

    def __init__(
        self,
        latest: OffsetMap | LatestOffsets,
        transactions: CleanedTransactionMetadata,
        last_records: Mapping[int, LastRecord],
        *,
        upper_bound_offset: int,
        current_time: int,
        retains_legacy_deletes: bool,
        rules: CleanerRules = KAFKA_4_3,
    ) -> None:
        self._latest = latest
        self.transactions = transactions
        self._last_records = last_records
        self.rules = rules
        is_kept = rules.keeps_last_batch_of_round
        self._upper_bound_offset = upper_bound_offset if is_kept else _NO_OFFSET
        self._current_time = current_time
        self._retains_legacy_deletes = retains_legacy_deletes
        known = [(i, each.last_data_offset) for i, each in sorted(last_records.items())]
        self._producers = np.array([i for i, last in known if last is not None], np.int64)
        self._data_ends = np.array([last for _, last in known if last is not None], np.int64)

    def on_batch(self, batch: AnyBatch) -> BatchVerdict:
        """To be asked of every batch, in order: transactions are followed on the way."""
        is_control = isinstance(batch, RecordBatch) and batch.header.is_control
        if isinstance(batch, RecordBatch) and is_control:
            can_discard = self.transactions.on_control_batch_read(batch)
            horizon = batch.header.delete_horizon_ms
            discards = can_discard and horizon is not None and horizon <= self._current_time
        else:
            discards = can_discard = self.transactions.on_batch_read(batch)
        if self._is_last_of_producer(batch) or self._is_last_of_round(batch):
            retention = BatchRetention.RETAIN_EMPTY
        else:
            retention = BatchRetention.DELETE if discards else BatchRetention.DELETE_EMPTY
        return BatchVerdict(retention, discards, can_discard and is_control)

    def on_data_batches(
        self, batches: BatchColumns, first: int, last: int
    ) -> tuple[Uint8s, Uint8s]:
        """As on_batch, for some of magic 2 in a row, none a control batch: fates, and discards."""
        some = slice(first, last)
        last_offset = batches.last_offset[some]
        discards = np.zeros(last - first, np.uint8)
        met = np.maximum.accumulate(last_offset)
        is_transactional = batches.attributes[some] & _TRANSACTIONAL != 0
        for i in np.flatnonzero(is_transactional).tolist():
            self.transactions.consume_up_to(int(met[i]))
            producer_id = int(batches.producer_id[first + i])
            discards[i] = self.transactions.on_transactional_batch_read(producer_id)
        self.transactions.consume_up_to(int(met[-1]))
        stays = last_offset == self._upper_bound_offset - 1
        if len(self._producers):
            stays |= self._end_with_producer(batches.producer_id[some], last_offset)
        fates = np.where(stays, RETAIN_EMPTY, np.where(discards, DELETE, DELETE_EMPTY))
        return fates.astype(np.uint8), discards

    def on_block(self, block: Block) -> Decided:
        """As on_batch, for all of a block that can be reached."""
        batches, held = block.batches, self.transactions.hold()
        fates, discards = np.zeros((2, len(batches)), np.uint8)
        decided = Decided(fates, discards, {}, {})
        first = 0
        try:
            for stop in [*np.flatnonzero(are_special(batches)).tolist(), len(batches)]:
                if stop > first:
                    some = slice(first, stop)
                    fates[some], discards[some] = self.on_data_batches(batches, first, stop)
                if stop < len(batches):
                    decided.special[stop] = self.on_batch(block.batch(stop))
                    if held:
                        decided.aborted[stop] = held.pop()
                first = stop + 1
        except Exception as error:  # noqa: BLE001  # it is raised by who reaches the batch
            decided.problem = stop, error
        finally:
            self.transactions.held = None
        return decided

    def _end_with_producer(self, producer_id: Int64s, last_offset: Int64s) -> Bools:
        at = np.searchsorted(self._producers, producer_id)
        at[at == len(self._producers)] = 0
        is_known = (self._producers[at] == producer_id) & (producer_id > NO_PRODUCER_ID)
        is_last: Bools = is_known & (self._data_ends[at] == last_offset)
        return is_last

    def which_retain_deletes(self, batches: BatchColumns) -> Uint8s:
        """As retains_deletes, of each."""
        has_none = batches.attributes & _DELETE_HORIZON == 0
        retains = has_none | (self._current_time < batches.base_timestamp)
        legacy = self._retains_legacy_deletes
        return np.where(batches.is_legacy, legacy, retains).astype(np.uint8)

    def _is_last_of_producer(self, batch: AnyBatch) -> bool:
        if not isinstance(batch, RecordBatch) or batch.header.producer_id <= NO_PRODUCER_ID:
            return False
        header = batch.header
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _is_last_of_round(self, batch: AnyBatch) -> bool:
        """So that a log does not forget where its cleaned part ends."""
        return batch.header.next_offset == self._upper_bound_offset

    def retained(
        self,
        batch: AnyBatch,
        verdict: BatchVerdict,
        records: list[Record],
        latest_of: Sequence[int] | None = None,
    ) -> tuple[list[Record], int]:
        """Those of a batch's records that stay, and how many go because they have no key.

        `latest_of` their keys, where that is known.
        """
        if verdict.discards_records:
            return [], 0
        if isinstance(batch, RecordBatch) and batch.header.is_control:
            return records, 0
        retains_deletes = self.retains_deletes(batch)
        latest = self._latest.latest_offset
        kept, without_key = [], 0
        for i, record in enumerate(records):
            if record.offset > latest:
                kept.append(record)
            elif record.key is None:
                without_key += 1
            elif record.value is not None or retains_deletes:
                known = self._known(record.key) if latest_of is None else latest_of[i]
                if record.offset >= known:
                    kept.append(record)
        return kept, without_key

    def _known(self, key: bytes) -> int:
        assert isinstance(self._latest, OffsetMap)  # others are asked for columns
        return self._latest.get(key)

    def retains_deletes(self, batch: AnyBatch) -> bool:
        if not isinstance(batch, RecordBatch):
            return self._retains_legacy_deletes
        horizon = batch.header.delete_horizon_ms
        return horizon is None or self._current_time < horizon


def last_records_of_active_producers(log: PartitionLog) -> dict[int, LastRecord]:
    """By producer id, of the whole log: the active segment counts too."""
    return {
        producer_id: LastRecord(
            entry.last_data_offset if entry.last_data_offset >= 0 else None, entry.producer_epoch
        )
        for producer_id, entry in log.producer_state_manager.active_producers.items()
    }
