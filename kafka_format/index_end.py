"""Find where the entries of an index file end, and what follows them.

An index is an array of slots of one size. Brokers preallocate `.index` and `.timeindex` with zeros
and truncate them to the entries when the segment is closed; after a crash the zeros are still
there. The file does not store how many entries it has, so a reader stops at the first slot that no
broker can have written as the next entry. Kafka's own classes do not: they treat every whole slot
of an existing file as an entry, zeros included.

    entries | zero padding | trailing
             ^ the stop

`padding_bytes` counts the zeros up to the end of the file, or the whole zero slots before other
bytes. `trailing` is the rest, unchanged: the three parts together are the file.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafka_format.primitives import Buffer

Slots: TypeAlias = NDArray[np.void]


class Stop(Enum):
    """Why the entries of an index end at this slot."""

    END_OF_FILE = "end of file"
    ZERO_PADDING = "zero padding"
    PARTIAL_ENTRY = "partial entry"
    OUT_OF_RANGE = "out of range"
    OUT_OF_ORDER = "out of order"
    UNKNOWN_VERSION = "unknown version"


class IndexParts:
    """The three parts of an index file of any kind."""

    __slots__ = ()
    entries: NDArray[np.void]
    padding_bytes: int
    trailing: bytes
    stop: Stop

    @property
    def stop_position(self) -> int:
        """Position of the first byte after the entries."""
        return len(self.entries) * self.entries.itemsize

    @property
    def size(self) -> int:
        return self.stop_position + self.padding_bytes + len(self.trailing)

    @property
    def kafka_entry_count(self) -> int:
        """The number of entries that Kafka would count: every whole slot of the file."""
        return self.size // self.entries.itemsize

    def __repr__(self) -> str:
        base = f"base_offset={self.base_offset}, " if hasattr(self, "base_offset") else ""
        return (
            f"{type(self).__name__}({base}{len(self.entries)} entries, "
            f"{self.stop.value} at {self.stop_position}: {self.padding_bytes} bytes of padding, "
            f"{len(self.trailing)} trailing)"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SegmentIndexFile(IndexParts):
    """An index of a segment as read: its entries, and what follows them."""

    DTYPE: ClassVar[np.dtype[np.void]]

    base_offset: int
    entries: NDArray[np.void]
    """An array of DTYPE: a view of the decoded bytes, not a copy."""
    padding_bytes: int = 0
    trailing: bytes = b""
    stop: Stop = Stop.END_OF_FILE

    @classmethod
    def of(
        cls, base_offset: int, entries: Iterable[tuple[int, int]], *, padding_bytes: int = 0
    ) -> Self:
        stop = Stop.ZERO_PADDING if padding_bytes else Stop.END_OF_FILE
        return cls(base_offset, np.array(list(entries), cls.DTYPE), padding_bytes, stop=stop)

    @classmethod
    def decode(
        cls, buffer: Buffer, base_offset: int, count_entries: Callable[[Slots], tuple[int, Stop]]
    ) -> Self:
        """Split any bytes into entries, padding and the remaining bytes. Never raises."""
        slots = whole_slots(buffer, cls.DTYPE)
        count, reason = count_entries(slots)
        size = cls.DTYPE.itemsize
        tail = split_tail(buffer, count * size, size, reason)
        return cls(base_offset, slots[:count], tail.padding_bytes, tail.trailing, tail.stop)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets in the log, one per entry."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset


def whole_slots(buffer: Buffer, dtype: np.dtype[np.void]) -> Slots:
    """Return every whole slot as Kafka sees it, padding and damage included: a view, no copy."""
    return np.frombuffer(buffer, dtype, count=len(buffer) // dtype.itemsize)


class Tail(NamedTuple):
    """What follows the entries of an index."""

    stop: Stop
    padding_bytes: int
    trailing: bytes


def split_tail(buffer: Buffer, position: int, slot_size: int, reason: Stop) -> Tail:
    """Split the bytes from `position`, the first slot that is not an entry.

    `reason` says why that slot is not an entry. It applies to a whole slot that is not zero.
    """
    rest = np.frombuffer(buffer, np.uint8)[position:]
    if not rest.size:
        return Tail(Stop.END_OF_FILE, 0, b"")
    if rest.size < slot_size:
        return Tail(Stop.PARTIAL_ENTRY, 0, rest.tobytes())
    if rest[:slot_size].any():
        return Tail(reason, 0, rest.tobytes())
    if not rest.any():
        return Tail(Stop.ZERO_PADDING, rest.size, b"")
    zeros = int((rest != 0).argmax())
    padding_bytes = zeros - zeros % slot_size
    return Tail(Stop.ZERO_PADDING, padding_bytes, rest[padding_bytes:].tobytes())


def first_refused(
    refused: NDArray[np.bool_], out_of_order: NDArray[np.bool_], reason: Stop
) -> tuple[int, Stop]:
    """Return the number of entries, and why the next slot is not one."""
    either = refused | out_of_order
    if not either.any():
        return len(either), Stop.END_OF_FILE
    first = int(either.argmax())
    return first, reason if refused[first] else Stop.OUT_OF_ORDER


def index_bytes(file: IndexParts, dtype: np.dtype[np.void]) -> bytes:
    return file.entries.astype(dtype).tobytes() + bytes(file.padding_bytes) + file.trailing
