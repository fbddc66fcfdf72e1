"""Run these tasks, give their rows: the one seam between a job and the machine it runs on.

A job is a list of tasks (picklable values) and a function over each (a module's own, or a
`functools.partial` of one, so that it can be named to another process) that gives its rows. Here:

    small input     one after another, in this process
    large input     a few processes, each given a task at a time (processes.py)
    still larger    Spark, where there is one (spark_tasks.py); always under spark-submit

Rows come in the order of the tasks, each way. A task that fails gives a `Failure` in the place of
its rows, and the others go on; so does one whose process was killed. Ctrl-C ends all of them.

Spark is imported when it is used, not before.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from kafka_format.access import access, note_grown, using
from pipelines.engine.processes import Processes, answer
from pipelines.engine.progress import Shares, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkContext

    from kafka_format.access import Access
    from pipelines.engine.processes import Answer

Task = TypeVar("Task")
Row = TypeVar("Row")
Engine = Literal["auto", "local", "spark"]

ENGINES: tuple[Engine, ...] = ("auto", "local", "spark")
SMALL_INPUT = 64 * 1024 * 1024
"""Bytes that one process reads before others would have started."""
LARGE_INPUT = 1024 * 1024 * 1024
"""Bytes from which on `auto` means Spark: its start takes as long as reading them."""


class EngineError(Exception):
    """An engine that cannot be had here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Generic[Task]):
    """What a task gave in place of its rows."""

    task: Task
    message: str
    """For people; where an error has a place, it begins with it."""
    details: str = ""
    """The traceback of what nobody foresaw; empty for errors that say all themselves."""
    is_damage: bool = False
    """Whether it is a finding: something that cannot be a file of Kafka's."""


def run(
    tasks: Iterable[Task],
    function: Callable[[Task], Iterable[Row]],
    *,
    engine: Engine = "auto",
    bytes_of: Callable[[Task], int] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
    repeatable: bool = True,
    progress_in: str | None = None,
) -> Iterator[Row | Failure[Task]]:
    """The rows of every task, in order. Raises EngineError: at once, if there is no such engine.

    `bytes_of` tells what a task will read: it decides whether more processes pay, and is the
    measure of progress (else a task is). `on_progress` is told how much is done, and of how much.
    `processes` says how many of this machine, whatever the size. Tasks that are not `repeatable`
    stay on this machine: Spark may run a task again, or twice at once. `progress_in` is a directory
    that Spark's workers see, too, for how far they are with a task; on one machine they see any.
    """
    todo = list(tasks)
    function = _Bound(access(), function)
    sizes = [bytes_of(task) if bytes_of else 1 for task in todo]
    if engine == "spark" and not repeatable:
        raise EngineError(
            "this cannot run on Spark, which may run a task twice: use --engine local"
        )
    if repeatable and (engine == "spark" or processes is None):
        known = sum(sizes) if bytes_of else 0
        context = spark_context(engine, known if len(todo) > 1 else 0)
        if context is not None:
            from pipelines.engine.spark_tasks import answers as on_spark

            answers = on_spark(context, todo, function, sizes, on_progress, progress_in)
            return _rows(todo, answers, Shares(sizes, None))
    enough = processes or (available_processors() if bytes_of and sum(sizes) > SMALL_INPUT else 1)
    count = min(len(todo), enough)
    shares = Shares(sizes, on_progress)
    if count <= 1:
        return _rows(todo, _one_by_one(todo, function, shares), shares)
    return _rows(todo, _several(todo, function, count, shares), shares)


@dataclass(frozen=True, slots=True)
class _Bound(Generic[Task, Row]):
    """A function over tasks, with what this process may read: another one reads by the same."""

    access: Access
    function: Callable[[Task], Iterable[Row]]

    def __call__(self, task: Task) -> Iterator[Row]:
        with using(self.access):
            yield from self.function(task)


def spark_context(engine: Engine, total_bytes: int) -> SparkContext | None:
    """Spark, if it is to be used. EngineError where it must be and cannot."""
    if engine == "local":
        return None
    from pipelines.session import SparkUnavailableError, context, is_submitted

    must = engine == "spark" or is_submitted()
    if not must and total_bytes < LARGE_INPUT:
        return None
    try:
        return context()
    except SparkUnavailableError as error:
        if must:
            raise EngineError(f"--engine spark: {error}") from error
        return None


def available_processors() -> int:
    """How many this process may use: fewer than the machine has, in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _rows(
    tasks: Sequence[Task],
    answers: Iterator[Answer],
    shares: Shares,
) -> Iterator[Row | Failure[Task]]:
    """Rows in the order of the tasks, of answers that come as they are ready."""
    waiting: dict[int, Answer] = {}
    following = 0
    for ready in answers:
        waiting[ready.number] = ready
        shares.whole(ready.number)
        while following in waiting:
            task, answered = tasks[following], waiting.pop(following)
            yield from answered.rows
            note_grown(answered.grown)
            if answered.failure is not None:
                message, details = answered.failure
                yield Failure(
                    task=task, message=message, details=details, is_damage=answered.is_damage
                )
            following += 1


def _one_by_one(
    tasks: Sequence[Any], function: Callable[[Any], Iterable[Any]], shares: Shares
) -> Iterator[Answer]:
    for number, task in enumerate(tasks):
        with listening(partial(shares.part, number)):
            answered = answer(number, task, function)
        yield answered


def _several(
    tasks: Sequence[Any], function: Callable[[Any], Iterable[Any]], count: int, shares: Shares
) -> Iterator[Answer]:
    with Processes(function, count) as processes:
        yield from processes.answers(tasks, shares.part)
