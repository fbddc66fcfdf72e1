"""Follows transactions batch by batch; aborted ones are known beforehand, from the index.

A marker may be removed if no batch of its transaction was read. An aborted transaction of which a
batch was read gets the same entry in the index of the cleaned segment.

Mirrors CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from kafka_format.batch import RecordBatch
from kafka_format.control import ControlRecordType, decode_control_key
from kafka_format.errors import FormatError
from kafka_log.producers.append import first_control_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_format.log_file import AnyBatch
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.indexes.aborted_transactions import TransactionIndex


class _Aborted:
    __slots__ = ("txn", "was_observed")

    def __init__(self, txn: AbortedTransaction) -> None:
        self.txn = txn
        self.was_observed = False


class CleanedTransactionMetadata:
    """Carried through all groups of a round; the cleaned index changes with the group."""

    def __init__(self) -> None:
        self.cleaned_index: TransactionIndex | None = None
        self.held: list[AbortedTransaction] | None = None
        """If set, entries for the cleaned index are collected here, and its owner writes them."""
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []  # a heap by first offset
        self._added = 0
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()

    def add_aborted_transactions(self, aborted: Iterable[AbortedTransaction]) -> None:
        for txn in aborted:
            self._added += 1
            heapq.heappush(self._waiting, (txn.first_offset, self._added, txn))

    def hold(self) -> list[AbortedTransaction]:
        """Collect entries for the cleaned index from now on; return their list."""
        self.held = []
        return self.held

    def on_batch_read(self, batch: AnyBatch) -> bool:
        """Return whether its records were aborted, and are removed. Not for control batches."""
        self.consume_up_to(batch.header.last_offset)
        if not isinstance(batch, RecordBatch) or not batch.header.is_transactional:
            return False
        return self.on_transactional_batch_read(batch.header.producer_id)

    def on_transactional_batch_read(self, producer_id: int) -> bool:
        """Do as on_batch_read, after `consume_up_to` with its last offset."""
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        aborted.was_observed = True
        return True

    def on_control_batch_read(self, batch: RecordBatch) -> bool:
        """Return whether it may be removed: its transaction or its record is gone."""
        self.consume_up_to(batch.header.last_offset)
        record = first_control_record(batch)
        if record is None:
            return True
        producer_id = batch.header.producer_id
        try:
            type_ = decode_control_key(record.key).type
        except FormatError as error:
            raise error.moved(batch.path, batch.position) from None
        if type_ == ControlRecordType.COMMIT:
            if producer_id not in self._committed:
                return True
            self._committed.remove(producer_id)
            return False
        return type_ == ControlRecordType.ABORT and self._end_aborted(producer_id)

    def _end_aborted(self, producer_id: int) -> bool:
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or not aborted.was_observed:
            return True
        if self.held is not None:
            self.held.append(aborted.txn)
        elif self.cleaned_index is not None:
            self.cleaned_index.append(aborted.txn)
        return False

    def consume_up_to(self, offset: int) -> None:
        """Begin the aborted transactions whose first offset is not after `offset`."""
        while self._waiting and self._waiting[0][0] <= offset:
            txn = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(txn.producer_id, _Aborted(txn))
