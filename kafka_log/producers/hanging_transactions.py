"""Find open transactions that will never end, because their coordinator does not know them.

    kafka-transactions find-hanging, offline. A transaction hangs if it is open for longer than
    allowed, and
        no transactional id has the producer            (expired, or its coordinator's log is lost)
        or the id's transaction does not name this partition   (ended, and the marker is missing)

The coordinator will end a transaction that it knows. From transaction version 2 on, an id's
producer may change while a transaction ends, so its previous and next producer count as well.

Mirrors TransactionsCommand.FindHangingTransactionsCommand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.config.log_config import MINUTE_MS
from kafka_log.producers.transactional_ids import (
    Coordinator,
    TransactionalId,
    TransactionStatus,
    read_transactional_ids,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafka_log.producers.transactions import OpenTransaction

__all__ = [
    "HangingTransaction",
    "KnownIds",
    "TransactionStatus",
    "TransactionalId",
    "find_hanging",
    "owners_of",
    "read_transactional_ids",
    "why_hanging",
    "why_ids_are_missing",
]

DEFAULT_MAX_TIMEOUT_MS = 15 * MINUTE_MS
"""The default of `kafka-transactions.sh find-hanging --max-transaction-timeout`."""


class HangingTransaction(NamedTuple):
    """A transaction that will never end, and why."""

    transaction: OpenTransaction
    reason: str
    transactional_id: TransactionalId | None = None
    """The id that has the producer, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIds:
    """What the partitions of `__transaction_state` on these disks say of producers."""

    coordinator: Coordinator
    owners: Mapping[int, TransactionalId]
    """The transactional id of each producer, as its coordinator has it now."""
    missing: str | None
    """Why there may be more transactional ids than these; None if there are no others."""

    @classmethod
    def of(cls, coordinator: Coordinator, missing: str | None) -> KnownIds:
        owners = owners_of(state.owner for state in coordinator.states.values())
        return cls(coordinator=coordinator, owners=owners, missing=missing)

    @classmethod
    def together(
        cls, coordinators: Iterable[tuple[int, Coordinator]], expected: int | None
    ) -> KnownIds:
        """Join what partitions of `__transaction_state`, given by number, say.

        `expected` is how many there are, according to the cluster metadata.
        """
        joined, found = Coordinator(), set()
        for partition, coordinator in coordinators:
            joined.add_replica(coordinator)
            found.add(partition)
        missing = why_ids_are_missing(found, expected)
        if missing is None and joined.problems:
            missing = str(joined.problems[0])
        return cls.of(joined, missing)

    def transactional_id(self, producer_id: int) -> str | None:
        """Return the id that has the producer, or once had it."""
        owner = self.owners.get(producer_id)
        if owner is not None:
            return owner.transactional_id
        return self.coordinator.producers.get(producer_id)

    def timeout_ms(self, transactional_id: str | None) -> int | None:
        """Return the transaction timeout of an id; None if it is not known."""
        state = self.coordinator.states.get(transactional_id or "")
        return None if state is None else state.timeout_ms

    def why_hanging(
        self,
        txn: OpenTransaction,
        topic_partition: tuple[str, int],
        *,
        now_ms: int,
        max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS,
    ) -> str | None:
        """Return why an open transaction hangs; None if it may end, or if that is not known."""
        owner = self.owners.get(txn.producer_id)
        if owner is None and self.missing is not None:
            return None
        return why_hanging(
            txn, owner, topic_partition, now_ms=now_ms, max_timeout_ms=max_timeout_ms
        )


def why_ids_are_missing(found: Collection[int], expected: int | None) -> str | None:
    """Return why there may be more transactional ids; None if every partition is here.

    `found` are the partitions of `__transaction_state` that are here, `expected` is their number
    according to the cluster metadata. Without that, partitions without a gap are taken for all.
    """
    if not found:
        return "no partition of __transaction_state is here"
    count = max(found) + 1 if expected is None else expected
    missing = sorted(set(range(count)) - set(found))
    if not missing:
        return None
    return f"{len(missing)} of {count} partitions of __transaction_state are not here"


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
    owners = owners_of(transactional_ids.values())
    hanging = []
    for txn in open_transactions:
        owner = owners.get(txn.producer_id)
        reason = why_hanging(
            txn, owner, (topic, partition), now_ms=now_ms, max_timeout_ms=max_timeout_ms
        )
        if reason is not None:
            hanging.append(HangingTransaction(txn, reason, owner))
    return hanging


def owners_of(transactional_ids: Iterable[TransactionalId]) -> dict[int, TransactionalId]:
    """Return the transactional id of each producer. A current producer wins over a previous one.

    Like Kafka, leave out ids that are being removed.
    """
    found = [each for each in transactional_ids if each.status != TransactionStatus.DEAD]
    owners = {producer_id: each for each in found for producer_id in each.producer_ids}
    return owners | {each.producer_id: each for each in found}


def why_hanging(
    txn: OpenTransaction,
    owner: TransactionalId | None,
    topic_partition: tuple[str, int],
    *,
    now_ms: int,
    max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS,
) -> str | None:
    """Return why an open transaction will never end; None if it may end.

    `owner` is None only if no transactional id of the cluster has the producer.
    """
    if txn.idle_ms(now_ms) <= max_timeout_ms:
        return None
    if owner is None:
        return f"no transactional id has producer {txn.producer_id}"
    return None if topic_partition in owner.partitions else _why_not_listed(txn, owner)


def _why_not_listed(txn: OpenTransaction, owner: TransactionalId) -> str:
    status = owner.status
    named = status.name if isinstance(status, TransactionStatus) else f"status {status}"
    reason = f"{owner.transactional_id} is {named} without this partition"
    if txn.producer_epoch < owner.producer_epoch:
        reason += f", in epoch {owner.producer_epoch} after {txn.producer_epoch}: a marker is lost"
    return reason
