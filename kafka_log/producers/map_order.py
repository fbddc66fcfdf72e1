"""The iteration order of a Java HashMap.

The producers of a snapshot, and those of one append, are in that order. It matters: if two
transactions start at the same offset (two producers in a follower's append), Kafka keeps only the
later one.

A key is in the bucket of its hash, after those that were added to the bucket before. A map grows
with its entries and never shrinks. (A bucket of eight becomes a tree, whose order is not mirrored.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_CAPACITY = 16
_UINT32 = 0xFFFF_FFFF

Value = TypeVar("Value")


def in_map_order(entries: Mapping[int, Value], most: int = 0) -> list[Value]:
    """Return the values in map order. Keys are longs, in the order in which they were added.

    `most` is the largest number of entries that the map has had.
    """
    buckets = _FIRST_CAPACITY
    while max(most, len(entries)) > buckets * 3 // 4:
        buckets *= 2
    return [entries[key] for key in sorted(entries, key=lambda key: _hash(key) & (buckets - 1))]


def _hash(key: int) -> int:
    folded = (key ^ key >> 32) & _UINT32
    return folded ^ folded >> 16
