"""What `retain`, `recover`, `compact` share: partitions to tasks to rows, and where results go."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import options
from jobs.table import cell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafka_log.evidence.cluster_metadata import ClusterMetadata
    from kafka_log.evidence.inventory import Inventory, LogDir
    from kafka_log.settings import Settings
    from pipelines.partition_tasks import CheckpointChanges, Destination, PartitionTask

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Done:
    """What came of it."""

    rows: list[Row] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    """Paths that could not be looked at; a partition and its own files are one."""
    was_written: bool = False
    where: str = ""
    """For the summary's end: where it was written."""
    error: str | None = None
    checkpoints: list[Row] = field(default_factory=list)
    """Findings: malformed checkpoints; stderr has a line of each."""
    _told: set[str] = field(default_factory=set)
    """Paths, and failures, of which stderr has a line: several tasks may meet the same."""

    @classmethod
    def of(cls, found: Found, *, is_dry: bool = True) -> Done:
        """Nothing yet. Where something is to be written, a bad checkpoint ends it, and is told."""
        done = cls(
            unreadable=set(found.unreadable),
            checkpoints=list(found.checkpoints),
            _told=set(found.unreadable),
        )
        for row in found.checkpoints if is_dry else ():
            tell(
                f"{row['file']}@{row['position']}: {row['id']}: found {row['found']}, expected"
                f" {row['expected']}; read as without rows, while a broker takes the log dir"
                " offline: repair the file, or move it away"
            )
        return done

    def tell(self, line: str) -> bool:
        """Whether stderr had nothing of it yet: what could not be looked at is told once."""
        if line in self._told or any(line.startswith(f"{each}: ") for each in self._told):
            return False
        self._told.add(line)
        tell(line)
        return True

    def fail(self, partition: str) -> None:
        """A partition of which nothing is told: whatever of it could not be read, it is one."""
        below = f"{partition}{os.sep}"
        self.unreadable = {each for each in self.unreadable if not each.startswith(below)}
        self.unreadable.add(partition)

    @property
    def failures(self) -> int:
        return len(self.unreadable)

    def ensure_whole(self, output: str | None) -> None:
        """Refuse to end with an output in which something is missing."""
        if self.failures and output is not None:
            from kafka_log.disk.output import OutputError

            raise OutputError(f"{output}: not written, for it would not be whole")

    @property
    def findings(self) -> list[Row]:
        return [*self.checkpoints, *self.left_out]

    @property
    def left_out(self) -> list[Row]:
        """Findings: damage that --skip-damaged passed over."""
        return [row for row in self.rows if row.get("kind") == "finding"]

    @property
    def exit_code(self) -> int:
        if self.failures or self.error:
            return options.COULD_NOT_RUN
        return options.FINDINGS if self.findings else options.CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """A verb that makes something else of partitions."""

    verb: str
    function: Callable[[PartitionTask], Iterable[Row]]
    """Its last row is the partition's."""
    changes_of: Callable[[PartitionTask, Row], CheckpointChanges]
    """What a partition's row means for the checkpoints."""
    is_large: Callable[[PartitionTask], bool] = lambda _: False
    """Whether the function has others work for it: then it runs here, one after another."""

    def run(self, arguments: argparse.Namespace, found: Found) -> Done:
        """All partitions that are meant, and the results where they belong."""
        from kafka_format.errors import FormatError
        from kafka_log.errors import LogError
        from pipelines.partition_tasks import destination, is_full_disk

        mode = options.mode(arguments)
        if mode is options.Mode.IN_PLACE and arguments.engine == "spark":
            raise options.UsageError(
                "--in-place stays on one machine (Spark may run a task twice): use --engine local"
            )
        done = Done.of(found, is_dry=mode is options.Mode.DRY_RUN)
        in_place = mode is options.Mode.IN_PLACE
        try:
            with (
                terminated_as_interrupted(),
                destination(
                    found.log_dirs, arguments.paths, output=arguments.output, in_place=in_place
                ) as place,
            ):
                tasks = [place.place(task) for task in found.tasks]
                rows_of = self._rows(arguments, tasks, done)
                done.ensure_whole(arguments.output)
                self._finish(place, found.log_dirs, tasks, rows_of)
        except (FormatError, LogError, OSError) as error:
            done.error = text_of(error)
            if is_full_disk(error) and arguments.output is not None:
                done.error = f"{arguments.output}: {done.error} where the copy is written"
            if not done.tell(done.error):
                tell("nothing was written")
            return done
        done.was_written = mode is not options.Mode.DRY_RUN
        done.where = "" if arguments.output is None else f"; written to {arguments.output}"
        return done

    def _rows(
        self, arguments: argparse.Namespace, tasks: Sequence[PartitionTask], done: Done
    ) -> dict[str, Row]:
        """All rows into `done`; those of partitions also by their path."""
        rows_of: dict[str, Row] = {}
        large = [task for task in tasks if self.is_large(task)]
        others = [task for task in tasks if task not in large]
        for row in itertools.chain(
            answers(arguments, self.verb, large, self.function, done, here=True),
            answers(arguments, self.verb, others, self.function, done),
        ):
            done.rows.append(row)
            if row["kind"] == "partition":
                rows_of[row["path"]] = row
        return rows_of

    def _finish(
        self,
        place: Destination,
        log_dirs: Sequence[LogDir],
        tasks: Sequence[PartitionTask],
        rows_of: dict[str, Row],
    ) -> None:
        changes: dict[str, CheckpointChanges] = {}
        included: dict[str, set[tuple[str, int]]] = {}
        for task in tasks:
            if task.path not in rows_of:
                continue
            included.setdefault(task.log_dir, set()).add((task.topic, task.partition))
            for kind, rows in self.changes_of(task, rows_of[task.path]).items():
                changes.setdefault(task.log_dir, {}).setdefault(kind, {}).update(rows)
        place.finish(log_dirs, changes, included)


