"""Time as the rules see it: epoch milliseconds from a clock that the caller passes in."""

import time
from collections.abc import Callable
from typing import NamedTuple

Clock = Callable[[], int]
"""Returns the current time in epoch milliseconds."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000


class FixedClock:
    """A clock that always shows the time it was set to."""

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
    """Runs what Kafka gives to background threads: immediately, or when the caller asks for it.

    A task without delay runs immediately, in the caller's thread. A delayed one (the unlinking of
    `.deleted` files) waits for `run_due`. If the process ends first, the task is not run, as in a
    broker; the next load finishes the work.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._waiting: list[_Task] = []

    def schedule(self, name: str, run: Callable[[], None], *, delay_ms: int = 0) -> None:
        if delay_ms <= 0:
            run()
        else:
            self._waiting.append(_Task(self.clock() + delay_ms, name, run))

    def run_due(self) -> int:
        """Run the tasks that are due; return how many."""
        now = self.clock()
        return self._run(lambda task: task.due_ms <= now)

    def run_all(self) -> int:
        """Run every waiting task, due or not; return how many."""
        return self._run(lambda _: True)

    def _run(self, is_chosen: Callable[[_Task], bool]) -> int:
        """Run tasks in the order of their times. If one fails, the later ones keep waiting."""
        chosen = sorted(filter(is_chosen, self._waiting), key=lambda task: task.due_ms)
        for task in chosen:
            self._waiting.remove(task)
            task.run()
        return len(chosen)
