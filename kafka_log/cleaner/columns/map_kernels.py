"""The offset map as a hash table over columns: a key is its SipHash (128 bits, with a secret).

    table    int64[slot, 3]   both halves of the hash; the offset plus one, 0 is an empty slot
    hashes   int64[row, 2]    of the rows of a piece

The number of slots is a power of two, larger than the number of keys; probing is linear.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kafka_format.columnar import kernels as k
from kafka_format.columnar import native_codecs
from kafka_format.columnar.compilation import Kernels
from kafka_format.columnar.kernels import (
    KEY_LENGTH,
    KEY_POSITION,
    OFFSET,
    POSITION,
    SIZE_IN_BYTES,
    byte,
    wrap,
)
from kafka_format.columnar.native_codecs import fetch, word

if TYPE_CHECKING:
    from types import SimpleNamespace

_AHEAD = 12  # rows to prefetch: about the latency of memory
_SLOT_BYTES = 24

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    if not compiled:
        return kernel.plain()
    loaded = k.load(compiled=True)
    linked = native_codecs.linked()
    names = {"byte": loaded.byte, "wrap": loaded.wrap}
    names |= {"word": linked["word"], "fetch": linked["fetch"]}
    return kernel.compiled(globals() | names)


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
    """Return the 128-bit SipHash-2-4, as two signed numbers."""
    v0 = key0 ^ 0x736F_6D65_7073_6575
    v1 = key1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE
    v2 = key0 ^ 0x6C79_6765_6E65_7261
    v3 = key1 ^ 0x7465_6462_7974_6573
    whole = length // 8
    for i in range(whole + 1):
        if i < whole:
            block = word(data, at + 8 * i)
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
def cut_chunks(table: Any, count: int, base: int, capacity: int, ends: Any) -> tuple[int, bool]:
    """Write the number of batches before the end of each chunk except the last into `ends`.

    Return the number of these chunks, and whether a batch larger than a chunk comes next.
    """
    chunks = 0
    start = 0
    for batch in range(count):
        at = table[POSITION, batch] - base
        end = at + table[SIZE_IN_BYTES, batch]
        if end > start + capacity and at > start:
            ends[chunks] = batch
            chunks += 1
            start = at
        if end > start + capacity:
            return chunks, True
    return chunks, False


@kernel
def hash_rows(data: Any, longs: Any, ints: Any, key0: int, key1: int, hashes: Any) -> None:
    """Hash every key. This is separate from the search so that cache misses overlap."""
    rows = hashes.shape[0]
    for row in range(rows):
        fetch(data, longs[KEY_POSITION, min(row + _AHEAD, rows - 1)])
        length = ints[KEY_LENGTH, row] + 0
        if length >= 0:
            low, high = siphash(data, longs[KEY_POSITION, row], length, key0, key1)
            hashes[row, 0] = low
            hashes[row, 1] = high


@kernel
def fetch_slot(table: Any, low: int) -> None:
    """Prefetch the first slot of a key."""
    fetch(table, (low & (table.shape[0] - 1)) * _SLOT_BYTES)


@kernel
def find_slot(table: Any, low: int, high: int) -> int:
    """Return the slot of a key, or the one that it would be put into."""
    last: int = table.shape[0] - 1
    slot = low & last
    while table[slot, 2] != 0 and (table[slot, 0] != low or table[slot, 1] != high):
        slot = (slot + 1) & last
    return slot


@kernel
def move_keys(table: Any, larger: Any) -> None:
    """Move all keys into a larger, empty table."""
    last = table.shape[0] - 1
    for slot in range(table.shape[0]):
        fetch_slot(larger, table[min(slot + _AHEAD, last), 0])
        if table[slot, 2] != 0:
            new = find_slot(larger, table[slot, 0], table[slot, 1])
            larger[new, 0] = table[slot, 0]
            larger[new, 1] = table[slot, 1]
            larger[new, 2] = table[slot, 2]


@kernel
def put_rows(  # many parameters: kernels take arrays
    longs: Any,
    ints: Any,
    edges: Any,
    is_left_out: Any,
    start: int,
    most: int,
    size: int,
    hashes: Any,
    table: Any,
) -> tuple[int, int, int, int]:
    """Put the keys of batches until the map is full.

    Return the batch and row where it was full, the size, and the last offset put in that batch, or
    -1.
    """
    batches = edges.shape[0] - 1
    last_row = hashes.shape[0] - 1
    latest = -1
    for batch in range(batches):
        latest = -1
        if is_left_out[batch] != 0:
            continue
        for row in range(edges[batch], edges[batch + 1]):
            fetch_slot(table, hashes[min(row + _AHEAD, last_row), 0])
            offset = longs[OFFSET, row]
            if ints[KEY_LENGTH, row] < 0 or offset < start:
                continue
            if size >= most:
                return batch, row, size, latest
            slot = find_slot(table, hashes[row, 0], hashes[row, 1])
            if table[slot, 2] == 0:
                table[slot, 0] = hashes[row, 0]
                table[slot, 1] = hashes[row, 1]
                size += 1
            table[slot, 2] = offset + 1
            latest = offset
    return batches, edges[batches] + 0, size, latest


@kernel
def find_rows(ints: Any, hashes: Any, table: Any, latest_of: Any) -> None:
    """Write the latest offset of each row's key, or -1."""
    last_row = latest_of.shape[0] - 1
    for row in range(latest_of.shape[0]):
        fetch_slot(table, hashes[min(row + _AHEAD, last_row), 0])
        latest_of[row] = -1
        if ints[KEY_LENGTH, row] >= 0:
            slot = find_slot(table, hashes[row, 0], hashes[row, 1])
            latest_of[row] = table[slot, 2] - 1
