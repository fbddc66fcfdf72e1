"""A file seen through a buffer that is filled again and again, so that memory stays bounded.

Buffers are page-aligned: reading into one runs four times as fast as into memory that is not. What
is left of the last batch moves in front of the next read, so that no byte is read twice and every
batch lies in one piece. Where the file allows it, the next read runs in a thread of its own, into
a second buffer, while this one is decoded: neither holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

import io
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.primitives import Buffer

CHUNK_BYTES = 4 * 1024 * 1024
_PAGE = mmap.PAGESIZE
_RESERVE = 16 * _PAGE


def _pages(size: int) -> int:
    return -(-size // _PAGE) * _PAGE


class _Room:
    """An aligned buffer for `chunk` bytes, with a reserve in front of them for what was left."""

    def __init__(self, reserve: int, chunk: int) -> None:
        self.reserve, self.chunk = reserve, chunk
        self.memory = mmap.mmap(-1, reserve + chunk)
        self.view = memoryview(self.memory)
        self.array = np.frombuffer(self.memory, np.uint8)


class Window:
    """Bytes [base, base + filled) of a file, or of memory that is there already, as an array.

    The file from `base` on is at `data[0]`. `end` is where the file ends, or is to end for us.
    """

    def __init__(
        self,
        source: BinaryIO | Buffer,
        *,
        start: int,
        end: int | None,
        chunk: int,
        read_ahead: bool = False,
    ) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._ahead: tuple[int, Future[int]] | None = None
        if isinstance(source, bytes | bytearray | memoryview):
            self._reader = None
            self.data = readonly(np.frombuffer(source, np.uint8))
            size = len(self.data)
            self.base, self.filled = 0, size if end is None else min(end, size)
        else:
            self._reader = _Reader(source)
            size = self._reader.size
            self._room = _Room(_RESERVE, _pages(chunk))
            self._spare: _Room | None = None
            self.data = readonly(self._room.array)
            self.base, self.filled = start, 0
            if read_ahead and self._reader.is_positional and size - start > chunk:
                self._thread = ThreadPoolExecutor(1, "read-ahead")
        self.end = size if end is None else min(end, size)

    def advance(self, position: int, need: int = 0) -> bool:
        """Have the file from `position` on at the front, at least `need` bytes if there are.

        False if nothing could be added: the file has become shorter. What the array held before
        is overwritten.
        """
        if self._reader is None:
            return False
        tail = max(0, self.base + self.filled - position)
        room, got = self._next_room(position + tail, tail, need)
        if tail:
            left = self.data[self.filled - tail : self.filled]
            room.array[room.reserve - tail : room.reserve] = (
                left.copy() if room is self._room else left
            )
        if got < 0:
            got = self._read(room, position + tail)
        self._room, self._spare = room, self._room if room is not self._room else self._spare
        self.base, self.filled = position, tail + got
        self.data = readonly(room.array[room.reserve - tail :])
        self._read_ahead()
        return got > 0

    def close(self) -> None:
        """Wait for a read that is under way: its file may be closed next."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _next_room(self, position: int, tail: int, need: int) -> tuple[_Room, int]:
        """A buffer with room for what is asked, and how much of it was read ahead (-1: nothing)."""
        ahead, self._ahead = self._ahead, None
        got = -1 if ahead is None else ahead[1].result()
        room = self._room if self._spare is None else self._spare
        if tail > room.reserve or need - tail > room.chunk:
            return _Room(max(_RESERVE, _pages(tail)), max(room.chunk, _pages(need))), -1
        return room, got if ahead is not None and ahead[0] == position else -1

    def _read_ahead(self) -> None:
        position = self.base + self.filled
        if self._thread is None or position >= self.end:
            return
        if self._spare is None or self._spare.chunk < self._room.chunk:
            self._spare = _Room(self._room.reserve, self._room.chunk)
        self._ahead = position, self._thread.submit(self._read, self._spare, position)

    def _read(self, room: _Room, position: int) -> int:
        size = max(0, min(room.chunk, self.end - position))
        target = room.view[room.reserve : room.reserve + size]
        return self._reader.read_into(target, position) if self._reader is not None else 0


class _Reader:
    """Reads at a position; where the file has a descriptor, without moving anybody's position."""

    def __init__(self, file: BinaryIO) -> None:
        self._file: Any = file
        self.size = file.seek(0, io.SEEK_END)
        try:
            self._descriptor = file.fileno()
        except (OSError, AttributeError):
            self._descriptor = -1
        self.is_positional = self._descriptor >= 0 and hasattr(os, "preadv")

    def read_into(self, target: memoryview, position: int) -> int:
        """Bytes read: fewer than the target holds only at the end of the file."""
        got = 0
        if not self.is_positional:
            self._file.seek(position)
        while got < len(target):
            if self.is_positional:
                read = os.preadv(self._descriptor, [target[got:]], position + got)
            else:
                read = self._file.readinto(target[got:])
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
