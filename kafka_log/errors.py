"""The errors of a log, with Kafka's names.

    LogError            all of these
    ├── ApiError        an append or a read that a broker answers with an error code
    ├── LogLoadError    a directory that Kafka itself would not load
    └── …               errors between the parts of a log

A FormatError (kafka_format) means that bytes are malformed; a LogError, that valid bytes do not fit
this log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_log.segment.log_segment import LogSegment


class LogError(Exception):
    """Something that the rules of a log forbid."""

    is_damage = True
    """Whether the files are the cause; otherwise it is an option, or the output."""


class LogLoadError(LogError):
    """Kafka would not load this directory: the broker takes the log dir offline, or stops."""


class TieredStorageError(LogError):
    """A rule depends on remote storage, which a log directory does not record."""

    is_damage = False


class DamagedLogError(LogError):
    """An operation needs a log without damage."""


class ApiError(LogError):
    """An error that a broker returns to a client; `code` is its number in the protocol."""

    code: ClassVar[int] = -1


class UnknownServerError(ApiError):
    """A Java exception that Kafka does not expect here.

    Index out of bounds, illegal argument, unsupported operation: the broker returns the same code
    for all of them, and the append has changed nothing.
    """


class OffsetOutOfRangeError(ApiError):
    code = 1


class CorruptMessageError(ApiError):
    code = 2


class NotLeaderOrFollowerError(ApiError):
    code = 6


class RecordTooLargeError(ApiError):
    code = 10


class RecordBatchTooLargeError(ApiError):
    code = 18


class UnsupportedForMessageFormatError(ApiError):
    code = 43


class OutOfOrderSequenceError(ApiError):
    code = 45


class DuplicateSequenceError(ApiError):
    code = 46


class InvalidProducerEpochError(ApiError):
    code = 47


class InvalidTransactionStateError(ApiError):
    code = 48


class TransactionCoordinatorFencedError(ApiError):
    code = 52


class UnsupportedCompressionTypeError(ApiError):
    code = 76


class InconsistentTopicIdError(ApiError):
    """A topic id that is not the one of the partition directory."""

    code = 103


class RecordError(NamedTuple):
    """A record of a refused append: its index in the batch, and the reason."""

    batch_index: int
    message: str


class RecordValidationError(ApiError):
    """Invalid records; `record_errors` lists them, as a produce response does."""

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class InvalidTimestampError(RecordValidationError):
    code = 32


class InvalidRecordError(RecordValidationError):
    code = 87


class UnexpectedAppendOffsetError(LogError):
    """A follower gets records that begin before its log end."""


class OffsetsOutOfOrderError(LogError):
    """The offsets of records do not increase."""


class InvalidOffsetError(LogError):
    """An offset index entry that does not increase."""


class IllegalArgumentError(LogError, ValueError):
    """Kafka's IllegalArgumentException: a call that an undamaged log never causes.

    With damage it can happen: a broker that loads such a log fails.
    """


class IndexFullError(IllegalArgumentError):
    """An index has no room for an entry. A log rolls before that happens."""


class IndexOffsetOverflowError(LogError):
    """An index entry whose offset is too far from the segment's base for four bytes."""


class CorruptIndexError(LogError):
    """A side file that cannot belong to its segment; Kafka rebuilds it."""


class SegmentOffsetOverflowError(LogError):
    """An offset too far from its segment's base for four bytes; Kafka splits such a segment."""

    def __init__(self, message: str, segment: LogSegment) -> None:
        super().__init__(message)
        self.segment = segment


class IllegalControlRecordError(IllegalArgumentError):
    """A producer's control record that does not end a transaction: Kafka's replay fails.

    (A malformed key or version is a FormatError: recovery truncates the log there.)
    """
