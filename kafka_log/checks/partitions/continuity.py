"""From which offset on nothing is missing: what compaction, deletion or damage removed is a gap.

Many rules about producers hold only where every batch is still there. `since` is known for each
batch: every offset from there up to the batch is in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns

    Int64s = npt.NDArray[np.int64]


_LARGEST = 2**63 - 1
"""No offset comes after it; a batch that claims it would end the range of int64."""


class Continuity:
    """Follows the offsets of a log, batch by batch."""

    def __init__(self, start_offset: int) -> None:
        self.since = start_offset
        """Nothing is missing from here to `next_offset`."""
        self.next_offset = start_offset

    def add(self, batches: BatchColumns) -> Int64s:
        """Return for each batch the offset from which on nothing before it is missing."""
        base, last = batches.base_offset, batches.last_offset
        expected = np.empty_like(base)
        expected[0] = self.next_offset
        expected[1:] = last[:-1] + 1
        is_whole = (batches.record_count == batches.last_offset_delta + 1) & ~batches.is_legacy
        begins = np.where(base == expected, self.since, base)
        begins[1:] = np.maximum(begins[1:], np.where(is_whole[:-1], self.since, last[:-1] + 1))
        since: Int64s = np.maximum.accumulate(begins)
        self.next_offset = min(int(last[-1]) + 1, _LARGEST)
        self.since = int(since[-1]) if is_whole[-1] else self.next_offset
        return since

    def interrupt(self) -> None:
        """Note that something may be missing here: damage."""
        self.since = self.next_offset = min(max(self.since, self.next_offset) + 1, _LARGEST)
