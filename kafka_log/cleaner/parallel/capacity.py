"""Finds where Kafka's map would have been full, without building it.

A map for `most` keys takes all records up to the first one of the `most`-th distinct key; the next
record with a key finds it full, even if its own key is in it. So the order of first occurrences
decides. They are counted by part, then located in one part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_log.cleaner.parallel.parts import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from kafka_log.cleaner.parallel.parts import LogPart
    from kafka_log.cleaner.parallel.scan import RefusedRecord, ScanResult

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]


class LastKey(NamedTuple):
    """The last key with room: the part where it first occurs, and its rank there."""

    part: int
    rank: int


def last_key(first_puts: Int64s, most: int) -> LastKey | None:
    """Return the last key with room, from the number of new keys per part; None if all fit."""
    sums = np.cumsum(first_puts)
    if not len(sums) or sums[-1] < most:
        return None
    part = int(np.searchsorted(sums, most))
    before = int(sums[part - 1]) if part else 0
    return LastKey(part, most - before)


def offset_of(last: LastKey, relative: Iterable[Int32s], base_offset: int) -> int:
    """Return the offset of a key; `relative` are the first occurrences in its part."""
    rows = np.sort(np.concatenate([*relative]))
    return base_offset + int(rows[last.rank - 1])


class MapEnd(NamedTuple):
    """The refused record: its part, and the last offset that the map covers."""

    part: int
    latest_offset: int
    refused: RefusedRecord


def map_end(
    parts: Sequence[LogPart],
    scanned: Sequence[ScanResult],
    again: ScanResult,
    next_starts: dict[int, int],
) -> MapEnd | None:
    """Return the first record with a key after the last one that had room; None without any.

    `again` is the second scan of the part with the last key. `next_starts` has, by the base offset
    of a segment, the offset where the next one begins.
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
