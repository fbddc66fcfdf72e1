"""Errors of the readers of compressed bytes; positions count from the start of these bytes."""

from typing import NoReturn

from kafka_format.errors import MEMORY, CorruptError, Location, TruncatedError


class TooLargeError(Exception):
    """The bytes from `position` on decompress to more than what is left of the limit."""

    def __init__(self, position: int) -> None:
        self.position = position


def corrupt(position: int, found: str, expected: str) -> NoReturn:
    raise CorruptError(Location(MEMORY, position), found, expected)


def truncated(position: int, found: str, expected: str) -> NoReturn:
    raise TruncatedError(Location(MEMORY, position), found, expected)
