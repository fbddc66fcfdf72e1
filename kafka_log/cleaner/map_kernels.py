"""The offset map as a hash table over columns: a key is its SipHash (128 bits, with a secret).

    hashes   int64[slot, 2]
    offsets  int64[slot]      the offset and one more; 0 is an empty slot

Slots are a power of two and more than the keys that the map may hold, and probed one by one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kafka_format.columnar import kernels as k
from kafka_format.columnar.compilation import Kernels
from kafka_format.columnar.kernels import (
    KEY_LENGTH,
    KEY_POSITION,
    OFFSET,
    VALUE_LENGTH,
    byte,
    wrap,
)

if TYPE_CHECKING:
    from types import SimpleNamespace

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    if not compiled:
        return kernel.plain()
    loaded = k.load(compiled=True)
    return kernel.compiled(globals() | {"byte": loaded.byte, "wrap": loaded.wrap})


@kernel
def rotated(value: int, by: int) -> int:
    low = (value >> (64 - by)) & ((1 << by) - 1)
    return wrap(value << by) | low


@kernel
def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = wrap(v0 + v1)
    v2 = wrap(v2 + v3)
    v1 = rotated(v1, 13) ^ v0
    v3 = rotated(v3, 16) ^ v2
    v0 = rotated(v0, 32)
    v2 = wrap(v2 + v1)
    v0 = wrap(v0 + v3)
    v1 = rotated(v1, 17) ^ v2
    v3 = rotated(v3, 21) ^ v0
    v2 = rotated(v2, 32)
    return v0, v1, v2, v3


@kernel
def little_endian(data: Any, at: int, length: int) -> int:
    value = 0
    for i in range(length):
        value |= byte(data, at + i) << (8 * i)
    return wrap(value)


@kernel
def siphash(data: Any, at: int, length: int, key0: int, key1: int) -> tuple[int, int]:
    """SipHash-2-4 of 128 bits, as two signed numbers."""
    v0 = key0 ^ 0x736F_6D65_7073_6575
    v1 = key1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE
    v2 = key0 ^ 0x6C79_6765_6E65_7261
    v3 = key1 ^ 0x7465_6462_7974_6573
    whole = length // 8
    for i in range(whole + 1):
        if i < whole:
            block = little_endian(data, at + 8 * i, 8)
        else:
            block = little_endian(data, at + 8 * i, length % 8)
            block = wrap(block | (length & 0xFF) << 56)
        v3 ^= block
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= block
    v2 ^= 0xEE
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def find_slot(hashes: Any, offsets: Any, low: int, high: int) -> int:
    """Where a key is, or would be put."""
    last: int = offsets.shape[0] - 1
    slot = low & last
    while offsets[slot] != 0 and (hashes[slot, 0] != low or hashes[slot, 1] != high):
        slot = (slot + 1) & last
    return slot


@kernel
def move_keys(hashes: Any, offsets: Any, new_hashes: Any, new_offsets: Any) -> None:
    """All keys into a larger table, which is empty."""
    for slot in range(offsets.shape[0]):
        if offsets[slot] != 0:
            new = find_slot(new_hashes, new_offsets, hashes[slot, 0], hashes[slot, 1])
            new_hashes[new, 0] = hashes[slot, 0]
            new_hashes[new, 1] = hashes[slot, 1]
            new_offsets[new] = offsets[slot]


@kernel
def put_rows(
    data: Any,
    longs: Any,
    ints: Any,
    edges: Any,
    is_left_out: Any,
    start: int,
    most: int,
    size: int,
    key0: int,
    key1: int,
    hashes: Any,
    offsets: Any,
) -> tuple[int, int, int, int]:
    """Keys of batch after batch, until the map is full.

    Returns (batch, row) where it was full, the size, and the last offset put of that batch or -1.
    """
    batches = edges.shape[0] - 1
    latest = -1
    for batch in range(batches):
        latest = -1
        if is_left_out[batch] != 0:
            continue
        for row in range(edges[batch], edges[batch + 1]):
            length = ints[KEY_LENGTH, row] + 0
            offset = longs[OFFSET, row]
            if length < 0 or offset < start:
                continue
            if size >= most:
                return batch, row, size, latest
            low, high = siphash(data, longs[KEY_POSITION, row], length, key0, key1)
            slot = find_slot(hashes, offsets, low, high)
            if offsets[slot] == 0:
                hashes[slot, 0] = low
                hashes[slot, 1] = high
                size += 1
            offsets[slot] = offset + 1
            latest = offset
    return batches, edges[batches] + 0, size, latest


@kernel
def find_rows(
    data: Any,
    longs: Any,
    ints: Any,
    key0: int,
    key1: int,
    hashes: Any,
    offsets: Any,
    latest_of: Any,
) -> None:
    """For each row the latest offset of its key, or -1."""
    for row in range(latest_of.shape[0]):
        length = ints[KEY_LENGTH, row] + 0
        latest_of[row] = -1
        if length >= 0:
            low, high = siphash(data, longs[KEY_POSITION, row], length, key0, key1)
            latest_of[row] = offsets[find_slot(hashes, offsets, low, high)] - 1


@kernel
def judge_rows(
    longs: Any,
    ints: Any,
    edges: Any,
    latest_of: Any,
    retains_deletes: Any,
    latest: int,
    is_kept: Any,
    counts: Any,
) -> None:
    """Which records stay; `counts` of each batch: kept, kept tombstones, without a key."""
    for batch in range(edges.shape[0] - 1):
        for row in range(edges[batch], edges[batch + 1]):
            length = ints[KEY_LENGTH, row] + 0
            offset = longs[OFFSET, row]
            has_value = ints[VALUE_LENGTH, row] >= 0
            stays = 0
            if offset > latest:
                stays = 1
            elif length < 0:
                counts[batch, 2] += 1
            elif (has_value or retains_deletes[batch] != 0) and offset >= latest_of[row]:
                stays = 1
            is_kept[row] = stays
            counts[batch, 0] += stays
            if stays == 1 and not has_value:
                counts[batch, 1] += 1
