"""What names and directories say is wrong, from an inventory alone.

What stands there and cannot be read is told here; problems of files that can be opened are left to
those who read them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafka_format.shown_text import shortened
from kafka_log.checks.finding import About, Finding
from kafka_log.inventory.directory import EntryKind
from kafka_log.inventory.inventory import Trouble
from kafka_log.names import parse_directory_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Inventory, Partition, Problem


def directory_findings(inventory: Inventory) -> Iterator[Finding]:
    partitions = {partition.path: partition for _, partition in inventory.partitions()}
    for problem in inventory.problems:
        twice = partitions.get(problem.path)
        if twice is None:
            yield from _refused(problem, About(problem.path))
        elif problem.trouble is Trouble.UNREADABLE:
            yield from _refused(problem, _about(twice, twice.path))
        else:
            yield Finding.of("DIR003", _about(twice, twice.path), problem.message, "one of them")
    for log_dir in inventory.log_dirs:
        files = {file.path for file in log_dir.files}
        for problem in log_dir.problems:
            if problem.path in log_dir.unknown_directories:
                found = "a directory that is not a partition directory"
                yield Finding.of("DIR002", About(problem.path), found, "<topic>-<partition>")
            elif problem.path not in files:
                name = parse_directory_name(Path(problem.path).name)
                topic = None if name.partition is None else name.topic
                yield from _refused(problem, About(problem.path, topic, name.partition))
        if log_dir.metadata is not None:
            yield from _setting_findings(log_dir.metadata)
        for partition in log_dir.partitions:
            yield from _partition_findings(partition)


def _setting_findings(metadata: ClusterMetadata) -> Iterator[Finding]:
    for each in metadata.refused:
        about = About(metadata.path, each.topic)
        yield Finding.of("MET005", about, each.text, shortened(each.reason))


def _partition_findings(partition: Partition) -> Iterator[Finding]:
    files = {file.path for file in partition.files}
    for problem in partition.problems:
        if problem.path in files:
            continue
        about = _about(partition, problem.path)
        if refusal(problem) is None:
            yield Finding.of("DIR004", about, "a directory", "only files")
        else:
            yield from _refused(problem, about)


def _about(partition: Partition, path: str) -> About:
    return About(path, partition.topic, partition.partition)


def _refused(problem: Problem, about: About) -> Iterator[Finding]:
    if (said := refusal(problem)) is not None:
        rule, found, expected = said
        yield Finding.of(rule, about, found, expected)


def refusal(problem: Problem) -> tuple[str, str, str] | None:
    """The rule by which something was not read, what was found and expected; None if it was."""
    if problem.found:
        return "DIR005", problem.found, "a regular file"
    if problem.kind is EntryKind.LINK:
        return "DIR007", problem.message, "a file inside the given paths"
    if problem.trouble is Trouble.UNREADABLE:
        return "DIR001", problem.message, "something that can be read"
    return None
