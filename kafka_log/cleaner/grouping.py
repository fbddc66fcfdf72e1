"""Groups segments that become one: as many in a row as fit, by their sizes before cleaning.

Mirrors Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_log.segment.log_segment import LogSegment

_INT32_MAX = 2**31 - 1


def group_segments_by_size(
    segments: Sequence[LogSegment],
    *,
    max_size: int,
    max_index_size: int,
    first_uncleanable_offset: int,
) -> list[list[LogSegment]]:
    """Group segments; limits are bytes, bytes of either index, and offsets that fit four bytes.

    The base of the next segment stands for the last offset of a segment, which only a walk gives.
    """
    groups: list[list[LogSegment]] = []
    sizes = (0, 0, 0)
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        end = first_uncleanable_offset if following is None else following
        own = _sizes(segment)
        total = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
        if (
            groups
            and total[0] <= max_size
            and total[1] <= max_index_size
            and total[2] <= max_index_size
            # An empty segment needs no offsets: else one would stay for every 2**31 offsets.
            and (segment.size == 0 or end - 1 - groups[-1][0].base_offset <= _INT32_MAX)
        ):
            groups[-1].append(segment)
            sizes = total
        else:
            groups.append([segment])
            sizes = own
    return groups


def _sizes(segment: LogSegment) -> tuple[int, int, int]:
    return segment.size, segment.offset_index.size_in_bytes, segment.time_index.size_in_bytes
