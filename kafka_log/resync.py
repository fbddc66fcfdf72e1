"""Behind damage: where the next batch begins.

Nothing in a `.log` marks where a batch begins, so every byte is asked whether a header could stand
there, and the checksum decides. What is found is a batch for certain, by its checksum; that it is
one of this log, and not one that somebody stored in a value, is not.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from kafka_format.log_file import LogFile

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1024 * 1024
_PREFIX = 17  # up to the magic, in every format
_LENGTH_END = 12
_SMALLEST = np.array([14, 14, 49])  # bytes behind the length field, by magic
_MOST_READ = 16
"""So many times the bytes looked through may be read to check what looks like a header."""


def find_batch(source: BinaryIO, start: int, end: int | None = None) -> int | None:
    """The first position from `start` on at which a batch begins and its checksum is right."""
    size = source.seek(0, io.SEEK_END)
    limit = size if end is None else min(end, size)
    budget = _MOST_READ * max(_CHUNK, limit - start)
    for position, length in _candidates(source, start, limit):
        budget -= length
        if budget < 0:  # bytes made to look like headers: no time is lost on them
            return None
        if is_batch(source, position, position + length):
            return position
    return None


def _candidates(source: BinaryIO, start: int, limit: int) -> Iterator[tuple[int, int]]:
    position = start
    while position + _PREFIX < limit:
        source.seek(position)
        data = np.frombuffer(source.read(min(_CHUNK, limit - position)), np.uint8)
        if len(data) <= _PREFIX:
            return
        places = np.flatnonzero(data[_PREFIX - 1 :] <= 2)
        magic = data[places + _PREFIX - 1]
        length = np.zeros(len(places), np.int64)
        for byte in range(8, _LENGTH_END):
            length = length << 8 | data[places + byte]
        fits = (length >= _SMALLEST[magic]) & (length <= limit - position - places - _LENGTH_END)
        fits &= data[places] < 0x80  # no offset is negative
        for place, size in zip(places[fits].tolist(), length[fits].tolist(), strict=True):
            yield position + place, size + _LENGTH_END
        position += len(data) - _PREFIX + 1


def is_batch(source: BinaryIO, start: int, end: int) -> bool:
    """Whether a batch begins at `start`, ends by `end`, and its checksum is right."""
    return any(batch.is_valid for batch in LogFile(source, start=start, end=end).batches())
