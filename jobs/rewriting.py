"""What `retain`, `recover`, `compact` share: partitions to tasks to rows, and where results go."""

from __future__ import annotations

import errno
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
from jobs.places import Places
from jobs.running import warn_running
from jobs.table import cell
from pipelines.report.text import counted as counted  # noqa: PLC0414  # for verbs
from pipelines.report.text import human_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafka_log.evidence.cluster_metadata import ClusterMetadata
    from kafka_log.evidence.inventory import Inventory, LogDir, Problem
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
    malformed: frozenset[str] = frozenset()
    """Paths that are not as they should be; stderr has a line of each."""
    damaged: set[str] = field(default_factory=set)
    """Partitions without rows, because of a file that is malformed."""
    is_dry: bool = True
    """Whether nothing was to be written."""
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
            malformed=found.malformed,
            checkpoints=list(found.checkpoints),
            is_dry=is_dry,
            _told={*found.unreadable, *found.malformed},
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

    def fail(self, partition: str, message: str, *, is_damage: bool = False) -> None:
        """Count a partition without rows, once, whatever of it could not be read.

        One that has none because of a malformed file is damaged, not unreadable.
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
        """Refuse to end with an output in which something is missing."""
        if (self.failures or self.damaged) and output is not None:
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
        """Damage is a finding; that a partition was to be written, and was not, is more."""
        if self.failures or self.error or (self.damaged and not self.is_dry):
            return options.COULD_NOT_RUN
        is_damaged = self.findings or self.malformed or self.damaged
        return options.FINDINGS if is_damaged else options.CLEAN


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
        from pipelines.partition_tasks import FULL_OUTPUT, destination, is_full_disk

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
                done.error = (
                    f"{arguments.output}: {os.strerror(errno.ENOSPC)} {FULL_OUTPUT};"
                    " nothing was written"
                )
                done.rows.clear()  # what they say is not so
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
    """The rows of all tasks; a task that fails is told on stderr and counted.

    `scratch` is a directory that workers see, for how far they are; by default that of the tasks.
    """
    from kafka_format.columnar.compilation import warn_if_slow
    from pipelines.engine import EngineError, Failure, run
    from pipelines.partition_tasks import FULL_OUTPUT
    from pipelines.progress import progress_bar

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
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # so it is for all
                place = "" if row.message.startswith(row.task.path) else f"{row.task.path}: "
                done.fail(row.task.path, f"{place}{row.message}", is_damage=row.is_damage)
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
    """What could not be looked at, or has nothing to look at; stderr says why."""
    malformed: frozenset[str]
    """What is not as it should be; stderr says why."""
    checkpoints: tuple[Row, ...]
    """Findings: malformed checkpoints of these log dirs. Not told yet: see Done."""
    settings: Settings
    places: Places
    """For tables: the log dir of each row, where there are several."""
    metadata: ClusterMetadata | None = None
    inventory: Inventory | None = None
    """Everything that was found, whether it is meant or not."""

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
    from kafka_log.evidence.lost_segments import with_lost_segments
    from kafka_log.evidence.scan import scan
    from kafka_log.settings import SettingsError, read_settings
    from pipelines.partition_tasks import partition_tasks

    for path in arguments.paths:
        if Path(path).is_file():
            raise options.UsageError(f"{path}: found a file, expected a log dir or a partition")
    inventory = scan(arguments.paths)
    warn_running(each.path for each in inventory.log_dirs)
    tell_links(arguments, inventory)
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
        tell(f"{problem.path}: {problem.message}")
    unreadable = {each.path for each in problems if each.trouble is Trouble.UNREADABLE}
    elsewhere = {
        problem.path
        for log_dir in inventory.log_dirs
        if log_dir.path not in used
        for problem in log_dir.problems
    }
    malformed = {each.path for each in problems if each.trouble is Trouble.MALFORMED} - elsewhere
    unreadable |= tell_missing(arguments, inventory)
    return Found(
        tasks=tasks,
        log_dirs=log_dirs,
        unreadable=frozenset(unreadable),
        malformed=frozenset(malformed),
        checkpoints=checkpoints,
        settings=settings,
        places=Places.of(arguments.paths, {task.path: task.log_dir for task in tasks}),
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
            tell(f"{task.path}: empty, a broker makes a new log here")
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


def tell_missing(
    arguments: argparse.Namespace, inventory: Inventory, *, log_dirs_count: bool = False
) -> set[str]:
    """Say which paths have nothing to look at, and why; return them.

    With `log_dirs_count` a log dir without partitions is something to look at.
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
            tell(f"{path}: nothing of Kafka's here")
    selection = options.Selection.of(arguments)
    if not others or (log_dirs_count and selection.is_everything):
        return empty
    partitions = [each for _, each in inventory.partitions() if each.partition is not None]
    if not partitions:
        for path in sorted(others):
            tell(f"{path}: no partition here")
    elif not any(selection.includes(each.topic, each.partition) for each in partitions):
        tell(
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
    from kafka_log.names import FileKind

    found = []
    for log_dir in inventory.log_dirs:
        partitions = [
            each.path
            for each in log_dir.partitions
            if each.partition is not None
            or any(file.name.kind is not FileKind.UNKNOWN for file in each.files)
        ]
        found += partitions
        if partitions or log_dir.files or log_dir.is_clean is not None:
            found.append(log_dir.path)
    real = {os.path.realpath(each) for each in found}
    return real | {str(parent) for each in real for parent in Path(each).parents}


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


def tell_links(arguments: argparse.Namespace, inventory: Inventory) -> None:
    """With --follow-links, say where it went."""
    if arguments.follow_links and not arguments.quiet:
        for path, target in inventory.followed.items():
            tell(f"{path} -> {target}: a link, followed")


def tell(text: str) -> None:
    """A line to stderr. A name from a disk may hold anything: it cannot play with the terminal."""
    sys.stderr.write(f"{cell(text)}\n")


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """End at SIGTERM and SIGHUP as at Ctrl-C: what was begun is removed."""

    def interrupt(number: int, _: object) -> None:
        raise options.HungUpError if number == signal.SIGHUP else KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread alone
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


def time_and_age(timestamp_ms: int, now_ms: int) -> str:
    """For people: `2023-11-14T22:13:20.000Z, 2 d 4 h ago`."""
    time, age = str(iso_time(timestamp_ms)), now_ms - timestamp_ms
    return f"{time}, {human_duration(age)} ago" if timestamp_ms >= 0 and age >= 0 else time


def iso_time(timestamp_ms: int | None) -> str | None:
    """For people; times that no calendar has stay numbers."""
    if timestamp_ms is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
