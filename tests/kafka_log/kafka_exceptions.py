"""Which of our exceptions answers to which of Kafka's."""

from collections.abc import Mapping
from typing import Any

from kafka_format.errors import FormatError
from kafka_log import errors

_OURS: dict[str, tuple[type[BaseException], ...]] = {
    "IllegalArgumentException": (errors.IllegalArgumentError,),
    "OutOfMemoryError": (FormatError,),
    "IndexOutOfBoundsException": (FormatError, errors.CorruptIndexError),
    "NullPointerException": (errors.IllegalControlRecordError,),
    "BufferUnderflowException": (errors.IllegalControlRecordError,),
    "BufferOverflowException": (errors.IndexFullError,),
    "IllegalStateException": (errors.LogError,),
    "InvalidOffsetException": (errors.InvalidOffsetError,),
    "IndexOffsetOverflowException": (errors.IndexOffsetOverflowError,),
    "LogSegmentOffsetOverflowException": (errors.SegmentOffsetOverflowError,),
    "CorruptIndexException": (errors.CorruptIndexError,),
    "CorruptRecordException": (FormatError,),
    "InvalidRecordException": (FormatError,),
    "KafkaException": (FormatError, errors.LogError),
    "NoSuchFileException": (FileNotFoundError,),
    "InvalidTxnStateException": (errors.InvalidTransactionStateError,),
}


def name_of(error: Mapping[str, Any] | None) -> str | None:
    """The class of an exception that the oracle tells of, without its package."""
    return None if error is None else error["class"].rpartition(".")[2]


def answers_to(ours: BaseException | None, kafkas: Mapping[str, Any] | None) -> bool:
    """Whether both failed in the same way, or neither did."""
    name = name_of(kafkas)
    if ours is None or name is None:
        return ours is None and name is None
    return isinstance(ours, _OURS[name])
