"""Read and decode a file with several threads, in chunks of one size; yield results in order.

    chunks    |        0        |        1        |        2        |        3
    batches   |-----|---|--------------|-----|------------------------------|---|-- ...

Any free thread reads the next chunk. It learns where the first batch of its chunk begins as soon as
the headers of the previous chunk have been walked, which takes little time. Then it walks its own
headers, reads the missing rest of its last batch, and decodes all of them. If no batch begins in a
chunk, as in chunk 2 above, there is nothing to do.

Every thread has its own memory, and there is one more share for the result in use by the caller.
"""

from __future__ import annotations

import io
import os
import stat
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, cycle, islice
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeGuard, TypeVar

import numpy as np

from kafka_format.access import EvidenceFile
from kafka_format.columnar import kernels as k
from kafka_format.columnar.headers import TABLE_ROWS, BatchColumns, Piece, segment_end
from kafka_format.columnar.window import PAGE, memory_of, pages, readonly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from kafka_format.log_file import SegmentEnd
    from kafka_format.primitives import Buffer

    Int64s = npt.NDArray[np.int64]

T = TypeVar("T")

_MIN_CHUNKS = 4  # with fewer, threads take longer to start than they save
_RESERVE = 256 * PAGE  # for the rest of the last batch; more is allocated where it is larger


class Ahead(Generic[T]):
    """The results of `decoders` for a file's batches, in file order; then `end` says how it ends.

    There is one decoder more than there are threads. Each reuses its own memory: a result is valid
    until the next one is requested.
    """

    def __init__(
        self,
        file: BinaryIO,
        decoders: Sequence[Callable[[Piece], Iterator[T]]],
        *,
        path: str,
        start: int,
        end: int,
        chunk_bytes: int,
    ) -> None:
        self.end: SegmentEnd | None = None
        self._file = file
        self._path = path
        self._start = start
        self._limit = end
        self._chunk = pages(chunk_bytes)
        self._slots = [_Slot(decode, self._chunk, path) for decode in decoders]
        self._read_headers = k.load(compiled=True).read_headers

    def __iter__(self) -> Iterator[T]:
        reached = self._start
        descriptor = os.dup(self._file.fileno())  # stays open if a caller closes the file
        pool = ThreadPoolExecutor(len(self._slots) - 1, "kafka-scan")
        try:
            for unit in self._units(pool, descriptor):
                yield from unit.items
                reached = unit.reached
        finally:
            pool.shutdown(cancel_futures=True)
            os.close(descriptor)
        self.end = segment_end(self._file, reached, path=self._path, end=self._limit)

    def _units(self, pool: ThreadPoolExecutor, descriptor: int) -> Iterator[_Unit[T]]:
        """Yield units in order; every slot is busy except that of the last unit."""
        futures = self._futures(pool, descriptor)
        running = deque(islice(futures, len(self._slots)))
        while running:
            unit = running.popleft().result()
            yield unit
            if unit.is_last:
                return
            running.extend(islice(futures, 1))

    def _futures(self, pool: ThreadPoolExecutor, descriptor: int) -> Iterator[Future[_Unit[T]]]:
        """Start a chunk with each future that is requested; its slot must be free by then."""
        first_batch: Future[int] = Future()
        first_batch.set_result(self._start)
        first = self._start // PAGE * PAGE  # reading from a page boundary is faster
        chunks = range(first, self._limit, self._chunk)
        for base, slot in zip(chunks, cycle(self._slots), strict=False):
            next_batch: Future[int] = Future()
            yield pool.submit(self._decode_chunk, slot, descriptor, base, first_batch, next_batch)
            first_batch = next_batch

    def _decode_chunk(
        self,
        slot: _Slot[T],
        descriptor: int,
        base: int,
        first_batch: Future[int],
        next_batch: Future[int],
    ) -> _Unit[T]:
        """Decode a chunk. `first_batch` is where its first batch begins, `next_batch` the next's.

        Chunks are started in order, so the one that sets `first_batch` is already running.
        """
        try:
            tables, reached, is_last = self._walk_chunk(slot, descriptor, base, first_batch)
        except BaseException as error:
            next_batch.set_exception(error)
            raise
        next_batch.set_result(reached)
        if tables and not slot.read_up_to(descriptor, reached):
            reached, is_last = _without_last(tables), True
        return _Unit(_started(slot.items(tables)), reached, is_last)

    def _walk_chunk(
        self, slot: _Slot[T], descriptor: int, base: int, first_batch: Future[int]
    ) -> tuple[list[Int64s], int, bool]:
        """Return the headers of a chunk's batches, their end, and whether the log ends there."""
        end = base + self._chunk
        if not first_batch.done() or first_batch.result() < end:
            slot.base, slot.filled = base, 0
            slot.read_up_to(descriptor, min(end + PAGE, self._limit))  # with the last header
        tables: list[Int64s] = []
        position = first_batch.result()
        if position >= end:
            return tables, position, False
        if position < base:  # the batches ended before this chunk, which was already started
            return tables, position, True
        reason = k.TABLE_FULL
        while reason == k.TABLE_FULL:
            count, reached, reason = self._read_headers(
                slot.data, base, position - base, slot.filled, self._limit - base, slot.table, 0
            )
            position = base + int(reached)
            if count:
                tables.append(slot.table[:, :count].copy())
        # A header that lacks bytes before the end of the chunk: the file was truncated meanwhile.
        return tables, position, reason != k.NEED_BYTES or position < end


