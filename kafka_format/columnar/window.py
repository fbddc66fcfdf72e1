"""Read a file through one buffer that is reused, so that memory stays bounded.

The buffer is page-aligned, which makes reading four times as fast. It is small enough to stay in
the processor's cache until it has been decoded. The incomplete last batch is moved in front of the
next read, so that no byte is read twice and every batch is contiguous.
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
    """Bytes [base, base + filled) of a file or of a buffer, as an array.

    `data[0]` is the byte at `base`. `end` is where the file ends, or where reading is to end.
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
        """Allocate a buffer for `chunk` bytes, after a reserve for an incomplete batch."""
        self._reserve, self._chunk = reserve, chunk
        memory = memory_of(reserve + chunk)
        self._view = memoryview(memory)
        self._array = np.frombuffer(memory, np.uint8)
        self._front = 0  # position of data[0] in the buffer
        self.data = readonly(self._array)

    def advance(self, position: int, need: int = 0) -> bool:
        """Move `position` to the front and read on, at least `need` bytes if the file has them.

        Returns False if nothing could be read: the file has become shorter. The previous content
        of the array is overwritten.
        """
        if self._file is None:
            return False
        tail = max(0, self.base + self.filled - position)
        left = self.data[self.filled - tail : self.filled]
        if tail > self._reserve or need - tail > self._chunk:
            self._allocate(max(self._reserve, pages(tail)), max(self._chunk, pages(need)))
        elif self._front + self.filled - tail < self._reserve:
            left = left.copy()  # source and target overlap
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
    """Allocate page-aligned memory, in huge pages if possible: faulting in small ones takes time.

    The mapping is private; Python's default is shared with processes that fork from this one.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(AttributeError, OSError):  # not Linux, or built without
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def pages(size: int) -> int:
    """Round up to whole pages."""
    return -(-size // PAGE) * PAGE


def readonly(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return a read-only view: kernels are compiled for this type only."""
    array = array.view()
    array.flags.writeable = False
    return array


class Scratch:
    """Memory that is reused for one table after another, since new memory must be paged in."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._flat: npt.NDArray[Any] = np.empty(0, dtype)

    def shaped(self, rows: int, columns: int) -> npt.NDArray[Any]:
        """Return an uninitialised, contiguous table; it overwrites the previous one."""
        size = rows * columns
        if size > len(self._flat):
            self._flat = np.empty(size + size // 4, self._flat.dtype)
        return self._flat[:size].reshape(rows, columns)


Number = TypeVar("Number", bound=np.generic)


class TableRow(Generic[Number]):
    """A descriptor that returns one row of an object's table."""

    def __init__(self, table: str, row: int) -> None:
        self._table = table
        self._row = row

    def __get__(self, owner: object, kind: type) -> npt.NDArray[Number]:
        row: npt.NDArray[Number] = getattr(owner, self._table)[self._row]
        return row
