"""Tasks on Spark, the third way of engine.py: one job, a Spark task for each slice of our tasks.

    driver                                   worker
    tasks -> slices, the largest first   ->  task -> rows, pickled: Spark sees bytes alone
    answers, in any order                <-  an `Answer` a task; failures are answers too

So a Spark task fails only if its worker dies (or was never able to begin). Spark runs it again, as
often as it is set to; then the job is given up, and with it every answer. Which of our tasks it was
is found by halves: the rest is run without it, and it becomes a failure in its place.
"""

from __future__ import annotations

import pickle
import re
import traceback
import uuid
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.errors import PySparkException

from pipelines.engine import EngineError
from pipelines.processes import Answer, answer, unforeseen
from pipelines.worker_memory import settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkContext

    Function = Callable[[Any], Iterable[Any]]
    Slice = list[tuple[int, Any]]
    Progress = Callable[[int, int], None]

_SLICES_A_CORE = 4
"""So that cores that were given little find more to do."""
_SLICE_BYTES = 256 * 1024 * 1024
_TASK_BYTES = 1024 * 1024
"""What a task costs beside its bytes, as bytes."""
_POLL_S = 0.2
_LAST_FAILURE = re.compile(r"most recent failure: (?:Lost task .*?\): )?(.*)", re.IGNORECASE)
_PYTHON_ERROR = re.compile(r"(?:\w+\.)*\w+(?:Error|Exception)\b")
_CLASS_NAME = re.compile(r"^(?:\w+\.)*\w+(?:Exception|Error): ")


def answers(
    context: SparkContext,
    tasks: Sequence[Any],
    function: Function,
    sizes: Sequence[int],
    on_progress: Progress | None = None,
) -> Iterator[Answer]:
    """All of them, once all are there. Raises EngineError where workers cannot run ours at all."""
    job = _Job(context, function, on_progress or (lambda *_: None))
    numbered = list(enumerate(tasks))
    yield from job.answers(numbered, sizes)


def slices(numbered: Slice, sizes: Sequence[int], cores: int) -> list[Slice]:
    """Neighbours together, about as much work in each; the largest first."""
    weights = [sizes[number] + _TASK_BYTES for number, _ in numbered]
    total = sum(weights)
    count = min(len(numbered), max(cores * _SLICES_A_CORE, total // _SLICE_BYTES))
    made: dict[int, Slice] = {}
    weight_of: dict[int, int] = {}
    before = 0
    for each, weight in zip(numbered, weights, strict=True):
        place = (before + weight // 2) * count // total
        made.setdefault(place, []).append(each)
        weight_of[place] = weight_of.get(place, 0) + weight
        before += weight
    return [made[place] for place in sorted(made, key=lambda place: -weight_of[place])]


@dataclass(frozen=True, slots=True)
class _Work:
    """What a worker does with a slice."""

    function: Function

    def __call__(self, given: Slice) -> list[bytes]:
        answered = [_pickled(answer(number, task, self.function)) for number, task in given]
        settle(type(self.function).__name__)
        return answered


def _pickled(answered: Answer) -> bytes:
    try:
        return pickle.dumps(answered)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        return pickle.dumps(
            Answer(answered.number, [], (unforeseen(error), traceback.format_exc()))
        )


@dataclass(frozen=True, slots=True)
class _Job:
    context: SparkContext
    function: Function
    on_progress: Progress

    def answers(self, numbered: Slice, sizes: Sequence[int]) -> list[Answer]:
        if not numbered:
            return []
        try:
            return self._run(slices(numbered, sizes, self.context.defaultParallelism))
        except (Py4JJavaError, PySparkException) as error:
            reason = _reason(error)
            if self._is_stopped():
                raise EngineError(f"Spark was stopped: {reason}") from error
        if len(numbered) == 1:
            return [Answer(numbered[0][0], [], (f"Spark gave it up: {reason}", ""))]
        half = len(numbered) // 2
        return [*self.answers(numbered[:half], sizes), *self.answers(numbered[half:], sizes)]

    def _run(self, work: Sequence[Slice]) -> list[Answer]:
        def collect() -> list[bytes]:
            spread = self.context.parallelize(work, len(work))
            return spread.flatMap(_Work(self.function)).collect()

        found = collected(self.context, collect, self.on_progress, len(work))
        return [pickle.loads(each) for each in found]  # noqa: S301  # our own workers'

    def _is_stopped(self) -> bool:
        try:
            return bool(self.context._jsc.sc().isStopped())  # noqa: SLF001  # no other way to ask
        except (Py4JError, AttributeError):
            return True


def collected(
    context: SparkContext, collect: Callable[[], list[Any]], on_progress: Progress, parts: int
) -> list[Any]:
    """A job of so many of Spark's tasks, in a thread: this one tells of it, and hears Ctrl-C."""
    group, outcome = f"kafka-forensics {uuid.uuid4()}", Future[list[Any]]()

    def run() -> None:
        try:
            context.setJobGroup(group, "tasks", interruptOnCancel=True)
            outcome.set_result(collect())
        except BaseException as error:  # noqa: BLE001  # raised where the result is wanted
            outcome.set_exception(error)

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        while not outcome.done():
            on_progress(min(_completed(context, group), parts), parts)
            thread.join(_POLL_S)
    except BaseException:  # Ctrl-C, or rows that nobody wants any more
        context.cancelJobGroup(group)
        raise
    found = outcome.result()
    on_progress(parts, parts)
    return found


def _completed(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)


def _reason(error: Py4JJavaError | PySparkException) -> str:
    """Why Spark gave up a job, in a line.

    Raises EngineError for what Python said: our function answers whatever happens to it, so that
    was before it, and would be the same for every task.
    """
    java = getattr(error, "java_exception", None)  # pyspark has translated some already
    text = str(error if java is None else java.toString())
    _, traced, said = text.partition("Traceback (most recent call last)")
    if traced:
        lines = said.strip().splitlines()
        last = next(filter(_PYTHON_ERROR.match, lines), lines[-1])
        raise EngineError(f"Spark's workers cannot run this: {last}") from error
    found = _LAST_FAILURE.search(text)
    line = found[1] if found else text.partition("\n")[0]
    return _CLASS_NAME.sub("", line).partition(". ")[0].strip()
