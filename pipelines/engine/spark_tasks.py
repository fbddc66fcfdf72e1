"""Tasks on Spark, the third way of engine.py: one job, a Spark task for each slice of our tasks.

    driver                                   worker
    tasks -> slices, the largest first   ->  task -> rows, pickled: Spark sees bytes alone
    answers, in any order                <-  an `Answer` a task; failures are answers too

So a Spark task fails only if its worker dies (or was never able to begin). Spark runs it again, as
often as it is set to; then the job is given up, and with it every answer. Which of our tasks it was
is found by halves: the rest is run without it, and it becomes a failure in its place.

How far a slice is, its worker notes in a small file, in a directory that both see: Spark itself
tells of whole tasks only, and a large partition is one. Where there is no such directory, that is
all that is told.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import shutil
import tempfile
import traceback
import uuid
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread
from pyspark.errors import PySparkException

from pipelines.engine.engine import EngineError
from pipelines.engine.processes import Answer, answer, unforeseen
from pipelines.engine.progress import listening
from pipelines.engine.worker_memory import settle

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
    progress_in: str | None = None,
) -> Iterator[Answer]:
    """All of them, once all are there. Raises EngineError where workers cannot run ours at all.

    `progress_in` is a directory that workers and this process see; those on this machine see any.
    """
    numbered = list(enumerate(tasks))
    with _notes(context, on_progress, progress_in) as notes:
        job = _Job(context, function, on_progress or (lambda *_: None), notes)
        yield from job.answers(numbered, sizes)


@contextlib.contextmanager
def _notes(
    context: SparkContext, on_progress: Progress | None, directory: str | None
) -> Iterator[str | None]:
    if directory is None and str(context.master).startswith("local"):
        directory = tempfile.gettempdir()
    own = None
    if on_progress is not None and directory is not None:
        with contextlib.suppress(OSError):  # a full disk is no reason not to work
            own = tempfile.mkdtemp(prefix="progress-", dir=directory)
    try:
        yield own
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


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


class _Given(NamedTuple):
    """A slice, as a worker gets it."""

    place: int
    """Among the slices of the job."""
    tasks: Slice
    sizes: list[int]


@dataclass(frozen=True, slots=True)
class _Work:
    """What a worker does with a slice."""

    function: Function
    notes: str | None = None

    def __call__(self, given: _Given) -> list[bytes]:
        answered, done = [], 0
        with contextlib.closing(_Note(self.notes, given.place)) as note:
            for (number, task), size in zip(given.tasks, given.sizes, strict=True):
                note.write(done)
                with listening(partial(note.add, done, size)):
                    answered.append(_pickled(answer(number, task, self.function)))
                done += size
        settle(type(self.function).__name__)
        return answered


class _Note:
    """What is done of a slice, as a file; what cannot be written is not missed."""

    def __init__(self, directory: str | None, place: int) -> None:
        self._directory, self._place = directory, place
        self._name = f"{place}-{uuid.uuid4().hex}"

    def add(self, before: int, size: int, share: float) -> None:
        self.write(before + int(size * min(max(share, 0.0), 1.0)))

    def write(self, done: int) -> None:
        if self._directory is None:
            return
        try:
            Path(self._directory, self._name).write_text(f"{done}\n")
        except OSError:
            self._directory = None

    def close(self) -> None:
        """Those of attempts before are no longer true, either."""
        if self._directory is not None:
            with contextlib.suppress(OSError):
                for path in Path(self._directory).glob(f"{self._place}-*"):
                    path.unlink(missing_ok=True)


class _Polled:
    """How far a job is, by what Spark and the workers tell: as much as `sizes` add up to."""

    def __init__(self, sizes: list[int], notes: str | None, on_progress: Progress) -> None:
        self._sizes, self._notes, self._on_progress = sizes, notes, on_progress
        self._total = sum(sizes)
        self._told = 0

    def __call__(self, completed: int) -> None:
        begun = self._begun()
        if self._notes is None or not self._total:
            done = self._total * completed // len(self._sizes)
        else:  # slices begin in their order, so all before are begun or over
            done = sum(self._sizes[: completed + len(begun)])
            done -= sum(self._sizes[place] - size for place, size in begun.items())
        self._told = max(self._told, min(done, self._total - 1))  # until it is over
        self._on_progress(self._told, self._total)

    def end(self) -> None:
        self._on_progress(self._total, self._total)

    def _begun(self) -> dict[int, int]:
        """Slices that are under way, with what is done of them; of several attempts, the best."""
        found: dict[int, int] = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(self._notes) if self._notes else ():  # noqa: PTH208
                with contextlib.suppress(OSError, ValueError):  # gone, or not whole yet
                    done = int(Path(self._notes or "", name).read_text())
                    place = int(name.partition("-")[0])
                    found[place] = max(done, found.get(place, 0))
        return found


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
    notes: str | None

    def answers(self, numbered: Slice, sizes: Sequence[int]) -> list[Answer]:
        if not numbered:
            return []
        try:
            return self._run(slices(numbered, sizes, self.context.defaultParallelism), sizes)
        except (Py4JJavaError, PySparkException) as error:
            reason = _reason(error)
            if self._is_stopped():
                raise EngineError(f"Spark was stopped: {reason}") from error
        if len(numbered) == 1:
            return [Answer(numbered[0][0], [], (f"Spark gave it up: {reason}", ""))]
        half = len(numbered) // 2
        return [*self.answers(numbered[:half], sizes), *self.answers(numbered[half:], sizes)]

    def _run(self, work: Sequence[Slice], sizes: Sequence[int]) -> list[Answer]:
        given = [
            _Given(place, some, [sizes[number] for number, _ in some])
            for place, some in enumerate(work)
        ]

        def collect() -> list[bytes]:
            spread = self.context.parallelize(given, len(given))
            return spread.flatMap(_Work(self.function, self.notes)).collect()

        polled = _Polled([sum(each.sizes) for each in given], self.notes, self.on_progress)
        found = collected(self.context, collect, polled)
        polled.end()
        return [pickle.loads(each) for each in found]  # noqa: S301  # our own workers'

    def _is_stopped(self) -> bool:
        try:
            return bool(self.context._jsc.sc().isStopped())  # noqa: SLF001  # no other way to ask
        except (Py4JError, AttributeError):
            return True


def collected(
    context: SparkContext, collect: Callable[[], list[Any]], on_poll: Callable[[int], None]
) -> list[Any]:
    """A job in a thread: this one tells how many of its tasks are over, and hears Ctrl-C."""
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
            on_poll(_completed(context, group))
            thread.join(_POLL_S)
    except BaseException:  # Ctrl-C, or rows that nobody wants any more
        context.cancelJobGroup(group)
        raise
    return outcome.result()


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
