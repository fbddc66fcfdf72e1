"""Check what unfinished operations left: files and directories with a suffix, and unknown files.

What a start does with a file is found out by doing it on an overlay (loading.left_overs), and what
becomes of a directory is decided by loading.log_dir_recovery, as for `recover`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_log.checks.facts import NotChecked
from kafka_log.checks.finding import About, Finding
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError
from kafka_log.loading.journal import Action, Journal
from kafka_log.loading.left_overs import offset_from_file_name, settle_left_overs
from kafka_log.loading.log_dir_recovery import Assignments, Fate, fate_of
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    FileState,
    segment_file_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.checks.facts import AuditedBroker, PartitionFacts
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import Broker, InventoryFile, LogDir, Partition
    from kafka_log.loading.journal import JournalEntry

_REPLICAS = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
_WITH_OFFSETS = (
    *(FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
    FileKind.PRODUCER_SNAPSHOT,
)
_SUFFIXES = (FileState.DELETED.value, FileState.CLEANED.value, FileState.SWAP.value)
"""Kafka renames or deletes every file with such a suffix."""
_PARSED_ENDINGS = (*(kind.ending for kind in _WITH_OFFSETS), *_SUFFIXES[1:])
"""Kafka takes what is before the first dot of such a name as an offset."""
_MOST_SHOWN = 3


def check_leftovers(
    audited: AuditedBroker, _facts: Sequence[PartitionFacts], _files_of: Callable[[str], Files]
) -> Iterator[Finding | NotChecked]:
    """Yield leftovers, and what a start does with each."""
    for log_dir in audited.broker.log_dirs:
        yield from _of_log_dir(log_dir)
        for partition in log_dir.partitions:
            if partition.name.kind is not DirectoryKind.PARTITION:
                yield from _directory_findings(audited.broker, log_dir, partition)
            if partition.state in _REPLICAS:
                yield from _of_partition(partition)


# --- directories ----------------------------------------------------------------------------------


def _directory_findings(broker: Broker, log_dir: LogDir, partition: Partition) -> Iterator[Finding]:
    about = About(partition.path, partition.topic, partition.partition)
    found = f"{len(partition.files)} files, {partition.size_in_bytes} bytes"
    if partition.state is DirectoryKind.DELETE:
        yield Finding.of("DIR012", about, found, "only the directories of replicas")
    elif partition.state is DirectoryKind.STRAY:
        yield Finding.of("DIR014", about, found, "only the directories of replicas")
    elif partition.state is DirectoryKind.FUTURE:
        assignments = Assignments.from_metadata([log_dir], broker.metadata)
        fate, _ = fate_of(partition.name, partition.topic_id, assignments)
        if fate is not Fate.STRAY:  # otherwise it is reported as a replica that is not assigned
            has_current = _has_current(broker, partition)
            found += "" if has_current else ", and no current directory"
            restart = _fate_of_future(fate, has_current=has_current)
            yield Finding.of("DIR013", about, found, "a move that is finished", restart=restart)


def _has_current(broker: Broker, partition: Partition) -> bool:
    return any(
        each.state is DirectoryKind.PARTITION
        and (each.topic, each.partition) == (partition.topic, partition.partition)
        for log_dir in broker.log_dirs
        for each in log_dir.partitions
    )


def _fate_of_future(fate: Fate, *, has_current: bool) -> str:
    if fate is Fate.PROMOTED:
        rest = " The other copy is deleted." if has_current else ""
        why = "The metadata already assigns the replica to this log dir"
        return f"{why}: the directory loses its suffix and is served.{rest}"
    return "" if has_current else "The broker creates an empty replica if no other log dir has one."


# --- files ----------------------------------------------------------------------------------------


def _of_log_dir(log_dir: LogDir) -> Iterator[Finding]:
    for file in log_dir.strays:
        if os.path.dirname(file.path) != log_dir.path.rstrip(os.sep):  # noqa: PTH120
            continue
        if file.name.state is FileState.TEMPORARY:
            yield _temporary(file, About(file.path))
        else:
            yield Finding.of("DIR015", About(file.path), file.stray or "", "only Kafka's files")


def _temporary(file: InventoryFile, about: About) -> Finding:
    found, restart = (
        "an incomplete replacement of a file",
        "The broker ignores it, and replaces it.",
    )
    return Finding.of(
        "DIR010", about, f"{found}, {file.size_in_bytes} bytes", "none", restart=restart
    )


def _of_partition(partition: Partition) -> Iterator[Finding | NotChecked]:
    if not partition.strays:
        return
    yield from _named_badly(partition)
    yield from _left_over(partition)


def _named_badly(partition: Partition) -> Iterator[Finding]:
    """Yield files that Kafka does not use, and those that it takes for others."""
    for file in partition.strays:
        name, about = Path(file.path).name, _about(partition, file.path)
        if _stops_the_load(partition, name):
            found, restart = "no offset before the first dot", "The partition does not load."
            yield Finding.of("DIR016", about, found, "an offset", restart=restart)
        elif name.endswith(FileKind.LOG.value) and not file.name.is_canonical:
            proper = segment_file_name(offset_from_file_name(name) or 0, FileKind.LOG)
            restart = f"The broker opens {proper} instead, and creates it if it does not exist."
            yield Finding.of("DIR016", about, "another name", str(proper), restart=restart)
        elif _is_unused(partition, file):
            yield Finding.of("DIR015", about, file.stray or "", "only Kafka's files")


def _stops_the_load(partition: Partition, name: str) -> bool:
    """Whether Kafka looks for an offset in this name, and throws because there is none."""
    if partition.topic == CLUSTER_METADATA_TOPIC and name.endswith(
        FileKind.METADATA_SNAPSHOT.value
    ):
        return True  # a snapshot with an offset and an epoch is no stray
    return name.endswith(_PARSED_ENDINGS) and offset_from_file_name(name) is None


def _is_unused(partition: Partition, file: InventoryFile) -> bool:
    """Whether Kafka neither opens nor deletes it."""
    if file.name.state is not FileState.LIVE or Path(file.path).name.endswith(_SUFFIXES):
        return False
    return not any(  # the indexes of a segment without a `.log` are deleted
        file.path == each.path
        for segment in partition.leftovers
        if segment.state is FileState.LIVE
        for each in segment.files.values()
    )


def _left_over(partition: Partition) -> Iterator[Finding | NotChecked]:
    groups: dict[str, list[str]] = {"DIR009": [], "DIR010": []}
    for file in partition.strays:
        name = Path(file.path).name
        if file.name.state is FileState.TEMPORARY:
            yield _temporary(file, _about(partition, file.path))
        elif file.name.state is FileState.PARTIAL or name.endswith(FileState.CLEANED.value):
            groups["DIR010"].append(name)
        elif name.endswith(FileState.DELETED.value):
            groups["DIR009"].append(name)
    swaps = [name for file in partition.strays if (name := Path(file.path).name).endswith(".swap")]
    if swaps and not any(_stops_the_load(partition, each) for each in swaps):
        yield from _swaps(partition, swaps, groups["DIR010"])
    for rule, names in groups.items():
        if names:
            path = partition.path if len(names) > 1 else os.path.join(partition.path, names[0])  # noqa: PTH118
            yield Finding.of(rule, _about(partition, path), _shown(names), "none")


def _swaps(
    partition: Partition, swaps: list[str], unfinished: list[str]
) -> Iterator[Finding | NotChecked]:
    """Yield what becomes of `.swap` files; those that are deleted are added to `unfinished`."""
    about = _about(partition, os.path.join(partition.path, swaps[0]))  # noqa: PTH118
    expected = "segments that are in place"
    try:
        entries = _settled(partition)
    except OSError as error:
        yield NotChecked("unfinished swaps", error.strerror or str(error), partition.path)
        return
    except (LogError, ValueError) as error:  # a FormatError is a ValueError
        restart = f"The partition does not load: {error}"
        yield Finding.of("DIR011", about, _shown(swaps), expected, restart=restart)
        return
    renamed = [each.file for each in entries if each.action is Action.RENAME]
    unfinished += [each for each in swaps if each not in renamed]
    if not renamed:
        return
    replaced = [
        each.file
        for each in entries
        if each.action is Action.DELETE and each.why.startswith("replaced by")
    ]
    deletes = f"deletes {_shown(replaced)}, and " if replaced else ""
    restart = f"The broker {deletes}renames {_shown(renamed)}."
    about = _about(partition, os.path.join(partition.path, renamed[0]))  # noqa: PTH118
    yield Finding.of("DIR011", about, _shown(renamed), expected, restart=restart)


def _settled(partition: Partition) -> list[JournalEntry]:
    """Finish the leftovers of a directory in memory. Raises LogError, FormatError, OSError."""
    clock, journal = FixedClock(), Journal()
    settle_left_overs(OverlayFiles(partition.path, clock), LogConfig(), clock, journal)
    return journal.entries


def _about(partition: Partition, path: str) -> About:
    return About(path, partition.topic, partition.partition)


def _shown(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
