"""Encode chosen records of a batch again from their columns, with other bases.

The bytes are those of `kafka_format.record.encode_records` for the same records. If a record needs
more than a copy (a header key that is not ASCII) or is one that Kafka's builder rejects (a
timestamp below -1, offsets that do not increase), the result is None, and the caller uses the row
encoder.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kafka_format.columnar import kernels as k
from kafka_format.columnar.compilation import Kernels
from kafka_format.columnar.headers import kernel_bytes
from kafka_format.columnar.kernels import (
    HEADERS_COUNT,
    KEY_LENGTH,
    KEY_POSITION,
    OFFSET,
    TIMESTAMP,
    VALUE_LENGTH,
    VALUE_POSITION,
    byte,
    varint,
    wrap,
)
from kafka_format.columnar.window import readonly

if TYPE_CHECKING:
    from types import SimpleNamespace

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns

_OVERHEAD = 40  # of a record without key, value and headers: at most 36
_INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)
_LOW_57 = 0x01FF_FFFF_FFFF_FFFF

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    if not compiled:
        return kernel.plain()
    loaded = k.load(compiled=True)
    names = {"byte": loaded.byte, "varint": loaded.varint, "wrap": loaded.wrap}
    return kernel.compiled(globals() | names)


@kernel
def varlong_size(value: int) -> int:
    pattern = (value << 1) ^ (value >> 63)
    size = 1
    pattern = (pattern >> 7) & _LOW_57
    while pattern != 0:
        size += 1
        pattern >>= 7
    return size


@kernel
def put_varlong(out: Any, at: int, value: int) -> int:
    """Write a varlong; a varint of the same value has the same bytes."""
    pattern = (value << 1) ^ (value >> 63)
    rest = (pattern >> 7) & _LOW_57
    group = pattern & 0x7F
    while rest != 0:
        out[at] = group | 0x80
        at += 1
        group = rest & 0x7F
        rest >>= 7
    out[at] = group
    return at + 1


@kernel
def put_bytes(data: Any, start: int, length: int, out: Any, at: int) -> int:
    """Write bytes after their length; the length of null is -1."""
    at = put_varlong(out, at, length)
    for i in range(length):
        out[at + i] = data[start + i]
    return at + max(length, 0)


@kernel
def headers_size(data: Any, at: int, count: int) -> int:
    """Return the size of `count` headers as Kafka writes them; -1 if a key is not ASCII."""
    size = 0
    end = len(data)
    for _ in range(count):
        length, at = varint(data, at, end)
        size += varlong_size(length) + length
        for i in range(length):
            if byte(data, at + i) >= 0x80:
                return -1
        length, at = varint(data, at + length, end)
        length = max(length, -1)
        size += varlong_size(length) + max(length, 0)
        at += max(length, 0)
    return size


@kernel
def put_headers(data: Any, start: int, count: int, out: Any, at: int) -> int:
    end = len(data)
    for _ in range(count):
        for _ in range(2):  # key and value
            length, start = varint(data, start, end)
            length = max(length, -1)
            at = put_bytes(data, start, length, out, at)
            start += max(length, 0)
    return at


@kernel
def encode_kept(  # noqa: PLR0913 - kernels take columns one by one
    data: Any,
    longs: Any,
    ints: Any,
    headers: Any,
    is_kept: Any,
    first: int,
    last: int,
    base_offset: int,
    base_timestamp: int,
    out: Any,
) -> int:
    """Encode the kept records of the rows [first, last); return the size, or -1 (see above)."""
    at = 0
    previous = 0
    is_first = True
    for row in range(first, last):
        if is_kept[row] == 0:
            continue
        offset = longs[OFFSET, row]
        delta = wrap(offset - base_offset)
        timestamp = longs[TIMESTAMP, row]
        if timestamp < -1 or delta < _INT32_MIN or delta > _INT32_MAX:
            return -1
        if not is_first and offset <= previous:
            return -1
        is_first = False
        previous = offset
        timestamp = wrap(timestamp - base_timestamp)
        count = ints[HEADERS_COUNT, row] + 0
        key_length = max(ints[KEY_LENGTH, row] + 0, -1)
        value_length = max(ints[VALUE_LENGTH, row] + 0, -1)
        size = headers_size(data, headers[row], count) if count > 0 else 0
        if size < 0:
            return -1
        size += 1 + varlong_size(timestamp) + varlong_size(delta) + varlong_size(count)
        size += varlong_size(key_length) + max(key_length, 0)
        size += varlong_size(value_length) + max(value_length, 0)
        at = put_varlong(out, at, size)
        out[at] = 0  # attributes
        at = put_varlong(out, at + 1, timestamp)
        at = put_varlong(out, at, delta)
        at = put_bytes(data, longs[KEY_POSITION, row], key_length, out, at)
        at = put_bytes(data, longs[VALUE_POSITION, row], value_length, out, at)
        at = put_varlong(out, at, count)
        if count > 0:
            at = put_headers(data, headers[row], count, out, at)
    return at


def encode_kept_records(
    records: RecordColumns,
    is_kept: npt.NDArray[np.uint8],
    rows: tuple[int, int],
    *,
    base_offset: int,
    base_timestamp: int,
    compiled: bool,
) -> memoryview | None:
    """Return the uncompressed payload of the kept rows of a batch; None as described above."""
    first, last = rows
    held = np.maximum(records.ints[:2, first:last], 0).sum(dtype=np.int64)
    extent = int(held) + _OVERHEAD * (last - first)
    headers = records.headers_position if records.headers_count[first:last].any() else None
    if headers is None:
        headers = np.empty(0, np.int64)
    else:
        extent += len(records.data)
    out = np.empty(extent, np.uint8)
    data = kernel_bytes(readonly(records.data), compiled=compiled)
    size = load(compiled=compiled).encode_kept(
        data,
        records.longs if compiled else records.longs.data,
        records.ints if compiled else records.ints.data,
        headers if compiled else headers.data,
        is_kept,
        first,
        last,
        base_offset,
        base_timestamp,
        out,
    )
    return None if size < 0 else out[: int(size)].data
