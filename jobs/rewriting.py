"""Run a verb over partitions, and put the results of `retain`, `recover` and `compact` in place."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from jobs import options
from jobs.outcome import VerbOutcome, error_text
from kafka_format.shown_text import say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobs.outcome import Row
    from jobs.selected_partitions import SelectedPartitions
    from kafka_log.checkpoints import CheckpointChanges
    from kafka_log.inventory.inventory import LogDir
    from pipelines.engine.partition_tasks import Destination, PartitionTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """A verb that rewrites partitions."""

    verb: str
    function: Callable[[PartitionTask], Iterable[Row]]
    """Its last row describes the partition."""
    changes_of: Callable[[PartitionTask, Row], CheckpointChanges]
    """Returns the checkpoint rows that follow from a partition's row."""
    is_large: Callable[[PartitionTask], bool] = lambda _: False
    """Whether the function starts tasks itself; it then runs in this process, one at a time."""

    def run(self, arguments: argparse.Namespace, found: SelectedPartitions) -> VerbOutcome:
        """Process all selected partitions and put the results in place."""
        from kafka_format.errors import FormatError
        from kafka_log.errors import LogError
        from pipelines.engine.partition_tasks import FULL_OUTPUT, destination, is_full_disk

        mode = options.mode(arguments)
        if mode is options.Mode.IN_PLACE and arguments.engine == "spark":
            raise options.UsageError(
                "--in-place cannot run on Spark, which may run a task twice: use --engine local"
            )
        outcome = VerbOutcome.of(found, is_dry=mode is options.Mode.DRY_RUN)
        in_place = mode is options.Mode.IN_PLACE
        try:
            with (
                terminated_as_interrupted(),
                destination(
                    found.log_dirs,
                    arguments.paths,
                    output=arguments.output,
                    in_place=in_place,
                    partitions=[task.path for task in found.tasks],
                ) as place,
            ):
                tasks = [place.place(task) for task in found.tasks]
                partition_rows = self._rows(arguments, tasks, outcome)
                outcome.ensure_complete(arguments.output)
                self._finish(place, found.log_dirs, tasks, partition_rows)
        except (FormatError, LogError, OSError) as error:
            outcome.error = error_text(error)
            if is_full_disk(error) and arguments.output is not None:
                outcome.error = (
                    f"{arguments.output}: {os.strerror(errno.ENOSPC)} {FULL_OUTPUT};"
                    " nothing was written"
                )
                outcome.rows.clear()  # they describe files that do not exist
            if not outcome.report(outcome.error):
                say("nothing was written")
            return outcome
        outcome.was_written = mode is not options.Mode.DRY_RUN
        outcome.where = "" if arguments.output is None else f"; written to {arguments.output}"
        return outcome

    def _rows(
        self, arguments: argparse.Namespace, tasks: Sequence[PartitionTask], outcome: VerbOutcome
    ) -> dict[str, Row]:
        """Add all rows to `outcome`; return the rows of partitions by path."""
        partition_rows: dict[str, Row] = {}
        large = [task for task in tasks if self.is_large(task)]
        others = [task for task in tasks if task not in large]
        for row in itertools.chain(
            task_rows(arguments, self.verb, large, self.function, outcome, here=True),
            task_rows(arguments, self.verb, others, self.function, outcome),
        ):
            outcome.rows.append(row)
            if row["kind"] == "partition":
                partition_rows[row["path"]] = row
        return partition_rows

    def _finish(
        self,
        place: Destination,
        log_dirs: Sequence[LogDir],
        tasks: Sequence[PartitionTask],
        partition_rows: dict[str, Row],
    ) -> None:
        changes: dict[str, CheckpointChanges] = {}
        included: dict[str, set[tuple[str, int]]] = {}
        for task in tasks:
            if task.path not in partition_rows:
                continue
            included.setdefault(task.log_dir, set()).add((task.topic, task.partition))
            for kind, rows in self.changes_of(task, partition_rows[task.path]).items():
                changes.setdefault(task.log_dir, {}).setdefault(kind, {}).update(rows)
        is_whole = all(task.path in partition_rows for task in tasks)
        place.finish(log_dirs, changes, included, keeps_marker=is_whole)


class VerbTask(Protocol):
    """What running a task needs to know about it."""

    @property
    def path(self) -> str: ...
    @property
    def size_in_bytes(self) -> int: ...
    @property
    def in_place(self) -> bool: ...
    @property
    def scratch(self) -> str | None: ...


_Task = TypeVar("_Task", bound=VerbTask)


def task_rows(
    arguments: argparse.Namespace,
    verb: str,
    tasks: Sequence[_Task],
    function: Callable[[_Task], Iterable[Row]],
    outcome: VerbOutcome,
    *,
    here: bool = False,
    scratch: str | None = None,
) -> Iterator[Row]:
    """Yield the rows of all tasks; report a task that fails on stderr, and count it.

    `scratch` is a directory where workers record their progress; by default that of the tasks.
    """
    from kafka_format.columnar.compilation import warn_if_slow
    from pipelines.engine.engine import EngineError, Failure, SparkOptions, run
    from pipelines.engine.partition_tasks import FULL_OUTPUT
    from pipelines.engine.progress import progress_bar

    warn_if_slow(sum(task.size_in_bytes for task in tasks))
    try:
        for row in run(
            tasks,
            function,
            engine="local" if here else arguments.engine,
            processes=1 if here else None,
            bytes_of=lambda task: task.size_in_bytes,
            on_progress=None if arguments.quiet else progress_bar(verb),
            spark=SparkOptions(
                repeatable=not any(task.in_place for task in tasks),
                progress_in=scratch or next((task.scratch for task in tasks[:1]), None),
            ),
        ):
            if isinstance(row, Failure):
                if getattr(arguments, "output", None) and row.message.endswith(FULL_OUTPUT):
                    # The disk is full for all tasks.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                place = "" if row.message.startswith(row.task.path) else f"{row.task.path}: "
                outcome.fail(row.task.path, f"{place}{row.message}", is_damage=row.is_damage)
                if outcome.report(f"{place}{row.message}"):
                    say(*row.details.split("\n")[:-1])
            else:
                yield row
    except EngineError as error:
        raise options.CannotRunError(str(error)) from error


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, so that unfinished output is removed."""

    def interrupt(number: int, _: object) -> None:
        raise options.HungUpError if number == signal.SIGHUP else KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]  # nohup: the work is to go on
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
