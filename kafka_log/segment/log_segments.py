"""The segments of a log, by base offset (org.apache.kafka.storage.internals.log.LogSegments)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka_log.errors import LogError
from kafka_log.names import live_base_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka_log.disk.files import Files
    from kafka_log.segment.log_segment import LogSegment


class LogSegments:
    """Segments in the order of their offsets. Lists that it returns are copies.

    Where Kafka returns an empty Optional, this returns None.
    """

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._by_base: dict[int, LogSegment] = {}
        self._bases: list[int] = []
        for segment in segments:
            self.add(segment)

    def __repr__(self) -> str:
        return f"LogSegments({self._bases})"

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.values())

    def is_empty(self) -> bool:
        return not self._bases

    def non_empty(self) -> bool:
        return bool(self._bases)

    def number_of_segments(self) -> int:
        return len(self._bases)

    def base_offsets(self) -> list[int]:
        return list(self._bases)

    def contains(self, base_offset: int) -> bool:
        return base_offset in self._by_base

    def get(self, base_offset: int) -> LogSegment | None:
        return self._by_base.get(base_offset)

    # --------------------------------------------------------------------------------- changes

    def add(self, segment: LogSegment) -> LogSegment | None:
        """Add a segment; return the one with the same base offset that it replaces, if any."""
        replaced = self._by_base.get(segment.base_offset)
        if replaced is None:
            insort(self._bases, segment.base_offset)
        self._by_base[segment.base_offset] = segment
        return replaced

    def remove(self, base_offset: int) -> None:
        if self._by_base.pop(base_offset, None) is not None:
            del self._bases[bisect_left(self._bases, base_offset)]

    def clear(self) -> None:
        self._by_base.clear()
        self._bases.clear()

    def close(self) -> None:
        """Close all segments, even if one of them fails."""
        with ExitStack() as stack:
            for segment in reversed(self.values()):
                stack.callback(segment.close)

    def close_handlers(self) -> None:
        for segment in self.values():
            segment.close_handlers()

    # ---------------------------------------------------------------------------------- ranges

    def values(
        self, from_offset: int | None = None, to_offset: int | None = None
    ) -> list[LogSegment]:
        """Return all; or those from the one that holds `from_offset` up to (not) `to_offset`."""
        if from_offset is None or to_offset is None:
            return [self._by_base[base] for base in self._bases]
        if to_offset < from_offset:
            raise ValueError(f"segments from {from_offset} to {to_offset}: expected from <= to")
        if to_offset == from_offset:
            return []
        first = max(0, bisect_right(self._bases, from_offset) - 1)
        last = bisect_left(self._bases, to_offset)
        return [self._by_base[base] for base in self._bases[first:last]]

    def non_active_log_segments_from(self, from_offset: int) -> list[LogSegment]:
        active = self.active_segment().base_offset
        return [] if from_offset > active else self.values(from_offset, active)

    def higher_segments(self, base_offset: int) -> list[LogSegment]:
        first = bisect_right(self._bases, base_offset)
        return [self._by_base[base] for base in self._bases[first:]]

    def filter(self, predicate: Callable[[LogSegment], bool]) -> list[LogSegment]:
        return [segment for segment in self.values() if predicate(segment)]

    # --------------------------------------------------------------------------------- singles

    def first_segment(self) -> LogSegment | None:
        return self._at(0)

    def first_segment_base_offset(self) -> int | None:
        return self._bases[0] if self._bases else None

    def last_segment(self) -> LogSegment | None:
        return self._at(len(self._bases) - 1)

    def active_segment(self) -> LogSegment:
        return self._by_base[self._bases[-1]]

    def floor_segment(self, offset: int) -> LogSegment | None:
        """Return the segment with the largest base offset that is at most `offset`."""
        return self._at(bisect_right(self._bases, offset) - 1)

    def lower_segment(self, offset: int) -> LogSegment | None:
        return self._at(bisect_left(self._bases, offset) - 1)

    def higher_segment(self, offset: int) -> LogSegment | None:
        return self._at(bisect_right(self._bases, offset))

    def size_in_bytes(self) -> int:
        return size_in_bytes(self.values())

    def _at(self, index: int) -> LogSegment | None:
        return self._by_base[self._bases[index]] if 0 <= index < len(self._bases) else None


def size_in_bytes(segments: Iterable[LogSegment]) -> int:
    return sum(segment.size for segment in segments)


def find_base_offsets(files: Files) -> list[int]:
    """List the live segments of a directory, in order. Raises LogError if there is none."""
    bases = live_base_offsets(files.names())
    if not bases:
        raise LogError(f"{files.directory}: found no segment, expected at least one .log file")
    return bases
