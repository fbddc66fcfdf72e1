"""A file seen through one buffer that is filled again and again, so that memory stays bounded.

The buffer is page-aligned: reading into it runs four times as fast as into one that is not. What
is left of the last batch moves in front of the next read, so that no byte is read twice and every
batch lies in one piece.
"""

from __future__ import annotations

import io
import mmap
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.primitives import Buffer

CHUNK_BYTES = 4 * 1024 * 1024
_PAGE = mmap.PAGESIZE


class Window:
    """Bytes [base, base + filled) of a file, or of memory that is there already, as an array."""

    def __init__(
        self, source: BinaryIO | Buffer, *, start: int, end: int | None, chunk: int
    ) -> None:
        self._file: Any = None
        if isinstance(source, bytes | bytearray | memoryview):
            self.data = readonly(np.frombuffer(source, np.uint8))
            size = len(self.data)
            self.base, self.filled = 0, size if end is None else min(end, size)
        else:
            self._file = source
            size = source.seek(0, io.SEEK_END)
            self._reserve = 16 * _PAGE
            self._chunk = -(-chunk // _PAGE) * _PAGE
            self._allocate()
            self.base, self.filled = start, 0
        self.end = size if end is None else min(end, size)

    def _allocate(self) -> None:
        self._memory = mmap.mmap(-1, self._reserve + self._chunk)
        self._view = memoryview(self._memory)
        self._writable = np.frombuffer(self._memory, np.uint8)
        self.data = readonly(self._writable)

    def advance(self, position: int, need: int = 0) -> bool:
        """Let the file from `position` on be at the front, at least `need` bytes of it.

        The front is `data[0]`. False if nothing could be added: the file has become shorter. What
        the array held before is overwritten.
        """
        if self._file is None:
            return False
        tail = max(0, self.base + self.filled - position)
        if tail > self._reserve or need - tail > self._chunk:
            self._grow(tail, need)
        self._keep(tail)
        self._file.seek(position + tail)
        target = self._view[self._reserve : self._reserve + self._room(position + tail)]
        got = _read_fully(self._file, target)
        self.base = position
        self.data = readonly(self._writable[self._reserve - tail :])
        self.filled = tail + got
        return got > 0

    def _room(self, position: int) -> int:
        return max(0, min(self._chunk, self.end - position))

    def _keep(self, tail: int) -> None:
        kept = self.data[self.filled - tail : self.filled] if tail else None
        if kept is not None:
            self._writable[self._reserve - tail : self._reserve] = kept.copy()

    def _grow(self, tail: int, need: int) -> None:
        kept = self.data[self.filled - tail : self.filled].copy()
        self._reserve = max(self._reserve, -(-tail // _PAGE) * _PAGE)
        self._chunk = max(self._chunk, -(-need // _PAGE) * _PAGE)
        self._allocate()
        self.data = readonly(kept)
        self.filled = tail


def _read_fully(file: BinaryIO, target: memoryview) -> int:
    """As `readinto`, but short only at the end of the file."""
    got = 0
    while got < len(target):
        read = file.readinto(target[got:])  # type: ignore[attr-defined]
        if not read:
            break
        got += read
    return got


def readonly(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A view that kernels take: compiled for one type, which cannot be written to."""
    array = array.view()
    array.flags.writeable = False
    return array


class Scratch:
    """Memory for one table after another: what is allocated anew is paged in anew, at a cost."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._flat: npt.NDArray[Any] = np.empty(0, dtype)

    def shaped(self, rows: int, columns: int) -> npt.NDArray[Any]:
        """Uninitialised, contiguous; the table handed out before is overwritten."""
        size = rows * columns
        if size > len(self._flat):
            self._flat = np.empty(size + size // 4, self._flat.dtype)
        return self._flat[:size].reshape(rows, columns)
