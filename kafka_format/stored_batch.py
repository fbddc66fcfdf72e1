"""What batches of every magic share: their bytes, where they are, and their checksum."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Protocol, TypeVar

from kafka_format.errors import CrcMismatchError, Location


class _Header(Protocol):
    @property
    def magic(self) -> int: ...
    @property
    def crc(self) -> int: ...


H = TypeVar("H", bound=_Header)


class StoredBatch(ABC, Generic[H]):
    """A batch as read: its header, its location, and its bytes, which are decoded on demand."""

    __slots__ = ("header", "path", "position", "raw")
    CRC_POSITION: ClassVar[int]
    """Where the checksum is stored, from the beginning of the batch."""

    def __init__(self, header: H, path: str, position: int, raw: memoryview) -> None:
        self.header = header
        self.path = path
        self.position = position
        self.raw = raw

    @property
    def location(self) -> Location:
        return Location(self.path, self.position)

    @property
    def magic(self) -> int:
        return self.header.magic

    @property
    @abstractmethod
    def computed_crc(self) -> int:
        """The checksum of the bytes that the magic's checksum covers."""

    @property
    def is_valid(self) -> bool:
        return self.header.crc == self.computed_crc

    def ensure_valid(self) -> None:
        """Raise CrcMismatchError if the checksum is wrong."""
        computed = self.computed_crc
        if computed != self.header.crc:
            raise CrcMismatchError(
                Location(self.path, self.position + self.CRC_POSITION),
                f"stored crc {self.header.crc:#010x}",
                f"computed crc {computed:#010x}",
            )
