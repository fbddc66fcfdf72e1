"""Keys by their hashes (128 bits), numbered in the order of their first occurrence.

index    int32[slot]        the number plus one; 0 is an empty slot
hashes   int64[number, 2]
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_format.columnar.compilation import Kernels, can_compile
from kafka_format.columnar.kernels import KEY_LENGTH, KEY_POSITION, OFFSET
from kafka_log.cleaner.columns import map_kernels
from kafka_log.cleaner.columns.map_kernels import siphash

if TYPE_CHECKING:
    from types import SimpleNamespace

    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]
    Uint8s = npt.NDArray[np.uint8]

UNKNOWN = -1
_FIRST_SLOTS = 1 << 12

kernel = Kernels()


@cache
def load() -> SimpleNamespace:
    if not can_compile():
        return kernel.plain()
    loaded = map_kernels.load(compiled=True)
    return kernel.compiled(globals() | {"siphash": loaded.siphash})


@kernel
def slot_of(index: Any, hashes: Any, low: int, high: int) -> int:
    """Return the slot of a key, or the one that it would be put into."""
    last: int = index.shape[0] - 1
    slot = low & last
    while index[slot] != 0 and (
        hashes[index[slot] - 1, 0] != low or hashes[index[slot] - 1, 1] != high
    ):
        slot = (slot + 1) & last
    return slot


@kernel
def fill_index(index: Any, hashes: Any, count: int) -> None:
    """Put keys that have numbers into an empty index."""
    for number in range(count):
        index[slot_of(index, hashes, hashes[number, 0], hashes[number, 1])] = number + 1


@kernel
def number_keys(index: Any, hashes: Any, count: int, given: Any, numbers: Any) -> int:
    """Write the number of each key, a new one if it has none; return the new count of keys."""
    for row in range(given.shape[0]):
        low = given[row, 0]
        high = given[row, 1]
        slot = slot_of(index, hashes, low, high)
        if index[slot] == 0:
            hashes[count, 0] = low
            hashes[count, 1] = high
            count += 1
            index[slot] = count
        numbers[row] = index[slot] - 1
    return count


@kernel
def find_keys(index: Any, hashes: Any, given: Any, numbers: Any) -> None:
    """Write the number of each key, or -1."""
    for row in range(given.shape[0]):
        numbers[row] = index[slot_of(index, hashes, given[row, 0], given[row, 1])] - 1


class HashedRows(NamedTuple):
    """Rows that have a key."""

    hashes: Int64s
    offsets: Int64s
    batches: Int64s
    """The batch of each row."""


@kernel
def hash_rows(
    data: Any, longs: Any, ints: Any, edges: Any, is_data: Any, secret: Any, hashed: Any
) -> int:
    """Write every row with a key, control records excepted, into `hashed`; return their count."""
    count = 0
    for batch in range(edges.shape[0] - 1):
        if is_data[batch] == 0:
            continue
        for row in range(edges[batch], edges[batch + 1]):
            length = ints[KEY_LENGTH, row] + 0
            if length < 0:
                continue
            low, high = siphash(data, longs[KEY_POSITION, row], length, secret[0], secret[1])
            hashed.hashes[count, 0] = low
            hashed.hashes[count, 1] = high
            hashed.offsets[count] = longs[OFFSET, row]
            hashed.batches[count] = batch
            count += 1
    return count


@kernel
def note_puts(numbers: Any, relative: Any, is_put: Any, first: Any, last: Any) -> None:
    """Note the first and the last row put for each key, plus one: 0 is none."""
    for row in range(numbers.shape[0]):
        if is_put[row] != 0:
            number = numbers[row]
            if first[number] == 0:
                first[number] = relative[row] + 1
            last[number] = relative[row] + 1


class KeyIndex:
    """Numbers keys; grows with them."""

    def __init__(self) -> None:
        self.count = 0
        self._kernels = load()
        self._index = np.zeros(_FIRST_SLOTS, np.int32)
        self._hashes = np.empty((_FIRST_SLOTS // 2, 2), np.int64)

    def __repr__(self) -> str:
        return f"KeyIndex({self.count} keys)"

    @property
    def hashes(self) -> Int64s:
        return self._hashes[: self.count]

    @property
    def capacity(self) -> int:
        """How many keys fit before columns by key must grow."""
        return len(self._hashes)

    def numbers(self, hashes: Int64s) -> Int32s:
        """Return the numbers of keys; those not yet in the index are added."""
        self._make_room(len(hashes))
        numbers = np.empty(len(hashes), np.int32)
        self.count = int(
            self._kernels.number_keys(self._index, self._hashes, self.count, hashes, numbers)
        )
        return numbers

    def find(self, hashes: Int64s) -> Int32s:
        """Return the numbers of keys; -1 for a key that is not in the index."""
        numbers = np.empty(len(hashes), np.int32)
        self._kernels.find_keys(self._index, self._hashes, hashes, numbers)
        return numbers

    def _make_room(self, keys: int) -> None:
        most = self.count + keys
        if most > len(self._hashes):
            larger = np.empty((max(most, 2 * self.count), 2), np.int64)
            larger[: self.count] = self._hashes[: self.count]
            self._hashes = larger
        slots = 1 << (most * 4 // 3).bit_length()
        if slots > len(self._index):
            self._index = np.zeros(slots, np.int32)
            self._kernels.fill_index(self._index, self._hashes, self.count)


def grown(column: Int32s, size: int) -> Int32s:
    """Return a column by key with room for `size` keys; new ones have 0."""
    if len(column) >= size:
        return column
    larger = np.zeros(max(size, 2 * len(column)), column.dtype)
    larger[: len(column)] = column
    return larger
