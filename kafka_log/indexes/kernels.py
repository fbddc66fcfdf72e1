"""Walk over batch headers and select those that get index entries, until one must be rejected.

One pass, plain or compiled (docs/decisions/0002), over columns of a piece of a segment. It only
selects; the caller packs entries, replays producers and raises the errors. `state` is kept from
piece to piece.
"""

from functools import cache
from types import SimpleNamespace
from typing import Any

from kafka_format.columnar.compilation import Kernels

# Rows of `state`.
LAST_INDEX_POSITION = 0  # of the last batch with an entry; 0 before the first
MAX_TIMESTAMP = 1
OFFSET_OF_MAX_TIMESTAMP = 2
OFFSET_ENTRIES = 3
OFFSET_SLOTS = 4
LAST_INDEX_OFFSET = 5
TIME_ENTRIES = 6
TIME_SLOTS = 7
LAST_TIMESTAMP = 8
LAST_TIME_OFFSET = 9
STATE_FIELDS = 10

# Why the walk stopped.
NOT_STOPPED = 0
INVALID_BATCH = 1
OFFSET_OVERFLOW = 2
OFFSET_INDEX_FULL = 3
OFFSET_OUT_OF_ORDER = 4
TIME_INDEX_FULL = 5
TIME_OUT_OF_ORDER = 6

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    return kernel.compiled(globals()) if compiled else kernel.plain()


@kernel
def is_entry_due(bytes_since_last_entry: int, interval: int) -> bool:
    """Return whether the next batch gets an entry in both indexes, by index.interval.bytes."""
    return bytes_since_last_entry > interval


@kernel
def select_entries(
    batches: Any,
    lowest: int,
    highest: int,
    interval: int,
    state: Any,
    offset_entries: Any,
    time_entries: Any,
) -> tuple[int, int, int, int]:
    """Select entries as LogSegment.recover does.

    The rows of `batches` are position, last offset, max timestamp and is valid. Returns how many
    batches were processed, how many offset and time entries were written (rows: offset, position;
    timestamp, offset), and why it stopped.
    """
    offsets = times = 0
    for batch in range(batches.shape[1]):
        last_offset = batches[1, batch]
        if not batches[3, batch]:
            return batch, offsets, times, INVALID_BATCH
        if last_offset < lowest or last_offset > highest:
            return batch, offsets, times, OFFSET_OVERFLOW
        if batches[2, batch] > state[MAX_TIMESTAMP]:
            state[MAX_TIMESTAMP] = batches[2, batch]
            state[OFFSET_OF_MAX_TIMESTAMP] = last_offset
        position = batches[0, batch]
        if is_entry_due(position - state[LAST_INDEX_POSITION], interval):
            if state[OFFSET_ENTRIES] >= state[OFFSET_SLOTS]:
                return batch, offsets, times, OFFSET_INDEX_FULL
            if state[OFFSET_ENTRIES] > 0 and last_offset <= state[LAST_INDEX_OFFSET]:
                return batch, offsets, times, OFFSET_OUT_OF_ORDER
            offset_entries[0, offsets] = last_offset
            offset_entries[1, offsets] = position
            offsets += 1
            state[OFFSET_ENTRIES] += 1
            state[LAST_INDEX_OFFSET] = last_offset
            if state[TIME_ENTRIES] >= state[TIME_SLOTS]:
                return batch, offsets, times, TIME_INDEX_FULL
            if state[TIME_ENTRIES] > 0 and state[OFFSET_OF_MAX_TIMESTAMP] < state[LAST_TIME_OFFSET]:
                return batch, offsets, times, TIME_OUT_OF_ORDER
            if state[MAX_TIMESTAMP] > state[LAST_TIMESTAMP]:
                time_entries[0, times] = state[MAX_TIMESTAMP]
                time_entries[1, times] = state[OFFSET_OF_MAX_TIMESTAMP]
                times += 1
                state[TIME_ENTRIES] += 1
                state[LAST_TIMESTAMP] = state[MAX_TIMESTAMP]
                state[LAST_TIME_OFFSET] = state[OFFSET_OF_MAX_TIMESTAMP]
            state[LAST_INDEX_POSITION] = position
    return batches.shape[1], offsets, times, NOT_STOPPED
