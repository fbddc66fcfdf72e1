"""Loops over bytes: messages of magic 0 and 1. The rules of kernels.py apply."""

from functools import cache
from types import SimpleNamespace
from typing import Any

from kafka_format.batch_layout import (
    LENGTH_AT,
    MAGIC_AT,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_TIMESTAMP_AT,
)
from kafka_format.columnar import kernels
from kafka_format.columnar.compilation import Kernels
from kafka_format.columnar.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    HEADERS_COUNT,
    KEY_LENGTH,
    KEY_POSITION,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSET,
    RECORD_OVERHEAD_V0,
    TIMESTAMP,
    VALUE_LENGTH,
    VALUE_POSITION,
    int32,
    int64,
    wrap,
)

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    """Return all kernels by name, as plain Python or compiled."""
    if not compiled:
        return kernel.plain()
    return kernel.compiled(globals() | vars(kernels.load(compiled=True)))


@kernel
def count_entries(data: Any, at: int, end: int) -> int:
    """Count the whole messages in a wrapper's decompressed value; -1 for none, or for damage."""
    count = 0
    while end - at >= LOG_OVERHEAD:
        size = int32(data, at + LENGTH_AT)
        if size > end - at - LOG_OVERHEAD:
            break  # cut off: ignored, as in Kafka
        if size < RECORD_OVERHEAD_V0:
            return -1
        at += LOG_OVERHEAD + size
        count += 1
    return count or -1


@kernel
def decode_message(data: Any, at: int, longs: Any, ints: Any, row: int) -> int:
    """Decode one legacy message into a row; return its end, or -1 if its lengths do not fit."""
    end = at + LOG_OVERHEAD + int32(data, at + LENGTH_AT)
    longs[OFFSET, row] = int64(data, at)
    magic = data[at + MAGIC_AT]
    at += MESSAGE_TIMESTAMP_AT  # in magic 0 the key follows here
    longs[TIMESTAMP, row] = -1
    if magic == 1:
        if end - at < 16:
            return -1
        longs[TIMESTAMP, row] = int64(data, at)
        at += 8
    ints[HEADERS_COUNT, row] = 0
    length = int32(data, at)
    at += 4
    if length > end - at - 4:
        return -1
    longs[KEY_POSITION, row] = at
    ints[KEY_LENGTH, row] = max(length, -1)
    at += max(length, 0)
    length = int32(data, at)
    at += 4
    if length > end - at:
        return -1
    longs[VALUE_POSITION, row] = at
    ints[VALUE_LENGTH, row] = max(length, -1)
    return end


@kernel
def decode_entries(
    data: Any, table: Any, at: int, count: int, batch: int, longs: Any, ints: Any, row: int
) -> int:
    """Decode the next `count` messages of a legacy wrapper, with their stored offsets.

    Returns the position after them, or -1.
    """
    append_time = table[MAGIC, batch] == 1 and (table[ATTRIBUTES, batch] & LOG_APPEND_TIME) != 0
    for _ in range(count):
        magic = data[at + MAGIC_AT]
        if (data[at + MESSAGE_ATTRIBUTES_AT] & CODEC_MASK) != 0 or magic > 1:
            return -1
        at = decode_message(data, at, longs, ints, row)
        if at < 0:
            return -1
        if append_time and magic == 1:
            longs[TIMESTAMP, row] = table[MAX_TIMESTAMP, batch]
        row += 1
    return at


@kernel
def shift_offsets(table: Any, batch: int, last: int, longs: Any, row: int, end: int) -> bool:
    """Turn stored offsets of rows up to `end` into offsets of the log; `last` is the last stored.

    Returns False if the wrapper's offset does not allow it: then the wrapper is not sound.
    """
    wrapper_offset = int(table[BASE_OFFSET, batch])
    if table[MAGIC, batch] != 1 or wrapper_offset == 0:
        return True  # absolute in magic 0; and early librdkafka left the wrapper's at 0
    if wrapper_offset < last:
        return False
    for record in range(row, end):
        longs[OFFSET, record] = wrap(int(longs[OFFSET, record]) + wrapper_offset - int(last))
    return True


@kernel
def decode_wrapper(
    data: Any, at: int, count: int, table: Any, batch: int, longs: Any, ints: Any, row: int
) -> int:
    """Decode the `count` messages of a legacy wrapper at `at`; return the row after, or -1."""
    end = row + count
    if decode_entries(data, table, at, count, batch, longs, ints, row) < 0:
        return -1
    last = longs[OFFSET, end - 1] + 0
    return end if shift_offsets(table, batch, last, longs, row, end) else -1


@kernel
def count_messages(data: Any, table: Any, starts: Any, ends: Any, counts: Any) -> int:
    """Count the records of legacy batches: 1, or those in the wrapper; -1 for damage."""
    total = 0
    for batch in range(table.shape[1]):
        counts[batch] = 0
        if starts[batch] < 0:
            continue
        counts[batch] = 1
        if (table[ATTRIBUTES, batch] & CODEC_MASK) != 0:
            counts[batch] = count_entries(data, starts[batch] + 0, ends[batch] + 0)
        total += max(counts[batch], 0)
    return total


@kernel
def decode_messages(
    data: Any, table: Any, starts: Any, longs: Any, ints: Any, counts: Any
) -> tuple[int, int]:
    """Decode magic 0 and 1 as `decode_records` does magic 2; `counts` is from `count_messages`."""
    row = 0
    damaged = 0
    for batch in range(table.shape[1]):
        if starts[batch] < 0:
            continue
        reached = row + 1
        if counts[batch] < 0:
            reached = -1
        elif (table[ATTRIBUTES, batch] & CODEC_MASK) != 0:
            at, count = starts[batch] + 0, counts[batch] + 0
            reached = decode_wrapper(data, at, count, table, batch, longs, ints, row)
        elif decode_message(data, starts[batch] + 0, longs, ints, row) < 0:
            reached = -1
        if reached < 0:
            counts[batch] = -1
            damaged += 1
        else:
            row = reached
    return row, damaged
