"""Finds the records that a later part supersedes, for one range of hashes over all parts of a log.

Parts are read from the last to the first: a record is superseded if its key was put in a part that
was already read. The scan of a part has found what is superseded within it, so each part has one
row per key, however often the key occurs.

    count_range        the number of keys that are first put in each part
    first_offsets      where one part puts those
    write_superseded   the result: one file per range, with a set of offsets for each part
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_log.cleaner.parallel.key_index import UNKNOWN, KeyIndex, grown
from kafka_log.cleaner.parallel.offset_set import encode_offsets
from kafka_log.cleaner.parallel.parts import write_whole
from kafka_log.cleaner.parallel.scan import KeyRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]
    RangeBlocks = Iterable[tuple[int, bytes]]


class Cut(NamedTuple):
    """Where the map was full: nothing is put after it, and this part was scanned again up to it."""

    part: int
    path: str
    """The blocks of the second scan (write_slices)."""


class _Keys:
    """Keys that were put in the parts read so far, and where they were put first."""

    def __init__(self) -> None:
        self.index = KeyIndex()
        self._part = np.zeros(1, np.int32)
        self._relative = np.zeros(1, np.int32)

    def superseded(self, rows: KeyRows) -> Int32s:
        found: Int32s = rows.relative[self.index.find(rows.hashes) != UNKNOWN]
        return found

    def put(self, part: int, rows: KeyRows) -> None:
        """Add a part. Parts come in descending order, so the last put is the first in the log."""
        is_put = rows.first > 0
        numbers = self.index.numbers(np.ascontiguousarray(rows.hashes[is_put]))
        self._part = grown(self._part, self.index.count)
        self._relative = grown(self._relative, self.index.count)
        self._part[numbers] = part
        self._relative[numbers] = rows.first[is_put] - 1

    @property
    def first_part(self) -> Int32s:
        return self._part[: self.index.count]

    @property
    def first_relative(self) -> Int32s:
        return self._relative[: self.index.count]


def _from_the_last(blocks: RangeBlocks) -> list[tuple[int, bytes]]:
    return sorted(blocks, key=lambda block: -block[0])


def _all_keys(blocks: RangeBlocks) -> _Keys:
    keys = _Keys()
    for part, data in _from_the_last(blocks):
        keys.put(part, KeyRows.decode(data))
    return keys


def count_range(_: int, blocks: RangeBlocks, *, parts: int) -> Int64s:
    return np.bincount(_all_keys(blocks).first_part, minlength=parts)


def first_offsets(_: int, blocks: RangeBlocks, *, part: int) -> Int32s:
    """Return where keys are first put in `part`, relative to the base of its segment."""
    keys = _all_keys(block for block in blocks if block[0] <= part)
    found: Int32s = keys.first_relative[keys.first_part == part]
    return found


def write_superseded(
    number: int, blocks: RangeBlocks, *, bases: Sequence[int], cut: Cut | None, work: str
) -> int:
    """Write the superseded offsets of a range; return its number of keys."""
    keys = _Keys()
    encoded = [b""] * len(bases)
    for part, data in _from_the_last(blocks):
        given = data
        if cut is not None and part >= cut.part:
            if part > cut.part:
                continue
            given = read_slice(Path(cut.path), number)
        rows = KeyRows.decode(given)
        found = keys.superseded(rows)
        encoded[part] = encode_offsets(bases[part] + found.astype(np.int64))
        keys.put(part, rows)
    write_slices(range_path(work, number), encoded)
    return keys.index.count


def range_path(work: str, number: int) -> Path:
    return Path(work) / f"range-{number:06d}.superseded"


# ------------------------------------------------------- many byte strings in one file, by number


def write_slices(path: Path, slices: Sequence[bytes]) -> None:
    ends = np.cumsum([0, *map(len, slices)]) + 8 * (len(slices) + 1)
    write_whole(path, [ends.astype("<i8").tobytes(), *slices])


def read_slice(path: Path, number: int) -> bytes:
    with path.open("rb") as file:
        file.seek(8 * number)
        start, end = np.frombuffer(file.read(16), "<i8").tolist()
        file.seek(start)
        return file.read(end - start)
