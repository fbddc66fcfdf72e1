"""Why a log was not cleaned."""

from kafka_log.errors import LogError


class LogCleaningAbortedError(LogError):
    """A round that was given up; the next may succeed: a segment had to be split first."""


class UncleanableError(LogError):
    """Kafka's cleaner dies of this log and leaves it alone until the broker starts again."""
