"""What a leader does to records before they are in the log: judge them, and give them offsets.

Where magic, codec and inner offsets are what the log wants, a batch keeps its bytes and only its
header is stamped (stamping.py). Else all records are written anew (conversion.py).

All records of a batch are looked at before it is refused for any of them; one bad timestamp makes
it an InvalidTimestampError, whatever else is wrong. A batch that cannot be read to its end is
refused for that alone, and names no records.

Mirrors LogValidator.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka_format.batch import NO_PRODUCER_ID
from kafka_format.compression import Codec
from kafka_format.primitives import Buffer
from kafka_format.record import NO_TIMESTAMP
from kafka_log.appends.batches import AppendedBatch, DefaultBatch, LegacyBatch, iter_appended
from kafka_log.appends.conversion import (
    AnyRecord,
    BatchFields,
    BuiltRecords,
    RecordsBuilder,
    TargetCompression,
    batch_overhead,
    build_batch,
    build_records,
)
from kafka_log.appends.info import (
    NO_STATS,
    LeaderHwChange,
    LogAppendInfo,
    RecordValidationStats,
    analyze_and_validate_records,
    check_batch_sizes,
    trim_invalid_bytes,
    validate_produce_records,
)
from kafka_log.appends.origin import AppendOrigin
from kafka_log.appends.record_rules import RecordRules, refuse
from kafka_log.appends.records import RecordSummary, decode_appended, decode_kept
from kafka_log.appends.stamping import stamp_batch, stamp_message
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import (
    InvalidRecordError,
    UnknownServerError,
    UnsupportedForMessageFormatError,
)

__all__ = [
    "AppendOrigin",
    "LeaderHwChange",
    "LogAppendInfo",
    "RecordValidationStats",
    "TargetCompression",
    "ValidationResult",
    "analyze_and_validate_records",
    "check_batch_sizes",
    "target_compression",
    "trim_invalid_bytes",
    "validate_messages_and_assign_offsets",
    "validate_produce_records",
]


class ValidationResult(NamedTuple):
    """Records as they go into the log, and the offset that the next append begins at."""

    validated_records: bytes
    next_offset: int
    log_append_time_ms: int
    max_timestamp_ms: int
    message_size_maybe_changed: bool = False
    record_validation_stats: RecordValidationStats = NO_STATS


def target_compression(config: LogConfig, source: Codec) -> TargetCompression:
    """The topic's compression.type at its level; what producers choose is rebuilt at defaults."""
    match config.compression_type:
        case "producer":
            return TargetCompression(source)
        case "gzip":
            return TargetCompression(Codec.GZIP, config.compression_gzip_level)
        case "lz4":
            return TargetCompression(Codec.LZ4, config.compression_lz4_level)
        case "zstd":
            return TargetCompression(Codec.ZSTD, config.compression_zstd_level)
        case "snappy":
            return TargetCompression(Codec.SNAPPY)
        case "uncompressed":
            return TargetCompression(Codec.NONE)
        case other:
            raise ValueError(f"compression.type {other}")


def validate_messages_and_assign_offsets(
    records: Buffer,
    *,
    offset: int,
    now_ms: int,
    config: LogConfig,
    source_compression: Codec,
    origin: AppendOrigin,
    partition_leader_epoch: int,
    to_magic: int = 2,
    compiled: bool | None = None,
) -> ValidationResult:
    """Records that analysis found to be whole and of sound checksums, as they go into the log.

    `offset` is that of the first one, `source_compression` what analysis found. A `to_magic` below
    2 makes old logs, for tests, as in Kafka. `compiled` says whether kernels decode; without it
    the size of a batch does.
    """
    return _Validator(
        batches=tuple(iter_appended(records)),
        offset=offset,
        rules=RecordRules(config, now_ms),
        source=source_compression,
        target=target_compression(config, source_compression),
        origin=origin,
        leader_epoch=partition_leader_epoch,
        to_magic=to_magic,
        compiled=compiled,
    ).validate()


