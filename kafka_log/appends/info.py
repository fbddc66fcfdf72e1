"""What an append is about, before a record of it is looked at: the batches it consists of.

`analyze_and_validate_records` walks the headers, checks sizes and checksums, and tells what the log
has to know; `trim_invalid_bytes` drops what follows the last whole batch. A leader then validates
the records (validation.py) and fills in the offsets; a follower takes the batches as they are.

Mirrors UnifiedLog.analyzeAndValidateRecords, LogAppendInfo and, for a produce request,
ProduceRequest.validateRecords.
"""

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafka_format.batch import NO_PARTITION_LEADER_EPOCH
from kafka_format.batch_layout import LENGTH_AT, LENGTH_END
from kafka_format.compression import Codec
from kafka_format.primitives import Buffer
from kafka_format.record import NO_TIMESTAMP
from kafka_log.appends.batches import DefaultBatch, iter_appended
from kafka_log.appends.origin import AppendOrigin
from kafka_log.appends.records import iter_offsets, prefers_kernels
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import (
    CorruptMessageError,
    InvalidRecordError,
    OffsetsOutOfOrderError,
    RecordError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)

UNKNOWN_OFFSET = -1
_FIRST_PRODUCE_WITH_ZSTD = 7
_MANY_BATCHES = 8
_COPIES = (AppendOrigin.REPLICATION, AppendOrigin.RAFT_LEADER)


class LeaderHwChange(enum.Enum):
    """Whether an append moved the leader's high watermark; NONE where there was no append."""

    INCREASED = "increased"
    SAME = "same"
    NONE = "none"


class RecordValidationStats(NamedTuple):
    """What validation cost: bytes held beside the request, and records written anew."""

    temporary_memory_bytes: int = 0
    num_records_converted: int = 0


NO_STATS = RecordValidationStats()


