"""Where Kafka's map would have been full, without having it.

A map for `most` keys takes the first record of the `most`-th key that it meets, and whatever lies
between; the next record with a key finds it full, even if its own key is in it. So the order of
the first occurrences decides. They are counted by part, then looked at in one part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_log.cleaner.parallel.parts import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from kafka_log.cleaner.parallel.parts import Part
    from kafka_log.cleaner.parallel.scan import RefusedRecord, ScanResult

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]


class LastKey(NamedTuple):
    """The last one that has room: the part where it first occurs, its place among those there."""

    part: int
    rank: int


def last_key(first_puts: Int64s, most: int) -> LastKey | None:
    """`first_puts`: how many keys occur first in each part. None if there is room for all."""
    sums = np.cumsum(first_puts)
    if not len(sums) or sums[-1] < most:
        return None
    part = int(np.searchsorted(sums, most))
    before = int(sums[part - 1]) if part else 0
    return LastKey(part, most - before)


def offset_of(last: LastKey, relative: Iterable[Int32s], base_offset: int) -> int:
    """`relative`: where in that part keys occur first."""
    rows = np.sort(np.concatenate([*relative]))
    return base_offset + int(rows[last.rank - 1])


class MapEnd(NamedTuple):
    """The record that was refused: its part, and up to where the map covered."""

    part: int
    latest_offset: int
    refused: RefusedRecord


def map_end(
    parts: Sequence[Part],
    scanned: Sequence[ScanResult],
    again: ScanResult,
    next_starts: dict[int, int],
) -> MapEnd | None:
    """Return the first record with a key after the last one that had room; None without any.

    `again` is the second scan of the part with the last key. `next_starts`: by the base of a
    segment the offset where the next begins.
    """
    latest = NO_OFFSET
    for part, first_scan in zip(parts, scanned, strict=True):
        if part.number < again.number or not part.is_dirty:
            continue
        found = again if part.number == again.number else first_scan
        if found.refused is not None:
            before = found.refused.latest_before
            return MapEnd(part.number, latest if before == NO_OFFSET else before, found.refused)
        if found.latest != NO_OFFSET:
            latest = found.latest
        if part.is_last_of_segment:
            latest = next_starts[part.base_offset] - 1
    return None
