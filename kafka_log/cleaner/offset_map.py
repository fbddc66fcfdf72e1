"""The latest offset of each key, within the memory that Kafka's map would have.

Kafka keeps 24 bytes per key, its MD5 and an offset, and takes two keys of one MD5 for the same.
Which slot a key gets changes nothing but speed, so what is left to mirror is how many there are:
`slots` by memory, of which the load factor lets some be used; a full map ends the round.

Here a key is known by a hash of 128 bits with a secret, so that keys cannot be crafted against it.
Or it is known by itself (EXACT), or only by its MD5 (MD5), to get what Kafka makes of crafted keys.

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

    from kafka_log.cleaner.columns.blocks import Piece

BYTES_PER_ENTRY = 24
NOT_FOUND = -1
_INT32_MAX = 2**31 - 1
_HASH_BYTES = 16


class Keys(Enum):
    """How a map knows its keys."""

    HASHED = "hashed"
    EXACT = "exact"
    MD5 = "md5"


class LatestOffsets(Protocol):
    """What decisions on records need, over columns."""

    latest_offset: int
    """Up to where it covers: what lies after it stays."""

    @property
    def utilization(self) -> float: ...

    def latest_of(self, piece: Piece) -> npt.NDArray[np.int64]:
        """Return the latest offset known of each row's key; -1 if none is, or it has no key."""
        ...


class OffsetMap:
    """The keys of a round's dirty part, and how far it could be read (latest_offset)."""

    def __init__(
        self,
        memory: int,
        *,
        load_factor: float = 0.9,
        keys: Keys = Keys.HASHED,
        secret: bytes | None = None,
    ) -> None:
        """`secret` lets several processes hash alike; by default it is drawn."""
        self.slots = min(memory, _INT32_MAX) // BYTES_PER_ENTRY
        if self.slots * load_factor <= 1:
            raise ValueError(f"{memory} bytes: too small an offset map to hold a key")
        self.max_desired_size = int(self.slots * load_factor)
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
        self._offsets[self._known_by(key)] = offset
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        return self._offsets.get(self._known_by(key), NOT_FOUND)

    def clear(self) -> None:
        self._offsets.clear()
        self.latest_offset = NOT_FOUND

    def _known_by(self, key: bytes) -> bytes:
        if self._keys is Keys.EXACT:
            return key
        if self._keys is Keys.MD5:
            return hashlib.md5(key, usedforsecurity=False).digest()
        digest = self._hash.copy()
        digest.update(key)
        return digest.digest()
