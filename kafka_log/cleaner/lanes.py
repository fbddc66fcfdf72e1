"""Blocks of a segment worked on by several cores, their results in the order of the log.

Kernels, codecs and reads all let go of the interpreter while they work, so threads are enough. A
lane is the memory that the work on one block takes. There is one more than cores: while the caller
writes what came of one, each core has another to work on.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from itertools import cycle
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from kafka_format.columnar.records import RecordScan
from kafka_log.cleaner.block_writer import BlockWriter
from kafka_log.cleaner.read_buffer import BLOCK_BYTES, BlockBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from kafka_log.cleaner.witness import Witness

Item = TypeVar("Item")
Result = TypeVar("Result")

_ALL_ROWS = 2**31 - 1  # of a batch in one piece, however many


class Lane:
    def __init__(self, block_bytes: int, witness: Witness | None) -> None:
        self.buffer = BlockBuffer(block_bytes)
        self.scan = RecordScan(
            b"", verify=False, arena_bytes=block_bytes, piece_rows=_ALL_ROWS, compiled=True
        )
        self._witness = witness

    @cached_property
    def writer(self) -> BlockWriter:
        return BlockWriter(self._witness)


class Lanes:
    """For one cleaner, which gives the lanes out in turn."""

    def __init__(
        self, cores: int, witness: Witness | None, *, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._cores = cores
        self._block_bytes = block_bytes
        self._witness = witness
        self._lanes: list[Lane] = []
        self._pool: Executor | None = None

    def map(
        self,
        work: Callable[[Item], Result],
        items: Callable[[Iterator[Lane]], Iterable[Item]],
        size: int,
    ) -> Iterator[Result]:
        """What `work` makes of each item; of `size` bytes together.

        `items` draws them, each with a lane. A lane is given out again when the next result but
        `cores` is asked for, so results may lie in its memory.
        """
        if self._cores == 1 or size <= self._block_bytes:
            yield from map(work, items(cycle(self._some(1))))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._cores, "kafka-cleaner")
        lanes = self._some(self._cores + 1)
        yield from in_order(work, items(cycle(lanes)), self._pool, ahead=len(lanes))

    def _some(self, count: int) -> list[Lane]:
        while len(self._lanes) < count:
            self._lanes.append(Lane(self._block_bytes, self._witness))
        return self._lanes[:count]


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], pool: Executor, *, ahead: int
) -> Iterator[Result]:
    """What `work` makes of each item; at most `ahead` are given out and not taken back.

    Items are drawn one at a time, by the threads that work on them: what a core has just read is
    at hand there. Where drawing one fails, all that came before it come first.
    """
    drawn, turn = iter(items), Lock()
    given: deque[Future[Result]] = deque()
    free: deque[Future[Result]] = deque()

    def step() -> None:
        with turn:
            future = free.popleft()
            try:
                item = next(drawn)
            except Exception as error:  # noqa: BLE001  # it is raised in its turn
                future.set_exception(_OverError() if isinstance(error, StopIteration) else error)
                return
        try:
            future.set_result(work(item))
        except BaseException as error:  # noqa: BLE001  # as well
            future.set_exception(error)

    try:
        while True:
            while len(given) < ahead:
                given.append(Future())
                free.append(given[-1])
                pool.submit(step)
            try:
                result = given.popleft().result()
            except _OverError:
                return
            yield result
    finally:
        wait(given)  # who comes next uses their memory


class _OverError(Exception):
    """No item is left."""
