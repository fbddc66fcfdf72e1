"""`.timeindex`: the largest timestamp up to some offsets of a segment.

    file   = entry* padding*
    entry  = timestamp i64, relative_offset i32

`timestamp` is the largest of the segment so far, in epoch milliseconds; `relative_offset` is the
last offset of the first batch that has it, minus the base offset in the file's name. Timestamps
increase strictly, offsets never decrease. Timestamp -1 (none) gets no entry: the index of a segment
of magic 0 is empty.

Decoding stops at the first slot in which either field is negative, whose timestamp is not larger
or whose offset is smaller than in the slot before; see index_end for what follows the stop. Zeros
in slot 0 may be a real entry, because 1970 is a legal time, or padding: they count as an entry if
the file has no second slot, or has an entry in it. Kafka
(org.apache.kafka.storage.internals.log.TimeIndex) treats `length // 12` slots as entries, whatever
they hold.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafka_format.file_bytes import JAVA_MAX, read_file_bytes
from kafka_format.index_end import (
    SegmentIndexFile,
    Slots,
    Stop,
    first_refused,
    index_bytes,
    whole_slots,
)
from kafka_format.index_layout import TIME_INDEX_ENTRY
from kafka_format.primitives import Buffer

ENTRY_SIZE = TIME_INDEX_ENTRY.size
DTYPE = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])


class TimeIndexEntry(NamedTuple):
    timestamp: int
    relative_offset: int


class TimeIndexFile(SegmentIndexFile):
    """A `.timeindex` as read: its entries, and what follows them."""

    __slots__ = ()
    DTYPE = DTYPE


def decode_time_index_columns(buffer: Buffer) -> Slots:
    """Return every whole slot as Kafka sees it, padding and damage included: a view, no copy."""
    return whole_slots(buffer, DTYPE)


def decode_time_index(buffer: Buffer, base_offset: int) -> TimeIndexFile:
    """Split any bytes into entries, padding and the remaining bytes. Never raises."""
    return TimeIndexFile.decode(buffer, base_offset, _count_entries)


def _count_entries(slots: Slots) -> tuple[int, Stop]:
    timestamp, offset = slots["timestamp"], slots["relative_offset"]
    out_of_range = (timestamp < 0) | (offset < 0)
    out_of_order = np.zeros(len(slots), np.bool_)
    out_of_order[1:] = (timestamp[1:] <= timestamp[:-1]) | (offset[1:] < offset[:-1])
    count, reason = first_refused(out_of_range, out_of_order, Stop.OUT_OF_RANGE)
    if count == 1 < len(slots) and timestamp[0] == offset[0] == 0:
        return 0, Stop.OUT_OF_ORDER  # zeros that no entry follows: padding
    return count, reason


def iter_time_index(file: TimeIndexFile) -> Iterator[TimeIndexEntry]:
    return map(TimeIndexEntry._make, TIME_INDEX_ENTRY.iter_unpack(file.entries.view(np.uint8).data))


def encode_time_index(file: TimeIndexFile) -> bytes:
    return index_bytes(file, DTYPE)


def read_time_index(path: str | os.PathLike[str], base_offset: int) -> TimeIndexFile:
    """Read a `.timeindex` file; `base_offset` is in its name. Raises FormatError."""
    return decode_time_index(read_file_bytes(path, limit=JAVA_MAX), base_offset)
