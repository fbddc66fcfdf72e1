"""Read the slots of an index in pieces: a broker may preallocate 2 GiB of them for a few entries.

The rules of kafka_format.index_end for a whole file are applied to each piece, which begins with
the last entry of the piece before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_format.index_end import IndexParts, Stop
from kafka_log.dump.file_pieces import iter_pieces, zeros_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.access import EvidenceFile

    Slots = np.ndarray[Any, np.dtype[np.void]]

PIECE_SLOTS = 64 * 1024


class IndexEnd(NamedTuple):
    """Where the entries end, why, and what follows: IndexParts without the bytes."""

    stop_position: int
    padding_bytes: int
    trailing_bytes: int
    stop: Stop


class IndexSlots:
    """All whole slots of an index, which Kafka treats as entries, whatever they hold."""

    def __init__(
        self,
        file: EvidenceFile,
        dtype: np.dtype[np.void],
        decode: Callable[[bytes, int], IndexParts],
    ) -> None:
        self.size = file.size
        self.slot_size = dtype.itemsize
        self._file = file
        self._dtype = dtype
        self._decode = decode

    def __len__(self) -> int:
        return self.size // self.slot_size

    def __getitem__(self, number: int) -> dict[str, int]:
        """Return one slot as a dict of its fields."""
        position = range(len(self))[number] * self.slot_size
        (slot,) = self._slots(next(iter_pieces(self._file, position, position + self.slot_size)))
        names = self._dtype.names or ()
        return dict(zip(names, slot.tolist(), strict=True))

    def dumped(self) -> Iterator[tuple[int, Slots]]:
        """Yield slots with the position of their first, up to where kafka-dump-log stops.

        That is the first slot after slot 0 that has the base offset.
        """
        position = 0
        for data in self._pieces():
            slots = self._slots(data)
            first = 0 if position else 1
            at_base = np.flatnonzero(slots["relative_offset"][first:] == 0)
            if len(at_base):
                yield position, slots[: int(at_base[0]) + first]
                return
            yield position, slots
            position += len(data)

    def end(self) -> IndexEnd:
        position, before = 0, b""
        for data in self._pieces():
            index = self._decode(before + data, 0)
            stop_position = position - len(before) + index.stop_position
            position += len(data)
            if stop_position < position:
                return self._end_at(stop_position, index.stop)
            before = data[-self.slot_size :]
        return IndexEnd(position, 0, 0, Stop.END_OF_FILE)

    def entries(self) -> Slots:
        return self._slots(b"".join(iter_pieces(self._file, 0, self.end().stop_position)))

    def _end_at(self, position: int, stop: Stop) -> IndexEnd:
        padding = 0
        if stop is Stop.ZERO_PADDING:
            padding = zeros_from(self._file, position, self.size)
            if position + padding < self.size:
                padding -= padding % self.slot_size
        return IndexEnd(position, padding, self.size - position - padding, stop)

    def _pieces(self) -> Iterator[bytes]:
        return iter_pieces(self._file, 0, self.size, PIECE_SLOTS * self.slot_size)

    def _slots(self, data: bytes) -> Slots:
        return np.frombuffer(data, self._dtype, count=len(data) // self.slot_size)
