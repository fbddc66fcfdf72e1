"""`.index`: where in the `.log` a batch begins, for some of its batches.

    file   = entry* padding*
    entry  = relative_offset i32, position i32

`relative_offset` is the LAST offset of the batch that begins at `position`, less the base offset of
the segment, which is in the file's name and nowhere in the file. Both grow strictly from entry to
entry. The first batch of a segment never gets an entry, so no position is 0.

Decoding stops at the first slot whose position is not positive, whose relative offset is negative,
or in which either is not larger than in the slot before; see index_end for what follows the stop.
Kafka (org.apache.kafka.storage.internals.log.OffsetIndex) takes `length // 8` slots for entries,
whatever they hold, and drops them when it rebuilds the index after an unclean stop.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafka_format.file_bytes import JAVA_MAX, read_file_bytes
from kafka_format.index_end import IndexParts, Stop, first_refused, index_bytes, split_tail
from kafka_format.primitives import Buffer

_ENTRY = struct.Struct(
    ">i"  # relative_offset: last offset of the batch, less the base offset
    "i"  # position: of the batch's first byte in the .log
)
ENTRY_SIZE = _ENTRY.size
DTYPE = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])


class OffsetIndexEntry(NamedTuple):
    relative_offset: int
    position: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OffsetIndexFile(IndexParts):
    """An `.index` as read: its entries, and what lies behind them."""

    base_offset: int
    entries: NDArray[np.void]
    """Of DTYPE; a view of the decoded bytes, not a copy."""
    padding_bytes: int = 0
    trailing: bytes = b""
    stop: Stop = Stop.END_OF_FILE

    @classmethod
    def of(
        cls, base_offset: int, entries: Iterable[OffsetIndexEntry], *, padding_bytes: int = 0
    ) -> Self:
        stop = Stop.ZERO_PADDING if padding_bytes else Stop.END_OF_FILE
        return cls(base_offset, np.array(list(entries), DTYPE), padding_bytes, stop=stop)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets in the log, one per entry."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset


def decode_offset_index_columns(buffer: Buffer) -> NDArray[np.void]:
    """Every whole slot as Kafka sees it, padding and damage included: a view, not a copy."""
    return np.frombuffer(buffer, DTYPE, count=len(buffer) // ENTRY_SIZE)


def decode_offset_index(buffer: Buffer, base_offset: int) -> OffsetIndexFile:
    """Any bytes are an index: some entries, then padding, then bytes that are neither."""
    slots = decode_offset_index_columns(buffer)
    count, refused_for = _count_entries(slots)
    tail = split_tail(buffer, count * ENTRY_SIZE, ENTRY_SIZE, refused_for)
    return OffsetIndexFile(base_offset, slots[:count], tail.padding_bytes, tail.trailing, tail.stop)


def _count_entries(slots: NDArray[np.void]) -> tuple[int, Stop]:
    offset, position = slots["relative_offset"], slots["position"]
    out_of_range = (offset < 0) | (position <= 0)
    out_of_order = np.zeros(len(slots), np.bool_)
    out_of_order[1:] = (offset[1:] <= offset[:-1]) | (position[1:] <= position[:-1])
    return first_refused(out_of_range, out_of_order, Stop.OUT_OF_RANGE)


def iter_offset_index(file: OffsetIndexFile) -> Iterator[OffsetIndexEntry]:
    return map(OffsetIndexEntry._make, _ENTRY.iter_unpack(file.entries.view(np.uint8).data))


def encode_offset_index(file: OffsetIndexFile) -> bytes:
    return index_bytes(file, DTYPE)


def read_offset_index(path: str | os.PathLike[str], base_offset: int) -> OffsetIndexFile:
    """Read an `.index` file; `base_offset` is in its name. Raises FormatError."""
    return decode_offset_index(read_file_bytes(path, limit=JAVA_MAX), base_offset)