@dataclass(slots=True, kw_only=True)
class _Validator:
    batches: tuple[AppendedBatch, ...]
    offset: int
    rules: RecordRules
    source: Codec
    target: TargetCompression
    origin: AppendOrigin
    leader_epoch: int
    to_magic: int
    compiled: bool | None

    def validate(self) -> ValidationResult:
        if self.source is not Codec.NONE or self.target.codec is not Codec.NONE:
            return self._validate_compressed()
        if all(batch.magic == self.to_magic for batch in self.batches):
            return self._assign_in_place()
        return self._convert()

    # --- the three ways -------------------------------------------------------------------------

    def _assign_in_place(self) -> ValidationResult:
        """Uncompressed and of the wanted magic: only headers change."""
        first = self._first_batch(Codec.NONE)
        offset, max_timestamp = self.offset, NO_TIMESTAMP
        stamped = []
        for batch in self.batches:
            self._validate_batch(first, batch)
            summary = self._judge(batch)
            offset += summary.record_count
            highest = max(summary.max_timestamp, NO_TIMESTAMP)
            max_timestamp = max(max_timestamp, highest)
            stamped.append(self._stamped(batch, offset - 1, highest))
        if self.rules.is_append_time:
            max_timestamp = NO_TIMESTAMP if self.to_magic == 0 else self.rules.now_ms
        data = stamped[0] if len(stamped) == 1 else b"".join(stamped)
        return ValidationResult(data, offset, self.rules.now_ms, max_timestamp)

    def _convert(self) -> ValidationResult:
        """Uncompressed, but of another magic."""
        for batch in self.batches:  # Kafka measures them first, and stumbles over what is broken
            for record in self._records(batch):
                _ = record.key, record.value
        first = self._first_batch(Codec.NONE)
        builder = RecordsBuilder(self._fields(first))
        for batch in self.batches:
            self._validate_batch(first, batch)
            self._append_to(builder, batch)
        return self._rebuilt(builder.build())

    def _append_to(self, builder: RecordsBuilder, batch: AppendedBatch) -> None:
        """Records up to the first that breaks a rule; the builder may refuse one before that."""
        problems = []
        for index, record in enumerate(self._records(batch)):
            problem = self.rules.problem_of(index, batch, record)
            if problem is not None:
                problems.append(problem)
            elif not problems:
                builder.append(record)
        refuse(problems)

    def _validate_compressed(self) -> ValidationResult:
        """In place if codec and magic stay, and offsets inside count from zero."""
        first = self._first_batch(self.source)
        in_place = self.source is self.target.codec and first.magic == self.to_magic > 0
        if self.source is Codec.NONE and _is_control(first):
            in_place = True  # control records are not compressed unless they came so
        skips_values = in_place and first.magic == 2
        size = count = 0
        max_timestamp = NO_TIMESTAMP
        for batch in self.batches:
            self._validate_batch(first, batch)
            summary = self._judge(batch, skips_values=skips_values, first_index=count)
            size += batch_overhead(self.to_magic, batch.codec) + summary.size_in_bytes
            count += summary.record_count
            if batch.magic > 0 and self.to_magic > 0:
                max_timestamp = max(max_timestamp, summary.max_timestamp)
                in_place = in_place and summary.counts_from_zero
        if in_place:
            return self._kept(first, count, max_timestamp, size)
        if skips_values and first.codec is not Codec.NONE:
            # Kafka meant to keep the batch, and has not read what it would have to write now.
            raise UnknownServerError("a compressed batch whose offsets do not count from zero")
        return self._rebuild(first, size)

    # --- what they give -------------------------------------------------------------------------

    def _kept(
        self, batch: AppendedBatch, count: int, max_timestamp: int, size: int
    ) -> ValidationResult:
        next_offset = self.offset + count
        return ValidationResult(
            self._stamped(batch, next_offset - 1, max_timestamp),
            next_offset,
            self.rules.now_ms,
            self.rules.now_ms if self.rules.is_append_time else max_timestamp,
            record_validation_stats=RecordValidationStats(size),
        )

    def _rebuild(self, first: AppendedBatch, size: int) -> ValidationResult:
        built = self._with_payload_of(first)
        if built is None:
            records = (record for batch in self.batches for record in self._records(batch))
            built = build_records(self._fields(first), records)
        if not built.num_records and self.rules.is_append_time:
            raise UnknownServerError("no record that has a last offset")
        return self._rebuilt(built, size)

    def _with_payload_of(self, first: AppendedBatch) -> BuiltRecords | None:
        """The only batch in another codec, if its records would be written as they are."""
        if self.to_magic < 2 or isinstance(first, LegacyBatch):
            return None
        records = decode_appended(first, compiled=self.compiled)
        payload = records.canonical_payload()
        if payload is None:
            return None
        return build_batch(
            self._fields(first),
            payload,
            first.header.record_count,
            base_timestamp=first.header.base_timestamp,
            max_timestamp=records.summary().max_timestamp,
        )

    def _rebuilt(self, built: BuiltRecords, size: int = 0) -> ValidationResult:
        size += built.uncompressed_bytes_written
        return ValidationResult(
            built.data,
            self.offset + built.num_records,
            self.rules.now_ms,
            built.max_timestamp,
            message_size_maybe_changed=True,
            record_validation_stats=RecordValidationStats(size, built.num_records),
        )

    def _stamped(self, batch: AppendedBatch, last_offset: int, max_timestamp: int) -> bytes:
        timestamp = self.rules.now_ms if self.rules.is_append_time else max_timestamp
        if isinstance(batch, LegacyBatch):
            return stamp_message(
                batch,
                last_offset=last_offset,
                timestamp_type=self.rules.timestamp_type,
                max_timestamp=timestamp,
            )
        # A control batch is stamped in place even if an old magic is wanted, as far as that had it.
        return stamp_batch(
            batch,
            last_offset=last_offset,
            partition_leader_epoch=self.leader_epoch if self.to_magic == 2 else None,
            timestamp_type=self.rules.timestamp_type if self.to_magic else batch.timestamp_type,
            max_timestamp=timestamp if self.to_magic else batch.max_timestamp,
        )

    def _fields(self, first: AppendedBatch) -> BatchFields:
        fields = BatchFields(
            self.to_magic,
            self.target,
            self.rules.timestamp_type,
            self.offset,
            self.rules.now_ms,
            self.leader_epoch,
        )
        if isinstance(first, LegacyBatch):
            return fields
        return fields._replace(
            producer_id=first.header.producer_id,
            producer_epoch=first.header.producer_epoch,
            base_sequence=first.header.base_sequence,
            is_transactional=first.header.is_transactional,
        )

    # --- batches and records --------------------------------------------------------------------

    def _first_batch(self, source: Codec) -> AppendedBatch:
        """Only plain messages of magic 0 and 1 come several at a time."""
        if not self.batches:
            raise InvalidRecordError("no batch at all")
        first = self.batches[0]
        if len(self.batches) > 1 and (first.magic == 2 or source is not Codec.NONE):
            raise InvalidRecordError(f"{len(self.batches)} batches where one is allowed")
        return first

    def _validate_batch(self, first: AppendedBatch, batch: AppendedBatch) -> None:
        if batch.magic != first.magic:
            raise InvalidRecordError(f"batch of magic {batch.magic} after one of {first.magic}")
        if isinstance(batch, LegacyBatch):
            return
        if self.origin is AppendOrigin.CLIENT:
            _validate_client_batch(batch)
        if self.to_magic < 2 and batch.header.is_transactional:
            raise UnsupportedForMessageFormatError(f"a transaction in magic {self.to_magic}")
        if self.to_magic < 2 and batch.header.producer_id > NO_PRODUCER_ID:
            raise UnsupportedForMessageFormatError(f"a producer id in magic {self.to_magic}")

    def _judge(
        self, batch: AppendedBatch, *, skips_values: bool = False, first_index: int = 0
    ) -> RecordSummary:
        if isinstance(batch, LegacyBatch):
            return self.rules.judge_messages(batch, first_index=first_index)
        decode = decode_kept if skips_values else decode_appended
        return self.rules.judge(batch, decode(batch, compiled=self.compiled))

    def _records(self, batch: AppendedBatch) -> Iterable[AnyRecord]:
        if isinstance(batch, LegacyBatch):
            return batch.iter_records()
        return decode_appended(batch, compiled=self.compiled).records()


def _validate_client_batch(batch: DefaultBatch) -> None:
    """Producers write whole batches: no gaps, no control records, sequences with producer ids."""
    header = batch.header
    count = header.last_offset_delta + 1
    if count <= 0 or count != header.record_count:
        found = f"offsets {header.base_offset} to {header.last_offset}"
        raise InvalidRecordError(f"batch with {found} and {header.record_count} records")
    if header.is_control:
        raise InvalidRecordError("a control batch from a client")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecordError(f"base sequence {header.base_sequence} of a producer")


def _is_control(batch: AppendedBatch) -> bool:
    return isinstance(batch, DefaultBatch) and batch.header.is_control
