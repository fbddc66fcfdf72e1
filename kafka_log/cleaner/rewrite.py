"""Writes what a batch retains.

    all records          the same bytes, unless it has magic 0 or 1 or needs a delete horizon
    some records         built again: the same offsets and sequences, the codec at its default level
    none, kept empty     61 bytes: the header
    none                 nothing

A batch gets a delete horizon if it keeps a tombstone, or is the marker of a transaction without
batches, and has none yet. Magic 0 and 1 become magic 2, one batch per message of the log; before
4.0 they kept their magic (releases.py).

Mirrors MemoryRecords.filterTo.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.batch import RecordBatch, encode_batch, encode_empty_batch
from kafka_format.compression import codec_of
from kafka_format.errors import FormatError
from kafka_format.java_text import decode_utf8
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import Header, Record, SimpleRecord, TimestampType
from kafka_log.cleaner.decision import NO_KEY
from kafka_log.cleaner.errors import UncleanableError
from kafka_log.cleaner.reasons import REMOVED_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka_format.legacy import LegacyBatch
    from kafka_format.log_file import AnyBatch
    from kafka_format.primitives import Buffer
    from kafka_log.cleaner.decision import BatchDecision, RecordFilter
    from kafka_log.cleaner.releases import CleanerRules
    from kafka_log.cleaner.witness import Witness


class RetainedBatch(NamedTuple):
    """A batch after filtering."""

    data: Buffer
    max_offset: int
    """In a batch built again, the largest offset of a record; else its last offset."""
    messages: int


@dataclass(slots=True)
class FilterResult:
    """What some batches retain, and what was read for it."""

    data: bytearray = field(default_factory=bytearray)
    max_offset: int = -1
    bytes_read: int = 0
    messages_read: int = 0
    messages_retained: int = 0
    invalid_messages_read: int = 0

    def add(self, kept: RetainedBatch) -> None:
        self.data += kept.data
        self.max_offset = max(self.max_offset, kept.max_offset)
        self.messages_retained += kept.messages


def filter_to(
    batches: Iterable[AnyBatch],
    record_filter: RecordFilter,
    *,
    capacity: int,
    witness: Witness | None = None,
) -> FilterResult:
    """Return what consecutive batches retain, until that is more than `capacity`."""
    result = FilterResult()
    for batch in batches:
        decision = record_filter.decide_batch(batch)
        result.bytes_read += len(batch.raw)
        if not decision.is_dropped:
            filter_batch(batch, decision, record_filter, result, witness=witness)
        elif witness is not None:
            witness.on_batch(batch, decision, (), (), ())
        if len(result.data) > capacity:
            break
    return result


def filter_batch(
    batch: AnyBatch,
    decision: BatchDecision,
    record_filter: RecordFilter,
    result: FilterResult,
    *,
    latest_of: Sequence[int] | None = None,
    witness: Witness | None = None,
) -> None:
    """Filter record by record into `result`; `latest_of` has the latest offsets if known."""
    records = batch.records()
    result.messages_read += len(records)
    if latest_of is None:
        latest_of = record_filter.latest_of(records)
    reasons = record_filter.decide_records(batch, decision, records, latest_of)
    result.invalid_messages_read += reasons.count(NO_KEY)
    if witness is not None:
        witness.on_batch(batch, decision, records, reasons, latest_of)
    retained = [
        record for record, reason in zip(records, reasons, strict=True) if reason < REMOVED_FROM
    ]
    if retained:
        is_whole = len(retained) == len(records)
        horizon = record_filter.new_horizon(batch, decision, retained)
        rules = record_filter.rules
        result.add(_rewritten(batch, retained, horizon, is_whole=is_whole, rules=rules))
    elif decision.is_kept_empty:
        result.add(emptied(batch))


def emptied(batch: AnyBatch) -> RetainedBatch:
    if not isinstance(batch, RecordBatch):
        raise UncleanableError(
            f"{batch.location}: found magic {batch.magic} in a batch to be kept without records, "
            f"expected magic 2"
        )
    return RetainedBatch(encode_empty_batch(batch.header), batch.header.last_offset, 0)


def _rewritten(
    batch: AnyBatch,
    retained: list[Record],
    new_horizon: int | None,
    *,
    is_whole: bool,
    rules: CleanerRules,
) -> RetainedBatch:
    """`new_horizon` is for a batch that has none yet."""
    largest = max(record.offset for record in retained)
    try:
        if not isinstance(batch, RecordBatch):
            if rules.converts_old_magics:
                return RetainedBatch(
                    _up_converted(batch, retained, new_horizon), largest, len(retained)
                )
            if is_whole and _is_of_one_magic(batch):
                return RetainedBatch(batch.raw, batch.header.last_offset, len(retained))
            return RetainedBatch(_rebuilt_in_its_magic(batch, retained), largest, len(retained))
        if is_whole and new_horizon is None:
            return RetainedBatch(batch.raw, batch.header.last_offset, len(retained))
        horizon = batch.header.delete_horizon_ms if new_horizon is None else new_horizon
        return RetainedBatch(_rebuilt(batch, retained, horizon), largest, len(retained))
    except FormatError:
        raise
    except ValueError as error:
        raise UncleanableError(f"{batch.location}: cannot be rewritten: {error}") from error


def _rebuilt(batch: RecordBatch, retained: list[Record], horizon: int | None) -> bytes:
    header = batch.header
    return encode_batch(
        _as_java_writes_them(retained),
        base_offset=header.base_offset,
        codec=codec_of(header.attributes, path=batch.path, position=batch.position),
        timestamp_type=header.timestamp_type,
        log_append_time=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        partition_leader_epoch=header.partition_leader_epoch,
        delete_horizon_ms=horizon,
        last_offset=header.last_offset,
    )


def _up_converted(batch: LegacyBatch, retained: list[Record], horizon: int | None) -> bytes:
    header = batch.header
    timestamp_type = header.timestamp_type
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        timestamp_type = TimestampType.CREATE_TIME  # with timestamp -1
    return encode_batch(
        map(SimpleRecord.of, retained),
        base_offset=retained[0].offset,
        codec=codec_of(header.attributes, path=batch.path, position=batch.position),
        timestamp_type=timestamp_type,
        log_append_time=header.timestamp,
        delete_horizon_ms=horizon,
    )


def _is_of_one_magic(batch: LegacyBatch) -> bool:
    return batch.header.codec_id == 0 or all(
        message.header.magic == batch.magic for message in batch.inner_messages()
    )


def _rebuilt_in_its_magic(batch: LegacyBatch, retained: list[Record]) -> bytes:
    header = batch.header
    return encode_legacy_batch(
        map(SimpleRecord.of, retained),
        magic=batch.magic,
        base_offset=retained[0].offset,
        codec=codec_of(header.attributes, path=batch.path, position=batch.position),
        timestamp_type=header.timestamp_type,
        log_append_time=header.timestamp,
    )


def _as_java_writes_them(records: Sequence[Record]) -> Iterable[SimpleRecord]:
    """Pass header keys through a Java String, which cannot hold bytes that are not UTF-8."""
    for record in records:
        simple = SimpleRecord.of(record)
        if record.headers:
            simple = simple._replace(headers=tuple(map(_as_java_reads_it, record.headers)))
        yield simple


def _as_java_reads_it(header: Header) -> Header:
    try:
        header.key.encode()
    except UnicodeEncodeError:
        return Header(decode_utf8(header.key.encode("utf-8", "surrogateescape")), header.value)
    return header
