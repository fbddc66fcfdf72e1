"""Check whether the time index of a full segment covers its whole log.

When a segment is full, its index gets a last entry with the largest timestamp of the segment
(LogSegment.onBecomeInactiveSegment; recovery and the cleaner do the same). So no batch after that
entry has a later timestamp. Earlier entries cover the batches before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from kafka_format.columnar.headers import HeaderWalk
from kafka_log.checks.finding import Finding

if TYPE_CHECKING:
    from kafka_format.time_index import TimeIndexFile
    from kafka_log.checks.finding import About


class UncoveredBatch(NamedTuple):
    """A batch that the index should have an entry for."""

    position: int
    last_offset: int = -1
    timestamp: int = -1
    is_damage: bool = False
    """Whether these are bytes that are not a batch: any batch may follow."""


def first_uncovered(
    log: BinaryIO, index: TimeIndexFile, *, path: str, start: int = 0
) -> UncoveredBatch | None:
    """Return the first batch after the last entry with a later timestamp.

    A batch begins at `start`.
    """
    timestamp, offset = -1, -1
    if len(index.entries):
        timestamp = int(index.entries["timestamp"][-1])
        offset = index.base_offset + int(index.entries["relative_offset"][-1])
    walk = HeaderWalk(log, path=path, start=start)
    for batches in walk:
        is_later = (batches.max_timestamp > timestamp) & (batches.last_offset > offset)
        for batch in np.flatnonzero(is_later)[:1].tolist():
            return UncoveredBatch(
                int(batches.position[batch]),
                int(batches.last_offset[batch]),
                int(batches.max_timestamp[batch]),
            )
    if walk.end is None or walk.end.reason == "end_of_file":
        return None
    return UncoveredBatch(walk.end.position, is_damage=True)


def uncovered_finding(index: TimeIndexFile, batch: UncoveredBatch, about: About) -> Finding:
    """Return the finding for an index that does not cover its whole log."""
    found = "no entry"
    if len(index.entries):
        last = index.entries[-1]
        offset = index.base_offset + int(last["relative_offset"])
        found = f"timestamp {int(last['timestamp'])}, offset {offset} at the end"
    expected = f"timestamp {batch.timestamp} of the batch at position {batch.position}"
    position = index.stop_position
    return Finding.of("TIX004", about, found, expected, position=position, offset=batch.last_offset)
