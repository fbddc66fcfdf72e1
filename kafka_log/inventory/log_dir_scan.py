"""Scan one log dir: read its own files and list its partition directories."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kafka_format.access import ensure_size
from kafka_format.checkpoint_file import read_offset_checkpoint
from kafka_format.clean_shutdown_file import CleanShutdownContent, read_clean_shutdown_file
from kafka_format.errors import FormatError, UnfitFileError
from kafka_format.file_kinds import SEGMENT_KINDS
from kafka_format.partition_metadata import read_partition_metadata
from kafka_format.properties_file import read_meta_properties
from kafka_log.disk.live_lock import is_held
from kafka_log.inventory.cluster_metadata import read_cluster_metadata
from kafka_log.inventory.directory import EntryKind, is_named_as_file, not_a_file
from kafka_log.inventory.file_limits import largest_size
from kafka_log.inventory.inventory import (
    CHECKPOINTS,
    Checkpoint,
    CheckpointState,
    InventoryFile,
    LogDir,
    Partition,
    Problem,
    Segment,
    Trouble,
    unread_names,
)
from kafka_log.inventory.refused_settings import without_refused_settings
from kafka_log.inventory.strays import Place, why_stray
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    DirectoryName,
    FileKind,
    FileState,
    parse_directory_name,
    parse_file_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.directory import DirectoryEntry, Listing

    ListDirectory = Callable[[str], Listing]

_Value = TypeVar("_Value")
_WITH_CHECKPOINTS = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
_BROKER_FILES = frozenset(
    {*CHECKPOINTS, FileKind.META_PROPERTIES, FileKind.CLEAN_SHUTDOWN, FileKind.LOCK}
)
"""Files that only a broker writes to a log dir."""


def read_log_dir(
    listing: Listing,
    list_directory: ListDirectory,
    *,
    only: Mapping[str, Collection[str] | None] | None = None,
    only_files: Collection[str] = (),
) -> LogDir:
    """Read a log dir, or `only` some of its directories (whole or in part) and files."""
    problems: list[Problem] = []
    if listing.problem is not None:
        problems.append(Problem(listing.path, Trouble.UNREADABLE, listing.problem))
    names = None if only is None else _known_names(listing, only_files)
    files = _files(listing, Place.LOG_DIR, problems, names)
    kinds = {file.name.kind: file for file in files if file.stray is None}
    unread = {name.kind: each for each, name in unread_names(problems).items()}
    checkpoints = {
        kind: _checkpoint(kind, kinds.get(kind), unread.get(kind), problems) for kind in CHECKPOINTS
    }
    clean_shutdown = _read(kinds, FileKind.CLEAN_SHUTDOWN, read_clean_shutdown_file, problems)
    is_brokers = not (kinds.keys() | unread.keys()).isdisjoint(_BROKER_FILES)
    metadata = _metadata(listing, list_directory)
    if metadata is not None:
        problems += [Problem(metadata.path, Trouble.MALFORMED, each) for each in metadata.problems]
        problems += [Problem(path, Trouble.UNREADABLE, why) for path, why in metadata.unreadable]
        problems += [
            Problem(metadata.path, Trouble.MALFORMED, f"{each.text}: Kafka refuses this setting")
            for each in metadata.refused
        ]
    partitions, unknown, more = _directories(listing, list_directory, only, problems)
    own = [*files, *more]
    if only is not None:
        own = [file for file in files if Path(file.path).name in only_files]
    epoch = clean_shutdown.broker_epoch if clean_shutdown is not None else None
    if clean_shutdown is not None and clean_shutdown.content is CleanShutdownContent.UNREADABLE:
        path = kinds[FileKind.CLEAN_SHUTDOWN].path
        problems.append(
            Problem(path, Trouble.MALFORMED, "found no broker epoch; a broker accepts this")
        )
    return LogDir(
        path=listing.path,
        meta=_read(kinds, FileKind.META_PROPERTIES, read_meta_properties, problems),
        is_clean=FileKind.CLEAN_SHUTDOWN in kinds if is_brokers else None,
        broker_epoch=epoch,
        has_lock=FileKind.LOCK in kinds,
        is_running=FileKind.LOCK in kinds and is_held(listing.path),
        checkpoints=checkpoints,
        partitions=tuple(_with_checkpoints(each, checkpoints) for each in partitions),
        files=tuple(own),
        unknown_directories=tuple(unknown),
        is_whole=only is None,
        metadata=metadata,
        problems=tuple(problems),
    )


def _known_names(listing: Listing, selected: Collection[str]) -> list[str]:
    """Return the files to read if only parts of a log dir are selected: those, and its own."""
    return [
        entry.name
        for entry in listing.entries
        if entry.name in selected or is_named_as_file(entry.name)
    ]


def _files(
    listing: Listing, place: Place, problems: list[Problem], names: Iterable[str] | None = None
) -> list[InventoryFile]:
    """Return the regular files; anything else, except directories, is a problem."""
    files = []
    selected = None if names is None else frozenset(names)
    for entry in listing.entries:
        if selected is not None and entry.name not in selected:
            continue
        if entry.kind is EntryKind.FILE:
            files.append(_file(entry, place))
            problems += _too_large(files[-1])
        elif entry.kind is not EntryKind.DIRECTORY or is_named_as_file(entry.name):
            problems.append(problem_of(entry))
    return sorted(files, key=_order)


def problem_of(entry: DirectoryEntry) -> Problem:
    """Return the problem of an entry that should be a file and cannot be opened as one."""
    if entry.kind is EntryKind.DIRECTORY:
        entry = entry._replace(problem=not_a_file("a directory"), found="a directory")
    trouble = Trouble.MALFORMED if entry.found else Trouble.UNREADABLE
    return Problem(entry.path, trouble, entry.problem, entry.kind, entry.found)


def _too_large(file: InventoryFile) -> list[Problem]:
    if file.name.kind is FileKind.UNKNOWN:
        return []
    try:
        ensure_size(file.path, file.size_in_bytes, limit=largest_size(file.name.kind))
    except UnfitFileError as error:
        return [Problem(file.path, Trouble.MALFORMED, error.problem)]
    return []


_ORDER = {kind: number for number, kind in enumerate(FileKind)}
_STATES = {state: number for number, state in enumerate(FileState)}


def _order(file: InventoryFile) -> tuple[bool, int, int, int, str]:
    """Sort a directory's own files first, then by segment."""
    name = file.name
    if file.offset is None:
        return (False, 0, 0, 0, file.path)
    return (True, file.offset, _STATES[name.state], _ORDER[name.kind], file.path)


