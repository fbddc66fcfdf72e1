"""Why a log was not cleaned."""

from kafka_log.errors import LogError


class LogCleaningAbortedError(LogError):
    """A round that was given up, without `.cleaned` files; the next may succeed.

    A segment had to be split first, or somebody wants the log for himself (states.py).
    """


class UncleanableError(LogError):
    """Kafka's cleaner dies of this log and leaves it alone until the broker starts again."""
