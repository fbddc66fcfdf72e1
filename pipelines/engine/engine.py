"""Run tasks and yield their rows: the only interface between a job and the machine it runs on.

A job is a list of tasks (picklable values) and a function that yields the rows of a task (a
function of a module, or a `functools.partial` of one, so that another process can import it). They
run:

    small input     one after another, in this process
    large input     in a few processes, one task at a time in each (processes.py)
    still larger    on Spark, if there is one (spark_tasks.py); always under spark-submit

The rows always come in the order of the tasks. A task that fails, or whose process was killed,
yields a `Failure` in place of its rows, and the others continue. Ctrl-C ends all of them.

Spark is imported only when it is used.
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
"""Bytes that one process reads in the time that others need to start."""
LARGE_INPUT = 1024 * 1024 * 1024
"""Bytes from which `auto` means Spark: its start takes as long as reading them."""


class EngineError(Exception):
    """An engine is not available here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(Generic[Task]):
    """Stands for the rows that a task did not yield."""

    task: Task
    message: str
    """For people; begins with the place of the error, where there is one."""
    details: str = ""
    """The traceback of an unexpected error; empty for errors whose message is complete."""
    is_damage: bool = False
    """Whether it is a finding: the file cannot be one of Kafka's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """What Spark must know about tasks; other engines do not use it."""

    repeatable: bool = True
    """Whether a task may run again, or twice at once: Spark does both. If not, tasks stay here."""
    progress_in: str | None = None
    """A directory that the workers see as well, for their progress; on one machine it is any."""


_ANY_TASKS = SparkOptions()


def run(
    tasks: Iterable[Task],
    function: Callable[[Task], Iterable[Row]],
    *,
    engine: Engine = "auto",
    bytes_of: Callable[[Task], int] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
    spark: SparkOptions = _ANY_TASKS,
) -> Iterator[Row | Failure[Task]]:
    """Yield the rows of every task, in order. Raises EngineError if there is no such engine.

    `bytes_of` returns how much a task will read: it decides whether more processes pay, and is the
    unit of progress (without it, a task is). `on_progress` gets how much is done, and the total.
    `processes` is how many to use on this machine, whatever the size.
    """
    remaining = list(tasks)
    function = _BoundFunction(access(), function)
    sizes = [bytes_of(task) if bytes_of else 1 for task in remaining]
    if engine == "spark" and not spark.repeatable:
        raise EngineError(
            "this cannot run on Spark, which may run a task twice: use --engine local"
        )
    if spark.repeatable and (engine == "spark" or processes is None):
        known = sum(sizes) if bytes_of else 0
        context = spark_context(engine, known if len(remaining) > 1 else 0)
        if context is not None:
            from pipelines.engine.spark_tasks import answers as on_spark

            answers = on_spark(context, remaining, function, sizes, on_progress, spark.progress_in)
            return _rows(remaining, answers, Shares(sizes, None))
    enough = processes or (available_processors() if bytes_of and sum(sizes) > SMALL_INPUT else 1)
    count = min(len(remaining), enough)
    shares = Shares(sizes, on_progress)
    if count <= 1:
        return _rows(remaining, _one_by_one(remaining, function, shares), shares)
    return _rows(remaining, _in_processes(remaining, function, count, shares), shares)


@dataclass(frozen=True, slots=True)
class _BoundFunction(Generic[Task, Row]):
    """A function over tasks, with the access rules of this process for the process that runs it."""

    access: Access
    function: Callable[[Task], Iterable[Row]]

    def __call__(self, task: Task) -> Iterator[Row]:
        with using(self.access):
            yield from self.function(task)


def spark_context(engine: Engine, total_bytes: int) -> SparkContext | None:
    """Return Spark if it is to be used. Raises EngineError if it must be and cannot."""
    if engine == "local":
        return None
    from pipelines.session import SparkUnavailableError, context, is_submitted

    is_required = engine == "spark" or is_submitted()
    if not is_required and total_bytes < LARGE_INPUT:
        return None
    try:
        return context()
    except SparkUnavailableError as error:
        if is_required:
            raise EngineError(f"--engine spark: {error}") from error
        return None


def available_processors() -> int:
    """Return how many processors this process may use: in a container fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _rows(
    tasks: Sequence[Task],
    answers: Iterator[Answer],
    shares: Shares,
) -> Iterator[Row | Failure[Task]]:
    """Yield rows in the order of the tasks, from answers in any order."""
    pending: dict[int, Answer] = {}
    following = 0
    for ready in answers:
        pending[ready.number] = ready
        shares.whole(ready.number)
        while following in pending:
            task, answered = tasks[following], pending.pop(following)
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


def _in_processes(
    tasks: Sequence[Any], function: Callable[[Any], Iterable[Any]], count: int, shares: Shares
) -> Iterator[Answer]:
    with Processes(function, count) as processes:
        yield from processes.answers(tasks, shares.part)
