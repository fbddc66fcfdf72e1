"""Findings from an inventory only: names, directories, and what could not be read.

The readers of a file report the problems of files that can be opened.
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
    """Yield the findings of an inventory."""
    partitions = {partition.path: partition for _, partition in inventory.partitions()}
    for problem in inventory.problems:
        partition = partitions.get(problem.path)
        if partition is None:
            yield from _refusal_findings(problem, About(problem.path))
        elif problem.trouble is Trouble.UNREADABLE:
            yield from _refusal_findings(problem, _about(partition, partition.path))
        else:
            about = _about(partition, partition.path)
            yield Finding.of("DIR003", about, problem.message, "one of them")
    for log_dir in inventory.log_dirs:
        files = {file.path for file in log_dir.files}
        for problem in log_dir.problems:
            if problem.path in log_dir.unknown_directories:
                found = "a directory that is not a partition directory"
                yield Finding.of("DIR002", About(problem.path), found, "<topic>-<partition>")
            elif problem.path not in files:
                name = parse_directory_name(Path(problem.path).name)
                topic = None if name.partition is None else name.topic
                yield from _refusal_findings(problem, About(problem.path, topic, name.partition))
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
            yield from _refusal_findings(problem, about)


def _about(partition: Partition, path: str) -> About:
    return About(path, partition.topic, partition.partition)


def _refusal_findings(problem: Problem, about: About) -> Iterator[Finding]:
    if (reason := refusal(problem)) is not None:
        rule, found, expected = reason
        yield Finding.of(rule, about, found, expected)


def refusal(problem: Problem) -> tuple[str, str, str] | None:
    """Return the rule by which something was not read, with found and expected; None if it was."""
    if problem.found:
        return "DIR005", problem.found, "a regular file"
    if problem.kind is EntryKind.LINK:
        return "DIR007", problem.message, "a file inside the given paths"
    if problem.trouble is Trouble.UNREADABLE:
        return "DIR001", problem.message, "something that can be read"
    return None
