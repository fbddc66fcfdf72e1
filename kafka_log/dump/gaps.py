"""Collect gaps between offsets, of which a log may have as many as records."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

_RECENT = 64 * 1024
_MERGED = 1024 * 1024


class Gaps:
    """Pairs of an offset and the one that follows; a pair replaces one with the same first offset.

    A few pairs are kept in a dict. Many become arrays, 16 bytes per pair, which are merged whenever
    their size has doubled since the last merge, so that repeated pairs do not accumulate.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._merged: list[tuple[Int64s, Int64s]] = []
        self._merge_size = _MERGED

    def __bool__(self) -> bool:
        return bool(self._recent or self._merged)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate in the order of offsets."""
        if not self._merged:
            yield from sorted(self._recent.items())
            return
        self._pack()
        self._merge()
        ((offsets, following),) = self._merged
        for start in range(0, len(offsets), _RECENT):
            chunk = slice(start, start + _RECENT)
            yield from zip(offsets[chunk].tolist(), following[chunk].tolist(), strict=True)

    def first(self, limit: int | None) -> tuple[Iterator[tuple[int, int]], int]:
        """Return the first `limit` pairs, and how many more there are."""
        if self._merged:
            self._pack()
            self._merge()
        count = len(self._merged[0][0]) if self._merged else len(self._recent)
        return islice(self, limit), 0 if limit is None else max(0, count - limit)

    def add(self, offset: int, following: int) -> None:
        self._recent[offset] = following
        if len(self._recent) >= _RECENT:
            self._pack()

    def extend(self, offsets: Int64s, following: Int64s) -> None:
        if len(self._recent) + len(offsets) < _RECENT:
            self._recent.update(zip(offsets.tolist(), following.tolist(), strict=True))
            return
        self._pack()
        self._append(offsets, following)

    def _pack(self) -> None:
        import numpy as np

        if self._recent:
            offsets = np.fromiter(self._recent, np.int64, len(self._recent))
            following = np.fromiter(self._recent.values(), np.int64, len(self._recent))
            self._recent = {}
            self._append(offsets, following)

    def _append(self, offsets: Int64s, following: Int64s) -> None:
        self._merged.append((offsets, following))
        if sum(len(array) for array, _ in self._merged) >= self._merge_size:
            self._merge()
            self._merge_size = max(_MERGED, 2 * len(self._merged[0][0]))

    def _merge(self) -> None:
        """Merge all arrays into one pair, sorted; fast if offsets increase, as they do in a log."""
        import numpy as np

        offsets = np.concatenate([array for array, _ in self._merged])
        following = np.concatenate([array for _, array in self._merged])
        self._merged = []
        order = np.argsort(offsets, kind="stable")
        offsets = offsets[order]
        is_last = np.append(offsets[1:] != offsets[:-1], True)
        self._merged = [(offsets[is_last], following[order[is_last]])]
