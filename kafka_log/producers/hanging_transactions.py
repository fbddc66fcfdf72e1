"""Find open transactions that will never end, because their coordinator does not know them.

    kafka-transactions find-hanging, offline. A transaction hangs if it is open for longer than
    allowed, and
        no transactional id has the producer            (expired, or its coordinator's log is lost)
        or the id's transaction does not name this partition   (ended, and the marker is missing)

The coordinator will end a transaction that it knows. From transaction version 2 on, an id's
producer may change while a transaction ends, so its previous and next producer count as well.

The coordinator's side is read from the directories of `__transaction_state`: the last value of each
transactional id. Mirrors TransactionsCommand.FindHangingTransactionsCommand and TransactionState.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka_format.attributes import CONTROL
from kafka_format.coordinator_records import CoordinatorTopic, decode_coordinator_record
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_format.message import Message
from kafka_log.config.log_config import MINUTE_MS
from kafka_log.disk.files import opened
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_format.record import Record
    from kafka_log.disk.files import Files
    from kafka_log.producers.transactions import OpenTransaction

DEFAULT_MAX_TIMEOUT_MS = 15 * MINUTE_MS
_NO_PRODUCER_ID = -1


class TransactionStatus(IntEnum):
    """The state of a transactional id (Kafka's TransactionState)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class TransactionalId(NamedTuple):
    """The last state of a transactional id that its coordinator wrote."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    status: TransactionStatus | int
    partitions: frozenset[tuple[str, int]]
    """The partitions of the transaction that is open or ending."""
    previous_producer_id: int = _NO_PRODUCER_ID
    next_producer_id: int = _NO_PRODUCER_ID

    @property
    def producer_ids(self) -> frozenset[int]:
        found = (self.producer_id, self.previous_producer_id, self.next_producer_id)
        return frozenset(found) - {_NO_PRODUCER_ID}


class HangingTransaction(NamedTuple):
    """A transaction that will never end, and why."""

    transaction: OpenTransaction
    reason: str
    transactional_id: TransactionalId | None = None
    """The id that has the producer, if any."""


def find_hanging(
    open_transactions: Iterable[OpenTransaction],
    transactional_ids: Mapping[str, TransactionalId],
    *,
    topic: str,
    partition: int,
    now_ms: int,
    max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS,
) -> list[HangingTransaction]:
    """Return the hanging transactions of one partition, each with its reason."""
    owners = {
        producer_id: found
        for found in transactional_ids.values()
        for producer_id in found.producer_ids
    }
    owners |= {found.producer_id: found for found in transactional_ids.values()}
    hanging = []
    for txn in open_transactions:
        if txn.idle_ms(now_ms) <= max_timeout_ms:
            continue
        owner = owners.get(txn.producer_id)
        if owner is None:
            reason = f"no transactional id has producer {txn.producer_id}"
            hanging.append(HangingTransaction(txn, reason))
        elif (topic, partition) not in owner.partitions:
            hanging.append(HangingTransaction(txn, _why_not_listed(txn, owner), owner))
    return hanging


def _why_not_listed(txn: OpenTransaction, owner: TransactionalId) -> str:
    status = owner.status
    named = status.name if isinstance(status, TransactionStatus) else f"status {status}"
    reason = f"{owner.transactional_id} is {named} without this partition"
    if txn.producer_epoch < owner.producer_epoch:
        reason += f", in epoch {owner.producer_epoch} after {txn.producer_epoch}: a marker is lost"
    return reason


def read_transactional_ids(directories: Iterable[Files]) -> dict[str, TransactionalId]:
    """Read the last state of each transactional id from partitions of `__transaction_state`.

    Damaged batches and records are skipped.
    """
    found: dict[str, TransactionalId] = {}
    for files in directories:
        for record in _records(files):
            try:
                decoded = decode_coordinator_record(
                    CoordinatorTopic.TRANSACTION_STATE, record.key, record.value
                )
            except FormatError:
                continue
            if decoded.name != "TransactionLog" or not isinstance(decoded.key, Message):
                continue
            transactional_id = decoded.key.transactional_id
            if isinstance(decoded.value, Message):
                found[transactional_id] = _transactional_id(transactional_id, decoded.value)
            elif decoded.value is None:
                found.pop(transactional_id, None)
    return found


def _records(files: Files) -> Iterator[Record]:
    names = [parse_file_name(name) for name in files.names()]
    logs = [
        name
        for name in names
        if name.kind is FileKind.LOG and name.state is FileState.LIVE and name.is_canonical
    ]
    for name in sorted(logs, key=lambda name: name.offset or 0):
        with opened(files, str(name)) as file:
            for batch in LogFile(cast("BinaryIO", file.reader()), path=file.path).batches():
                if batch.magic > 1 and batch.header.attributes & CONTROL:
                    continue
                try:
                    batch.ensure_valid()
                    yield from batch.iter_records()
                except FormatError:
                    continue


def _transactional_id(transactional_id: str, value: Message) -> TransactionalId:
    status = value.transaction_status
    return TransactionalId(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        status=(
            TransactionStatus(status) if status in TransactionStatus._value2member_map_ else status
        ),
        partitions=frozenset(
            (each.topic, partition)
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
    )
