"""What one task reads: some whole batches of a segment, and what it must know to read them."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.errors import LogError
from kafka_log.indexes.index_files import OffsetPosition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafka_log.segment.log_segment import LogSegment

LONG_MAX = 2**63 - 1
NO_OFFSET = -1


class NotParallelError(LogError):
    """A log that one cleaner must clean by itself: damage, offsets out of order, too large."""


class Part(NamedTuple):
    """Bytes [start, end) of the `.log` of a segment."""

    number: int
    """In the order of the log."""
    path: str
    base_offset: int
    """That of the segment."""
    start: int
    end: int
    is_last_of_segment: bool
    is_dirty: bool
    """Whether its records are for the map."""


class ScanSettings(NamedTuple):
    """What the scans of all parts of a round share."""

    start_offset: int
    """The first that is dirty."""
    secret: tuple[int, int]
    ranges: int
    """Into how many the hashes are divided."""
    work: str
    """A directory that all tasks see, only of this round."""
    verify: bool = False
    """Whether checksums are looked at, which Kafka's cleaner does not."""


def split(
    segment: LogSegment,
    path: str,
    numbers: Iterator[int],
    *,
    dirty_from: int | None,
    part_bytes: int,
) -> list[Part]:
    """Divide a segment where its index says that a batch begins.

    `dirty_from` is where the map begins to read it, None if it does not.
    """
    edges = [0]
    if dirty_from:
        edges.append(dirty_from)
    while segment.size - edges[-1] > part_bytes:
        found = segment.offset_index.fetch_upper_bound_offset(_at(segment, edges[-1]), part_bytes)
        if found is None or found.position <= edges[-1]:
            break
        edges.append(found.position)
    if edges[-1] > segment.size:
        raise NotParallelError(f"{path}: found an index entry beyond its {segment.size} bytes")
    edges = sorted({*edges, segment.size})
    if segment.size == 0:
        edges = [0, 0]  # one that is empty still says where the next begins
    return [
        Part(
            number=next(numbers),
            path=path,
            base_offset=segment.base_offset,
            start=start,
            end=end,
            is_last_of_segment=end == segment.size,
            is_dirty=dirty_from is not None and start >= dirty_from,
        )
        for start, end in pairwise(edges)
    ]


def _at(segment: LogSegment, position: int) -> OffsetPosition:
    return OffsetPosition(segment.base_offset, position)


def write_whole(path: Path, data: bytes | Sequence[bytes]) -> None:
    """Whole or not at all: a task may run again, or twice at once."""
    own = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    with own.open("wb") as file:
        for each in [data] if isinstance(data, bytes) else data:
            file.write(each)
    own.replace(path)
