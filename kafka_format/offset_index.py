"""`.index`: the positions of some batches in the `.log`.

    file   = entry* padding*
    entry  = relative_offset i32, position i32

`relative_offset` is the LAST offset of the batch that begins at `position`, minus the base offset
of the segment, which is only in the file's name. Both increase strictly from entry to entry. The
first batch of a segment never gets an entry, so no position is 0.

Decoding stops at the first slot whose position is not positive, whose relative offset is negative,
or in which either is not larger than in the slot before; see index_end for what follows the stop.
Kafka (org.apache.kafka.storage.internals.log.OffsetIndex) treats `length // 8` slots as entries,
whatever they hold, and drops them when it rebuilds the index after an unclean shutdown.
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
from kafka_format.index_layout import OFFSET_INDEX_ENTRY
from kafka_format.primitives import Buffer

ENTRY_SIZE = OFFSET_INDEX_ENTRY.size
DTYPE = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])


class OffsetIndexEntry(NamedTuple):
    relative_offset: int
    position: int


class OffsetIndexFile(SegmentIndexFile):
    """An `.index` as read: its entries, and what follows them."""

    __slots__ = ()
    DTYPE = DTYPE


def decode_offset_index_columns(buffer: Buffer) -> Slots:
    """Return every whole slot as Kafka sees it, padding and damage included: a view, no copy."""
    return whole_slots(buffer, DTYPE)


def decode_offset_index(buffer: Buffer, base_offset: int) -> OffsetIndexFile:
    """Split any bytes into entries, padding and the remaining bytes. Never raises."""
    return OffsetIndexFile.decode(buffer, base_offset, _count_entries)


def _count_entries(slots: Slots) -> tuple[int, Stop]:
    offset, position = slots["relative_offset"], slots["position"]
    out_of_range = (offset < 0) | (position <= 0)
    out_of_order = np.zeros(len(slots), np.bool_)
    out_of_order[1:] = (offset[1:] <= offset[:-1]) | (position[1:] <= position[:-1])
    return first_refused(out_of_range, out_of_order, Stop.OUT_OF_RANGE)


def iter_offset_index(file: OffsetIndexFile) -> Iterator[OffsetIndexEntry]:
    return map(
        OffsetIndexEntry._make, OFFSET_INDEX_ENTRY.iter_unpack(file.entries.view(np.uint8).data)
    )


def encode_offset_index(file: OffsetIndexFile) -> bytes:
    return index_bytes(file, DTYPE)


def read_offset_index(path: str | os.PathLike[str], base_offset: int) -> OffsetIndexFile:
    """Read an `.index` file; `base_offset` is in its name. Raises FormatError."""
    return decode_offset_index(read_file_bytes(path, limit=JAVA_MAX), base_offset)
