"""What a log refuses, in Kafka's words.

    LogError            any of the below
    ├── ApiError        an append or a read that a broker answers with an error code
    ├── LogLoadError    a directory that Kafka itself would not load
    └── …               what the parts of a log tell each other

FormatError (kafka_format) says that bytes are not what they should be; a LogError that sound bytes
do not fit this log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_log.segment.log_segment import LogSegment


class LogError(Exception):
    """Something that the rules of a log forbid."""

    is_damage = True
    """Whether the files are at fault; else it is an option, or the output."""


class LogLoadError(LogError):
    """Kafka would not load this directory: the broker takes the log dir offline, or stops."""


class TieredStorageError(LogError):
    """A rule that depends on remote storage, of which a log directory has no record."""

    is_damage = False


class DamagedLogError(LogError):
    """Damage where the work at hand needs a sound log."""


class ApiError(LogError):
    """What a broker would answer a client; `code` is its number in the protocol."""

    code: ClassVar[int] = -1


class UnknownServerError(ApiError):
    """What Kafka's code did not foresee: an exception of Java's, which a client never gets to see.

    Index out of bounds, illegal argument, unsupported operation: the broker answers all of them
    with the same code, and the append has changed nothing.
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
    """A topic id other than the one that a partition directory has."""

    code = 103


class RecordError(NamedTuple):
    """A record of a refused append: its place in the batch, and why."""

    batch_index: int
    message: str


class RecordValidationError(ApiError):
    """Records that no log may hold; `record_errors` names them (a produce response lists them)."""

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class InvalidTimestampError(RecordValidationError):
    code = 32


class InvalidRecordError(RecordValidationError):
    code = 87


class UnexpectedAppendOffsetError(LogError):
    """A follower was given records that begin before its log end."""


class OffsetsOutOfOrderError(LogError):
    """Records whose offsets go back."""


class InvalidOffsetError(LogError):
    """An offset index entry that does not increase."""


class IllegalArgumentError(LogError, ValueError):
    """Kafka's IllegalArgumentException: a call that no log of one broker's making leads to.

    Damage may: a broker that loads such a log fails.
    """


class IndexFullError(IllegalArgumentError):
    """An index entry for which there is no slot; a segment is rolled before that happens."""


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
    """A control record of a producer that ends no transaction: Kafka's replay dies of it.

    (A key or version that is no control record's is a FormatError: there recovery cuts the log.)
    """
