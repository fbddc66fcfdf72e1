"""Entries of both indexes for many batches at once, as LogSegment.append gives them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.columnar.compilation import can_compile
from kafka_format.offset_index import DTYPE as OFFSET_DTYPE
from kafka_format.time_index import DTYPE as TIME_DTYPE
from kafka_log.indexes import kernels as k
from kafka_log.indexes.index_files import OffsetIndex, TimeIndex, TimestampOffset
from kafka_log.indexes.mapped_index import INT32_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

_LONG_MAX = 2**63 - 1


class Entries(NamedTuple):
    """Of some batches: offset and position; timestamp and offset; and what is known after them."""

    offsets: Int64s
    times: Int64s
    last_index_position: int
    max_timestamp_and_offset: TimestampOffset


def select_entries(
    offset_index: OffsetIndex,
    time_index: TimeIndex,
    batches: Int64s,
    *,
    interval: int,
    last_index_position: int,
    max_timestamp_and_offset: TimestampOffset,
) -> Entries | None:
    """`batches` as kafka_log.indexes.kernels has them. None if one would be refused its entry."""
    state = np.zeros(k.STATE_FIELDS, np.int64)
    state[k.LAST_INDEX_POSITION] = last_index_position
    state[k.MAX_TIMESTAMP], state[k.OFFSET_OF_MAX_TIMESTAMP] = max_timestamp_and_offset
    state[k.OFFSET_ENTRIES] = offset_index.entries
    state[k.OFFSET_SLOTS] = offset_index.max_entries
    state[k.LAST_INDEX_OFFSET] = offset_index.last_offset
    state[k.TIME_ENTRIES] = time_index.entries
    state[k.TIME_SLOTS] = time_index.max_entries - 1
    state[k.LAST_TIMESTAMP], state[k.LAST_TIME_OFFSET] = time_index.last_entry
    offset_entries = np.empty((2, batches.shape[1]), np.int64)
    time_entries = np.empty((2, batches.shape[1]), np.int64)
    base = offset_index.base_offset
    highest = min(base + INT32_MAX, _LONG_MAX)
    kernels = k.load(compiled=can_compile())
    _, offsets, times, why = kernels.select_entries(
        batches, base, highest, interval, state, offset_entries, time_entries
    )
    if why != k.ALL_DONE:
        return None
    return Entries(
        offset_entries[:, :offsets],
        time_entries[:, :times],
        int(state[k.LAST_INDEX_POSITION]),
        TimestampOffset(int(state[k.MAX_TIMESTAMP]), int(state[k.OFFSET_OF_MAX_TIMESTAMP])),
    )


def append_entries(offset_index: OffsetIndex, time_index: TimeIndex, entries: Entries) -> None:
    offsets = np.empty(entries.offsets.shape[1], OFFSET_DTYPE)
    offsets["relative_offset"] = entries.offsets[0] - offset_index.base_offset
    offsets["position"] = entries.offsets[1]
    offset_index.append_packed(offsets.tobytes())
    times = np.empty(entries.times.shape[1], TIME_DTYPE)
    times["timestamp"] = entries.times[0]
    times["relative_offset"] = entries.times[1] - time_index.base_offset
    time_index.append_packed(times.tobytes())
