"""Check transactions: open and hanging ones, and what their coordinator has recorded.

The partitions of a broker are compared with `__transaction_state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.coordinator_records import CoordinatorTopic
from kafka_log.checks.facts import NotChecked
from kafka_log.checks.finding import About, Finding
from kafka_log.names import DirectoryKind
from kafka_log.producers.hanging_transactions import KnownIds
from kafka_log.producers.transactional_ids import (
    Coordinator,
    TransactionStatus,
    iter_state_records,
    status_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafka_log.checks.brokers.broker_checks import FilesOf
    from kafka_log.checks.facts import (
        AuditedBroker,
        PartitionFacts,
    )
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import Partition
    from kafka_log.producers.transactional_ids import CoordinatorState, StateRecord
    from kafka_log.producers.transactions import OpenTransaction

_TOPIC = CoordinatorTopic.TRANSACTION_STATE.value
_IDS = "transactional ids"
_UNKNOWN = "which no transactional id has"
_EMPTY, _ONGOING, _PREPARE_COMMIT, _PREPARE_ABORT, _COMMITTED, _ABORTED, _DEAD, _FENCING = (
    TransactionStatus
)
VALID_PREVIOUS_STATES: Mapping[TransactionStatus, frozenset[TransactionStatus]] = {
    _EMPTY: frozenset({_EMPTY, _COMMITTED, _ABORTED}),
    _ONGOING: frozenset({_ONGOING, _EMPTY, _COMMITTED, _ABORTED}),
    _PREPARE_COMMIT: frozenset({_ONGOING}),
    _PREPARE_ABORT: frozenset({_ONGOING, _FENCING, _EMPTY, _COMMITTED, _ABORTED}),
    _COMMITTED: frozenset({_PREPARE_COMMIT}),
    _ABORTED: frozenset({_PREPARE_ABORT}),
    _DEAD: frozenset({_EMPTY, _ABORTED, _COMMITTED}),
    _FENCING: frozenset({_ONGOING}),
}
"""TransactionState.VALID_PREVIOUS_STATES of 4.3.1. In the log a state may also be repeated: an
append that was not replicated in time is tried again."""


# ----------------------------------------------------------------------------------- of a broker


def check_transactions(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], files_of: FilesOf
) -> Iterator[Finding | NotChecked]:
    """Check the open transactions of a broker, and the histories in `__transaction_state`."""
    live = {
        partition.path: partition
        for log_dir in audited.broker.log_dirs
        for partition in log_dir.partitions
        if partition.state is DirectoryKind.PARTITION
    }
    histories = []
    for partition in live.values():
        if partition.topic == _TOPIC and partition.partition is not None:
            history = _History(partition)
            try:
                yield from history.read(files_of(partition.path))
            except OSError as error:
                yield NotChecked(_IDS, error.strerror or str(error), partition.path)
                continue
            histories.append(history)
    metadata = audited.broker.metadata
    known = KnownIds.together(
        ((each.partition, each.coordinator) for each in histories),
        None if metadata is None else metadata.partition_count(_TOPIC),
    )
    if known.missing is not None:
        yield NotChecked(_IDS, known.missing)
    completed = {key: txn for each in histories for key, txn in each.completed.items()}
    for each in facts:
        if each.path in live and each.partition is not None:
            yield from _open_transactions(each, known, completed, audited.now_ms)


class _History:
    """The records of a partition of `__transaction_state`, one after another."""

    def __init__(self, directory: Partition) -> None:
        self.directory = directory
        self.partition = directory.partition or 0
        self.coordinator = Coordinator()
        self.completed: dict[str, CoordinatorState] = {}
        """By transactional id: the transaction that its last record has completed, as prepared."""
        self._prepared: dict[str, CoordinatorState] = {}
        self._last: dict[str, StateRecord] = {}
        self._next_offset: int | None = None
        self._gap_ends_at = 0

    def read(self, files: Files) -> Iterator[Finding]:
        for record in iter_state_records(files, self.coordinator.problems.append):
            if record.offset != self._next_offset:  # the cleaner may have removed states
                self._gap_ends_at = record.offset
            self._next_offset = record.offset + 1
            yield from self._judged(record)
            self.coordinator.add(record)
            self._remember(record)

    def _remember(self, record: StateRecord) -> None:
        name, state = record.transactional_id, record.state
        self.completed.pop(name, None)
        if state is None:
            self._last.pop(name, None)
            self._prepared.pop(name, None)
            return
        self._last[name] = record
        owner = state.owner
        if owner.partitions:
            self._prepared[name] = state
        elif owner.status in (_COMMITTED, _ABORTED):
            prepared = self._prepared.pop(name, None)
            if prepared is not None:
                self.completed[name] = prepared
        else:
            self._prepared.pop(name, None)

    def _judged(self, record: StateRecord) -> Iterator[Finding]:
        last = self._last.get(record.transactional_id)
        if record.state is None or last is None or last.state is None:
            return
        old, new = last.state.owner, record.state.owner
        about = About(record.path, self.directory.topic, self.directory.partition)
        if last.offset >= self._gap_ends_at and not _can_follow(old.status, new.status):
            yield Finding.of(
                "TRN003",
                about,
                f"{status_name(new.status)} after {status_name(old.status)}",
                _expected_after(new.status),
                position=record.position,
                offset=record.offset,
            )
        if old.producer_id == new.producer_id and new.producer_epoch < old.producer_epoch:
            yield Finding.of(
                "TRN004",
                about,
                f"epoch {new.producer_epoch} of producer {new.producer_id}",
                f"{old.producer_epoch} or more",
                position=record.position,
                offset=record.offset,
            )


def _can_follow(old: int, new: int) -> bool:
    valid = VALID_PREVIOUS_STATES.get(new, frozenset())  # type: ignore[call-overload]
    return old == new or old in valid


def _expected_after(new: int) -> str:
    valid = VALID_PREVIOUS_STATES.get(new)  # type: ignore[call-overload]
    if not valid:
        return "a state from 0 to 7"
    return f"{' or '.join(status_name(each) for each in sorted(valid))} before it"


def _open_transactions(
    facts: PartitionFacts,
    known: KnownIds,
    completed: Mapping[str, CoordinatorState],
    now_ms: int,
) -> Iterator[Finding]:
    about = About(facts.path, facts.topic, facts.partition)
    place = facts.topic, facts.partition or 0
    by_producer = {state.owner.producer_id: state for state in completed.values()}
    for txn in facts.open_transactions:
        found = f"no marker, producer {txn.producer_id} epoch {txn.producer_epoch}"
        entry = f"producer {txn.producer_id}"
        prepared = by_producer.get(txn.producer_id)
        is_lost = prepared is not None and _lacks_marker(txn, prepared, place)
        if is_lost:
            yield Finding.of(
                "TRN005",
                about,
                f"{found}, whose transaction is complete",
                "the marker that its coordinator says was written",
                offset=txn.first_offset,
                entry=entry,
            )
        if known.why_hanging(txn, place, now_ms=now_ms) is not None:
            has_owner = txn.producer_id in known.owners
            why = "whose transaction does not include this partition" if has_owner else _UNKNOWN
            yield Finding.of(
                "TRN002",
                about,
                f"{found}, {why}",
                "a coordinator that will end it",
                offset=txn.first_offset,
                entry=entry,
            )
        elif not is_lost:
            yield Finding.of(
                "TRN001",
                about,
                found,
                "a marker after its last offset",
                offset=txn.first_offset,
                entry=entry,
            )


def _lacks_marker(txn: OpenTransaction, prepared: CoordinatorState, place: tuple[str, int]) -> bool:
    """Whether an open transaction is the one that its coordinator has completed.

    Data of the epoch to which a transaction was raised belongs to a later one.
    """
    last_epoch = prepared.owner.producer_epoch - prepared.raises_epoch
    return place in prepared.owner.partitions and txn.producer_epoch <= last_epoch