@dataclass(slots=True, kw_only=True)
class LogAppendInfo:
    """An append, as far as it is known; a leader completes it as it goes."""

    first_offset: int = UNKNOWN_OFFSET  # unknown to a follower of magic 0 and 1
    last_offset: int = UNKNOWN_OFFSET
    last_leader_epoch: int | None = None
    max_timestamp: int = NO_TIMESTAMP
    log_append_time: int = NO_TIMESTAMP
    log_start_offset: int = UNKNOWN_OFFSET
    record_validation_stats: RecordValidationStats = NO_STATS
    source_compression: Codec = Codec.NONE
    valid_bytes: int = -1
    last_offset_of_first_batch: int = UNKNOWN_OFFSET
    record_errors: tuple[RecordError, ...] = ()
    leader_hw_change: LeaderHwChange = LeaderHwChange.NONE

    @property
    def first_or_last_offset_of_first_batch(self) -> int:
        """An old batch does not store its first offset, and nobody decompresses it for that."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def num_messages(self) -> int:
        """At most: compacted batches have gaps."""
        if self.first_offset >= 0 and self.last_offset >= 0:
            return self.last_offset - self.first_offset + 1
        return 0

    def copy(self, leader_hw_change: LeaderHwChange) -> "LogAppendInfo":
        return replace(self, leader_hw_change=leader_hw_change)


def analyze_and_validate_records(
    records: Buffer,
    *,
    origin: AppendOrigin,
    ignore_record_size: bool,
    require_offsets_monotonic: bool,
    leader_epoch: int,
    config: LogConfig,
    log_start_offset: int = UNKNOWN_OFFSET,
    compiled: bool | None = None,
) -> LogAppendInfo:
    """What the batches of an append amount to, or why the log refuses them as a whole.

    From a batch on that a newer leader wrote, a follower leaves the rest: `valid_bytes` ends there
    (KAFKA-18723). `compiled` says whether kernels walk; without it the number of bytes does.
    """
    if require_offsets_monotonic and origin in _COPIES and _has_many_batches(records, compiled):
        max_size = None if ignore_record_size else config.max_message_bytes
        scanned = _analyze_at_once(records, origin, leader_epoch, max_size)
        if scanned is not None:
            scanned.log_start_offset = log_start_offset
            return scanned
    info = LogAppendInfo(log_start_offset=log_start_offset, valid_bytes=0)
    is_first, is_monotonic, skips = True, True, False
    last_leader_epoch = NO_PARTITION_LEADER_EPOCH
    for batch in iter_appended(records):
        epoch = batch.partition_leader_epoch
        if origin is AppendOrigin.RAFT_LEADER and epoch != leader_epoch:
            raise InvalidRecordError(f"batch of epoch {epoch} from the leader of {leader_epoch}")
        first_offset = batch.first_offset if isinstance(batch, DefaultBatch) else UNKNOWN_OFFSET
        if origin is AppendOrigin.CLIENT and batch.magic == 2 and first_offset != 0:
            raise InvalidRecordError(f"base offset {first_offset} from a client, expected 0")
        skips = skips or (
            origin is AppendOrigin.REPLICATION
            and epoch != NO_PARTITION_LEADER_EPOCH
            and epoch > leader_epoch
        )
        if not skips:
            last_offset = batch.last_offset
            if is_first:
                info.first_offset = first_offset
                info.last_offset_of_first_batch = last_offset
                is_first = False
            is_monotonic = is_monotonic and info.last_offset < last_offset
            info.last_offset = last_offset
            last_leader_epoch = epoch
            if not ignore_record_size:
                _check_size(batch.size_in_bytes, config)
            if not batch.is_valid:
                raise CorruptMessageError(f"batch with last offset {last_offset}: wrong checksum")
            info.max_timestamp = max(info.max_timestamp, batch.max_timestamp)
            info.valid_bytes += batch.size_in_bytes
            info.source_compression = batch.codec or info.source_compression
        if require_offsets_monotonic and not is_monotonic:
            found = ", ".join(map(str, iter_offsets(records)))
            raise OffsetsOutOfOrderError(f"offsets {found}: they must increase")
    if last_leader_epoch != NO_PARTITION_LEADER_EPOCH:
        info.last_leader_epoch = last_leader_epoch
    return info


def _has_many_batches(records: Buffer, compiled: bool | None) -> bool:
    """Whether they are worth kernels, going by the size of the first."""
    if compiled is not None:
        return compiled
    size = len(records)
    return (
        prefers_kernels(size)
        and int.from_bytes(records[LENGTH_AT:LENGTH_END], "big") < size // _MANY_BATCHES
    )


def _analyze_at_once(
    records: Buffer, origin: AppendOrigin, leader_epoch: int, max_size: int | None
) -> LogAppendInfo | None:
    """What the walk would give, if nothing about these batches is to be refused or left out."""
    from kafka_log.appends.scan import scan_batches

    found = scan_batches(records)
    if (
        found is None
        or found.highest_leader_epoch > leader_epoch
        or (origin is AppendOrigin.RAFT_LEADER and found.lowest_leader_epoch != leader_epoch)
        or (max_size is not None and found.largest_size > max_size)
    ):
        return None
    epoch = found.last_leader_epoch
    return LogAppendInfo(
        first_offset=found.first_offset,
        last_offset=found.last_offset,
        last_leader_epoch=None if epoch == NO_PARTITION_LEADER_EPOCH else epoch,
        max_timestamp=max(found.max_timestamp, NO_TIMESTAMP),
        source_compression=found.source_compression,
        valid_bytes=len(records),
        last_offset_of_first_batch=found.last_offset_of_first_batch,
    )


def trim_invalid_bytes(records: Buffer, info: LogAppendInfo) -> Buffer:
    """The bytes that analysis vouched for: a batch cut off at the end is not appended."""
    if info.valid_bytes == len(records):
        return records
    return memoryview(records)[: info.valid_bytes]


def check_batch_sizes(records: Buffer, config: LogConfig) -> None:
    """Once more, where validation may have changed sizes."""
    for batch in iter_appended(records):
        _check_size(batch.size_in_bytes, config)


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        allowed = config.max_message_bytes
        raise RecordTooLargeError(f"batch of {size} bytes, max.message.bytes is {allowed}")


def validate_produce_records(records: Buffer, *, version: int) -> None:
    """What a produce request of this version may carry for a partition: one batch of magic 2."""
    batches = iter_appended(records)
    first = next(batches, None)
    if first is None:
        raise InvalidRecordError(f"no batch in a produce request of version {version}")
    if first.magic != 2:
        raise InvalidRecordError(f"batch of magic {first.magic} in a produce request, expected 2")
    if version < _FIRST_PRODUCE_WITH_ZSTD and first.codec is Codec.ZSTD:
        raise UnsupportedCompressionTypeError(f"zstd in a produce request of version {version}")
    if next(batches, None) is not None:
        raise InvalidRecordError("several batches for a partition in a produce request")
