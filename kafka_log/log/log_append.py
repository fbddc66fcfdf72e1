"""An append, from the bytes of a request to the last of its effects.

    1  batches      sizes, checksums, order                              appends/info.py
    2  records      checked, stamped, converted, given offsets           validation.py (a leader)
    3  epochs       the first batch of a leader begins its epoch
    4  a segment    a new one if the active is full, old, or cannot hold these offsets
    5  producers    duplicates, sequences, epochs, transactions          producers/validation.py
    6  bytes, then producers, transaction index, high watermark

What fails leaves behind what the steps before it did: an epoch, a new segment. So does Kafka.

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
from kafka_log.producers.map_order import in_map_order
from kafka_log.producers.validation import analyze_and_validate_producer_state
from kafka_log.segment.log_segment import LogSegment, RollParams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.primitives import Buffer
    from kafka_log.appends.info import LogAppendInfo
    from kafka_log.appends.origin import AppendOrigin
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.producers.entry import VerificationGuard

_INT32_MAX = 2**31 - 1
_LENGTH = BATCH.reader("batch_length")
_PRODUCER_ID = BATCH.reader("producer_id")


class Append(NamedTuple):
    """Who appends, and what that means for the records."""

    origin: AppendOrigin
    leader_epoch: int
    assigns_offsets: bool
    ignores_record_size: bool
    magic: int
    verification_guard: VerificationGuard
    transaction_version: int


def append_records(log: PartitionLog, records: Buffer, append: Append) -> LogAppendInfo:
    # The topic's id is on disk before any record is.
    log.maybe_flush_metadata_file()
    info = analyze_and_validate_records(
        records,
        origin=append.origin,
        ignore_record_size=append.ignores_record_size,
        require_offsets_monotonic=not append.assigns_offsets,
        leader_epoch=append.leader_epoch,
        config=log.config,
        log_start_offset=log.log_start_offset,
    )
    if info.valid_bytes <= 0:
        return info
    valid = trim_invalid_bytes(records, info)
    log.local_log.ensure_open()
    if append.assigns_offsets:
        valid = _validate(log, valid, info, append)
    elif info.first_or_last_offset_of_first_batch < log.log_end_offset:
        raise _unexpected_offset(log, valid, info)
    _assign_epochs(log, valid)
    if len(valid) > log.config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"{log.files.directory}: found an append of {len(valid)} bytes, expected at most"
            f" segment.bytes, {log.config.segment_bytes}"
        )
    segment = _maybe_roll(log, len(valid), info)
    return _write(log, segment, valid, info, append)


def _validate(log: PartitionLog, records: Buffer, info: LogAppendInfo, append: Append) -> Buffer:
    info.first_offset = log.log_end_offset
    result = validate_messages_and_assign_offsets(
        records,
        offset=log.log_end_offset,
        now_ms=log.clock(),
        config=log.config,
        source_compression=info.source_compression,
        origin=append.origin,
        partition_leader_epoch=append.leader_epoch,
        to_magic=append.magic,
    )
    info.max_timestamp = result.max_timestamp_ms
    info.last_offset = result.next_offset - 1
    info.record_validation_stats = result.record_validation_stats
    if log.config.message_timestamp_type == "LogAppendTime":
        info.log_append_time = result.log_append_time_ms
    if not append.ignores_record_size and result.message_size_maybe_changed:
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
            # Without epochs followers cannot tell where their logs part: they go by the high
            # watermark again.
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
        # Of an old batch the first offset is not known: as low as its last one allows.
        return log.roll(info.last_offset - _INT32_MAX)
    return log.roll(info.first_offset)


def _write(
    log: PartitionLog, segment: LogSegment, records: Buffer, info: LogAppendInfo, append: Append
) -> LogAppendInfo:
    producers = log.producer_state_manager
    start = segment.size
    positions: dict[int, int] = {}
    checked = analyze_and_validate_producer_state(
        producers,
        _iter_producer_batches(records, positions),
        append.origin,
        append.verification_guard,
        append.transaction_version,
    )
    if checked.duplicate is not None:
        info.first_offset = checked.duplicate.first_offset
        info.last_offset = checked.duplicate.last_offset
        info.log_append_time = checked.duplicate.timestamp
        info.log_start_offset = log.log_start_offset
        return info
    log.local_log.append(info.last_offset, records)
    log.offsets.update_high_watermark_with_log_end_offset()
    for updated in in_map_order(checked.updated_producers):
        producers.update(updated)
        for txn in updated.started_transactions:
            position = start + positions[txn.first_offset]
            place = LogOffsetMetadata(txn.first_offset, segment.base_offset, position)
            log.offsets.note_transaction(place)
    for completed in checked.completed_txns:
        segment.update_txn_index(completed, producers.last_stable_offset(completed))
        producers.complete_txn(completed)
    log.after_append(last_offset=info.last_offset)
    return info


def _iter_positions(records: Buffer) -> Iterator[tuple[int, int]]:
    """Position and size of each batch; that all are whole was checked before."""
    position, end = 0, len(records)
    while position < end:
        size = LENGTH_END + _LENGTH.unpack_from(records, position)[0]
        yield position, size
        position += size


def _iter_producer_batches(records: Buffer, positions: dict[int, int]) -> Iterator[RecordBatch]:
    """Batches that have a producer; `positions` is told where each base offset lies."""
    view = memoryview(records)
    for position, size in _iter_positions(records):
        if view[position + MAGIC_AT] < 2 or size < HEADER_SIZE:
            continue
        if _PRODUCER_ID.unpack_from(view, position)[0] >= 0:
            header = BatchHeader.unpack(view, position)
            positions[header.base_offset] = position
            yield RecordBatch(header, MEMORY, position, view[position : position + size])
