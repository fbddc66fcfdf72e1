"""Shared by `retain`, `recover` and `compact`: find partitions, run tasks, place the results."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import options
from jobs.places import Places
from jobs.running import warn_running
from kafka_format.shown_text import say
from kafka_log.inventory.directory import FOLLOWED
from pipelines.report.text import counted as counted  # noqa: PLC0414  # for verbs
from pipelines.report.text import human_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafka_log.checkpoints import CheckpointChanges
    from kafka_log.config.settings import Settings
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Inventory, LogDir, Problem
    from pipelines.engine.partition_tasks import Destination, PartitionTask

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Done:
    """The outcome of a verb."""

    rows: list[Row] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    """Paths that could not be read; a partition and its files count once."""
    malformed: frozenset[str] = frozenset()
    """Malformed paths; each was reported on stderr."""
    damaged: set[str] = field(default_factory=set)
    """Partitions without rows because of a malformed file."""
    is_dry: bool = True
    """Whether this is a dry run."""
    was_written: bool = False
    where: str = ""
    """The end of the summary: where the result was written."""
    error: str | None = None
    checkpoints: list[Row] = field(default_factory=list)
    """Findings about malformed checkpoints; each was reported on stderr."""
    _reported: set[str] = field(default_factory=set)
    """Paths and failures already reported on stderr: several tasks may meet the same one."""

    @classmethod
    def of(cls, found: Found, *, is_dry: bool = True) -> Done:
        """Start without rows. A dry run reports malformed checkpoints; other runs end with them."""
        done = cls(
            unreadable=set(found.unreadable),
            malformed=found.malformed,
            checkpoints=list(found.checkpoints),
            is_dry=is_dry,
            _reported={*found.unreadable, *found.malformed},
        )
        for row in found.checkpoints if is_dry else ():
            say(
                f"{row['file']}@{row['position']}: {row['id']}: found {row['found']}, expected"
                f" {row['expected']}; treated as empty here, but a broker takes the log dir"
                " offline: repair the file or move it away"
            )
        return done

    def report(self, line: str) -> bool:
        """Report a line on stderr unless it was reported before; return whether it is new."""
        if line in self._reported or any(_is_about(line, each) for each in self._reported):
            return False
        self._reported.add(line)
        say(line)
        return True

    def fail(self, partition: str, message: str, *, is_damage: bool = False) -> None:
        """Count a partition without rows once, however many of its files could not be read.

        A partition that fails because of a malformed file is damaged, not unreadable.
        """
        below = f"{partition}{os.sep}"
        bad = [each for each in self.malformed if each.startswith(below)]
        if is_damage or (bad and message.startswith((*bad, f"{partition}: "))):
            self.damaged.add(partition)
            return
        self.unreadable = {each for each in self.unreadable if not each.startswith(below)}
        self.unreadable.add(partition)

    @property
    def failures(self) -> int:
        return len(self.unreadable)

    def ensure_whole(self, output: str | None) -> None:
        """Raise OutputError if the output would be incomplete."""
        if (self.failures or self.damaged) and output is not None:
            from kafka_log.disk.output import OutputError

            raise OutputError(f"{output}: not written, because it would be incomplete")

    @property
    def findings(self) -> list[Row]:
        return [*self.checkpoints, *self.left_out]

    @property
    def left_out(self) -> list[Row]:
        """Return the findings about damage that --skip-damaged skipped."""
        return [row for row in self.rows if row.get("kind") == "finding"]

    @property
    def exit_code(self) -> int:
        """Damage is a finding; a partition that should have been written and was not is worse."""
        if self.failures or self.error or (self.damaged and not self.is_dry):
            return options.COULD_NOT_RUN
        is_damaged = self.findings or self.malformed or self.damaged
        return options.FINDINGS if is_damaged else options.CLEAN


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

    def run(self, arguments: argparse.Namespace, found: Found) -> Done:
        """Process all selected partitions and put the results in place."""
        from kafka_format.errors import FormatError
        from kafka_log.errors import LogError
        from pipelines.engine.partition_tasks import FULL_OUTPUT, destination, is_full_disk

        mode = options.mode(arguments)
        if mode is options.Mode.IN_PLACE and arguments.engine == "spark":
            raise options.UsageError(
                "--in-place cannot run on Spark, which may run a task twice: use --engine local"
            )
        done = Done.of(found, is_dry=mode is options.Mode.DRY_RUN)
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
                rows_of = self._rows(arguments, tasks, done)
                done.ensure_whole(arguments.output)
                self._finish(place, found.log_dirs, tasks, rows_of)
        except (FormatError, LogError, OSError) as error:
            done.error = text_of(error)
            if is_full_disk(error) and arguments.output is not None:
                done.error = (
                    f"{arguments.output}: {os.strerror(errno.ENOSPC)} {FULL_OUTPUT};"
                    " nothing was written"
                )
                done.rows.clear()  # they describe files that do not exist
            if not done.report(done.error):
                say("nothing was written")
            return done
        done.was_written = mode is not options.Mode.DRY_RUN
        done.where = "" if arguments.output is None else f"; written to {arguments.output}"
        return done

    def _rows(
        self, arguments: argparse.Namespace, tasks: Sequence[PartitionTask], done: Done
    ) -> dict[str, Row]:
        """Add all rows to `done`; return the rows of partitions by path."""
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
        is_whole = all(task.path in rows_of for task in tasks)
        place.finish(log_dirs, changes, included, keeps_marker=is_whole)


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
    """Yield the rows of all tasks; report a task that fails on stderr, and count it.

    `scratch` is a directory where workers record their progress; by default that of the tasks.
    """
    from kafka_format.columnar.compilation import warn_if_slow
    from pipelines.engine.engine import EngineError, Failure, run
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
            repeatable=not any(task.in_place for task in tasks),
            progress_in=scratch or next((task.scratch for task in tasks[:1]), None),
        ):
            if isinstance(row, Failure):
                if getattr(arguments, "output", None) and row.message.endswith(FULL_OUTPUT):
                    # The disk is full for all tasks.
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                place = "" if row.message.startswith(row.task.path) else f"{row.task.path}: "
                done.fail(row.task.path, f"{place}{row.message}", is_damage=row.is_damage)
                if done.report(f"{place}{row.message}"):
                    say(*row.details.split("\n")[:-1])
            else:
                yield row
    except EngineError as error:
        raise options.CannotRunError(str(error)) from error


def _is_about(line: str, path: str) -> bool:
    """Whether a line is about a path, as it was given or absolute."""
    return line.startswith(f"{path}: ") or f"{os.path.abspath(path)}: " in line  # noqa: PTH100


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The partitions to work on, and what was found on the way to them."""

    tasks: list[PartitionTask]
    log_dirs: list[LogDir]
    """The log dirs of the tasks."""
    unreadable: frozenset[str]
    """Paths that could not be read or contain nothing; stderr says why."""
    malformed: frozenset[str]
    """Malformed paths; stderr says why."""
    checkpoints: tuple[Row, ...]
    """Findings about malformed checkpoints of these log dirs. Done reports them."""
    settings: Settings
    places: Places
    """For tables: the log dir of each row, if there are several."""
    metadata: ClusterMetadata | None = None
    inventory: Inventory | None = None
    """Everything that was found, selected or not."""

    def of_one(self, *offsets: object) -> None:
        """Raise UsageError if an offset was given and more than one partition is selected."""
        live = [task for task in self.tasks if not task.is_metadata_log]
        if len(live) > 1 and any(offset is not None for offset in offsets):
            raise options.UsageError(
                f"an offset applies to one partition, but {len(live)} are selected: choose one with"
                " --topic and --partition"
            )


