"""A file read and decoded by several threads, in chunks of one size, and given in order.

    chunks    |        0        |        1        |        2        |        3
    batches   |-----|---|--------------|-----|------------------------------|---|-- ...

A chunk is read by whichever thread is free. Where its first batch begins is known as soon as the
headers of the chunk before have been walked, which takes no time beside the rest. Then its own are
walked, what is missing of its last batch is read, and all are decoded. Where no batch begins, as in
chunk 2 above, there is nothing to do.

Every thread has memory of its own, and there is as much once more for what was handed out.
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

_LEAST_CHUNKS = 4  # below, threads take longer to start than they save
_RESERVE = 256 * PAGE  # for what is missing of the last batch; more is taken where it is more


class Ahead(Generic[T]):
    """What `decoders` make of a file's batches, in file order; `end` tells afterwards how it ends.

    One decoder more than there are threads: each has memory of its own, which is used again. What
    comes is good until the next is asked.
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
        descriptor = os.dup(self._file.fileno())  # whoever closes the file leaves us ours
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
        """In order, one under way for each slot but that of the unit given last."""
        futures = self._futures(pool, descriptor)
        under_way = deque(islice(futures, len(self._slots)))
        while under_way:
            unit = under_way.popleft().result()
            yield unit
            if unit.is_last:
                return
            under_way.extend(islice(futures, 1))

    def _futures(self, pool: ThreadPoolExecutor, descriptor: int) -> Iterator[Future[_Unit[T]]]:
        """A chunk is begun when its future is asked for; its slot must be free then."""
        begins: Future[int] = Future()
        begins.set_result(self._start)
        first = self._start // PAGE * PAGE  # a page is read faster from its start
        chunks = range(first, self._limit, self._chunk)
        for base, slot in zip(chunks, cycle(self._slots), strict=False):
            before, begins = begins, Future()
            yield pool.submit(self._decode_chunk, slot, descriptor, base, before, begins)

    def _decode_chunk(
        self, slot: _Slot[T], descriptor: int, base: int, before: Future[int], begins: Future[int]
    ) -> _Unit[T]:
        """`before` gives where its first batch begins, `begins` is told the same of the next chunk.

        Chunks begin in order, so whoever waits for `before` waits for one that is under way.
        """
        try:
            tables, reached, is_last = self._walk_chunk(slot, descriptor, base, before)
        except BaseException as error:
            begins.set_exception(error)
            raise
        begins.set_result(reached)
        if tables and not slot.read_up_to(descriptor, reached):
            reached, is_last = _without_last(tables), True
        return _Unit(_begun(slot.items(tables)), reached, is_last)

    def _walk_chunk(
        self, slot: _Slot[T], descriptor: int, base: int, before: Future[int]
    ) -> tuple[list[Int64s], int, bool]:
        """Headers of the batches that begin here, where the next begins, and if there is none."""
        end = base + self._chunk
        if not before.done() or before.result() < end:
            slot.base, slot.filled = base, 0
            slot.read_up_to(descriptor, min(end + PAGE, self._limit))  # with the last header
        tables: list[Int64s] = []
        position = before.result()
        if position >= end:
            return tables, position, False
        if position < base:  # the batches ended before this chunk, which had been started by then
            return tables, position, True
        why = k.TABLE_FULL
        while why == k.TABLE_FULL:
            count, reached, why = self._read_headers(
                slot.data, base, position - base, slot.filled, self._limit - base, slot.table, 0
            )
            position = base + int(reached)
            if count:
                tables.append(slot.table[:, :count].copy())
        # A header that needs bytes before the end of the chunk needs what the file has lost.
        return tables, position, why != k.NEED_BYTES or position < end


class _Unit(NamedTuple, Generic[T]):
    """What came of a chunk, where the batches behind it begin, and if there can be none."""

    items: Iterator[T]
    reached: int
    is_last: bool


class _Slot(Generic[T]):
    """Memory for a chunk, and a decoder with memory for what becomes of it."""

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
        """Have the file from `base` to `end`; False if it does not reach so far."""
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
    """From a regular file that is given as it is, and large enough."""
    raw = source.raw if type(source) is io.BufferedReader else source
    if type(raw) is not io.FileIO and type(raw) is not EvidenceFile:
        return False
    if size < _LEAST_CHUNKS * chunk_bytes:
        return False
    return hasattr(os, "preadv") and stat.S_ISREG(os.fstat(raw.fileno()).st_mode)


def _without_last(tables: list[Int64s]) -> int:
    """Take the last batch away; where it begins."""
    table = tables.pop()
    tables.append(table[:, :-1].copy())
    return int(table[k.POSITION, -1])


def _begun(items: Iterator[T]) -> Iterator[T]:
    """The same, the first of them worked out."""
    return chain(list(islice(items, 1)), items)
