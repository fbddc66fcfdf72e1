"""An OffsetMap over columns: keys by a hash of 128 bits with a secret. Needs numba."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from kafka_format.columnar.window import memory_of, readonly
from kafka_log.cleaner.columns import map_kernels
from kafka_log.cleaner.offset_map import NOT_FOUND, map_size

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_log.cleaner.columns.blocks import BlockPiece

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

_INT32_MAX = 2**31 - 1
_FIRST_SLOTS = 1 << 12
_SLOT = 3  # numbers: two of the hash, and the offset
_LARGE = 8 * 1024 * 1024


def _new_table(slots: int) -> Int64s:
    """Return a table of zeros, which take no memory until written; in huge pages if possible.

    Every key is a jump to another page, and the processor caches the addresses of only a few.
    """
    size = slots * _SLOT * 8
    if size < _LARGE:
        return np.zeros((slots, _SLOT), np.int64)
    return np.frombuffer(memory_of(size), np.int64).reshape(slots, _SLOT)


def _slots_for(keys: int) -> int:
    return 1 << (keys * 4 // 3).bit_length()


class KeyTable:
    """The latest offset of each key; a LatestOffsets."""

    def __init__(
        self, memory: int, *, load_factor: float = 0.9, secret: bytes | None = None
    ) -> None:
        self.slots, self.max_desired_size = map_size(memory, load_factor)
        self.latest_offset = NOT_FOUND
        self.size = 0
        drawn = os.urandom(16) if secret is None else secret
        self._secret = (
            int.from_bytes(drawn[:8], "little", signed=True),
            int.from_bytes(drawn[8:16], "little", signed=True),
        )
        self._kernels = map_kernels.load(compiled=True)
        self._table = _new_table(_FIRST_SLOTS)

    def __repr__(self) -> str:
        return f"KeyTable({self.size} of {self.slots} slots, up to offset {self.latest_offset})"

    def _make_room(self, keys: int) -> None:
        """Grow the table with its keys: few keys in many pages cost more than moving them."""
        most = min(self.size + keys, self.max_desired_size)
        if _slots_for(most) > len(self._table):
            slots = min(2 * _slots_for(most), _slots_for(self.max_desired_size))
            larger = _new_table(slots)
            self._kernels.move_keys(self._table, larger)
            self._table = larger

    @property
    def is_full(self) -> bool:
        return self.size >= self.max_desired_size

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def clear(self) -> None:
        if self.size:
            self._table = _new_table(_FIRST_SLOTS)
        self.size = 0
        self.latest_offset = NOT_FOUND

    def put(self, key: bytes, offset: int) -> None:
        self._make_room(1)
        slot, (low, high) = self._slot(key)
        if not self._table[slot, 2]:
            self.size += 1
        self._table[slot] = low, high, offset + 1
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        return int(self._table[self._slot(key)[0], 2]) - 1

    def _slot(self, key: bytes) -> tuple[int, tuple[int, int]]:
        data = readonly(np.frombuffer(key, np.uint8))
        hashed = self._kernels.siphash(data, 0, len(key), *self._secret)
        return self._kernels.find_slot(self._table, *hashed), hashed

    def hash(self, piece: BlockPiece) -> Int64s:
        """Return the hash of each row's key. Thread-safe, as latest_of is."""
        records = piece.records
        hashes = np.empty((len(records), 2), np.int64)
        data = readonly(records.data)
        self._kernels.hash_rows(data, records.longs, records.ints, *self._secret, hashes)
        return hashes

    def put_piece(
        self, piece: BlockPiece, hashes: Int64s, is_left_out: Uint8s, start: int
    ) -> tuple[int, int, int]:
        """Return the batch and row at which it was full, and the last offset put there, or -1."""
        self._make_room(len(piece.records))
        batch, row, size, latest = self._kernels.put_rows(
            piece.records.longs,
            piece.records.ints,
            piece.edges,
            is_left_out,
            start,
            self.max_desired_size,
            self.size,
            hashes,
            self._table,
        )
        self.size = int(size)
        return int(batch), int(row), int(latest)

    def latest_of(self, piece: BlockPiece) -> Int64s:
        """Return the latest offset of each row's key; -1 if unknown, or without a key."""
        latest = np.empty(len(piece.records), np.int64)
        self._kernels.find_rows(piece.records.ints, self.hash(piece), self._table, latest)
        return latest
