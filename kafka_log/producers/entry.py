"""The state of one producer, and of one transaction.

Mirrors ProducerStateEntry, BatchMetadata, TxnMetadata, CompletedTxn, VerificationStateEntry and
VerificationGuard. Sequences have 32 bits, as in Java: after 2147483647 comes 0.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.batch import NO_PRODUCER_EPOCH
from kafka_format.record import NO_SEQUENCE, NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.batch import BatchHeader

BATCHES_TO_RETAIN = 5
"""How many batches are kept to recognize duplicates: at most five requests are in flight."""
NO_COORDINATOR_EPOCH = -1

_INT32_MAX = 2**31 - 1


def wrap_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Subtract from a sequence; before 0 comes 2147483647."""
    if sequence < decrement:
        return wrap_int32(_INT32_MAX - wrap_int32(decrement - sequence) + 1)
    return wrap_int32(sequence - decrement)


class BatchMetadata(NamedTuple):
    """An appended batch, by which a duplicate is recognized."""

    last_seq: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_seq(self) -> int:
        return decrement_sequence(self.last_seq, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A transaction with a marker; `last_offset` is the offset of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class TxnMetadata:
    """A transaction of a log. It is open until it has a `last_offset`, that of its marker."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int, last_offset: int | None = None) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset

    def __repr__(self) -> str:
        end = "open" if self.last_offset is None else f"to {self.last_offset}"
        return f"TxnMetadata(producer {self.producer_id}, from {self.first_offset}, {end})"


class TxnsByOffset:
    """Transactions, ordered by their first offset."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._txns: dict[int, TxnMetadata] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[TxnMetadata]:
        return map(self._txns.__getitem__, self._offsets)

    def put(self, txn: TxnMetadata) -> None:
        if txn.first_offset not in self._txns:
            insort(self._offsets, txn.first_offset)
        self._txns[txn.first_offset] = txn

    def pop(self, first_offset: int) -> TxnMetadata | None:
        txn = self._txns.pop(first_offset, None)
        if txn is not None:
            del self._offsets[bisect_left(self._offsets, first_offset)]
        return txn

    def first(self) -> TxnMetadata | None:
        return self._txns[self._offsets[0]] if self._offsets else None

    def clear(self) -> None:
        self._offsets.clear()
        self._txns.clear()


class ProducerStateEntry:
    """One producer: its epoch, its last batches, and its open transaction."""

    __slots__ = (
        "batch_metadata",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batch_metadata: deque[BatchMetadata] = deque(maxlen=BATCHES_TO_RETAIN)

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producer {self.producer_id}, epoch {self.producer_epoch}, "
            f"coordinator epoch {self.coordinator_epoch}, last timestamp {self.last_timestamp}, "
            f"transaction from {self.current_txn_first_offset}, {list(self.batch_metadata)})"
        )

    @property
    def is_empty(self) -> bool:
        """Whether there are no batches: this epoch has only had markers."""
        return not self.batch_metadata

    @property
    def first_seq(self) -> int:
        return self.batch_metadata[0].first_seq if self.batch_metadata else NO_SEQUENCE

    @property
    def last_seq(self) -> int:
        return self.batch_metadata[-1].last_seq if self.batch_metadata else NO_SEQUENCE

    @property
    def first_data_offset(self) -> int:
        return self.batch_metadata[0].first_offset if self.batch_metadata else -1

    @property
    def last_data_offset(self) -> int:
        return self.batch_metadata[-1].last_offset if self.batch_metadata else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batch_metadata[-1].offset_delta if self.batch_metadata else 0

    def without_batches(self) -> ProducerStateEntry:
        """Return a copy without batches (ProducerStateEntry.withProducerId)."""
        return ProducerStateEntry(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.current_txn_first_offset,
        )

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether a broker drops the producer. One with an open transaction stays."""
        return self.current_txn_first_offset is None and (
            now_ms - self.last_timestamp >= expiration_ms
        )

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        self._maybe_update_producer_epoch(producer_epoch)
        self.batch_metadata.append(batch)
        self.last_timestamp = batch.timestamp

    def end_transaction(
        self, producer_epoch: int, coordinator_epoch: int, last_timestamp: int
    ) -> None:
        """Apply a marker. Its epochs are used even if they are older."""
        self._maybe_update_producer_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = last_timestamp

    def update(self, newer: ProducerStateEntry) -> None:
        """Add the state after an append. Earlier batches are dropped if the epoch changed."""
        self._maybe_update_producer_epoch(newer.producer_epoch)
        self.batch_metadata.extend(newer.batch_metadata)
        newer.batch_metadata.clear()
        self.coordinator_epoch = newer.coordinator_epoch
        self.current_txn_first_offset = newer.current_txn_first_offset
        self.last_timestamp = newer.last_timestamp

    def find_duplicate_batch(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the batch with the same epoch and sequence range, if there is one."""
        if header.producer_epoch != self.producer_epoch:
            return None
        sequences = (header.base_sequence, header.last_sequence)
        for batch in self.batch_metadata:
            if (batch.first_seq, batch.last_seq) == sequences:
                return batch
        return None

    def _maybe_update_producer_epoch(self, producer_epoch: int) -> None:
        if self.producer_epoch != producer_epoch:
            self.batch_metadata.clear()
            self.producer_epoch = producer_epoch


class VerificationGuard:
    """A unique token of a verification, held by its requester and by the log.

    SENTINEL stands for none.
    """

    __slots__ = ("_value",)
    _next_value = itertools.count(1)

    def __init__(self) -> None:
        self._value = next(VerificationGuard._next_value)

    def __repr__(self) -> str:
        return "SENTINEL" if self is SENTINEL else f"VerificationGuard({self._value})"

    def verify(self, verifying: VerificationGuard) -> bool:
        """Whether `verifying` is this guard. The sentinel verifies nothing, not even itself."""
        return verifying is self and verifying is not SENTINEL


SENTINEL = VerificationGuard()


class VerificationStateEntry:
    """A transaction that is being verified before its first append.

    It keeps the lowest sequence that waits: a higher one must not be written first.
    """

    __slots__ = (
        "epoch",
        "lowest_sequence",
        "supports_epoch_bump",
        "timestamp",
        "verification_guard",
    )

    def __init__(
        self, timestamp: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> None:
        self.timestamp = timestamp
        self.verification_guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def __repr__(self) -> str:
        return (
            f"VerificationStateEntry(epoch {self.epoch}, lowest sequence {self.lowest_sequence}, "
            f"since {self.timestamp}, supports_epoch_bump={self.supports_epoch_bump})"
        )

    def maybe_update_lowest_sequence_and_epoch(self, sequence: int, epoch: int) -> None:
        if epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
