"""Append the batches of one request to a log, in six steps.

    1  batches      check sizes, checksums, order                        appends/info.py
    2  records      check, stamp, convert, assign offsets (leader only)  appends/validation.py
    3  epochs       a leader's first batch starts its epoch
    4  segment      roll if the active one is full, old, or cannot hold these offsets
    5  producers    duplicates, sequences, epochs, transactions          producers/validation.py
    6  write        bytes, then producers, transaction index, high watermark

If a step fails, the effects of the steps before it stay: an epoch, a new segment. Kafka does the
same.

Mirrors UnifiedLog.append.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.batch import HEADER_SIZE, BatchHeader, RecordBatch
from kafka_format.batch_layout import BATCH, LENGTH_END, MAGIC_AT, PREFIX
from kafka_format.errors import MEMORY
from kafka_log.appends.info import (
    UNKNOWN_OFFSET,
    analyze_and_validate_records,
    check_batch_sizes,
    trim_invalid_bytes,
)
from kafka_log.appends.records import iter_offsets
from kafka_log.appends.validation import validate_messages_and_assign_offsets
from kafka_log.errors import RecordBatchTooLargeError, UnexpectedAppendOffsetError
from kafka_log.log.fetch_data import LogOffsetMetadata
from kafka_log.producers.append import TV_UNKNOWN
from kafka_log.producers.entry import SENTINEL
from kafka_log.producers.map_order import in_map_order
from kafka_log.producers.validation import analyze_and_validate_producer_state
from kafka_log.segment.log_segment import LogSegment, RollParams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.primitives import Buffer
    from kafka_log.appends.info import LogAppendInfo
    from kafka_log.appends.origin import AppendOptions
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.producers.entry import VerificationGuard
    from kafka_log.producers.validation import ProducerValidation

_INT32_MAX = 2**31 - 1
_LENGTH = BATCH.reader("batch_length")
_PRODUCER_ID = BATCH.reader("producer_id")


class TransactionCheck(NamedTuple):
    """What the first append of a transaction is checked against."""

    verification_guard: VerificationGuard = SENTINEL
    transaction_version: int = TV_UNKNOWN


NO_TRANSACTION_CHECK = TransactionCheck()


def append_records(
    log: PartitionLog,
    records: Buffer,
    options: AppendOptions,
    check: TransactionCheck = NO_TRANSACTION_CHECK,
) -> LogAppendInfo:
    """Append the batches of one request. Raises a LogError if the log refuses them."""
    # The topic's id is on disk before any record is.
    log.maybe_flush_metadata_file()
    info = analyze_and_validate_records(
        records, options, log.config, log_start_offset=log.log_start_offset
    )
    if info.valid_bytes <= 0:
        return info
    valid = trim_invalid_bytes(records, info)
    log.local_log.ensure_open()
    if options.assigns_offsets:
        valid = _validate(log, valid, info, options)
    elif info.first_or_last_offset_of_first_batch < log.log_end_offset:
        raise _unexpected_offset(log, valid, info)
    _assign_epochs(log, valid)
    if len(valid) > log.config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"{log.files.directory}: found an append of {len(valid)} bytes, expected at most"
            f" segment.bytes, {log.config.segment_bytes}"
        )
    segment = _maybe_roll(log, len(valid), info)
    positions: dict[int, int] = {}
    checked = analyze_and_validate_producer_state(
        log.producer_state_manager,
        _iter_producer_batches(valid, segment.size, positions),
        options.origin,
        check.verification_guard,
        check.transaction_version,
    )
    if checked.duplicate is not None:
        info.first_offset = checked.duplicate.first_offset
        info.last_offset = checked.duplicate.last_offset
        info.log_append_time = checked.duplicate.timestamp
        info.log_start_offset = log.log_start_offset
        return info
    log.local_log.append(info.last_offset, valid)
    log.offsets.update_high_watermark_with_log_end_offset()
    _update_producers(log, segment, checked, positions)
    log.after_append(last_offset=info.last_offset)
    return info


def _validate(
    log: PartitionLog, records: Buffer, info: LogAppendInfo, options: AppendOptions
) -> Buffer:
    info.first_offset = log.log_end_offset
    result = validate_messages_and_assign_offsets(
        records,
        options,
        log.config,
        offset=log.log_end_offset,
        now_ms=log.clock(),
        source_compression=info.source_compression,
    )
    info.max_timestamp = result.max_timestamp_ms
    info.last_offset = result.next_offset - 1
    info.record_validation_stats = result.record_validation_stats
    if log.config.message_timestamp_type == "LogAppendTime":
        info.log_append_time = result.log_append_time_ms
    if not options.ignores_record_size and result.message_size_maybe_changed:
        check_batch_sizes(result.validated_records, log.config)
    return result.validated_records


def _unexpected_offset(
    log: PartitionLog, records: Buffer, info: LogAppendInfo
) -> UnexpectedAppendOffsetError:
    offsets = ", ".join(map(str, islice(iter_offsets(records), 10)))
    return UnexpectedAppendOffsetError(
        f"{log.files.directory}: an append from offset {info.first_or_last_offset_of_first_batch}"
        f" on (the first ten are {offsets}), expected {log.log_end_offset} or more"
    )


def _assign_epochs(log: PartitionLog, records: Buffer) -> None:
    cache = log.leader_epoch_cache
    last_epoch, last_base = None, -1
    for position, _ in _iter_positions(records):
        base_offset, _, epoch, magic = PREFIX.unpack_from(records, position)
        if magic < 2:
            # Without epochs, followers cannot find where their logs diverge: they truncate to the
            # high watermark instead.
            if cache.non_empty:
                cache.clear_and_flush()
        elif epoch != last_epoch or base_offset < last_base:
            cache.assign(epoch, base_offset)
            last_epoch, last_base = epoch, base_offset


def _maybe_roll(log: PartitionLog, messages_size: int, info: LogAppendInfo) -> LogSegment:
    segment = log.active_segment
    params = RollParams(
        max_segment_ms=log.config.max_segment_ms,
        max_segment_bytes=log.config.segment_bytes,
        max_timestamp_in_messages=info.max_timestamp,
        max_offset_in_messages=info.last_offset,
        messages_size=messages_size,
        now=log.clock(),
    )
    if not segment.should_roll(params):
        return segment
    if info.first_offset == UNKNOWN_OFFSET:
        # An old batch does not store its first offset: take the lowest that its last one allows.
        return log.roll(info.last_offset - _INT32_MAX)
    return log.roll(info.first_offset)


def _update_producers(
    log: PartitionLog,
    segment: LogSegment,
    checked: ProducerValidation,
    positions: dict[int, int],
) -> None:
    """Apply an append to the producers; `positions` holds where its batches are, by base offset."""
    producers = log.producer_state_manager
    for updated in in_map_order(checked.updated_producers):
        producers.update(updated)
        for txn in updated.started_transactions:
            first, position = txn.first_offset, positions[txn.first_offset]
            place = LogOffsetMetadata(first, segment.base_offset, position)
            log.offsets.note_transaction(place)
    for completed in checked.completed_txns:
        segment.update_txn_index(completed, producers.last_stable_offset(completed))
        producers.complete_txn(completed)


def _iter_positions(records: Buffer) -> Iterator[tuple[int, int]]:
    """Yield the position and size of each batch. All batches are known to be complete."""
    position, end = 0, len(records)
    while position < end:
        size = LENGTH_END + _LENGTH.unpack_from(records, position)[0]
        yield position, size
        position += size


def _iter_producer_batches(
    records: Buffer, start: int, positions: dict[int, int]
) -> Iterator[RecordBatch]:
    """Yield the batches that have a producer, and store each one's position by base offset.

    `start` is the position of the first batch in the segment.
    """
    view = memoryview(records)
    for position, size in _iter_positions(records):
        if view[position + MAGIC_AT] < 2 or size < HEADER_SIZE:
            continue
        if _PRODUCER_ID.unpack_from(view, position)[0] >= 0:
            header = BatchHeader.unpack(view, position)
            positions[header.base_offset] = start + position
            yield RecordBatch(header, MEMORY, position, view[position : position + size])