class _Unit(NamedTuple, Generic[T]):
    """The results of a chunk, where the next batch begins, and whether there can be none."""

    items: Iterator[T]
    reached: int
    is_last: bool


class _Slot(Generic[T]):
    """Memory for a chunk, and a decoder with memory for its results."""

    def __init__(self, decode: Callable[[Piece], Iterator[T]], chunk: int, path: str) -> None:
        self._decode = decode
        self._path = path
        self.base = self.filled = 0
        self.table = np.empty((k.HEADER_FIELDS, TABLE_ROWS), np.int64)
        self._allocate(chunk + _RESERVE)

    def _allocate(self, size: int) -> None:
        memory = memory_of(size)
        self._view = memoryview(memory)
        self.data = readonly(np.frombuffer(memory, np.uint8))

    def read_up_to(self, descriptor: int, end: int) -> bool:
        """Read the file from `base` to `end`; return False if it ends before."""
        size = end - self.base
        if size > len(self._view):
            before = self._view[: self.filled]
            self._allocate(pages(size))
            self._view[: self.filled] = before
        while self.filled < size:
            rest = self._view[self.filled : size]
            got = os.preadv(descriptor, [rest], self.base + self.filled)
            if not got:
                return False
            self.filled += got
        return True

    def items(self, tables: list[Int64s]) -> Iterator[T]:
        for table in tables:
            if table.shape[1]:
                batches = BatchColumns(table, path=self._path)
                yield from self._decode(Piece(self.data, self.base, batches))


def can_read_ahead(source: BinaryIO | Buffer, size: int, chunk_bytes: int) -> TypeGuard[BinaryIO]:
    """Return whether the source is a large enough regular file without a wrapper of a caller."""
    raw = source.raw if type(source) is io.BufferedReader else source
    if type(raw) is not io.FileIO and type(raw) is not EvidenceFile:
        return False
    if size < _MIN_CHUNKS * chunk_bytes:
        return False
    return hasattr(os, "preadv") and stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def _without_last(tables: list[Int64s]) -> int:
    """Remove the last batch and return its position."""
    table = tables.pop()
    tables.append(table[:, :-1].copy())
    return int(table[k.POSITION, -1])


def _started(items: Iterator[T]) -> Iterator[T]:
    """Compute the first item now, and return the iterator with it."""
    return chain(list(islice(items, 1)), items)