def _file(entry: DirectoryEntry, place: Place) -> InventoryFile:
    name = parse_file_name(entry.name)
    return InventoryFile(
        path=entry.path,
        name=name,
        offset=name.offset,
        size_in_bytes=entry.size,
        modified_ms=entry.modified_ms,
        stray=why_stray(name, place),
    )


def _read(
    kinds: Mapping[FileKind, InventoryFile],
    kind: FileKind,
    read: Callable[[str], _Value],
    problems: list[Problem],
) -> _Value | None:
    """Read a small file; return None if it is missing or cannot be read."""
    file = kinds.get(kind)
    if file is None:
        return None
    try:
        return read(file.path)
    except UnfitFileError as error:
        if all(each.path != file.path for each in problems):  # its size may be reported already
            problems.append(Problem(file.path, Trouble.MALFORMED, error.problem))
    except FormatError as error:
        problems.append(Problem(file.path, Trouble.MALFORMED, _description(error)))
    except OSError as error:
        problems.append(Problem(file.path, Trouble.UNREADABLE, error.strerror or str(error)))
    return None


def _description(error: FormatError) -> str:
    return f"at {error.location.position}: found {error.found}, expected {error.expected}"


def _checkpoint(
    kind: FileKind, file: InventoryFile | None, unread: Problem | None, problems: list[Problem]
) -> Checkpoint:
    if file is None and unread is not None:
        return Checkpoint(kind=kind, state=_state_of_unread(unread))
    if file is None:
        return Checkpoint(kind=kind, state=CheckpointState.MISSING)
    read = _read({kind: file}, kind, read_offset_checkpoint, problems)
    if read is None:
        troubles = [each.trouble for each in problems if each.path == file.path]
        is_malformed = Trouble.MALFORMED in troubles
        state = CheckpointState.MALFORMED if is_malformed else CheckpointState.UNREADABLE
        return Checkpoint(kind=kind, state=state)
    offsets = read.offsets()
    state = CheckpointState.WITH_ROWS if offsets else CheckpointState.EMPTY
    return Checkpoint(kind=kind, state=state, offsets=offsets)


def _state_of_unread(problem: Problem) -> CheckpointState:
    if problem.kind is EntryKind.LINK:
        return CheckpointState.NOT_FOLLOWED
    is_malformed = problem.trouble is Trouble.MALFORMED
    return CheckpointState.MALFORMED if is_malformed else CheckpointState.UNREADABLE


def _metadata(listing: Listing, list_directory: ListDirectory) -> ClusterMetadata | None:
    for entry in listing.entries:
        name = parse_directory_name(entry.name)
        is_log = name.topic == CLUSTER_METADATA_TOPIC and name.kind is DirectoryKind.PARTITION
        if is_log and entry.kind is EntryKind.DIRECTORY:
            below = list_directory(entry.path)
            names = [each.name for each in below.entries]
            return without_refused_settings(read_cluster_metadata(entry.path, names))
    return None


