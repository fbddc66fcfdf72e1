"""The order in which a Java HashMap gives its entries.

Producers of a snapshot, and those of one append, come in that order. It shows: of two transactions
that begin at one offset (two producers of a follower's append) Kafka knows only the later one.

A key lies in the bucket of its hash, and behind those that came before it to the same. A map grows
with its entries and never shrinks. (A bucket of eight becomes a tree: its order is not mirrored.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_CAPACITY = 16
_UINT32 = 0xFFFF_FFFF

Value = TypeVar("Value")


def in_map_order(entries: Mapping[int, Value], most: int = 0) -> list[Value]:
    """The values by their keys (longs), which came in this order; `most` were there at a time."""
    buckets = _FIRST_CAPACITY
    while max(most, len(entries)) > buckets * 3 // 4:
        buckets *= 2
    return [entries[key] for key in sorted(entries, key=lambda key: _hash(key) & (buckets - 1))]


def _hash(key: int) -> int:
    folded = (key ^ key >> 32) & _UINT32
    return folded ^ folded >> 16
