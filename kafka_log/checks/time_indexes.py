"""Whether the time index of a segment that is full reaches the end of its log.

When a segment is full, its index ends with the largest time there is in it
(LogSegment.onBecomeInactiveSegment; recovery and the cleaner end one in the same way). So no batch
behind the last entry is later than that entry. What is before it, earlier entries were made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from kafka_format.columnar.headers import HeaderWalk
from kafka_log.checks.finding import Finding

if TYPE_CHECKING:
    from kafka_format.time_index import TimeIndexFile
    from kafka_log.checks.finding import About


class Later(NamedTuple):
    """A batch that the index should have told of."""

    position: int
    last_offset: int = -1
    timestamp: int = -1
    is_damage: bool = False
    """No batch, but bytes that are none: there may be any behind."""


def first_later(log: BinaryIO, index: TimeIndexFile, *, path: str, start: int = 0) -> Later | None:
    """Behind the last entry, and later than it; a batch begins at `start`."""
    timestamp, offset = -1, -1
    if len(index.entries):
        timestamp = int(index.entries["timestamp"][-1])
        offset = index.base_offset + int(index.entries["relative_offset"][-1])
    walk = HeaderWalk(log, path=path, start=start)
    for batches in walk:
        is_later = (batches.max_timestamp > timestamp) & (batches.last_offset > offset)
        for batch in np.flatnonzero(is_later)[:1].tolist():
            return Later(
                int(batches.position[batch]),
                int(batches.last_offset[batch]),
                int(batches.max_timestamp[batch]),
            )
    if walk.end is None or walk.end.reason == "end_of_file":
        return None
    return Later(walk.end.position, is_damage=True)


def ends_early(index: TimeIndexFile, later: Later, about: About) -> Finding:
    found = "no entry"
    if len(index.entries):
        last = index.entries[-1]
        offset = index.base_offset + int(last["relative_offset"])
        found = f"timestamp {int(last['timestamp'])}, offset {offset} at the end"
    expected = f"timestamp {later.timestamp} of the batch at position {later.position}"
    position = index.stop_position
    return Finding.of("TIX004", about, found, expected, position=position, offset=later.last_offset)
