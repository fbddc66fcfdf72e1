"""Tasks on Spark for engine.py: one job, with one Spark task for each slice of our tasks.

    driver                                   worker
    tasks -> slices, the largest first   ->  task -> rows, pickled: Spark only sees bytes
    answers, in any order                <-  one `Answer` per task; failures are answers too

So a Spark task fails only if its worker dies, or could not start. Spark retries it as often as it
is set to; then it gives up the job, and with it every answer. We find the task by bisection: the
others run without it, and it becomes a failure in its place.

A worker writes the progress of its slice to a small file in a directory that both see: Spark itself
only reports whole tasks, and a large partition is one. Without such a directory there is only
Spark's report.
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
from pipelines.engine.processes import Answer, answer, internal_error_text
from pipelines.engine.progress import listening
from pipelines.engine.worker_memory import freeze_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import SparkContext

    Function = Callable[[Any], Iterable[Any]]
    Slice = list[tuple[int, Any]]
    Progress = Callable[[int, int], None]

_SLICES_PER_CORE = 4
"""So that a core that has finished early finds more work."""
_SLICE_BYTES = 256 * 1024 * 1024
_TASK_BYTES = 1024 * 1024
"""The fixed cost of a task, in bytes."""
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
    """Yield all answers, once the job is done. Raises EngineError if workers cannot run our code.

    `progress_in` is a directory that the workers see as well; workers on this machine see any.
    """
    numbered = list(enumerate(tasks))
    with _notes_directory(context, on_progress, progress_in) as notes:
        job = _Job(context, function, on_progress or (lambda *_: None), notes)
        yield from job.answers(numbered, sizes)


@contextlib.contextmanager
def _notes_directory(
    context: SparkContext, on_progress: Progress | None, directory: str | None
) -> Iterator[str | None]:
    if directory is None and str(context.master).startswith("local"):
        directory = tempfile.gettempdir()
    own = None
    if on_progress is not None and directory is not None:
        with contextlib.suppress(OSError):  # a full disk must not stop the work
            own = tempfile.mkdtemp(prefix="progress-", dir=directory)
    try:
        yield own
    finally:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)


def slices(numbered: Slice, sizes: Sequence[int], cores: int) -> list[Slice]:
    """Return slices of neighbours with about equal work, the largest first."""
    weights = [sizes[number] + _TASK_BYTES for number, _ in numbered]
    total = sum(weights)
    count = min(len(numbered), max(cores * _SLICES_PER_CORE, total // _SLICE_BYTES))
    made: dict[int, Slice] = {}
    weight_of: dict[int, int] = {}
    before = 0
    for each, weight in zip(numbered, weights, strict=True):
        place = (before + weight // 2) * count // total
        made.setdefault(place, []).append(each)
        weight_of[place] = weight_of.get(place, 0) + weight
        before += weight
    return [made[place] for place in sorted(made, key=lambda place: -weight_of[place])]


class _SliceTask(NamedTuple):
    """A slice as its worker gets it."""

    place: int
    """Its number among the slices of the job."""
    tasks: Slice
    sizes: list[int]


@dataclass(frozen=True, slots=True)
class _SliceRunner:
    """Runs the tasks of a slice, in a worker."""

    function: Function
    notes: str | None = None

    def __call__(self, slice_task: _SliceTask) -> list[bytes]:
        answered, done = [], 0
        with contextlib.closing(_Note(self.notes, slice_task.place)) as note:
            for (number, task), size in zip(slice_task.tasks, slice_task.sizes, strict=True):
                note.write(done)
                with listening(partial(note.add, done, size)):
                    answered.append(_pickled(answer(number, task, self.function)))
                done += size
        freeze_loaded(type(self.function).__name__)
        return answered


class _Note:
    """A file with the progress of a slice; an error in writing it is ignored."""

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
        """Remove the file, and those of earlier attempts, which are out of date."""
        if self._directory is not None:
            with contextlib.suppress(OSError):
                for path in Path(self._directory).glob(f"{self._place}-*"):
                    path.unlink(missing_ok=True)


class _PolledProgress:
    """Reports the progress of a job, from what Spark and the workers say, in units of `sizes`."""

    def __init__(self, sizes: list[int], notes: str | None, on_progress: Progress) -> None:
        self._sizes, self._notes_directory, self._on_progress = sizes, notes, on_progress
        self._total = sum(sizes)
        self._reported = 0

    def __call__(self, completed: int) -> None:
        running = self._running()
        if self._notes_directory is None or not self._total:
            done = self._total * completed // len(self._sizes)
        else:  # slices start in order: those before are running or finished
            done = sum(self._sizes[: completed + len(running)])
            done -= sum(self._sizes[place] - size for place, size in running.items())
        self._reported = max(self._reported, min(done, self._total - 1))  # the rest at the end
        self._on_progress(self._reported, self._total)

    def end(self) -> None:
        self._on_progress(self._total, self._total)

    def _running(self) -> dict[int, int]:
        """Return the finished bytes of the running slices; of several attempts, the most."""
        found: dict[int, int] = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(self._notes_directory) if self._notes_directory else ():  # noqa: PTH208
                with contextlib.suppress(OSError, ValueError):  # removed, or not complete yet
                    done = int(Path(self._notes_directory or "", name).read_text())
                    place = int(name.partition("-")[0])
                    found[place] = max(done, found.get(place, 0))
        return found


def _pickled(answered: Answer) -> bytes:
    try:
        return pickle.dumps(answered)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        return pickle.dumps(
            Answer(answered.number, [], (internal_error_text(error), traceback.format_exc()))
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
        prepared = [
            _SliceTask(place, part, [sizes[number] for number, _ in part])
            for place, part in enumerate(work)
        ]

        def collect() -> list[bytes]:
            spread = self.context.parallelize(prepared, len(prepared))
            return spread.flatMap(_SliceRunner(self.function, self.notes)).collect()

        polled = _PolledProgress(
            [sum(each.sizes) for each in prepared], self.notes, self.on_progress
        )
        found = collect_polled(self.context, collect, polled)
        polled.end()
        return [pickle.loads(each) for each in found]  # noqa: S301  # from our own workers

    def _is_stopped(self) -> bool:
        try:
            return bool(self.context._jsc.sc().isStopped())  # noqa: SLF001  # no other way to ask
        except (Py4JError, AttributeError):
            return True


def collect_polled(
    context: SparkContext, collect: Callable[[], list[Any]], on_poll: Callable[[int], None]
) -> list[Any]:
    """Run a job in a thread; this thread polls how many tasks are completed, and gets Ctrl-C."""
    group, outcome = f"kafka-forensics {uuid.uuid4()}", Future[list[Any]]()

    def run() -> None:
        try:
            context.setJobGroup(group, "tasks", interruptOnCancel=True)
            outcome.set_result(collect())
        except BaseException as error:  # noqa: BLE001  # raised in the calling thread
            outcome.set_exception(error)

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        while not outcome.done():
            on_poll(_completed(context, group))
            thread.join(_POLL_S)
    except BaseException:  # Ctrl-C, or the caller has stopped iterating
        context.cancelJobGroup(group)
        raise
    return outcome.result()


def _completed(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)


def _reason(error: Py4JJavaError | PySparkException) -> str:
    """Return why Spark gave up a job, in one line.

    Raises EngineError for an error of Python: our function catches its own, so this happened before
    it was called, and would happen for every task.
    """
    java = getattr(error, "java_exception", None)  # None if pyspark has translated it
    text = str(error if java is None else java.toString())
    _, traceback_mark, trace = text.partition("Traceback (most recent call last)")
    if traceback_mark:
        lines = trace.strip().splitlines()
        last = next(filter(_PYTHON_ERROR.match, lines), lines[-1])
        raise EngineError(f"Spark's workers cannot run this: {last}") from error
    found = _LAST_FAILURE.search(text)
    line = found[1] if found else text.partition("\n")[0]
    return _CLASS_NAME.sub("", line).partition(". ")[0].strip()