def find(arguments: argparse.Namespace) -> Found:
    """Find the selected partitions; report on stderr what could not be read."""
    from kafka_format.errors import FormatError
    from kafka_log.config.settings import SettingsError, read_settings
    from kafka_log.inventory.inventory import Trouble
    from kafka_log.inventory.lost_segments import with_lost_segments
    from kafka_log.inventory.scan import scan
    from pipelines.engine.partition_tasks import partition_tasks

    for path in arguments.paths:
        if _is_file_of_kafkas(path):
            raise options.UsageError(
                f"{path}: found a file, expected a log dir or a partition directory"
            )
    inventory = scan(arguments.paths)
    warn_running(each.path for each in inventory.log_dirs)
    report_links(arguments, inventory)
    try:
        settings = read_settings(
            metadata=inventory.metadata,
            node_id=inventory.node_id,
            config=arguments.config,
            overrides=arguments.set,
        )
        includes = options.Selection.of(arguments).includes
        inventory = with_lost_segments(inventory, settings, includes=includes)
        tasks = partition_tasks(
            inventory, settings, now_ms=options.clock(arguments)(), includes=includes
        )
    except SettingsError as error:
        raise options.UsageError(str(error)) from error
    except (FormatError, OSError) as error:
        raise options.UsageError(f"--config: {text_of(error)}") from error
    used = {task.log_dir for task in tasks}
    log_dirs = [each for each in inventory.log_dirs if each.path in used]
    checkpoints = tuple(_bad_checkpoints(log_dirs))
    reported_later = {row["file"] for row in checkpoints}
    selection = options.Selection.of(arguments)
    problems = [
        each for each in problems_of(inventory, selection) if each.path not in reported_later
    ]
    for problem in problems:
        say(f"{problem.path}: {problem.message}")
    unreadable = {each.path for each in problems if each.trouble is Trouble.UNREADABLE}
    elsewhere = {
        problem.path
        for log_dir in inventory.log_dirs
        if log_dir.path not in used
        for problem in log_dir.problems
    }
    malformed = {each.path for each in problems if each.trouble is Trouble.MALFORMED} - elsewhere
    unreadable |= report_missing(arguments, inventory)
    return Found(
        tasks=tasks,
        log_dirs=log_dirs,
        unreadable=frozenset(unreadable),
        malformed=frozenset(malformed),
        checkpoints=checkpoints,
        settings=settings,
        places=Places.of(arguments.paths, {task.path: task.log_dir for task in tasks}, inventory),
        metadata=inventory.metadata,
        inventory=inventory,
    )


