"""The batches of one producer in one append: checked against its state, then added to it.

    CLIENT         epoch, sequence, and (in the log) duplicates and verification are checked
    COORDINATOR    epoch, and for markers the coordinator's epoch
    REPLICATION    nothing: a leader has checked it, or it is already in the log

One rule holds for all: a producer with an open transaction writes nothing outside it.

Mirrors ProducerAppendInfo of 4.3.1 (with KIP-1228: the transaction version decides how a marker's
epoch is checked), EndTransactionMarker and ControlRecordType.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.batch import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    iter_payload_slices,
    located_in_payload,
)
from kafka_format.compression import codec_of
from kafka_format.control import ControlRecordType, decode_control_key
from kafka_format.errors import CorruptError, FormatError, Location
from kafka_format.primitives import read_varint
from kafka_format.record import NO_SEQUENCE, SLICE_RECORDS, Record
from kafka_log.appends.broken_streams import read_stream
from kafka_log.appends.origin import AppendOrigin
from kafka_log.errors import (
    IllegalArgumentError,
    IllegalControlRecordError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kafka_log.producers.entry import (
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    VerificationStateEntry,
    wrap_int32,
)

if TYPE_CHECKING:
    from kafka_format.batch import RecordBatch

TV_UNKNOWN = -1
"""No transaction version: for data, and for replicated markers."""
_TV_2 = 2
_MAX_PRODUCER_EPOCH = 2**15 - 1
_MAX_SEQUENCE = 2**31 - 1
_MARKER_VALUE = struct.Struct(
    ">h"  # version: 0, newer ones have more fields
    "i"  # coordinator_epoch
)


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction, from a control batch."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


class ProducerAppendInfo:
    """The batches of one producer that are not yet in its state."""

    def __init__(
        self,
        topic_partition: str,
        current_entry: ProducerStateEntry,
        origin: AppendOrigin,
        verification_state_entry: VerificationStateEntry | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.producer_id = current_entry.producer_id
        self.origin = origin
        self.started_transactions: list[TxnMetadata] = []
        self._current_entry = current_entry
        self._updated_entry = current_entry.without_batches()
        self._verification_state_entry = verification_state_entry

    def __repr__(self) -> str:
        return f"ProducerAppendInfo({self._updated_entry}, started {self.started_transactions})"

    def to_entry(self) -> ProducerStateEntry:
        return self._updated_entry

    def append(
        self, batch: RecordBatch, transaction_version: int = TV_UNKNOWN
    ) -> CompletedTxn | None:
        """Check and add a batch of this producer. A marker may complete a transaction."""
        header = batch.header
        if not header.is_control:
            self.append_data_batch(
                epoch=header.producer_epoch,
                first_seq=header.base_sequence,
                last_seq=header.last_sequence,
                last_timestamp=header.max_timestamp,
                first_offset=header.base_offset,
                last_offset=header.last_offset,
                is_transactional=header.is_transactional,
            )
            return None
        marker = read_end_transaction_marker(batch)
        if marker is None:
            return None
        return self.append_end_txn_marker(
            marker,
            producer_epoch=header.producer_epoch,
            offset=header.base_offset,
            transaction_version=transaction_version,
        )

    def append_data_batch(
        self,
        *,
        epoch: int,
        first_seq: int,
        last_seq: int,
        last_timestamp: int,
        first_offset: int,
        last_offset: int,
        is_transactional: bool,
    ) -> None:
        self._check_producer_epoch(epoch, first_offset, TV_UNKNOWN)
        if self.origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, first_seq, first_offset)
        entry = self._updated_entry
        delta = wrap_int32(last_offset - first_offset)
        entry.add_batch(epoch, BatchMetadata(last_seq, last_offset, delta, last_timestamp))
        if entry.current_txn_first_offset is not None:
            if not is_transactional:
                raise outside_of_transaction(
                    epoch, self._at(first_offset), entry.current_txn_first_offset
                )
        elif is_transactional:
            entry.current_txn_first_offset = first_offset
            self.started_transactions.append(TxnMetadata(self.producer_id, first_offset))

    def append_end_txn_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_epoch: int,
        offset: int,
        transaction_version: int = TV_UNKNOWN,
    ) -> CompletedTxn | None:
        """Check and add a marker. Without data before it, it completes nothing."""
        if transaction_version == TV_UNKNOWN:
            if self.origin is not AppendOrigin.REPLICATION:
                raise IllegalArgumentError(
                    f"{self._at(offset)}: a marker of no transaction version, expected one from "
                    f"{self.origin.name}"
                )
            transaction_version = 0
        self._check_producer_epoch(producer_epoch, offset, transaction_version)
        self._check_coordinator_epoch(marker, offset)
        entry = self._updated_entry
        first_offset = entry.current_txn_first_offset
        entry.end_transaction(producer_epoch, marker.coordinator_epoch, marker.timestamp)
        if first_offset is None:
            return None
        return CompletedTxn(self.producer_id, first_offset, offset, marker.is_abort)

    def _check_producer_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        """Check that the epoch is not older. From version 2 on a marker must raise it.

        A marker that does not is late or a retry. A retry is accepted and written again
        (KAFKA-19999), and so is an epoch that is already the highest.
        """
        entry = self._updated_entry
        current = entry.producer_epoch
        is_strict = transaction_version >= _TV_2
        if epoch > current or (epoch == current and not is_strict):
            return
        is_retry = entry.current_txn_first_offset is None or epoch == _MAX_PRODUCER_EPOCH
        if epoch == current and is_retry:
            return
        if self.origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(
                f"{self._at(offset)}: epoch {epoch}, expected "
                f"{'more than' if is_strict else 'at least'} {current}, the last one seen "
                f"(transaction version {transaction_version})"
            )

    def _check_coordinator_epoch(self, marker: EndTransactionMarker, offset: int) -> None:
        known = self._updated_entry.coordinator_epoch
        if marker.coordinator_epoch < known and self.origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"{self._at(offset)}: coordinator epoch {marker.coordinator_epoch} of a marker, "
                f"expected at least {known}, the last one seen"
            )

    def _check_sequence(self, epoch: int, first_seq: int, offset: int) -> None:
        self._check_verified_sequence(first_seq, offset)
        current, updated = self._current_entry, self._updated_entry
        if epoch != updated.producer_epoch:
            if first_seq != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"{self._at(offset)}: sequence {first_seq} in the new epoch {epoch} after "
                    f"epoch {updated.producer_epoch}, expected 0"
                )
            return
        last_seq = NO_SEQUENCE
        if not updated.is_empty:
            last_seq = updated.last_seq
        elif epoch == current.producer_epoch:
            last_seq = current.last_seq
        # An unknown producer (its records were deleted) may continue with any sequence.
        if current.producer_epoch != NO_PRODUCER_EPOCH and not _in_sequence(last_seq, first_seq):
            raise OutOfOrderSequenceError(
                f"{self._at(offset)}: sequence {first_seq}, expected the one after {last_seq}"
            )

    def _check_verified_sequence(self, first_seq: int, offset: int) -> None:
        verification = self._verification_state_entry
        if verification is None:
            return
        if verification.supports_epoch_bump and first_seq != 0 and self._current_entry.is_empty:
            raise OutOfOrderSequenceError(
                f"{self._at(offset)}: sequence {first_seq}, expected 0 from a producer of "
                "transaction version 2 without batches here"
            )
        if first_seq > verification.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"{self._at(offset)}: sequence {first_seq}, expected "
                f"{verification.lowest_sequence} first, which waits for verification"
            )

    def _at(self, offset: int) -> str:
        return f"{self.topic_partition}, offset {offset}: producer {self.producer_id}"


def _in_sequence(last_seq: int, next_seq: int) -> bool:
    return next_seq == last_seq + 1 or (next_seq == 0 and last_seq == _MAX_SEQUENCE)


def outside_of_transaction(
    epoch: int, where: str, txn_first_offset: int
) -> InvalidTransactionStateError:
    return InvalidTransactionStateError(
        f"{where}: a batch outside of transactions in epoch {epoch}, expected one "
        f"of the transaction that is open since offset {txn_first_offset}"
    )


def read_end_transaction_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """Return the marker of a control batch; None if compaction has removed it.

    Raises FormatError where Kafka throws InvalidRecordException, and IllegalControlRecordError
    where its replay fails with another exception: another type, no key, a truncated value.
    """
    record = first_control_record(batch)
    if record is None:
        return None
    location = Location(batch.path, batch.position)
    if record.key is None:
        raise IllegalControlRecordError(f"{location}: a control record without a key")
    try:
        type_ = decode_control_key(record.key).type
    except FormatError as error:
        raise error.moved(batch.path, batch.position) from None
    if type_ not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise IllegalControlRecordError(
            f"{location}: control record type {int(type_)}, expected ABORT or COMMIT"
        )
    value = record.value
    if value is None or len(value) < 2:
        raise IllegalControlRecordError(
            f"{location}: {'no value' if value is None else f'a value of {len(value)} bytes'}, "
            f"expected a marker of {_MARKER_VALUE.size}"
        )
    version = struct.unpack_from(">h", value)[0]
    if version < 0:
        raise CorruptError(location, f"end transaction marker version {version}", "0 or more")
    if len(value) < _MARKER_VALUE.size:
        raise IllegalControlRecordError(
            f"{location}: a value of {len(value)} bytes, expected a marker of {_MARKER_VALUE.size}"
        )
    epoch = _MARKER_VALUE.unpack_from(value)[1]
    return EndTransactionMarker(type_ is ControlRecordType.ABORT, epoch, record.timestamp)


def first_control_record(batch: RecordBatch) -> Record | None:
    """Return the first record. Like Kafka, read the others only if they are compressed.

    No coordinator compresses its markers. If a compressed batch does not decompress, Kafka's replay
    fails with an uncaught exception; malformed or surplus records are invalid.
    """
    header = batch.header
    if header.record_count <= 0:
        return next(iter(batch.records()), None)
    payload = bytes(batch.payload)
    broken: FormatError | None = None
    if header.codec_id:
        try:
            payload = batch.decompressed_payload()
        except FormatError as error:
            broken = error
            payload = _readable_payload(batch)
            if not _are_complete(payload, header.record_count):
                raise IllegalControlRecordError(str(error)) from error
    size = SLICE_RECORDS if header.codec_id else 1
    slices = iter_payload_slices(header, payload, header.log_append_time, size)
    try:
        first = next(slices)[0]
        if header.codec_id:
            deque(slices, maxlen=0)  # the rest is only checked
    except FormatError as error:
        where = Location(batch.path, batch.position + HEADER_SIZE)
        raise located_in_payload(error, where, is_compressed=header.codec_id != 0) from None
    if broken is not None:
        raise IllegalControlRecordError(str(broken)) from broken
    return first


def _readable_payload(batch: RecordBatch) -> bytes:
    """Return the part of a compressed payload that can be decompressed."""
    try:
        codec = codec_of(batch.header.attributes)
    except FormatError:
        return b""
    return read_stream(codec, batch.payload, batch.magic)[0]


def _are_complete(payload: bytes, count: int) -> bool:
    """Whether the payload has this many records, by their length fields."""
    position = 0
    for _ in range(count):
        try:
            length, position = read_varint(payload, position)
        except FormatError:
            return False
        position += max(length, 0)
        if position > len(payload):
            return False
    return True
