"""The transactional ids of a coordinator: what the records of `__transaction_state` say.

    iter_state_records     every record about a transactional id, in log order
    read_coordinator       the last state of each id, as a coordinator has it after loading, and
                           every producer id that an id has had

A tombstone removes an id. Damaged batches and records are skipped. Mirrors
TransactionStateManager.loadTransactionMetadata and TransactionState.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka_format.attributes import CONTROL
from kafka_format.coordinator_records import CoordinatorTopic, decode_coordinator_record
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_format.message import Message
from kafka_log.disk.files import opened
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka_format.record import Record
    from kafka_log.disk.files import Files

    OnDamage = Callable[[FormatError], None]

_NO_PRODUCER_ID = -1
_RAISES_EPOCH = 2
"""The first transaction version that does."""


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

    @property
    def is_complete(self) -> bool:
        """Whether every partition of the transaction has its marker."""
        return self in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)


def status_name(status: int) -> str:
    """Return the name as in org.apache.kafka.clients.admin.TransactionState, e.g. PrepareCommit."""
    try:
        name = TransactionStatus(status).name
    except ValueError:
        return f"Unknown({int(status)})"
    return "".join(part.capitalize() for part in name.split("_"))


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


class CoordinatorState(NamedTuple):
    """A value of `__transaction_state`."""

    owner: TransactionalId
    timeout_ms: int
    start_timestamp: int
    """When the transaction started; -1 if there is none."""
    last_update_timestamp: int
    raises_epoch: bool
    """Whether the end of the transaction raises the producer epoch (transaction version 2)."""


class StateRecord(NamedTuple):
    """A record of `__transaction_state` about a transactional id."""

    offset: int
    transactional_id: str
    state: CoordinatorState | None
    """None for a tombstone."""
    path: str
    position: int
    """The position of its batch in the file."""


@dataclass(slots=True)
class Coordinator:
    """The transactional ids of one or more partitions of `__transaction_state`."""

    states: dict[str, CoordinatorState] = field(default_factory=dict)
    producers: dict[int, str] = field(default_factory=dict)
    """The transactional id of each producer id, also of earlier ones."""
    problems: list[FormatError] = field(default_factory=list)
    """Damage: what could not be read may have named more ids."""

    @property
    def transactional_ids(self) -> dict[str, TransactionalId]:
        return {name: state.owner for name, state in self.states.items()}

    def add(self, record: StateRecord) -> None:
        if record.state is None:
            self.states.pop(record.transactional_id, None)
            return
        self.states[record.transactional_id] = record.state
        for producer_id in record.state.owner.producer_ids:
            self.producers[producer_id] = record.transactional_id

    def add_replica(self, other: Coordinator) -> None:
        """Add what another directory has; of an id in both, the newer state counts."""
        for name, state in other.states.items():
            known = self.states.get(name)
            if known is None or _age(known) <= _age(state):
                self.states[name] = state
        self.producers |= other.producers
        self.problems += other.problems


def _age(state: CoordinatorState) -> tuple[int, int]:
    return state.last_update_timestamp, state.owner.producer_epoch


def read_coordinator(files: Files) -> Coordinator:
    """Read one directory of `__transaction_state`."""
    coordinator = Coordinator()
    for record in iter_state_records(files, coordinator.problems.append):
        coordinator.add(record)
    return coordinator


def read_transactional_ids(directories: Iterable[Files]) -> dict[str, TransactionalId]:
    """Read the last state of each transactional id from partitions of `__transaction_state`."""
    coordinator = Coordinator()
    for files in directories:
        for record in iter_state_records(files):
            coordinator.add(record)
    return coordinator.transactional_ids


def _ignore(_: FormatError) -> None:
    """Do nothing about damage."""


def iter_state_records(files: Files, on_damage: OnDamage = _ignore) -> Iterator[StateRecord]:
    """Yield the records about transactional ids in log order."""
    for record, path, position in _records(files, on_damage):
        try:
            decoded = decode_coordinator_record(
                CoordinatorTopic.TRANSACTION_STATE, record.key, record.value
            )
        except FormatError as error:
            on_damage(error)
            continue
        if decoded.name != "TransactionLog" or not isinstance(decoded.key, Message):
            continue
        transactional_id = decoded.key.transactional_id
        if isinstance(decoded.value, Message):
            state = _state(transactional_id, decoded.value)
            yield StateRecord(record.offset, transactional_id, state, path, position)
        elif decoded.value is None:
            yield StateRecord(record.offset, transactional_id, None, path, position)


def _records(files: Files, on_damage: OnDamage) -> Iterator[tuple[Record, str, int]]:
    names = [parse_file_name(name) for name in files.names()]
    logs = [
        name
        for name in names
        if name.kind is FileKind.LOG and name.state is FileState.LIVE and name.is_canonical
    ]
    for name in sorted(logs, key=lambda name: name.offset or 0):
        with opened(files, str(name)) as file:
            log = LogFile(cast("BinaryIO", file.reader()), path=file.path)
            for batch in log.batches():
                if batch.magic > 1 and batch.header.attributes & CONTROL:
                    continue
                try:
                    batch.ensure_valid()
                    for record in batch.iter_records():
                        yield record, file.path, batch.position
                except FormatError as error:
                    on_damage(error)
            if log.end is not None and log.end.reason == "corrupt_batch" and log.end.error:
                on_damage(log.end.error)


def _state(transactional_id: str, value: Message) -> CoordinatorState:
    status = value.transaction_status
    owner = TransactionalId(
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
    return CoordinatorState(
        owner=owner,
        timeout_ms=value.transaction_timeout_ms,
        start_timestamp=value.transaction_start_timestamp_ms,
        last_update_timestamp=value.transaction_last_update_timestamp_ms,
        raises_epoch=value.client_transaction_version >= _RAISES_EPOCH,
    )
