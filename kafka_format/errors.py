"""Errors of the decoders. Each says where it is, what was found and what was expected.

FormatError                 any of the below; also a ValueError
├── TruncatedError          the bytes end before the value does
├── CorruptError            the bytes cannot be what they say they are
│   ├── UnfitFileError      not a regular file, or larger than Kafka writes: not read
│   ├── CrcMismatchError    stored and computed checksum differ
│   └── MalformedRecordError  a record, or a length inside one, contradicts its surroundings
└── UnsupportedError        well-formed so far, but of a version or codec unknown here
    └── OverLimitError      legal, but larger than `Access.max_decompressed_bytes`
"""

from typing import NamedTuple, Self

MEMORY = "<memory>"


class Location(NamedTuple):
    """A byte of a file. Bytes that came from no file have the path `<memory>`."""

    path: str
    position: int

    def __str__(self) -> str:
        return f"{self.path}@{self.position}"


class FormatError(ValueError):
    """Bytes that are not what Kafka writes: `path@position: found …, expected …`."""

    def __init__(self, location: Location, found: str, expected: str) -> None:
        super().__init__(location, found, expected)
        self.location = location
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.location}: found {self.found}, expected {self.expected}"

    def moved(self, path: str, offset: int) -> Self:
        """Return the error with its position in a file where the buffer begins at `offset`."""
        location = Location(path, self.location.position + offset)
        return type(self)(location, self.found, self.expected)


class TruncatedError(FormatError):
    """The bytes end before the value does."""


class CorruptError(FormatError):
    """The bytes cannot be what they say they are."""


class UnfitFileError(CorruptError):
    """A path that cannot be a file of Kafka, whatever it contains."""

    def __str__(self) -> str:
        return f"{self.location.path}: {self.problem}"

    @property
    def problem(self) -> str:
        """The message without the path."""
        return f"found {self.found}, expected {self.expected}"


class CrcMismatchError(CorruptError):
    """Stored and computed checksum differ."""


class MalformedRecordError(CorruptError):
    """A record, or a length inside one, contradicts its surroundings."""


class UnsupportedError(FormatError):
    """Well-formed as far as it goes, but of a version or codec unknown here."""


class OverLimitError(UnsupportedError):
    """Legal in Kafka, but more bytes than the limit for decoding at once."""
