"""Replay of producers over columns of batch headers: no object a batch, markers read on demand.

Two ways, as in Kafka; they differ in when a transaction counts as complete, and so in the last
stable offset that goes into a transaction index, and in what an epoch that goes back leaves of the
window:

    replay_batches    each batch is applied before the next (LogSegment.recover)
    ProducerReplay    all batches, then all producers, then all completed transactions
                      (rebuildProducerState, a follower's append)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kafka_format.batch import decode_batch
from kafka_format.columnar.records import Damage
from kafka_format.errors import FormatError
from kafka_format.primitives import Buffer
from kafka_log.append_origin import AppendOrigin
from kafka_log.producer_entry import CompletedTxn

if TYPE_CHECKING:
    from kafka_format.batch import RecordBatch
    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.producer_append import ProducerAppendInfo
    from kafka_log.producer_state import ProducerStateManager

BatchReader = Callable[[int, int], Buffer]
"""The bytes at a position of the segment's file, so many: those of one control batch."""
OnCompleted = Callable[[CompletedTxn, int], None]


def replay_batches(
    manager: ProducerStateManager,
    batches: BatchColumns,
    read_batch: BatchReader,
    on_completed: OnCompleted | None = None,
) -> Damage | None:
    """See ProducerStateManager.replay_batches."""
    for index in range(len(batches)):
        if batches.magic[index] < 2:
            continue
        if batches.producer_id[index] >= 0:
            batch = _batch(batches, index, read_batch)
            info = manager.prepare_update(batch.header.producer_id, AppendOrigin.REPLICATION)
            try:
                completed = info.append(batch)
            except FormatError as error:
                return Damage(index, error)
            manager.update(info)
            if completed is not None:
                _complete(manager, completed, on_completed)
        manager.update_map_end_offset(int(batches.last_offset[index]) + 1)
    return None


class ProducerReplay:
    """Batches of one append, or of one read of a segment; `finish` puts them into the state.

    A FormatError of `add` leaves the manager as it was.
    """

    def __init__(self, manager: ProducerStateManager) -> None:
        self._manager = manager
        self._producers: dict[int, ProducerAppendInfo] = {}
        self._completed: list[CompletedTxn] = []

    def add(self, batches: BatchColumns, read_batch: BatchReader) -> None:
        for index in np.flatnonzero(batches.producer_id >= 0).tolist():
            batch = _batch(batches, index, read_batch)
            header = batch.header
            info = self._producers.get(header.producer_id)
            if info is None:
                info = self._manager.prepare_update(header.producer_id, AppendOrigin.REPLICATION)
                self._producers[header.producer_id] = info
            completed = info.append(batch)
            if header.is_transactional:
                self._manager.end_verification(
                    header.producer_id, header.producer_epoch, is_control=header.is_control
                )
            if completed is not None:
                self._completed.append(completed)

    def finish(self, on_completed: OnCompleted | None = None) -> list[CompletedTxn]:
        """The map end offset is the caller's to move."""
        for info in self._producers.values():
            self._manager.update(info)
        for completed in self._completed:
            _complete(self._manager, completed, on_completed)
        return self._completed


def _complete(
    manager: ProducerStateManager, completed: CompletedTxn, on_completed: OnCompleted | None
) -> None:
    if on_completed is not None:
        on_completed(completed, manager.last_stable_offset(completed))
    manager.complete_txn(completed)


def _batch(batches: BatchColumns, index: int, read_batch: BatchReader) -> RecordBatch:
    position, size = int(batches.position[index]), int(batches.size_in_bytes[index])
    batch = decode_batch(read_batch(position, size), path=batches.path)
    batch.position = position
    return batch
