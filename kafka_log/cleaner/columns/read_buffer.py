"""Reads a segment in chunks of whole batches, through a buffer as large as Kafka's.

The size of a chunk matters in only three places: the statistics of a full map, a batch that is
larger than Kafka's cleaner lets its buffers grow, and the files that a failed round leaves.

Mirrors ByteBufferLogInputStream and Cleaner.growBuffersOrFail.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.batch import HEADER_SIZE, MAGIC
from kafka_format.batch_layout import BATCH
from kafka_format.columnar import kernels as k
from kafka_format.columnar.headers import BatchColumns
from kafka_format.columnar.window import memory_of, readonly
from kafka_format.errors import CorruptError, Location, TruncatedError
from kafka_format.legacy import SMALLEST_MESSAGE
from kafka_format.log_file import batch_of
from kafka_log.cleaner.columns import map_kernels
from kafka_log.cleaner.columns.blocks import Block
from kafka_log.cleaner.errors import UncleanableError
from kafka_log.segment.file_records import LOG_OVERHEAD, UP_TO_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.log_file import AnyBatch
    from kafka_log.segment.file_records import FileRecords

BLOCK_BYTES = 8 * 1024 * 1024
_BLOCK_ROWS = 32 * 1024

_PREFIX = BATCH.reader("batch_length", "magic")  # at the same positions in every format


class Chunk(NamedTuple):
    """Whole batches, and their bytes."""

    data: bytes
    batches: list[AnyBatch]

    @property
    def size_in_bytes(self) -> int:
        return sum(len(batch.raw) for batch in self.batches)

    def as_block(self, path: str, position: int) -> Block:
        """Return a block of only this chunk, which is at `position`."""
        data = readonly(np.frombuffer(self.data, np.uint8, self.size_in_bytes))
        table = np.empty((k.HEADER_FIELDS, len(self.batches)), np.int64)
        # Its headers are sound: a chunk ends before one that is not.
        k.load(compiled=True).read_headers(data, position, 0, len(data), len(data), table, 0)
        ends = np.array([len(self.batches)], np.int64)
        return Block(path, data, position, BatchColumns(table, path=path), ends)


class BlockBuffer:
    """Reads many chunks at once, into memory that is reused."""

    def __init__(self, size: int = BLOCK_BYTES) -> None:
        """`size` is in bytes; the buffer grows to the size of a chunk."""
        self._memory = memory_of(size)
        self._fetched: _Fetched | None = None
        self._kernels = k.load(compiled=True)
        self._table = np.empty((k.HEADER_FIELDS, _BLOCK_ROWS), np.int64)

    @property
    def size(self) -> int:
        return len(self._memory)

    def fetch(self, log: FileRecords, position: int) -> None:
        """Read bytes from where the next block may begin, or a little before."""
        filled = log.readinto_at(position, memoryview(self._memory))
        self._fetched = _Fetched(log, position, filled)

    def read(self, log: FileRecords, position: int, capacity: int) -> Block | None:
        """Return chunks of `capacity` from `position`; None if the first must be read by itself."""
        data = self._data(log, position, capacity)
        filled = len(data)
        count, _, why = self._kernels.read_headers(
            data, position, 0, filled, filled, self._table, 0
        )
        ends, is_closed = chunk_ends(self._table, int(count), position, capacity)
        is_sound = why not in {k.TABLE_FULL, k.CORRUPT_BATCH}
        start = int(self._table[k.POSITION, ends[-1]]) - position if ends and not is_closed else 0
        is_last = position + filled >= log.size or filled - start >= capacity
        if is_sound and is_last and not is_closed and count > (ends[-1] if ends else 0):
            ends.append(int(count))  # the next batch does not fit, or there is none
        if not ends:
            return None
        table = self._table[:, : ends[-1]].copy()
        if int(table[k.MAGIC].max()) > MAGIC:
            return None
        return Block(
            log.path, data, position, BatchColumns(table, path=log.path), np.array(ends, np.int64)
        )

    def _data(self, log: FileRecords, position: int, capacity: int) -> npt.NDArray[np.uint8]:
        """Return the fetched bytes from there on if they are a chunk or all; else read them."""
        fetched, self._fetched = self._fetched, None
        if fetched is not None and fetched.has(log, position, capacity):
            start = position - fetched.position
            data = np.frombuffer(self._memory, np.uint8, fetched.filled - start, start)
            return readonly(data)
        if capacity > len(self._memory):
            self._memory = memory_of(capacity)
        size = len(self._memory) // capacity * capacity
        filled = log.readinto_at(position, memoryview(self._memory)[:size])
        return readonly(np.frombuffer(self._memory, np.uint8, filled))


class _Fetched(NamedTuple):
    log: FileRecords
    position: int
    filled: int

    def has(self, log: FileRecords, position: int, capacity: int) -> bool:
        end = self.position + self.filled
        reaches = position + capacity <= end or end >= log.size
        return self.log is log and self.position <= position < end and reaches


def chunk_ends(
    table: npt.NDArray[np.int64], count: int, base: int, capacity: int
) -> tuple[list[int], bool]:
    """Return the number of batches before the end of each chunk except the last.

    And whether a batch that is larger than a chunk comes next.
    """
    ends = np.empty(count, np.int64)
    cut = map_kernels.load(compiled=True).cut_chunks
    chunks, is_closed = cut(table, count, base, capacity, ends)
    return ends[:chunks].tolist(), bool(is_closed)


class ReadBuffer:
    """Grows for a batch that does not fit, and shrinks back after the segment."""

    def __init__(self, capacity: int, max_capacity: int) -> None:
        """`max_capacity` is the broker's `message.max.bytes`; a topic's own may be larger."""
        self._initial = capacity
        self._max_capacity = max_capacity
        self.capacity = capacity

    def read(self, log: FileRecords, position: int, *, max_message_bytes: int) -> Chunk:
        """Return as many whole batches as fit; at least one."""
        while True:
            data = log.read_at(position, self.capacity)
            batches = list(_iter_batches(data, log.path, position))
            if batches:
                return Chunk(data, batches)
            self._grow_or_fail(log, position, data, max_message_bytes)

    def restore(self) -> None:
        self.capacity = self._initial

    def _grow_or_fail(
        self, log: FileRecords, position: int, data: bytes, max_message_bytes: int
    ) -> None:
        needed = max_message_bytes
        if self.capacity >= max_message_bytes:
            needed = self._size_of_next_batch(log, position, data)
        limit = max(needed, self._max_capacity)
        if self.capacity >= limit:
            raise UncleanableError(
                f"{Location(log.path, position)}: found a batch larger than the {limit} bytes that "
                f"a message may have"
            )
        self.capacity = min(self.capacity * 2, limit)

    def _size_of_next_batch(self, log: FileRecords, position: int, data: bytes) -> int:
        where = Location(log.path, position)
        if len(data) < UP_TO_MAGIC:
            raise TruncatedError(where, f"{len(data)} bytes", "a batch header")
        size: int = LOG_OVERHEAD + _PREFIX.unpack_from(data)[0]
        left = log.size - position
        if size > left:
            raise TruncatedError(where, f"{left} bytes", f"a batch of {size}")
        return size


class BlockReader:
    """Reads a log from a position on, block by block.

    The start of a block is known only after the block before it was read. But a block ends less
    than a chunk before the end of the bytes it is cut from. So if buffers overlap by a chunk, each
    block begins in the overlap of its own buffer, and can be fetched early. A batch that is larger
    than a chunk breaks this: then one block is read in its turn, and later windows are moved.
    """

    def __init__(
        self, log: FileRecords, position: int, buffer: ReadBuffer, *, max_message_bytes: int
    ) -> None:
        self._log = log
        self._position = position
        self._buffer = buffer
        self._max_message_bytes = max_message_bytes
        self._aim = 0, position

    def fetch(self, target: BlockBuffer, number: int) -> None:
        """Fetch the bytes of that block if its window is known."""
        position = self._window(number, target.size)
        if position < self._log.size and self._buffer.capacity <= target.size // 2:
            with contextlib.suppress(OSError):  # `read` raises it
                target.fetch(self._log, position)

    @property
    def are_over(self) -> bool:
        return self._position >= self._log.size

    def read(self, target: BlockBuffer, number: int) -> Block:
        """Return the next block, unless `are_over`. Its number is the count of blocks before."""
        position = self._position
        if not 0 <= position - self._window(number, target.size) <= self._buffer.capacity:
            self._aim = number, position
        block = target.read(self._log, position, self._buffer.capacity)
        if block is None:
            chunk = self._buffer.read(
                self._log, position, max_message_bytes=self._max_message_bytes
            )
            block = chunk.as_block(self._log.path, position)
        self._position = position + block.size_in_bytes
        return block

    def _window(self, number: int, size: int) -> int:
        first, position = self._aim
        return position + (number - first) * (size - self._buffer.capacity)


def _iter_batches(data: bytes, path: str, start: int) -> Iterator[AnyBatch]:
    """Yield the whole batches of a chunk, which is at `start` in the file."""
    view, position = memoryview(data), 0
    while len(data) - position >= UP_TO_MAGIC:
        length, magic = _PREFIX.unpack_from(data, position)
        _check_prefix(length, magic, Location(path, start + position))
        end = position + LOG_OVERHEAD + length
        if end > len(data):
            return
        yield batch_of(view[position:end], magic, path, start + position)
        position = end


def _check_prefix(length: int, magic: int, where: Location) -> None:
    if not 0 <= magic <= MAGIC:
        raise CorruptError(where, f"magic {magic}", f"0 to {MAGIC}")
    smallest = HEADER_SIZE - LOG_OVERHEAD if magic == MAGIC else SMALLEST_MESSAGE
    if length < smallest:
        raise CorruptError(where, f"batch length {length}", f"{smallest} or more")
