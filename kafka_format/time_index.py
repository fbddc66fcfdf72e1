"""`.timeindex`: the largest timestamp so far, at some offsets of a segment.

    file   = entry* padding*
    entry  = timestamp i64, relative_offset i32

`timestamp` is the largest of the segment up to here, in epoch milliseconds; `relative_offset` the
last offset of the first batch that reached it, less the base offset in the file's name. Timestamps
grow strictly, offsets never fall. Timestamp -1 (none) gets no entry: the index of a segment of
magic 0 is empty.

Decoding stops at the first slot in which either field is negative, whose timestamp is not larger
or whose offset is smaller than in the slot before; see index_end for what follows the stop. Zeros
in slot 0 may be a real entry, because 1970 is a legal time, or padding: they count as an entry if
the file has no second slot, or an entry in it. Kafka
(org.apache.kafka.storage.internals.log.TimeIndex) takes `length // 12` slots for entries, whatever
they hold.
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
    ">q"  # timestamp: the largest so far, epoch milliseconds
    "i"  # relative_offset: last offset of the batch that has it, less the base offset
)
ENTRY_SIZE = _ENTRY.size
DTYPE = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


class TimeIndexEntry(NamedTuple):
    timestamp: int
    relative_offset: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimeIndexFile(IndexParts):
    """A `.timeindex` as read: its entries, and what lies behind them."""

    base_offset: int
    entries: NDArray[np.void]
    """Of DTYPE; a view of the decoded bytes, not a copy."""
    padding_bytes: int = 0
    trailing: bytes = b""
    stop: Stop = Stop.END_OF_FILE

    @classmethod
    def of(
        cls, base_offset: int, entries: Iterable[TimeIndexEntry], *, padding_bytes: int = 0
    ) -> Self:
        stop = Stop.ZERO_PADDING if padding_bytes else Stop.END_OF_FILE
        return cls(base_offset, np.array(list(entries), DTYPE), padding_bytes, stop=stop)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Offsets in the log, one per entry."""
        return self.entries["relative_offset"].astype(np.int64) + self.base_offset


def decode_time_index_columns(buffer: Buffer) -> NDArray[np.void]:
    """Every whole slot as Kafka sees it, padding and damage included: a view, not a copy."""
    return np.frombuffer(buffer, DTYPE, count=len(buffer) // ENTRY_SIZE)


def decode_time_index(buffer: Buffer, base_offset: int) -> TimeIndexFile:
    """Any bytes are an index: some entries, then padding, then bytes that are neither."""
    slots = decode_time_index_columns(buffer)
    count, refused_for = _count_entries(slots)
    tail = split_tail(buffer, count * ENTRY_SIZE, ENTRY_SIZE, refused_for)
    return TimeIndexFile(base_offset, slots[:count], tail.padding_bytes, tail.trailing, tail.stop)


def _count_entries(slots: NDArray[np.void]) -> tuple[int, Stop]:
    timestamp, offset = slots["timestamp"], slots["relative_offset"]
    out_of_range = (timestamp < 0) | (offset < 0)
    out_of_order = np.zeros(len(slots), np.bool_)
    out_of_order[1:] = (timestamp[1:] <= timestamp[:-1]) | (offset[1:] < offset[:-1])
    count, reason = first_refused(out_of_range, out_of_order, Stop.OUT_OF_RANGE)
    if count == 1 < len(slots) and timestamp[0] == offset[0] == 0:
        return 0, Stop.OUT_OF_ORDER  # zeros, and no entry behind them: padding
    return count, reason


def iter_time_index(file: TimeIndexFile) -> Iterator[TimeIndexEntry]:
    return map(TimeIndexEntry._make, _ENTRY.iter_unpack(file.entries.view(np.uint8).data))


def encode_time_index(file: TimeIndexFile) -> bytes:
    return index_bytes(file, DTYPE)


def read_time_index(path: str | os.PathLike[str], base_offset: int) -> TimeIndexFile:
    """Read a `.timeindex` file; `base_offset` is in its name. Raises FormatError."""
    return decode_time_index(read_file_bytes(path, limit=JAVA_MAX), base_offset)
