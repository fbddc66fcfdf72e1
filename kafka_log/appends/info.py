"""The batches of an append, checked before any record is read.

`analyze_and_validate_records` reads the headers, checks sizes and checksums, and returns what the
log needs to know; `trim_invalid_bytes` drops what follows the last complete batch. A leader then
validates the records (validation.py) and assigns offsets; a follower appends the batches unchanged.

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
from kafka_log.appends.origin import AppendOptions, AppendOrigin
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
    """What validation cost: memory used besides the request, and records converted."""

    temporary_memory_bytes: int = 0
    num_records_converted: int = 0


NO_STATS = RecordValidationStats()


@dataclass(slots=True, kw_only=True)
class LogAppendInfo:
    """What is known about an append. A leader fills it in during the append."""

    first_offset: int = UNKNOWN_OFFSET  # a follower does not know it for magic 0 and 1
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
        """Return the first offset, or the last one for old batches, which do not store the first.

        A broker does not decompress them to find it.
        """
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def num_messages(self) -> int:
        """Return the number of offsets. With gaps (compaction) there are fewer messages."""
        if self.first_offset >= 0 and self.last_offset >= 0:
            return self.last_offset - self.first_offset + 1
        return 0

    def copy(self, leader_hw_change: LeaderHwChange) -> "LogAppendInfo":
        return replace(self, leader_hw_change=leader_hw_change)


def analyze_and_validate_records(
    records: Buffer,
    options: AppendOptions,
    config: LogConfig,
    *,
    log_start_offset: int = UNKNOWN_OFFSET,
    compiled: bool | None = None,
) -> LogAppendInfo:
    """Check the batches of an append and summarize them. Raises a LogError if the log refuses them.

    A follower drops the first batch that a newer leader wrote and all that follow: `valid_bytes`
    ends there (KAFKA-18723). `compiled` says whether kernels are used; by default the size of the
    append decides.
    """
    origin, leader_epoch = options.origin, options.leader_epoch
    must_increase = not options.assigns_offsets
    if must_increase and origin in _COPIES and _has_many_batches(records, compiled):
        max_size = None if options.ignores_record_size else config.max_message_bytes
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
            if not options.ignores_record_size:
                _check_size(batch.size_in_bytes, config)
            if not batch.is_valid:
                raise CorruptMessageError(f"batch with last offset {last_offset}: wrong checksum")
            info.max_timestamp = max(info.max_timestamp, batch.max_timestamp)
            info.valid_bytes += batch.size_in_bytes
            info.source_compression = batch.codec or info.source_compression
        if must_increase and not is_monotonic:
            found = ", ".join(map(str, iter_offsets(records)))
            raise OffsetsOutOfOrderError(f"offsets {found}: they must increase")
    if last_leader_epoch != NO_PARTITION_LEADER_EPOCH:
        info.last_leader_epoch = last_leader_epoch
    return info


def _has_many_batches(records: Buffer, compiled: bool | None) -> bool:
    """Whether kernels are worth it. The size of the first batch decides."""
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
    """Summarize the batches as columns; None if any has to be refused or left out."""
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
    """Return the valid bytes: an incomplete batch at the end is not appended."""
    if info.valid_bytes == len(records):
        return records
    return memoryview(records)[: info.valid_bytes]


def check_batch_sizes(records: Buffer, config: LogConfig) -> None:
    """Check the sizes again after validation may have changed them."""
    for batch in iter_appended(records):
        _check_size(batch.size_in_bytes, config)


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        allowed = config.max_message_bytes
        raise RecordTooLargeError(f"batch of {size} bytes, max.message.bytes is {allowed}")


def validate_produce_records(records: Buffer, *, version: int) -> None:
    """Check that a produce request has exactly one batch of magic 2 for a partition."""
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