def answers(
    arguments: argparse.Namespace,
    verb: str,
    tasks: Sequence[PartitionTask],
    function: Callable[[PartitionTask], Iterable[Row]],
    done: Done,
    *,
    here: bool = False,
    scratch: str | None = None,
) -> Iterator[Row]:
    """The rows of all tasks; a task that fails is told on stderr and counted.

    `scratch` is a directory that workers see, for how far they are; by default that of the tasks.
    """
    from pipelines.engine import EngineError, Failure, run
    from pipelines.progress import progress_bar

    try:
        for row in run(
            tasks,
            function,
            engine="local" if here else arguments.engine,
            processes=1 if here else None,
            bytes_of=lambda task: task.size_in_bytes,
            on_progress=None if arguments.quiet else progress_bar(verb),
            repeatable=not any(task.in_place for task in tasks),
            progress_in=scratch or next((task.scratch for task in tasks[:1]), None),
        ):
            if isinstance(row, Failure):
                done.fail(row.task.path)
                place = "" if row.message.startswith(row.task.path) else f"{row.task.path}: "
                if done.tell(f"{place}{row.message}"):
                    sys.stderr.write(row.details)
            else:
                yield row
    except EngineError as error:
        raise options.CannotRunError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is there and meant."""

    tasks: list[PartitionTask]
    log_dirs: list[LogDir]
    """Those of the tasks."""
    unreadable: frozenset[str]
    """What could not be looked at, all that was given if that is nothing; stderr tells why."""
    checkpoints: tuple[Row, ...]
    """Findings: malformed checkpoints of these log dirs. Not told yet: see Done."""
    settings: Settings
    metadata: ClusterMetadata | None = None

    def of_one(self, *offsets: object) -> None:
        """Refuse an offset, if one was given, that cannot be of all partitions."""
        live = [task for task in self.tasks if not task.is_metadata_log]
        if len(live) > 1 and any(offset is not None for offset in offsets):
            raise options.UsageError(
                f"an offset is of one partition, and here are {len(live)}: choose with --topic"
                " and --partition"
            )


def find(arguments: argparse.Namespace) -> Found:
    """What is there and meant; what could not be looked at goes to stderr."""
    from kafka_format.errors import FormatError
    from kafka_log.evidence.inventory import Trouble
    from kafka_log.evidence.scan import scan
    from kafka_log.settings import SettingsError, read_settings
    from pipelines.partition_tasks import partition_tasks

    for path in arguments.paths:
        if Path(path).is_file():
            raise options.UsageError(f"{path}: found a file, expected a log dir or a partition")
    inventory = scan(arguments.paths)
    try:
        settings = read_settings(
            metadata=inventory.metadata,
            node_id=inventory.node_id,
            config=arguments.config,
            overrides=arguments.set,
        )
        tasks = partition_tasks(
            inventory,
            settings,
            now_ms=options.clock(arguments)(),
            includes=options.Selection.of(arguments).includes,
        )
    except SettingsError as error:
        raise options.UsageError(str(error)) from error
    except (FormatError, OSError) as error:
        raise options.UsageError(f"--config: {text_of(error)}") from error
    used = {task.log_dir for task in tasks}
    log_dirs = [each for each in inventory.log_dirs if each.path in used]
    checkpoints = tuple(_bad_checkpoints(log_dirs))
    told_later = {row["file"] for row in checkpoints}
    problems = [each for each in inventory.all_problems() if each.path not in told_later]
    for problem in problems:
        tell(f"{problem.path}: {problem.message}")
    unreadable = {each.path for each in problems if each.trouble is Trouble.UNREADABLE}
    if not tasks and not unreadable.issuperset(arguments.paths):
        tell(nothing_meant(arguments, inventory))
    return Found(
        tasks=tasks,
        log_dirs=log_dirs,
        unreadable=frozenset(unreadable if unreadable or tasks else arguments.paths),
        checkpoints=checkpoints,
        settings=settings,
        metadata=inventory.metadata,
    )


def _bad_checkpoints(log_dirs: Iterable[LogDir]) -> Iterator[Row]:
    from kafka_format.checkpoint_file import read_offset_checkpoint
    from kafka_format.errors import FormatError
    from kafka_log.evidence.inventory import CheckpointState

    for log_dir in log_dirs:
        for kind, checkpoint in log_dir.checkpoints.items():
            if checkpoint.state is not CheckpointState.MALFORMED:
                continue
            try:
                read_offset_checkpoint(os.path.join(log_dir.path, kind.value))  # noqa: PTH118
            except FormatError as error:
                yield {
                    "kind": "finding",
                    "topic": None,
                    "partition": None,
                    "path": log_dir.path,
                    "id": "CKP001",
                    "file": error.location.path,
                    "position": error.location.position,
                    "size_in_bytes": None,
                    "first_offset": None,
                    "next_offset": None,
                    "found": error.found,
                    "expected": error.expected,
                }


def nothing_meant(arguments: argparse.Namespace, inventory: Inventory) -> str:
    """Why there is nothing to do: nothing there, or nothing meant."""
    count = sum(1 for _ in inventory.partitions())
    chosen = [f"--topic {glob}" for glob in arguments.topics]
    chosen += [f"--partition {number}" for number in arguments.partitions]
    if not count or not chosen:
        return f"no partition found in {', '.join(arguments.paths)}"
    return f"no partition of the {count} here is meant by {' '.join(chosen)}"


def tell(text: str) -> None:
    """A line to stderr. A name from a disk may hold anything: it cannot play with the terminal."""
    sys.stderr.write(f"{cell(text)}\n")


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends like Ctrl-C: what was begun is removed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread alone
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tell_findings(rows: Iterable[Row]) -> None:
    """Damage that was left out, a line each."""
    for row in rows:
        last = (
            "the end of the file" if row["next_offset"] is None else f"offset {row['next_offset']}"
        )
        tell(
            f"{row['file']}@{row['position']}: {row['id']}: found {row['found']}, expected"
            f" {row['expected']}; left out: {row['size_in_bytes']} bytes, from offset"
            f" {row['first_offset']} up to {last}"
        )


def text_of(error: Exception) -> str:
    from pipelines.processes import os_error_text

    return os_error_text(error) if isinstance(error, OSError) else str(error)


def iso_time(timestamp_ms: int | None) -> str | None:
    """For people; times that no calendar has stay numbers."""
    if timestamp_ms is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
