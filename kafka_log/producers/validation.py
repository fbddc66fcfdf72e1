"""Check what an append would do to the producers of a log, before it is written.

    duplicate      a client's batch that is already in the log: it is answered, not written
    refused        an older epoch, a sequence out of order, an unverified transaction
    accepted       the producers that change, and the transactions that end

Mirrors UnifiedLog.analyzeAndValidateProducerState and updateProducers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_format.batch import RecordBatch
from kafka_log.appends.origin import AppendOrigin
from kafka_log.errors import InvalidTransactionStateError
from kafka_log.producers.append import TV_UNKNOWN, ProducerAppendInfo
from kafka_log.producers.entry import SENTINEL, BatchMetadata, CompletedTxn, VerificationGuard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_format.log_file import AnyBatch
    from kafka_log.producers.producer_state import ProducerStateManager


class ProducerValidation(NamedTuple):
    """The arguments for `update` and `complete_txn` after the append is written."""

    updated_producers: dict[int, ProducerAppendInfo]
    completed_txns: list[CompletedTxn]
    duplicate: BatchMetadata | None = None


def analyze_and_validate_producer_state(
    manager: ProducerStateManager,
    batches: Iterable[AnyBatch],
    origin: AppendOrigin,
    request_verification_guard: VerificationGuard = SENTINEL,
    transaction_version: int = TV_UNKNOWN,
) -> ProducerValidation:
    """Check the batches of an append.

    Verifications end here, even if a later batch makes the append fail.
    """
    updated: dict[int, ProducerAppendInfo] = {}
    completed_txns: list[CompletedTxn] = []
    for batch in batches:
        if not isinstance(batch, RecordBatch) or batch.header.producer_id < 0:
            continue
        if origin is AppendOrigin.CLIENT:
            entry = manager.last_entry(batch.header.producer_id)
            duplicate = None if entry is None else entry.find_duplicate_batch(batch.header)
            if duplicate is not None:
                return ProducerValidation(updated, completed_txns, duplicate)
        if origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
            _check_transaction(manager, batch, request_verification_guard)
        completed = update_producers(manager, batch, updated, origin, transaction_version)
        if completed is not None:
            completed_txns.append(completed)
    return ProducerValidation(updated, completed_txns)


def _check_transaction(
    manager: ProducerStateManager, batch: RecordBatch, guard: VerificationGuard
) -> None:
    """Check that the coordinator has verified a new transaction. Later batches need no check."""
    header = batch.header
    producer_id, epoch = header.producer_id, header.producer_epoch
    if not header.is_transactional or manager.has_ongoing_transaction(producer_id, epoch):
        return
    manager.check_epoch_not_older(producer_id, epoch)
    is_required = manager.config.transaction_partition_verification_enable
    if header.is_control or not is_required:
        return
    if not manager.verification_guard(producer_id).verify(guard):
        raise InvalidTransactionStateError(
            f"{manager.topic_partition}, offset {header.base_offset}: a transactional batch of "
            f"producer {producer_id}, expected that its transaction is open or was verified"
        )


def update_producers(
    manager: ProducerStateManager,
    batch: RecordBatch,
    producers: dict[int, ProducerAppendInfo],
    origin: AppendOrigin,
    transaction_version: int = TV_UNKNOWN,
) -> CompletedTxn | None:
    """Add a batch to `producers`, the changes of the append."""
    header = batch.header
    producer_id = header.producer_id
    append_info = producers.get(producer_id)
    if append_info is None:
        append_info = producers[producer_id] = manager.prepare_update(producer_id, origin)
    completed = append_info.append(batch, transaction_version)
    if header.is_transactional:
        manager.end_verification(producer_id, header.producer_epoch, is_control=header.is_control)
    return completed
