"""What names and directories say is wrong, from an inventory alone.

Problems of files that can be opened are left to those who read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.shown_text import shortened
from kafka_log.checks.finding import About, Finding
from kafka_log.evidence.inventory import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.evidence.cluster_metadata import ClusterMetadata
    from kafka_log.evidence.inventory import Inventory, Partition, Problem


def directory_findings(inventory: Inventory) -> Iterator[Finding]:
    partitions = {partition.path: partition for _, partition in inventory.partitions()}
    for problem in inventory.problems:
        twice = partitions.get(problem.path)
        if problem.trouble is Trouble.UNREADABLE:
            yield _unreadable(problem, About(problem.path))
        elif twice is not None:
            yield Finding.of("DIR003", _about(twice, twice.path), problem.message, "one of them")
    for log_dir in inventory.log_dirs:
        files = {file.path for file in log_dir.files}
        for problem in log_dir.problems:
            if problem.path in log_dir.unknown_directories:
                found = "a directory that is no partition's"
                yield Finding.of("DIR002", About(problem.path), found, "<topic>-<partition>")
            elif problem.trouble is Trouble.UNREADABLE and problem.path not in files:
                yield _unreadable(problem, About(problem.path))
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
        if problem.trouble is Trouble.UNREADABLE:
            yield _unreadable(problem, about)
        else:
            yield Finding.of("DIR004", about, "a directory", "files alone")


def _about(partition: Partition, path: str) -> About:
    return About(path, partition.topic, partition.partition)


def _unreadable(problem: Problem, about: About) -> Finding:
    return Finding.of("DIR001", about, problem.message, "something that can be read")
