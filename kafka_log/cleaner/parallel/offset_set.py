"""Sets of offsets: blocks of 65,536, each a bitmap or, with few members, a list of numbers.

    int64 blocks, then for each: int64 offset >> 16, int64 members; then their contents:
    uint16 each for up to 4,096 members, else 8 KiB of bits

So a dense set takes about one bit per offset, and any set at most two bytes per member. Sets are
joined block by block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]
    Uint8s = npt.NDArray[np.uint8]

_SHIFT = 16
_BLOCK = 1 << _SHIFT
_FEW = 4096


def encode_offsets(offsets: Int64s) -> bytes:
    """Encode rising offsets."""
    if not len(offsets):
        return b""
    blocks = offsets >> _SHIFT
    firsts = np.flatnonzero(np.r_[True, blocks[1:] != blocks[:-1]])
    counts = np.diff(np.r_[firsts, len(offsets)])
    directory = np.stack((blocks[firsts], counts), axis=1).astype("<i8")
    parts = [np.int64(len(firsts)).astype("<i8").tobytes(), directory.tobytes()]
    low = (offsets & (_BLOCK - 1)).astype("<u2")
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        members = low[first : first + count]
        if count <= _FEW:
            parts.append(members.tobytes())
        else:
            bits = np.zeros(_BLOCK, np.uint8)
            bits[members] = 1
            parts.append(np.packbits(bits).tobytes())
    return b"".join(parts)


class OffsetSet:
    """A union of encoded sets."""

    def __init__(self, encoded: Iterable[bytes] = ()) -> None:
        self._blocks: dict[int, Uint8s] = {}
        for each in encoded:
            self.add(each)

    def __repr__(self) -> str:
        return f"OffsetSet({len(self)} offsets)"

    def __len__(self) -> int:
        return sum(int(np.unpackbits(bits).sum()) for bits in self._blocks.values())

    def add(self, encoded: bytes) -> None:
        if not encoded:
            return
        count = int(np.frombuffer(encoded, "<i8", 1)[0])
        directory = np.frombuffer(encoded, "<i8", 2 * count, 8).reshape(count, 2)
        at = 8 + directory.nbytes
        for block, members in directory.tolist():
            if members <= _FEW:
                bits = np.zeros(_BLOCK, np.uint8)
                bits[np.frombuffer(encoded, "<u2", members, at)] = 1
                packed = np.packbits(bits)
                at += 2 * members
            else:
                packed = np.frombuffer(encoded, np.uint8, _BLOCK // 8, at)
                at += _BLOCK // 8
            known = self._blocks.get(block)
            self._blocks[block] = packed if known is None else known | packed

    def holds(self, offsets: Int64s) -> Bools:
        """Return which of the offsets are in the set."""
        found = np.zeros(len(offsets), np.bool_)
        blocks = offsets >> _SHIFT
        for block in np.unique(blocks).tolist():
            bits = self._blocks.get(block)
            if bits is not None:
                rows = np.flatnonzero(blocks == block)
                low = offsets[rows] & (_BLOCK - 1)
                found[rows] = (bits[low >> 3] >> (7 - (low & 7))) & 1
        return found
