"""Why a log was not cleaned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.errors import LogError

if TYPE_CHECKING:
    from kafka_log.disk.output import TopicPartition
    from kafka_log.log.unified_log import PartitionLog


class LogCleaningAbortedError(LogError):
    """A round that was abandoned, without `.cleaned` files; the next one may succeed.

    A segment had to be split first, or a caller of manager.py needs the log.
    """


class UncleanableError(LogError):
    """Kafka's cleaner fails on this log and does not touch it until the broker restarts."""


class LogCleaningError(LogError):
    """A cleaner thread failed on this log, and does not touch it from then on."""

    def __init__(self, message: str, partition: TopicPartition, log: PartitionLog) -> None:
        super().__init__(message)
        self.partition = partition
        self.log = log


class IllegalStateError(LogError):
    """Kafka's IllegalStateException: a call that is not allowed in the current state."""


class LogDirFailedError(LogError):
    """Kafka's KafkaStorageException: a checkpoint could not be read or written."""
