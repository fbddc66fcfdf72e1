"""The rules for each record of an append, and the errors of an append that breaks them.

    a compacted topic requires keys
    with CreateTime, a timestamp must be none, or within
        [now - message.timestamp.before.max.ms, now + message.timestamp.after.max.ms]
    a producer may not send LogAppendTime; with CreateTime only a batch without timestamps is
        refused for it, and others are relabelled

Mirrors LogValidator.validateRecord and processRecordErrors.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_format.compression import Codec
from kafka_format.record import NO_TIMESTAMP, Record, TimestampType, wrap_int64
from kafka_log.appends.batches import AppendedBatch, AppendedLegacyBatch, DefaultBatch, LegacyRecord
from kafka_log.appends.records import Records, RecordSummary
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
)

_FAR = 2**62  # the difference of two numbers closer to zero fits in 64 bits
_APPEND_TIME_FROM_PRODUCER = "LogAppendTime from a producer"


class _Problem(NamedTuple):
    error: RecordError
    is_of_timestamp: bool = False


class RecordRules:
    """The rules of one topic at one time."""

    def __init__(self, config: LogConfig, now_ms: int) -> None:
        self.now_ms = now_ms
        self.is_append_time = config.message_timestamp_type == "LogAppendTime"
        self.timestamp_type = (
            TimestampType.LOG_APPEND_TIME if self.is_append_time else TimestampType.CREATE_TIME
        )
        self._compact = config.compact
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms

    def check_records(self, batch: DefaultBatch, records: Records) -> RecordSummary:
        """Check the records of a batch, and summarize them. Raises if one breaks a rule."""
        summary = records.summary()
        if summary.record_count and not self._are_fine(batch, summary):
            batch_type = batch.timestamp_type
            refuse(
                self._problem(index, batch_type, brief.offset, brief.timestamp, brief.has_key)
                for index, brief in enumerate(records.briefs())
            )
        return summary

    def check_messages(self, batch: AppendedLegacyBatch, *, first_index: int) -> RecordSummary:
        """Check like `check_records`; `first_index` counts the records of earlier batches."""
        problems, timestamps = [], [NO_TIMESTAMP]
        size = count = 0
        counts_from_zero = True
        for index, record in enumerate(batch.iter_records()):
            problems.append(self.find_problem(index, batch, record))
            timestamps.append(record.timestamp)
            size += record.size_in_bytes
            counts_from_zero = counts_from_zero and record.offset == first_index + index
            count += 1
        refuse(problems)
        lowest, highest = min(timestamps), max(timestamps)
        return RecordSummary(
            count, size, lowest, highest, has_null_key=False, counts_from_zero=counts_from_zero
        )

    def find_problem(
        self, index: int, batch: AppendedBatch, record: Record | LegacyRecord
    ) -> _Problem | None:
        """Return what is wrong with a record, if anything.

        A message inside a wrapper must also have the wrapper's magic and a correct checksum.
        """
        batch_type = batch.timestamp_type
        if not isinstance(record, LegacyRecord):
            has_key = record.key is not None
            return self._problem(index, batch_type, record.offset, record.timestamp, has_key)
        if record.magic != batch.magic:
            why = f"{_described(record)}: inside magic {batch.magic}"
            return _Problem(RecordError(index, why))
        if batch.codec is not Codec.NONE and not record.is_valid:
            raise CorruptMessageError(f"message {index} in a wrapper: wrong checksum")
        has_key = not self._compact or record.has_key
        problem = self._problem(index, batch_type, record.offset, record.timestamp, has_key)
        if problem is not None and problem.error.message is _APPEND_TIME_FROM_PRODUCER:
            _described(record)  # as Kafka does for its message; it fails on bad lengths
        return problem

    def _are_fine(self, batch: DefaultBatch, summary: RecordSummary) -> bool:
        """Whether the summary shows that no record breaks a rule. If not, one still may not."""
        if self._compact and summary.has_null_key:
            return False
        if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return False
        if self.is_append_time:
            return True
        now = self.now_ms
        return (
            0 <= now < _FAR
            and summary.min_timestamp >= max(0, now - self._before_max_ms)
            and summary.max_timestamp <= min(_FAR, now + self._after_max_ms)
        )

    def _problem(
        self,
        index: int,
        batch_type: TimestampType,
        offset: int,
        timestamp: int,
        has_key: bool,
    ) -> _Problem | None:
        if self._compact and not has_key:
            return _Problem(RecordError(index, "no key, in a compacted topic"))
        if not self.is_append_time and timestamp != NO_TIMESTAMP:
            age = wrap_int64(self.now_ms - timestamp)
            if age > self._before_max_ms or wrap_int64(-age) > self._after_max_ms:
                why = f"timestamp {timestamp} of offset {offset} out of range at {self.now_ms}"
                return _Problem(RecordError(index, why), is_of_timestamp=True)
        elif batch_type is TimestampType.LOG_APPEND_TIME:
            error = RecordError(index, _APPEND_TIME_FROM_PRODUCER)
            return _Problem(error, is_of_timestamp=True)
        return None


def refuse(problems: Iterable[_Problem | None]) -> None:
    """Raise if a record has a problem. One invalid timestamp decides the class of the error."""
    found = [problem for problem in problems if problem is not None]
    if not found:
        return
    errors = [problem.error for problem in found]
    if any(problem.is_of_timestamp for problem in found):
        raise InvalidTimestampError(f"{len(errors)} records with invalid timestamps", errors)
    raise InvalidRecordError(f"{len(errors)} invalid records, first {errors[0]}", errors)


def _described(record: LegacyRecord) -> str:
    key, value = record.key, record.value
    return (
        f"message of magic {record.magic}, codec {record.codec}, offset {record.offset}, "
        f"{len(key or b'')} bytes of key, {len(value or b'')} of value"
    )
