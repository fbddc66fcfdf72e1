"""A file seen through one buffer that is filled again and again, so that memory stays bounded.

The buffer is page-aligned: reading into it runs four times as fast as into memory that is not. It
is small enough to stay in the processor's cache until it has been decoded. What is left of the
last batch moves in front of the next read, so that no byte is read twice and every batch lies in
one piece.
"""

from __future__ import annotations

import contextlib
import io
import mmap
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.primitives import Buffer

CHUNK_BYTES = 2 * 1024 * 1024
PAGE = mmap.PAGESIZE


class Window:
    """Bytes [base, base + filled) of a file, or of memory that is there already, as an array.

    The file from `base` on is at `data[0]`. `end` is where the file ends, or is to end for us.
    """

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
            self._allocate(16 * PAGE, pages(chunk))
            self.base, self.filled = start, 0
        self.end = size if end is None else min(end, size)

    def _allocate(self, reserve: int, chunk: int) -> None:
        """A buffer for `chunk` bytes, with a reserve in front of them for what was left over."""
        self._reserve, self._chunk = reserve, chunk
        memory = memory_of(reserve + chunk)
        self._view = memoryview(memory)
        self._array = np.frombuffer(memory, np.uint8)
        self._front = 0  # where data[0] lies
        self.data = readonly(self._array)

    def advance(self, position: int, need: int = 0) -> bool:
        """Have the file from `position` on at the front, at least `need` bytes if there are.

        False if nothing could be added: the file has become shorter. What the array held before
        is overwritten.
        """
        if self._file is None:
            return False
        tail = max(0, self.base + self.filled - position)
        left = self.data[self.filled - tail : self.filled]
        if tail > self._reserve or need - tail > self._chunk:
            self._allocate(max(self._reserve, pages(tail)), max(self._chunk, pages(need)))
        elif self._front + self.filled - tail < self._reserve:
            left = left.copy()  # it lies where it is to go
        self._front = self._reserve - tail
        self._array[self._front : self._reserve] = left
        got = self._read(position + tail)
        self.base, self.filled = position, tail + got
        self.data = readonly(self._array[self._front :])
        return got > 0

    def _read(self, position: int) -> int:
        """Fill the chunk from `position` on; short only at the end of the file."""
        size = max(0, min(self._chunk, self.end - position))
        target = self._view[self._reserve : self._reserve + size]
        self._file.seek(position)
        got = 0
        while got < size:
            read = self._file.readinto(target[got:])
            if not read:
                break
            got += read
        return got


def memory_of(size: int) -> mmap.mmap:
    """Page-aligned, in large pages if there are: touching many small ones first takes milliseconds.

    Nobody else's: what Python maps by itself is shared with processes that fork from this one.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(AttributeError, OSError):  # not Linux, or built without
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def pages(size: int) -> int:
    """The bytes of so many whole pages."""
    return -(-size // PAGE) * PAGE


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


Number = TypeVar("Number", bound=np.generic)


class Field(Generic[Number]):
    """A row of an object's table, under its name."""

    def __init__(self, table: str, row: int) -> None:
        self._table = table
        self._row = row

    def __get__(self, owner: object, kind: type) -> npt.NDArray[Number]:
        row: npt.NDArray[Number] = getattr(owner, self._table)[self._row]
        return row
