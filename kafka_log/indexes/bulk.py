"""Append index entries for many batches at once, as LogSegment.append does one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.offset_index import DTYPE as OFFSET_DTYPE
from kafka_format.time_index import DTYPE as TIME_DTYPE
from kafka_log.indexes import kernels as k
from kafka_log.indexes.index_files import OffsetIndex, TimeIndex, TimestampOffset
from kafka_log.indexes.mapped_index import INT32_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

_LONG_MAX = 2**63 - 1


class IndexEntries(NamedTuple):
    """Entries of both indexes."""

    offsets: Int64s
    """Rows: offset, position."""
    times: Int64s
    """Rows: timestamp, offset."""


class SelectedEntries(NamedTuple):
    """How many batches were processed, their entries, and why it stopped (indexes.kernels)."""

    batches: int
    entries: IndexEntries
    reason: int


class EntrySelection:
    """Selects the batches that get entries. Its state is kept from call to call."""

    def __init__(
        self,
        offset_index: OffsetIndex,
        time_index: TimeIndex,
        *,
        interval: int,
        compiled: bool,
        last_index_position: int = 0,
        max_timestamp_and_offset: TimestampOffset | None = None,
    ) -> None:
        """Start with the largest timestamp of the batches before; by default the time index's."""
        self._base_offset = offset_index.base_offset
        self._interval = interval
        self._kernels = k.load(compiled=compiled)
        state = np.zeros(k.STATE_FIELDS, np.int64)
        state[k.LAST_INDEX_POSITION] = last_index_position
        state[k.MAX_TIMESTAMP], state[k.OFFSET_OF_MAX_TIMESTAMP] = (
            max_timestamp_and_offset or time_index.last_entry
        )
        state[k.OFFSET_ENTRIES] = offset_index.entries
        state[k.OFFSET_SLOTS] = offset_index.max_entries
        state[k.LAST_INDEX_OFFSET] = offset_index.last_offset
        state[k.TIME_ENTRIES] = time_index.entries
        state[k.TIME_SLOTS] = time_index.max_entries - 1  # the last slot is reserved for the roll
        state[k.LAST_TIMESTAMP], state[k.LAST_TIME_OFFSET] = time_index.last_entry
        self.state = state

    @property
    def last_index_position(self) -> int:
        return int(self.state[k.LAST_INDEX_POSITION])

    @property
    def max_timestamp_and_offset(self) -> TimestampOffset:
        state = self.state
        return TimestampOffset(int(state[k.MAX_TIMESTAMP]), int(state[k.OFFSET_OF_MAX_TIMESTAMP]))

    def select(self, batches: Int64s) -> SelectedEntries:
        """Select the entries of `batches`, whose rows are those of `select_entries`."""
        offset_entries = np.empty((2, batches.shape[1]), np.int64)
        time_entries = np.empty((2, batches.shape[1]), np.int64)
        count, offsets, times, reason = self._kernels.select_entries(
            batches,
            self._base_offset,
            min(self._base_offset + INT32_MAX, _LONG_MAX),
            self._interval,
            self.state,
            offset_entries,
            time_entries,
        )
        entries = IndexEntries(offset_entries[:, :offsets], time_entries[:, :times])
        return SelectedEntries(count, entries, reason)


def append_entries(offset_index: OffsetIndex, time_index: TimeIndex, entries: IndexEntries) -> None:
    offsets = np.empty(entries.offsets.shape[1], OFFSET_DTYPE)
    offsets["relative_offset"] = entries.offsets[0] - offset_index.base_offset
    offsets["position"] = entries.offsets[1]
    offset_index.append_packed(offsets.tobytes())
    times = np.empty(entries.times.shape[1], TIME_DTYPE)
    times["timestamp"] = entries.times[0]
    times["relative_offset"] = entries.times[1] - time_index.base_offset
    time_index.append_packed(times.tobytes())