def _directories(
    listing: Listing,
    list_directory: ListDirectory,
    only: Mapping[str, Collection[str] | None] | None,
    problems: list[Problem],
) -> tuple[list[Partition], list[str], list[InventoryFile]]:
    """Return the partitions in order, other directories, and the files in those."""
    if only is not None:
        targets = {entry.path: entry.target for entry in listing.entries}
        selected = [
            _partition(list_directory(path), names, targets.get(path, ""))
            for path, names in only.items()
        ]
        return sorted(selected, key=_partition_order), [], []
    partitions: list[Partition] = []
    unknown: list[str] = []
    files: list[InventoryFile] = []
    for entry in listing.entries:
        if entry.kind is not EntryKind.DIRECTORY or is_named_as_file(entry.name):
            continue
        name = parse_directory_name(entry.name)
        if name.partition is not None:
            partitions.append(_partition(list_directory(entry.path), None, entry.target))
            continue
        is_cache = name.kind is DirectoryKind.REMOTE_LOG_INDEX_CACHE
        if not is_cache:
            unknown.append(entry.path)
            message = "not a partition directory: no broker starts with it"
            problems.append(Problem(entry.path, Trouble.MALFORMED, message))
        below = list_directory(entry.path)
        if below.problem is not None:
            problems.append(Problem(entry.path, Trouble.UNREADABLE, below.problem))
        place = Place.REMOTE_CACHE if is_cache else Place.LOG_DIR
        files += _files(below, place, problems)
    return sorted(partitions, key=_partition_order), unknown, files


def _partition_order(partition: Partition) -> tuple[str, int, str]:
    return (partition.topic, partition.partition or 0, partition.path)


def _partition(listing: Listing, only: Collection[str] | None, target: str) -> Partition:
    problems: list[Problem] = []
    if listing.problem is not None:
        problems.append(Problem(listing.path, Trouble.UNREADABLE, listing.problem))
    names = None if only is None else _segment_names(listing, only)
    files = _files(listing, Place.PARTITION, problems, names)
    for entry in listing.entries:
        if entry.kind is EntryKind.DIRECTORY and only is None and not is_named_as_file(entry.name):
            message = "a directory inside a partition directory: Kafka creates none"
            problems.append(Problem(entry.path, Trouble.MALFORMED, message))
    kinds = {file.name.kind: file for file in files if file.stray is None}
    metadata = _read(kinds, FileKind.PARTITION_METADATA, read_partition_metadata, problems)
    files = _with_orphans(files)
    segments = _segments(files)
    return Partition(
        path=listing.path,
        name=_directory_name(listing.path),
        segments=tuple(each for each in segments if each.is_live),
        leftovers=tuple(each for each in segments if not each.is_live),
        files=tuple(files),
        target=target,
        topic_id=None if metadata is None else metadata.topic_id,
        problems=tuple(problems),
    )


def _directory_name(path: str) -> DirectoryName:
    return parse_directory_name(Path(os.path.abspath(path)).name)  # noqa: PTH100  # keeps links


def _segment_names(listing: Listing, only: Collection[str]) -> list[str]:
    """Return the given files and all other files of their segments."""
    offsets = {parse_file_name(name).offset for name in only} - {None}
    return [
        entry.name
        for entry in listing.entries
        if entry.name in only or parse_file_name(entry.name).offset in offsets
    ]


def _with_orphans(files: list[InventoryFile]) -> list[InventoryFile]:
    """Mark live indexes without a live log as strays."""
    logs = {file.offset for file in files if file.name.kind is FileKind.LOG and not file.stray}
    return [
        replace(file, stray="index without a .log file, removed at the next start")
        if file.name.kind in SEGMENT_KINDS and not file.stray and file.offset not in logs
        else file
        for file in files
    ]


def _segments(files: Iterable[InventoryFile]) -> list[Segment]:
    grouped: dict[tuple[int, FileState], dict[FileKind, InventoryFile]] = {}
    snapshots: dict[int, InventoryFile] = {}
    for file in files:
        name, offset = file.name, file.offset
        if offset is None or not name.is_canonical:
            continue
        if name.kind in SEGMENT_KINDS:
            grouped.setdefault((offset, name.state), {})[name.kind] = file
        elif name.kind is FileKind.PRODUCER_SNAPSHOT and name.state is FileState.LIVE:
            snapshots[offset] = file
    return [
        Segment(
            base_offset=offset,
            state=state,
            files=group,
            producer_snapshot=snapshots.get(offset) if state is FileState.LIVE else None,
        )
        for (offset, state), group in sorted(
            grouped.items(), key=lambda item: (item[0][0], _STATES[item[0][1]])
        )
    ]


def _with_checkpoints(
    partition: Partition, checkpoints: Mapping[FileKind, Checkpoint]
) -> Partition:
    """Add the checkpoint rows of a current or future partition."""
    if partition.state not in _WITH_CHECKPOINTS or partition.partition is None:
        return partition
    key = (partition.topic, partition.partition)
    rows = {
        kind: checkpoint.offsets[key]
        for kind, checkpoint in checkpoints.items()
        if key in checkpoint.offsets
    }
    return replace(partition, checkpointed=rows)


def with_topic_ids(log_dir: LogDir, metadata: ClusterMetadata | None) -> LogDir:
    """Add the topic ids of the KRaft metadata, which may be in another log dir of the broker."""
    if metadata is None:
        return log_dir
    partitions = tuple(
        replace(each, metadata_topic_id=metadata.topic_ids.get(each.topic))
        for each in log_dir.partitions
    )
    return replace(log_dir, partitions=partitions)
