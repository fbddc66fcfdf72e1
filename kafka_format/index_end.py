"""Where the entries of an index file end, and what lies behind them.

An index is a row of slots of one size. Brokers preallocate `.index` and `.timeindex` with zeros and
cut them to the entries when the segment is closed; after a crash the zeros are still there. Nothing
in the file tells how many entries it has, so a reader walks to the first slot that no broker can
have written as the next entry, and stops. Kafka's own classes do not: they take every whole slot of
a file that exists for an entry, zeros too.

    entries | zero padding | trailing
             ^ the stop

`padding_bytes` are zeros to the end of the file, or whole zero slots with something behind them.
`trailing` is what remains, raw: nothing is lost, and the three parts in a row are the file.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafka_format.primitives import Buffer


class Stop(Enum):
    """Why the entries of an index end where they end."""

    END_OF_FILE = "end of file"
    ZERO_PADDING = "zero padding"
    PARTIAL_ENTRY = "partial entry"
    OUT_OF_RANGE = "out of range"
    OUT_OF_ORDER = "out of order"
    UNKNOWN_VERSION = "unknown version"


class IndexParts:
    """What follows from the three parts of an index file, of whatever kind."""

    __slots__ = ()
    entries: NDArray[np.void]
    padding_bytes: int
    trailing: bytes
    stop: Stop

    @property
    def stop_position(self) -> int:
        """Position of the first byte that belongs to no entry."""
        return len(self.entries) * self.entries.itemsize

    @property
    def size(self) -> int:
        return self.stop_position + self.padding_bytes + len(self.trailing)

    @property
    def kafka_entry_count(self) -> int:
        """Entries that Kafka's own class would count: every whole slot of the file."""
        return self.size // self.entries.itemsize

    def __repr__(self) -> str:
        base = f"base_offset={self.base_offset}, " if hasattr(self, "base_offset") else ""
        return (
            f"{type(self).__name__}({base}{len(self.entries)} entries, "
            f"{self.stop.value} at {self.stop_position}: {self.padding_bytes} bytes of padding, "
            f"{len(self.trailing)} trailing)"
        )


class Tail(NamedTuple):
    """What follows the entries of an index."""

    stop: Stop
    padding_bytes: int
    trailing: bytes


def split_tail(buffer: Buffer, position: int, slot_size: int, refused_for: Stop) -> Tail:
    """The bytes from `position`, the first slot that is no entry, and on.

    `refused_for` is what is wrong with that slot, should it turn out to be a whole one with
    something in it.
    """
    rest = np.frombuffer(buffer, np.uint8)[position:]
    if not rest.size:
        return Tail(Stop.END_OF_FILE, 0, b"")
    if rest.size < slot_size:
        return Tail(Stop.PARTIAL_ENTRY, 0, rest.tobytes())
    if rest[:slot_size].any():
        return Tail(refused_for, 0, rest.tobytes())
    if not rest.any():
        return Tail(Stop.ZERO_PADDING, rest.size, b"")
    zeros = int((rest != 0).argmax())
    padding_bytes = zeros - zeros % slot_size
    return Tail(Stop.ZERO_PADDING, padding_bytes, rest[padding_bytes:].tobytes())


def first_refused(
    refused: NDArray[np.bool_], out_of_order: NDArray[np.bool_], refused_for: Stop
) -> tuple[int, Stop]:
    """How many slots are entries, and what is wrong with the next: the one or the other."""
    either = refused | out_of_order
    if not either.any():
        return len(either), Stop.END_OF_FILE
    first = int(either.argmax())
    return first, refused_for if refused[first] else Stop.OUT_OF_ORDER


def index_bytes(file: IndexParts, dtype: np.dtype[np.void]) -> bytes:
    return file.entries.astype(dtype).tobytes() + bytes(file.padding_bytes) + file.trailing
