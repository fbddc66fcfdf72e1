"""Processes the blocks of a segment on several cores, in the order of the log where it matters.

Kernels, codecs and reads release the interpreter lock, so threads are enough. A lane is the memory
for the work on one block, and belongs to one thread: a core processes what it has read itself,
while that is still in its cache.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from threading import Condition
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafka_format.columnar.records import RecordScan
from kafka_log.cleaner.columns.block_writer import BlockWriter
from kafka_log.cleaner.columns.read_buffer import BLOCK_BYTES, BlockBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.cleaner.witness import Witness

Place = TypeVar("Place")
Item = TypeVar("Item")
Result = TypeVar("Result")

_ALL_ROWS = 2**31 - 1  # a batch is always in one piece


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Generic[Place, Item, Result]):
    """The steps for each item; items are numbered from 0."""

    fetch: Callable[[Place, int], None]
    """Runs in parallel, before the item is drawn. Never called if only one core works."""
    draw: Callable[[Place, int], Item | None]
    """Runs in order; returns None after the last item."""
    work: Callable[[Place, Item], Result]
    """Runs in parallel."""
    finish: Callable[[Result], bool]
    """Runs in order; returns False to stop."""


class Lanes:
    """The lanes of one cleaner."""

    def __init__(
        self, cores: int, witness: Witness | None, *, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._cores = cores
        self._block_bytes = block_bytes
        self._witness = witness
        self._lanes: list[Lane] = []

    def run(self, steps: Steps[Lane, Any, Any], size: int) -> None:
        """Run the steps for all blocks; `size` is their total size in bytes."""
        cores = min(self._cores, -(-size // self._block_bytes))
        while len(self._lanes) < max(1, cores):
            self._lanes.append(Lane(self._block_bytes, self._witness))
        in_order(steps, self._lanes[: max(1, cores)])

    def clear(self) -> None:
        """Release the buffers; the next run allocates new ones."""
        self._lanes.clear()


def in_order(steps: Steps[Place, Item, Result], places: Sequence[Place]) -> None:
    """Run the steps on one thread per place, this thread included.

    An error is raised once all items before it are finished; no item after it is finished.
    """
    if len(places) == 1:
        _one_by_one(steps, places[0])
        return
    run = _Run(steps)
    with ThreadPoolExecutor(len(places) - 1, "kafka-cleaner") as pool:
        others = [pool.submit(run.work_on, place) for place in places[1:]]
        try:
            run.work_on(places[0])
        finally:
            run.end()  # if this thread is interrupted, no other waits for it
            wait(others)
    if run.error is not None:
        raise run.error


def _one_by_one(steps: Steps[Place, Item, Result], place: Place) -> None:
    for number in count():
        item = steps.draw(place, number)
        if item is None or not steps.finish(steps.work(place, item)):
            return


class _Run(Generic[Place, Item, Result]):
    """What the threads of `in_order` share."""

    def __init__(self, steps: Steps[Place, Item, Result]) -> None:
        self.error: BaseException | None = None
        self._steps = steps
        self._numbers = count()
        self._drawing = _Turns()
        self._finishing = _Turns()

    def work_on(self, place: Place) -> None:
        """Process one item after another, until none is left or one fails."""
        while not self._finishing.is_over:
            number = next(self._numbers)
            attempt = _Attempt()
            attempt.then(self._steps.fetch, place, number)
            with self._drawing.turn_of(number):
                attempt.then(self._steps.draw, place, number)
            if attempt.value is not None:
                attempt.then(self._steps.work, place, attempt.value)
            with self._finishing.turn_of(number):
                self._finish(attempt)

    def _finish(self, attempt: _Attempt) -> None:
        if self._finishing.is_over:
            return
        goes_on = False
        if attempt.value is not None:
            attempt.then(self._steps.finish, attempt.value)
            goes_on = bool(attempt.value)
        if attempt.error is not None or not goes_on:
            self.error = attempt.error
            self._finishing.is_over = True

    def end(self) -> None:
        self._finishing.end()
        self._drawing.end()


class _Attempt:
    """Runs the steps of one item, as long as none fails."""

    def __init__(self) -> None:
        self.value: Any = None
        self.error: BaseException | None = None

    def then(self, step: Callable[..., Any], *arguments: Any) -> None:
        if self.error is None:
            try:
                self.value = step(*arguments)
            except BaseException as error:  # noqa: BLE001  # it is raised in its turn
                self.error = error


class _Turns:
    """Lets threads in one after another, by number; each number has one turn."""

    def __init__(self) -> None:
        self.is_over = False
        self._next = 0
        self._changed = Condition()

    @contextmanager
    def turn_of(self, number: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._next == number or self.is_over)
        try:
            yield
        finally:
            with self._changed:
                self._next += 1
                self._changed.notify_all()

    def end(self) -> None:
        """Stop all waiting."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()
