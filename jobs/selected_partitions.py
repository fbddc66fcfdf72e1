"""Find the partitions that a verb works on, and report what could not be read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jobs import options
from jobs.outcome import error_text
from jobs.places import Places
from jobs.running import warn_running
from kafka_format.shown_text import say
from kafka_log.inventory.directory import FOLLOWED
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from jobs.outcome import Row
    from kafka_log.config.settings import Settings
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Inventory, LogDir, Problem
    from pipelines.engine.partition_tasks import PartitionTask


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedPartitions:
    """The partitions to work on, and what was found on the way to them."""

    tasks: list[PartitionTask]
    log_dirs: list[LogDir]
    """The log dirs of the tasks."""
    unreadable: frozenset[str]
    """Paths that could not be read or contain nothing; stderr says why."""
    malformed: frozenset[str]
    """Malformed paths; stderr says why."""
    checkpoints: tuple[Row, ...]
    """Findings about malformed checkpoints of these log dirs. VerbOutcome reports them."""
    settings: Settings
    places: Places
    """For tables: the log dir of each row, if there are several."""
    metadata: ClusterMetadata | None = None
    inventory: Inventory | None = None
    """Everything that was found, selected or not."""

    def require_one_partition(self, *offsets: object) -> None:
        """Raise UsageError if an offset was given and more than one partition is selected."""
        live = [task for task in self.tasks if not task.is_metadata_log]
        if len(live) > 1 and any(offset is not None for offset in offsets):
            raise options.UsageError(
                f"an offset applies to one partition, but {len(live)} are selected: choose one with"
                " --topic and --partition"
            )


def find(arguments: argparse.Namespace) -> SelectedPartitions:
    """Find the selected partitions; report on stderr what could not be read."""
    from kafka_log.inventory.inventory import Trouble
    from kafka_log.inventory.scan import scan

    for path in arguments.paths:
        if _is_kafka_file(path):
            raise options.UsageError(
                f"{path}: found a file, expected a log dir or a partition directory"
            )
    inventory = scan(arguments.paths)
    warn_running(each.path for each in inventory.log_dirs)
    report_links(arguments, inventory)
    inventory, settings, tasks = _tasks(arguments, inventory)
    used = {task.log_dir for task in tasks}
    log_dirs = [each for each in inventory.log_dirs if each.path in used]
    checkpoints = tuple(_checkpoint_findings(log_dirs))
    problems = _reported_problems(arguments, inventory, checkpoints)
    unreadable = {each.path for each in problems if each.trouble is Trouble.UNREADABLE}
    elsewhere = {
        problem.path
        for log_dir in inventory.log_dirs
        if log_dir.path not in used
        for problem in log_dir.problems
    }
    malformed = {each.path for each in problems if each.trouble is Trouble.MALFORMED} - elsewhere
    unreadable |= report_missing(arguments, inventory)
    return SelectedPartitions(
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


def _tasks(
    arguments: argparse.Namespace, inventory: Inventory
) -> tuple[Inventory, Settings, list[PartitionTask]]:
    """Return the inventory with lost segments, the settings, and the tasks."""
    from kafka_format.errors import FormatError
    from kafka_log.config.settings import SettingsError, read_settings
    from kafka_log.inventory.lost_segments import with_lost_segments
    from pipelines.engine.partition_tasks import partition_tasks

    try:
        settings = read_settings(
            metadata=inventory.metadata,
            node_id=inventory.node_id,
            config=arguments.config,
            overrides=arguments.set,
        )
        includes = options.Selection.of(arguments).includes
        inventory = with_lost_segments(inventory, settings, includes=includes)
        now_ms = options.clock(arguments)()
        tasks = partition_tasks(inventory, settings, now_ms=now_ms, includes=includes)
    except SettingsError as error:
        raise options.UsageError(str(error)) from error
    except (FormatError, OSError) as error:
        raise options.UsageError(f"--config: {error_text(error)}") from error
    return inventory, settings, tasks


def _reported_problems(
    arguments: argparse.Namespace, inventory: Inventory, checkpoints: Iterable[Row]
) -> list[Problem]:
    """Report and return the problems, without those of checkpoints, which are reported later."""
    reported_later = {row["file"] for row in checkpoints}
    selection = options.Selection.of(arguments)
    problems = [
        each for each in problems_of(inventory, selection) if each.path not in reported_later
    ]
    for problem in problems:
        say(f"{problem.path}: {problem.message}")
    return problems


def skip_empty_partitions(arguments: argparse.Namespace, found: SelectedPartitions) -> None:
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
    with_problem = {problem.path for problem in inventory.problems}
    directories = _kafka_directories(inventory)
    paths = [path for path in dict.fromkeys(arguments.paths) if path not in with_problem]
    others = {
        path for path in paths if os.path.realpath(path) in directories or _is_kafka_file(path)
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


def _is_kafka_file(path: str) -> bool:
    from kafka_log.names import FileKind, parse_file_name

    is_known = parse_file_name(Path(path).name).kind is not FileKind.UNKNOWN
    return is_known and Path(path).is_file()


def _kafka_directories(inventory: Inventory) -> set[str]:
    """Return the real paths of log dirs and partitions, and of all directories above them."""
    found = []
    for log_dir in inventory.log_dirs:
        partitions = [each.path for each in log_dir.partitions if each.is_kafkas]
        found += partitions
        if partitions or log_dir.files or log_dir.is_clean is not None:
            found.append(log_dir.path)
    real = {os.path.realpath(each) for each in found}
    return real | {str(parent) for each in real for parent in Path(each).parents}


def _checkpoint_findings(log_dirs: Iterable[LogDir]) -> Iterator[Row]:
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
