"""Check what unfinished operations left: files and directories with a suffix, and unknown files.

What a start does with a file is found out by doing it on an overlay (loading.left_overs), and what
becomes of a directory is decided by loading.log_dir_recovery, as for `recover`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_format.shown_text import name_text
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
    parse_file_name,
    segment_file_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.checks.facts import AuditedBroker, PartitionFacts
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import InventoryFile, LogDir, Partition
    from kafka_log.loading.journal import JournalEntry

_REPLICAS = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
_NOT_SERVED = {DirectoryKind.DELETE: "DIR012", DirectoryKind.STRAY: "DIR014"}
_WITH_OFFSETS = (
    *(FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX),
    FileKind.PRODUCER_SNAPSHOT,
)
_SUFFIXES = (FileState.DELETED.value, FileState.CLEANED.value, FileState.SWAP.value)
"""Kafka renames or deletes every file with such a suffix."""
_PARSED_ENDINGS = (*(kind.ending for kind in _WITH_OFFSETS), *_SUFFIXES[1:])
"""Kafka takes what is before the first dot of such a name as an offset."""
_SNAPSHOT_ENDINGS = tuple(
    FileKind.METADATA_SNAPSHOT.value + state.value
    for state in (FileState.LIVE, FileState.DELETED, FileState.PARTIAL)
)
"""Kafka looks at these only in the metadata log."""
_MOST_SHOWN = 3


def check_leftovers(
    audited: AuditedBroker, _facts: Sequence[PartitionFacts], _files_of: Callable[[str], Files]
) -> Iterator[Finding | NotChecked]:
    """Yield leftovers, and what a start does with each."""
    broker = audited.broker
    current = {
        (each.topic, each.partition)
        for log_dir in broker.log_dirs
        for each in log_dir.partitions
        if each.state is DirectoryKind.PARTITION
    }
    metadata = broker.metadata
    if metadata is not None and metadata.why_incomplete:
        metadata = None
    for log_dir in broker.log_dirs:
        yield from _of_log_dir(log_dir)
        assignments = Assignments.from_metadata([log_dir], metadata)
        for partition in log_dir.partitions:
            if partition.state is DirectoryKind.FUTURE:
                has_current = (partition.topic, partition.partition) in current
                yield from _of_future(partition, assignments, has_current=has_current)
            elif partition.state in _NOT_SERVED:
                rule, about = _NOT_SERVED[partition.state], _about(partition, partition.path)
                yield Finding.of(rule, about, _content(partition), "directories of replicas")
            if partition.state in _REPLICAS:
                yield from _of_partition(partition)


# --- directories ----------------------------------------------------------------------------------


def _of_future(
    partition: Partition, assignments: Assignments | None, *, has_current: bool
) -> Iterator[Finding]:
    fate, _ = fate_of(partition.name, partition.topic_id, assignments)
    if fate is Fate.STRAY:  # it is reported as a replica that is not assigned
        return
    found = _content(partition) + ("" if has_current else ", and no current directory")
    restart = _fate_of_future(fate, has_current=has_current)
    about = _about(partition, partition.path)
    yield Finding.of("DIR013", about, found, "a move that is finished", restart=restart)


def _content(partition: Partition) -> str:
    return f"{len(partition.files)} files, {partition.size_in_bytes} bytes"


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
            restart = "The broker deletes it: it is the index of no segment."
            restart = restart if _is_index_of_nothing(partition, file) else ""
            found, expected = file.stray or "", "only Kafka's files"
            yield Finding.of("DIR015", about, found, expected, restart=restart)


def _is_index_of_nothing(partition: Partition, file: InventoryFile) -> bool:
    bases = {segment.base_offset for segment in partition.segments}
    return file.name.kind in _WITH_OFFSETS[1:4] and file.offset not in bases


def _stops_the_load(partition: Partition, name: str) -> bool:
    """Whether Kafka looks for an offset in this name, and throws because there is none."""
    is_metadata_log = partition.topic == CLUSTER_METADATA_TOPIC
    if is_metadata_log and name.endswith(_SNAPSHOT_ENDINGS):
        return parse_file_name(name).kind is not FileKind.METADATA_SNAPSHOT
    return name.endswith(_PARSED_ENDINGS) and offset_from_file_name(name) is None


def _is_unused(partition: Partition, file: InventoryFile) -> bool:
    """Whether Kafka neither opens nor deletes it."""
    name = Path(file.path).name
    if name.endswith(_SNAPSHOT_ENDINGS):
        is_opened = file.name.kind is FileKind.METADATA_SNAPSHOT and file.name.is_canonical
        return partition.topic != CLUSTER_METADATA_TOPIC or not is_opened
    if file.name.state is not FileState.LIVE or name.endswith(_SUFFIXES):
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
        if _stops_the_load(partition, name) or _is_unused(partition, file):
            continue
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
    return ", ".join(map(name_text, names[:_MOST_SHOWN])) + (
        f" and {rest} more" if rest > 0 else ""
    )
