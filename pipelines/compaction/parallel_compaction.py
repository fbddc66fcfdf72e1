"""Runs the tasks of a parallel cleaning: in processes of this machine, or on Spark.

    scan        each part, into blocks of (hash, offsets), one for each range of hashes
    shuffle     Spark's own, of bytes that only our code reads; else files of the work directory
    reduce      one range at a time
    rewrite     each group, as other tasks of the engine

Keys and values stay in the process that reads them; Spark moves hashes. A task may run again, or
twice at once: a file gets its name when it is whole, and always has the same bytes.
"""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.parallel.cleaner import TASK_MEMORY, ParallelCleaner, ParallelSettings
from kafka_log.cleaner.parallel.parts import NotParallelError
from kafka_log.cleaner.parallel.reduction import read_slice, write_slices
from kafka_log.cleaner.parallel.scan import scan_part
from kafka_log.cleaner.witness import Removals
from pipelines.engine import engine as engines
from pipelines.engine.engine import Failure, available_processors
from pipelines.engine.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from kafka_log.cleaner.parallel.runner import Reduce, Runner, ScanShuffle
    from kafka_log.cleaner.parallel.scan import ScanResult, ScanTask
    from kafka_log.cleaner.settings import CleanerSettings
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from pipelines.engine.progress import OnProgress

    OnDone = Callable[[int], None]

T = TypeVar("T")
R = TypeVar("R")


def _ignore(size: int) -> None:
    """Ignore the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """Which partitions are cleaned by many tasks, and where these run."""

    above: int = 4 * 1024**3
    """The least bytes of such a partition."""
    task_memory: int = TASK_MEMORY
    engine: engines.Engine = "auto"
    """As for `engine.run`, but `auto` is Spark only under spark-submit, whatever the size: on one
    machine Spark would run as many processes, and itself."""

    def runner(self, on_done: OnDone = _ignore) -> SparkRunner | ProcessRunner:
        """Return a context manager that keeps its processes from one step to the next.

        `on_done` gets the bytes that were processed, step by step. Raises EngineError.
        """
        context = engines.spark_context(self.engine, 0)
        if context is not None:
            return SparkRunner(context, on_done)
        return ProcessRunner(available_processors(), on_done)

    def cleaner(
        self, settings: CleanerSettings, runner: Runner, work: Path, check: Callable[[], None]
    ) -> Callable[[LogConfig, Clock, Removals], ParallelCleaner]:
        """Return a factory for `compact_log`; scans verify, and `check` finds what is wrong."""
        parallel = ParallelSettings(
            work=work, task_memory=self.task_memory, above=self.above, verifies=True
        )

        def make(config: LogConfig, clock: Clock, removals: Removals) -> ParallelCleaner:
            return ParallelCleaner(
                Cleaner(config, clock, settings, witness=removals),
                runner,
                parallel,
                witnesses=Removals,
                on_seen=lambda each: removals.add(each.take()),
                before_single=check,
            )

        return make


# ------------------------------------------------------------------------- this machine


class ProcessRunner:
    """Runs tasks in processes; blocks go through files of the work directory."""

    def __init__(self, processes: int, on_done: OnDone = _ignore) -> None:
        self.parallelism = processes
        self._processes = Processes(_apply, processes)
        self._on_done = on_done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.__exit__(None, None, None)

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        rows: dict[int, R] = {}
        for answered in self._processes.answers([(function, task) for task in tasks]):
            if answered.failure is not None:
                raise NotParallelError(answered.failure[0])
            rows[answered.number] = answered.rows[0]
            self._on_done(size_of(tasks[answered.number]))
        return [rows[number] for number in range(len(tasks))]

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> ScanShuffle:
        # A round may scan more than once, with other parts that have the same numbers.
        folder = tempfile.mkdtemp(prefix="blocks-", dir=tasks[0].settings.work)
        scanned = self.map(partial(_scan_to_file, folder), tasks, _bytes_of_part)
        return _FileShuffle(self, folder, scanned, ranges)


def _apply(call: tuple[Callable[[T], R], T]) -> list[R]:
    function, task = call
    return [function(task)]


def _scan_to_file(folder: str, task: ScanTask) -> ScanResult:
    scanned, blocks = scan_part(task)
    write_slices(_blocks_path(folder, scanned.number), blocks)
    return scanned


def _blocks_path(folder: str, part: int) -> Path:
    return Path(folder) / f"part-{part:06d}.blocks"


def _bytes_of_part(task: ScanTask) -> int:
    return task.part.end - task.part.start


class _FileShuffle:
    def __init__(
        self, processes: ProcessRunner, folder: str, scanned: list[ScanResult], ranges: int
    ) -> None:
        self.scanned = scanned
        self._processes = processes
        self._folder = folder
        self._ranges = range(ranges)

    def reduce(self, function: Reduce) -> list[Any]:
        parts = [each.number for each in self.scanned]
        reduce = partial(_reduce_files, function, self._folder, parts)
        return self._processes.map(reduce, self._ranges, lambda _: 0)


def _reduce_files(function: Reduce, folder: str, parts: list[int], number: int) -> Any:
    return function(
        number, ((part, read_slice(_blocks_path(folder, part), number)) for part in parts)
    )


# -------------------------------------------------------------------------------------- Spark


class SparkRunner:
    def __init__(self, context: SparkContext, on_done: OnDone = _ignore) -> None:
        self.parallelism = context.defaultParallelism
        self._context = context
        self._on_done = on_done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the session open: it is not ours."""

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        rows: list[R] = []
        for row in engines.run(
            tasks,
            partial(_as_row, function),
            engine="spark",
            bytes_of=size_of,
            on_progress=_byte_progress(sum(map(size_of, tasks)), self._on_done),
        ):
            if isinstance(row, Failure):
                raise NotParallelError(row.message)
            rows.append(row)
        return rows

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> ScanShuffle:
        spread = self._context.parallelize(list(tasks), len(tasks))
        keyed = spread.flatMap(_scan_to_rows)
        blocks = keyed.partitionBy(ranges + 1, partitionFunc=_identity)
        size = sum(map(_bytes_of_part, tasks))
        parts = len(tasks) + ranges + 1
        return _SparkShuffle(
            self._context, blocks, ranges, _byte_progress(size, self._on_done), parts
        )


