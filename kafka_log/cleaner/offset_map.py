"""The latest offset of each key, within the memory that Kafka's map would have.

Kafka keeps 24 bytes per key, its MD5 and an offset, and treats two keys with one MD5 as the same.
The slot of a key changes only the speed, so only the number of slots is mirrored: memory gives
`slots`, the load factor the share of them that is used; a full map ends the round.

Here a key is identified by a 128-bit hash with a secret, so that colliding keys cannot be crafted.
EXACT identifies it by its bytes, MD5 as Kafka does, to reproduce what Kafka does to crafted keys.

Mirrors SkimpyOffsetMap.
"""

from __future__ import annotations

import hashlib
import os
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafka_log.cleaner.columns.blocks import BlockPiece

BYTES_PER_ENTRY = 24
NOT_FOUND = -1
_INT32_MAX = 2**31 - 1
_HASH_BYTES = 16


class Keys(Enum):
    """How a map identifies keys."""

    HASHED = "hashed"
    EXACT = "exact"
    MD5 = "md5"


class LatestOffsets(Protocol):
    """A map as decisions over columns need it."""

    latest_offset: int
    """The last offset that it covers: records after it stay."""

    @property
    def utilization(self) -> float: ...

    def latest_of(self, piece: BlockPiece) -> npt.NDArray[np.int64]:
        """Return the latest offset of each row's key; -1 if unknown, or without a key."""
        ...


def map_size(memory: int, load_factor: float) -> tuple[int, int]:
    """Return the slots of a map of so many bytes, and how many keys it takes before it is full."""
    slots = min(memory, _INT32_MAX) // BYTES_PER_ENTRY
    if slots * load_factor <= 1:
        raise ValueError(f"{memory} bytes: too small an offset map to hold a key")
    return slots, int(slots * load_factor)


class OffsetMap:
    """The keys of a round's dirty part, read up to latest_offset."""

    def __init__(
        self,
        memory: int,
        *,
        load_factor: float = 0.9,
        keys: Keys = Keys.HASHED,
        secret: bytes | None = None,
    ) -> None:
        """With the same `secret` several processes hash alike; by default it is random."""
        self.slots, self.max_desired_size = map_size(memory, load_factor)
        self.latest_offset = NOT_FOUND
        self._keys = keys
        self._hash = hashlib.blake2b(
            key=os.urandom(_HASH_BYTES) if secret is None else secret, digest_size=_HASH_BYTES
        )
        self._offsets: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"OffsetMap({self.size} of {self.slots} slots, up to offset {self.latest_offset})"

    @property
    def size(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self.max_desired_size

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[self._identity(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        return self._offsets.get(self._identity(key), NOT_FOUND)

    def clear(self) -> None:
        self._offsets.clear()
        self.latest_offset = NOT_FOUND

    def _identity(self, key: bytes) -> bytes:
        if self._keys is Keys.EXACT:
            return key
        if self._keys is Keys.MD5:
            return hashlib.md5(key, usedforsecurity=False).digest()
        digest = self._hash.copy()
        digest.update(key)
        return digest.digest()
