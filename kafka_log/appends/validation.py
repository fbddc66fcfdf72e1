"""Validate the records of an append and assign offsets, as a leader does.

If magic, codec and inner offsets are what the log requires, a batch keeps its bytes and only its
header changes (stamping.py). Otherwise all records are written again (conversion.py).

All records of a batch are checked before it is refused. One invalid timestamp makes the error an
InvalidTimestampError, whatever else is wrong. If a batch cannot be read completely, the error
reports only that, and names no records.

Mirrors LogValidator.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafka_format.batch import NO_PRODUCER_ID
from kafka_format.compression import Codec
from kafka_format.primitives import Buffer
from kafka_format.record import NO_TIMESTAMP
from kafka_log.appends.batches import (
    AppendedBatch,
    AppendedLegacyBatch,
    DefaultBatch,
    iter_appended,
)
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
from kafka_log.appends.origin import AppendOptions, AppendOrigin
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
    "AppendOptions",
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
    """The records as they go into the log, and the offset of the next append."""

    validated_records: bytes
    next_offset: int
    log_append_time_ms: int
    max_timestamp_ms: int
    message_size_maybe_changed: bool = False
    record_validation_stats: RecordValidationStats = NO_STATS


def target_compression(config: LogConfig, source: Codec) -> TargetCompression:
    """Return the topic's codec and level; the producer's codec has the default level."""
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
    options: AppendOptions,
    config: LogConfig,
    *,
    offset: int,
    now_ms: int,
    source_compression: Codec,
    compiled: bool | None = None,
) -> ValidationResult:
    """Validate records that analysis found complete, and return them as they go into the log.

    The first record gets `offset`; `source_compression` is the codec that analysis found.
    `compiled` says whether kernels decode; by default the size of a batch decides.
    """
    return _Validator(
        batches=tuple(iter_appended(records)),
        options=options,
        offset=offset,
        rules=RecordRules(config, now_ms),
        source=source_compression,
        target=target_compression(config, source_compression),
        compiled=compiled,
    ).validate()


@dataclass(slots=True, kw_only=True)
class _Validator:
    batches: tuple[AppendedBatch, ...]
    options: AppendOptions
    offset: int
    rules: RecordRules
    source: Codec
    target: TargetCompression
    compiled: bool | None

    @property
    def to_magic(self) -> int:
        return self.options.magic

    def validate(self) -> ValidationResult:
        if self.source is not Codec.NONE or self.target.codec is not Codec.NONE:
            return self._validate_compressed()
        if all(batch.magic == self.to_magic for batch in self.batches):
            return self._assign_in_place()
        return self._convert()

    # --- three ways to validate -----------------------------------------------------------------

    def _assign_in_place(self) -> ValidationResult:
        """Validate uncompressed batches of the required magic: only headers change."""
        first = self._first_batch(Codec.NONE)
        offset, max_timestamp = self.offset, NO_TIMESTAMP
        stamped = []
        for batch in self.batches:
            self._validate_batch(first, batch)
            summary = self._check_records(batch)
            offset += summary.record_count
            highest = max(summary.max_timestamp, NO_TIMESTAMP)
            max_timestamp = max(max_timestamp, highest)
            stamped.append(self._stamped(batch, offset - 1, highest))
        if self.rules.is_append_time:
            max_timestamp = NO_TIMESTAMP if self.to_magic == 0 else self.rules.now_ms
        data = stamped[0] if len(stamped) == 1 else b"".join(stamped)
        return ValidationResult(data, offset, self.rules.now_ms, max_timestamp)

    def _convert(self) -> ValidationResult:
        """Validate uncompressed batches of another magic, and convert them."""
        for batch in self.batches:  # Kafka computes their sizes first, and fails at damage there
            for record in self._records(batch):
                _ = record.key, record.value
        first = self._first_batch(Codec.NONE)
        builder = RecordsBuilder(self._fields(first))
        for batch in self.batches:
            self._validate_batch(first, batch)
            self._append_to(builder, batch)
        return self._rebuilt(builder.build())

    def _append_to(self, builder: RecordsBuilder, batch: AppendedBatch) -> None:
        """Add records up to the first that breaks a rule. The builder may refuse an earlier one."""
        problems = []
        for index, record in enumerate(self._records(batch)):
            problem = self.rules.find_problem(index, batch, record)
            if problem is not None:
                problems.append(problem)
            elif not problems:
                builder.append(record)
        refuse(problems)

    def _validate_compressed(self) -> ValidationResult:
        """Validate a compressed batch; keep it if codec and magic stay and offsets start at 0."""
        first = self._first_batch(self.source)
        in_place = self.source is self.target.codec and first.magic == self.to_magic > 0
        if self.source is Codec.NONE and _is_control(first):
            in_place = True  # control records are only compressed if they arrive compressed
        skips_values = in_place and first.magic == 2
        size = count = 0
        max_timestamp = NO_TIMESTAMP
        for batch in self.batches:
            self._validate_batch(first, batch)
            summary = self._check_records(batch, skips_values=skips_values, first_index=count)
            size += batch_overhead(self.to_magic, batch.codec) + summary.size_in_bytes
            count += summary.record_count
            if batch.magic > 0 and self.to_magic > 0:
                max_timestamp = max(max_timestamp, summary.max_timestamp)
                in_place = in_place and summary.counts_from_zero
        if in_place:
            return self._kept(first, count, max_timestamp, size)
        if skips_values and first.codec is not Codec.NONE:
            # Kafka skipped the values because it expected to keep the batch. It cannot rebuild it.
            raise UnknownServerError("a compressed batch whose offsets do not count from zero")
        return self._rebuild(first, size)

    # --- results --------------------------------------------------------------------------------

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
        """Recompress the only batch, if writing its records again would not change them."""
        if self.to_magic < 2 or isinstance(first, AppendedLegacyBatch):
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
        if isinstance(batch, AppendedLegacyBatch):
            return stamp_message(
                batch,
                last_offset=last_offset,
                timestamp_type=self.rules.timestamp_type,
                max_timestamp=timestamp,
            )
        # A control batch is stamped in place even for an old magic, but only in fields that the old
        # magic has.
        return stamp_batch(
            batch,
            last_offset=last_offset,
            partition_leader_epoch=self.options.leader_epoch if self.to_magic == 2 else None,
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
            self.options.leader_epoch,
        )
        if isinstance(first, AppendedLegacyBatch):
            return fields
        return fields._replace(
            producer_id=first.header.producer_id,
            producer_epoch=first.header.producer_epoch,
            base_sequence=first.header.base_sequence,
            is_transactional=first.header.is_transactional,
        )

    # --- batches and records --------------------------------------------------------------------

    def _first_batch(self, source: Codec) -> AppendedBatch:
        """Return the first batch. Only uncompressed messages of magic 0 and 1 may be several."""
        if not self.batches:
            raise InvalidRecordError("no batch at all")
        first = self.batches[0]
        if len(self.batches) > 1 and (first.magic == 2 or source is not Codec.NONE):
            raise InvalidRecordError(f"{len(self.batches)} batches where one is allowed")
        return first

    def _validate_batch(self, first: AppendedBatch, batch: AppendedBatch) -> None:
        if batch.magic != first.magic:
            raise InvalidRecordError(f"batch of magic {batch.magic} after one of {first.magic}")
        if isinstance(batch, AppendedLegacyBatch):
            return
        if self.options.origin is AppendOrigin.CLIENT:
            _validate_client_batch(batch)
        if self.to_magic < 2 and batch.header.is_transactional:
            raise UnsupportedForMessageFormatError(f"a transaction in magic {self.to_magic}")
        if self.to_magic < 2 and batch.header.producer_id > NO_PRODUCER_ID:
            raise UnsupportedForMessageFormatError(f"a producer id in magic {self.to_magic}")

    def _check_records(
        self, batch: AppendedBatch, *, skips_values: bool = False, first_index: int = 0
    ) -> RecordSummary:
        if isinstance(batch, AppendedLegacyBatch):
            return self.rules.check_messages(batch, first_index=first_index)
        decode = decode_kept if skips_values else decode_appended
        return self.rules.check_records(batch, decode(batch, compiled=self.compiled))

    def _records(self, batch: AppendedBatch) -> Iterable[AnyRecord]:
        if isinstance(batch, AppendedLegacyBatch):
            return batch.iter_records()
        return decode_appended(batch, compiled=self.compiled).records()


def _validate_client_batch(batch: DefaultBatch) -> None:
    """Check what producers must send: no gaps, no control records, sequences with producer ids."""
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