def _byte_progress(size: int, on_done: OnDone) -> OnProgress:
    """Return an `on_progress` that turns finished parts of a job into new bytes."""
    reported = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal reported
        now = size * done // total if total else size
        if now > reported:
            on_done(now - reported)
            reported = now

    return on_progress


def _as_row(function: Callable[[T], R], task: T) -> list[R]:
    return [function(task)]


def _identity(number: int) -> int:
    return number


def _scan_to_rows(task: ScanTask) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Yield blocks by their range; the last partition is for the results of the scan."""
    try:
        scanned, blocks = scan_part(task)
    except Exception as error:  # noqa: BLE001  # a result: a retry would not help
        yield task.settings.ranges, (task.part.number, pickle.dumps(str(error)))
        return
    yield task.settings.ranges, (scanned.number, pickle.dumps(scanned))
    for number, block in enumerate(blocks):
        if block:
            yield number, (scanned.number, block)


class _SparkShuffle:
    """Blocks in Spark's shuffle files: they are scanned once, however often they are read."""

    def __init__(
        self,
        context: SparkContext,
        blocks: RDD[tuple[int, tuple[int, bytes]]],
        ranges: int,
        on_progress: OnProgress,
        parts: int,
    ) -> None:
        self._context = context
        self._blocks = blocks
        self._ranges = ranges
        self.scanned: list[ScanResult] = []
        for reported in self._collect(_ScanResults(ranges), on_progress, parts):
            if isinstance(reported, str):
                raise NotParallelError(reported)
            self.scanned.append(reported)

    def reduce(self, function: Reduce) -> list[Any]:
        numbered = dict(self._collect(_RangeReducer(function, self._ranges)))
        return [numbered[number] for number in range(self._ranges)]

    def _collect(
        self, work: Any, on_progress: OnProgress = lambda *_: None, parts: int = 1
    ) -> list[Any]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from pipelines.engine.spark_tasks import collect_polled

        made = self._blocks.mapPartitionsWithIndex(work)
        try:
            found = collect_polled(
                self._context, made.collect, lambda done: on_progress(min(done, parts), parts)
            )
        except (Py4JJavaError, PySparkException) as error:
            line = str(error).strip().partition("\n")[0]
            raise NotParallelError(f"Spark gave it up: {line}") from error
        on_progress(parts, parts)
        return [pickle.loads(each) for each in found]  # noqa: S301  # from our own workers


class _ScanResults:
    """Collects the results of scans from the last partition; the others are not read."""

    def __init__(self, ranges: int) -> None:
        self._ranges = ranges

    def __call__(self, number: int, rows: Iterable[tuple[int, tuple[int, bytes]]]) -> list[bytes]:
        return [reported for _, (_, reported) in rows] if number == self._ranges else []


class _RangeReducer:
    def __init__(self, function: Reduce, ranges: int) -> None:
        self._function = function
        self._ranges = ranges

    def __call__(self, number: int, rows: Iterable[tuple[int, tuple[int, bytes]]]) -> list[bytes]:
        if number == self._ranges:
            return []
        found = self._function(number, (block for _, block in rows))
        return [pickle.dumps((number, found))]
