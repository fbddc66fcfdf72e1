"""Where the tasks of a parallel cleaning run: processes of this machine, or Spark.

    scan        every part to blocks of (hash, offsets), one for each range of hashes
    shuffle     Spark's own, of bytes that only our code reads; here, files of the work directory
    reduce      a range at a time
    rewrite     every group, as any other tasks of the engine

Keys and values never leave the process that reads them; Spark moves hashes. A task may run again,
or twice at once: whatever it leaves on disk gets its name when it is whole, and is the same bytes.
"""

from __future__ import annotations

import pickle
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_log.cleaner.parallel.parts import NotParallelError
from kafka_log.cleaner.parallel.reduction import read_slice, write_slices
from kafka_log.cleaner.parallel.scan import scan_part
from pipelines import engine as engines
from pipelines.engine import Failure, available_processors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from kafka_log.cleaner.parallel.cleaner import Reduce, Runner, Shuffled
    from kafka_log.cleaner.parallel.scan import Scanned, ScanTask

T = TypeVar("T")
R = TypeVar("R")


def runner(
    engine: engines.Engine,
    total_bytes: int,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    processes: int | None = None,
) -> Runner:
    """Of an engine by its name, as `engine.run` chooses it. Raises EngineError."""
    context = None if processes else engines.spark_context(engine, total_bytes)
    if context is not None:
        return OnSpark(context, on_progress)
    return OnProcesses(processes or available_processors(), on_progress)


class _Engine:
    """What both have in common: tasks that only give an answer."""

    def __init__(
        self, options: dict[str, Any], on_progress: Callable[[int, int], None] | None
    ) -> None:
        self._options = options
        self._on_progress = on_progress

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        rows: list[R] = []
        for row in engines.run(
            tasks,
            partial(_in_a_list, function),
            bytes_of=size_of,
            on_progress=self._on_progress,
            **self._options,
        ):
            if isinstance(row, Failure):
                raise NotParallelError(row.message)
            rows.append(row)
        return rows


def _in_a_list(function: Callable[[T], R], task: T) -> list[R]:
    return [function(task)]


# ------------------------------------------------------------------------- this machine alone


class OnProcesses(_Engine):
    """A few processes; blocks go through files beside what else a round leaves."""

    def __init__(
        self, processes: int, on_progress: Callable[[int, int], None] | None = None
    ) -> None:
        super().__init__({"engine": "local", "processes": processes}, on_progress)
        self.parallelism = processes

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> Shuffled:
        # A round may scan more than once, with other parts of the same numbers.
        folder = tempfile.mkdtemp(prefix="blocks-", dir=tasks[0].rules.work)
        scanned = self.map(partial(_scan_to_file, folder), tasks, _bytes_of_part)
        return _InFiles(self, folder, scanned, ranges)


def _scan_to_file(folder: str, task: ScanTask) -> Scanned:
    scanned, blocks = scan_part(task)
    write_slices(_blocks_path(folder, scanned.number), blocks)
    return scanned


def _blocks_path(folder: str, part: int) -> Path:
    return Path(folder) / f"part-{part:06d}.blocks"


def _bytes_of_part(task: ScanTask) -> int:
    return task.part.end - task.part.start


class _InFiles:
    def __init__(
        self, processes: OnProcesses, folder: str, scanned: list[Scanned], ranges: int
    ) -> None:
        self.scanned = scanned
        self._processes = processes
        self._folder = folder
        self._ranges = range(ranges)

    def reduce(self, function: Reduce) -> list[Any]:
        parts = [each.number for each in self.scanned]
        reduce = partial(_reduce_files, function, self._folder, parts)
        return self._processes.map(reduce, self._ranges, lambda _: 1)


def _reduce_files(function: Reduce, folder: str, parts: list[int], number: int) -> Any:
    return function(
        number, ((part, read_slice(_blocks_path(folder, part), number)) for part in parts)
    )


# -------------------------------------------------------------------------------------- Spark


class OnSpark(_Engine):
    def __init__(
        self, context: SparkContext, on_progress: Callable[[int, int], None] | None = None
    ) -> None:
        super().__init__({"engine": "spark"}, on_progress)
        self.parallelism = context.defaultParallelism
        self._context = context

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> Shuffled:
        spread = self._context.parallelize(list(tasks), len(tasks))
        keyed = spread.flatMap(_scan_to_rows)
        return _OnSpark(keyed.partitionBy(ranges + 1, partitionFunc=_as_it_is), ranges)


def _as_it_is(number: int) -> int:
    return number


def _scan_to_rows(task: ScanTask) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Blocks by their range; the last partition is for what is told of the scan."""
    try:
        scanned, blocks = scan_part(task)
    except Exception as error:  # noqa: BLE001  # an answer: to try it again would change nothing
        yield task.rules.ranges, (task.part.number, pickle.dumps(str(error)))
        return
    yield task.rules.ranges, (scanned.number, pickle.dumps(scanned))
    for number, block in enumerate(blocks):
        if block:
            yield number, (scanned.number, block)


class _OnSpark:
    """Blocks lie in Spark's shuffle files: what is asked of them twice is not scanned twice."""

    def __init__(self, blocks: RDD[tuple[int, tuple[int, bytes]]], ranges: int) -> None:
        self._blocks = blocks
        self._ranges = ranges
        self.scanned: list[Scanned] = []
        for told in self._collect(_Told(ranges)):
            if isinstance(told, str):
                raise NotParallelError(told)
            self.scanned.append(told)

    def reduce(self, function: Reduce) -> list[Any]:
        numbered = dict(self._collect(_Reduced(function, self._ranges)))
        return [numbered[number] for number in range(self._ranges)]

    def _collect(self, work: Any) -> list[Any]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            found = self._blocks.mapPartitionsWithIndex(work).collect()
        except (Py4JJavaError, PySparkException) as error:
            line = str(error).strip().partition("\n")[0]
            raise NotParallelError(f"Spark gave it up: {line}") from error
        return [pickle.loads(each) for each in found]  # noqa: S301  # our own workers'


class _Told:
    """What scans tell, of the last partition; the others are not read."""

    def __init__(self, ranges: int) -> None:
        self._ranges = ranges

    def __call__(self, number: int, rows: Iterable[tuple[int, tuple[int, bytes]]]) -> list[bytes]:
        return [told for _, (_, told) in rows] if number == self._ranges else []


class _Reduced:
    def __init__(self, function: Reduce, ranges: int) -> None:
        self._function = function
        self._ranges = ranges

    def __call__(self, number: int, rows: Iterable[tuple[int, tuple[int, bytes]]]) -> list[bytes]:
        if number == self._ranges:
            return []
        found = self._function(number, (block for _, block in rows))
        return [pickle.dumps((number, found))]
