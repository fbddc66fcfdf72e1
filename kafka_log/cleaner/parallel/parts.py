"""What one task reads: whole batches of a segment, and the settings to read them."""

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


class LogPart(NamedTuple):
    """Bytes [start, end) of the `.log` of a segment."""

    number: int
    """In the order of the log."""
    path: str
    base_offset: int
    """The base offset of the segment."""
    start: int
    end: int
    is_last_of_segment: bool
    is_dirty: bool
    """Whether its records go into the map."""


class ScanSettings(NamedTuple):
    """What the scans of all parts of a round share."""

    start_offset: int
    """The first dirty offset."""
    secret: tuple[int, int]
    ranges: int
    """The number of ranges that hashes are divided into."""
    work: str
    """The directory of this round, which all tasks see."""
    verify: bool = False
    """Whether checksums are checked, which Kafka's cleaner does not."""


def split(
    segment: LogSegment,
    path: str,
    numbers: Iterator[int],
    *,
    dirty_from: int | None,
    part_bytes: int,
) -> list[LogPart]:
    """Divide a segment at positions where its index says that a batch begins.

    `dirty_from` is the position from which the map reads it, None if it does not.
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
        edges = [0, 0]  # an empty segment still says where the next one begins
    return [
        LogPart(
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
    """Write a file atomically: a task may run again, or twice at once."""
    own = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    with own.open("wb") as file:
        for each in [data] if isinstance(data, bytes) else data:
            file.write(each)
    own.replace(path)