def skip_empty_partitions(arguments: argparse.Namespace, found: Found) -> None:
    """Drop the tasks of empty directories of which no checkpoint says that they had data.

    Kafka makes a new log in such a directory.
    """
    inventory = found.inventory
    partitions = () if inventory is None else inventory.partitions()
    empty = {
        each.path
        for _, each in partitions
        if not each.files and not any(each.checkpointed.values())
    }
    for task in found.tasks:
        if task.path in empty and not arguments.quiet:
            say(f"{task.path}: empty, a broker makes a new log here")
    found.tasks[:] = [task for task in found.tasks if task.path not in empty]


def problems_of(inventory: Inventory, selection: options.Selection) -> Iterator[Problem]:
    """Yield the problems of paths and log dirs, and of the partitions that are selected."""
    others = {
        each.path
        for _, each in inventory.partitions()
        if not selection.includes(each.topic, each.partition)
    }
    yield from (each for each in inventory.problems if each.path not in others)
    for log_dir in inventory.log_dirs:
        yield from log_dir.problems
        for partition in log_dir.partitions:
            if partition.path not in others:
                yield from partition.problems


def report_missing(
    arguments: argparse.Namespace, inventory: Inventory, *, log_dirs_count: bool = False
) -> set[str]:
    """Report and return the paths where there is nothing to work on.

    With `log_dirs_count`, a log dir without partitions is enough.
    """
    blamed = {problem.path for problem in inventory.problems}
    directories = _directories_of_kafkas(inventory)
    paths = [path for path in dict.fromkeys(arguments.paths) if path not in blamed]
    others = {
        path for path in paths if os.path.realpath(path) in directories or _is_file_of_kafkas(path)
    }
    empty = set(paths) - others
    for path in paths:
        if path in empty:
            say(f"{path}: no Kafka files found")
    selection = options.Selection.of(arguments)
    if not others or (log_dirs_count and selection.is_everything):
        return empty
    partitions = [each for _, each in inventory.partitions() if each.partition is not None]
    if not partitions:
        for path in sorted(others):
            say(f"{path}: no partition found")
    elif not any(selection.includes(each.topic, each.partition) for each in partitions):
        say(
            f"no partition matches {selection.text} ({counted(len(partitions), 'partition')} found)"
        )
    else:
        return empty
    return empty | others


def _is_file_of_kafkas(path: str) -> bool:
    from kafka_log.names import FileKind, parse_file_name

    is_known = parse_file_name(Path(path).name).kind is not FileKind.UNKNOWN
    return is_known and Path(path).is_file()


def _directories_of_kafkas(inventory: Inventory) -> set[str]:
    """Return the real paths of log dirs and partitions, and of all directories above them."""
    found = []
    for log_dir in inventory.log_dirs:
        partitions = [each.path for each in log_dir.partitions if each.is_kafkas]
        found += partitions
        if partitions or log_dir.files or log_dir.is_clean is not None:
            found.append(log_dir.path)
    real = {os.path.realpath(each) for each in found}
    return real | {str(parent) for each in real for parent in Path(each).parents}


def _bad_checkpoints(log_dirs: Iterable[LogDir]) -> Iterator[Row]:
    from kafka_log.checkpoints import malformed_checkpoints

    for path, error in malformed_checkpoints(log_dirs):
        yield {
            "kind": "finding",
            "topic": None,
            "partition": None,
            "path": path,
            "id": "CKP001",
            "file": error.location.path,
            "position": error.location.position,
            "size_in_bytes": None,
            "first_offset": None,
            "next_offset": None,
            "found": error.found,
            "expected": error.expected,
        }


def report_links(arguments: argparse.Namespace, inventory: Inventory) -> None:
    """Report each link that was followed, and its target."""
    if not arguments.quiet:
        for path, target in inventory.followed.items():
            say(f"{path} -> {target}: {FOLLOWED}")


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


def report_findings(rows: Iterable[Row]) -> None:
    """Report skipped damage, one line per finding."""
    for row in rows:
        last = (
            "the end of the file" if row["next_offset"] is None else f"offset {row['next_offset']}"
        )
        say(
            f"{row['file']}@{row['position']}: {row['id']}: found {row['found']}, expected"
            f" {row['expected']}; skipped {row['size_in_bytes']} bytes, from offset"
            f" {row['first_offset']} up to {last}"
        )


def text_of(error: Exception) -> str:
    from pipelines.engine.processes import os_error_text

    return os_error_text(error) if isinstance(error, OSError) else str(error)


def time_and_age(timestamp_ms: int, now_ms: int) -> str:
    """Return a time and its age: `2023-11-14T22:13:20.000Z, 2 d 4 h ago`."""
    time, age = str(iso_time(timestamp_ms)), now_ms - timestamp_ms
    return f"{time}, {human_duration(age)} ago" if timestamp_ms >= 0 and age >= 0 else time


def iso_time(timestamp_ms: int | None) -> str | None:
    """Return an ISO 8601 time; a time outside of the calendar stays a number."""
    if timestamp_ms is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
