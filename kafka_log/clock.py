"""Time as the rules see it: epoch milliseconds from a clock that the caller gives."""

import time
from collections.abc import Callable
from typing import NamedTuple

Clock = Callable[[], int]
"""Epoch milliseconds, now."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class FixedClock:
    """A clock that stands where it was set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def __repr__(self) -> str:
        return f"FixedClock({self.now_ms})"


class _Task(NamedTuple):
    due_ms: int
    name: str
    run: Callable[[], None]


class Scheduler:
    """What Kafka hands to its background threads: at once, or when the caller says it is time.

    A task without delay runs at once, in the caller's thread. A delayed one (the unlinking of
    `.deleted` files) waits for `run_due`; a process that ends before leaves it undone, as a broker
    does, and the next load finishes it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[_Task] = []

    def schedule(self, name: str, run: Callable[[], None], *, delay_ms: int = 0) -> None:
        if delay_ms <= 0:
            run()
        else:
            self._waiting.append(_Task(self._clock() + delay_ms, name, run))

    def run_due(self) -> int:
        """Run the tasks whose time has come; how many."""
        now = self._clock()
        return self._run(lambda task: task.due_ms <= now)

    def run_all(self) -> int:
        """Run every waiting task, due or not; how many."""
        return self._run(lambda _: True)

    def _run(self, is_chosen: Callable[[_Task], bool]) -> int:
        """In the order of their times. One that fails is done; those after it go on waiting."""
        chosen = sorted(filter(is_chosen, self._waiting), key=lambda task: task.due_ms)
        for task in chosen:
            self._waiting.remove(task)
            task.run()
        return len(chosen)
