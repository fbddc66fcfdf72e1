"""Where offsets do not follow each other: a log may have as many such places as records."""

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
    """Pairs of an offset and the one behind it; of several with the same first, the last counts.

    A few are a dict. Many become arrays, 16 bytes a pair, and are sorted together whenever there
    are twice as many as were when it was last done, so that pairs met again and again stay few.
    """

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._merged: list[tuple[Int64s, Int64s]] = []
        self._enough = _MERGED

    def __bool__(self) -> bool:
        return bool(self._recent or self._merged)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """In the order of offsets."""
        if not self._merged:
            yield from sorted(self._recent.items())
            return
        self._pack()
        self._merge()
        ((offsets, following),) = self._merged
        for start in range(0, len(offsets), _RECENT):
            some = slice(start, start + _RECENT)
            yield from zip(offsets[some].tolist(), following[some].tolist(), strict=True)

    def first(self, most: int | None) -> tuple[Iterator[tuple[int, int]], int]:
        """Return the first `most` pairs, and how many more there are."""
        if self._merged:
            self._pack()
            self._merge()
        count = len(self._merged[0][0]) if self._merged else len(self._recent)
        return islice(self, most), 0 if most is None else max(0, count - most)

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
        if sum(len(each) for each, _ in self._merged) >= self._enough:
            self._merge()
            self._enough = max(_MERGED, 2 * len(self._merged[0][0]))

    def _merge(self) -> None:
        """One array of each, sorted; quick where offsets grow, as they do in a log."""
        import numpy as np

        offsets = np.concatenate([each for each, _ in self._merged])
        following = np.concatenate([each for _, each in self._merged])
        self._merged = []
        order = np.argsort(offsets, kind="stable")
        offsets = offsets[order]
        is_last = np.append(offsets[1:] != offsets[:-1], True)
        self._merged = [(offsets[is_last], following[order[is_last]])]
