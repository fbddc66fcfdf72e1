"""Scan paths into an inventory.

A path may be a log dir, a directory that contains log dirs, a partition directory or a file. A log
dir may have any name, even `data-1`, so the contents of a directory decide before its name does.

    one of a log dir's own files                        a log dir
    one of a partition's files                          a partition
    directories with the names of partitions            a log dir (only these were kept of it)
    nothing, and the name of a partition                a partition
    anything else                                       search its directories

If the parent of a partition is a log dir, its checkpoints and clean shutdown marker are also read.

Disk errors are not raised: what cannot be listed or read becomes a Problem of its directory.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_log.inventory.directory import EntryKind, entry_of, is_named_as_file, list_directory
from kafka_log.inventory.inventory import Inventory, Problem, Trouble
from kafka_log.inventory.log_dir_scan import problem_of, read_log_dir, with_topic_ids
from kafka_log.inventory.strays import KINDS, Place
from kafka_log.names import DirectoryKind, parse_directory_name, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka_log.inventory.directory import DirectoryEntry, Listing
    from kafka_log.inventory.inventory import LogDir

_DEEPEST = 8
"""How many levels below a path are searched for log dirs."""


class _Kind(Enum):
    LOG_DIR = "log dir"
    PARTITION = "partition"
    PARENT = "parent"


@dataclass(slots=True)
class _Selection:
    """The parts of a log dir that the paths select."""

    everything: bool = False
    files: set[str] = field(default_factory=set)
    """The names of its own files."""
    partitions: dict[str, set[str] | None] = field(default_factory=dict)
    """Partition directories; None for a whole one, otherwise the names of its files."""


def scan(paths: Iterable[str | os.PathLike[str]]) -> Inventory:
    """Return everything below these paths, each log dir once."""
    scanner = _Scanner()
    for path in paths:
        scanner.look(os.fspath(path))
    return scanner.inventory()


class _Scanner:
    def __init__(self) -> None:
        self._listings: dict[str, Listing] = {}
        self._selected: defaultdict[str, _Selection] = defaultdict(_Selection)
        self._seen: set[tuple[int, int]] = set()
        self._problems: list[Problem] = []
        self._followed: dict[str, str] = {}

    def look(self, path: str) -> None:
        entry = entry_of(path)
        if entry.kind is EntryKind.DIRECTORY and not self._is_in_place_of_file(entry):
            self._look_into(path, entry.identity, depth=0)
        elif entry.kind is EntryKind.FILE:
            if is_named_as_file(entry.name):
                self._look_at_file(path, entry.name)
        else:
            self._problems.append(problem_of(entry))

    def _is_in_place_of_file(self, entry: DirectoryEntry) -> bool:
        """Whether a directory has the name of a Kafka file and contains none itself."""
        return is_named_as_file(entry.name) and self._kind(self._list(entry.path)) is _Kind.PARENT

    def _look_at_file(self, path: str, name: str) -> None:
        directory = _parent(path)
        if self._kind(self._list(directory)) is _Kind.LOG_DIR:
            self._selected[directory].files.add(name)
            return
        names = self._selected[_parent(directory)].partitions.setdefault(directory, set())
        if names is not None:  # otherwise the whole directory is selected
            names.add(name)

    def _look_into(self, path: str, identity: tuple[int, int], depth: int) -> None:
        if identity in self._seen:  # reached before, for example through a link
            return
        self._seen.add(identity)
        listing = self._list(path)
        if listing.problem is not None:
            self._unreadable(path, listing.problem)
            return
        kind = self._kind(listing)
        if kind is _Kind.LOG_DIR:
            self._selected[path].everything = True
        elif kind is _Kind.PARTITION:
            self._selected[_parent(path)].partitions[path] = None
        elif depth < _DEEPEST:
            for entry in listing.entries:
                if entry.kind is EntryKind.DIRECTORY:
                    self._look_into(entry.path, entry.identity, depth + 1)
                elif entry.problem and entry.kind is not EntryKind.OTHER:
                    self._problems.append(problem_of(entry))

    def _unreadable(self, path: str, message: str) -> None:
        self._problems.append(Problem(path, Trouble.UNREADABLE, message))

    def _list(self, path: str) -> Listing:
        if path not in self._listings:
            listing = self._listings[path] = list_directory(path)
            for entry in listing.entries:
                if entry.target and entry.kind in (EntryKind.FILE, EntryKind.DIRECTORY):
                    self._followed[entry.path] = entry.target
        return self._listings[path]

    def _kind(self, listing: Listing) -> _Kind:
        if _has(listing, Place.LOG_DIR):
            return _Kind.LOG_DIR
        if _has(listing, Place.PARTITION):
            return _Kind.PARTITION
        is_log_dir = any(self._is_partition(entry) for entry in listing.entries)
        return _Kind.LOG_DIR if is_log_dir else _Kind.PARENT

    def _is_partition(self, entry: DirectoryEntry) -> bool:
        if entry.kind is not EntryKind.DIRECTORY or not _is_named_as_partition(entry.path):
            return False
        return _has(self._list(entry.path), Place.PARTITION)

    def inventory(self) -> Inventory:
        plain = tuple(self._log_dirs())
        metadata = {
            log_dir.path: broker.metadata
            for broker in Inventory(log_dirs=plain).brokers()
            for log_dir in broker.log_dirs
        }
        log_dirs = tuple(with_topic_ids(each, metadata[each.path]) for each in plain)
        problems = (*self._problems, *_duplicates(log_dirs))
        return Inventory(log_dirs=log_dirs, problems=problems, followed=self._followed)

    def _log_dirs(self) -> Iterator[LogDir]:
        for path, selection in self._selected.items():
            listing = self._list(path)
            if selection.everything:
                yield read_log_dir(listing, self._list)
            else:
                yield read_log_dir(
                    listing, self._list, only=selection.partitions, only_files=selection.files
                )


def _has(listing: Listing, place: Place) -> bool:
    """Whether it has a name of a file that belongs in this place, even if it is not a file."""
    return any(parse_file_name(entry.name).kind in KINDS[place] for entry in listing.entries)


def _is_named_as_partition(path: str) -> bool:
    return parse_directory_name(Path(path).absolute().name).partition is not None


def _parent(path: str) -> str:
    """Return the parent; relative if the path is relative and has one."""
    text = path.rstrip(os.sep) or os.sep
    directory, name = os.path.split(text)
    if name in ("", os.curdir, os.pardir):
        return str(Path(path).resolve().parent)
    return directory or os.curdir


def _duplicates(log_dirs: tuple[LogDir, ...]) -> Iterator[Problem]:
    """Yield second current or future directories of a partition: no broker starts with both."""
    brokers: dict[tuple[object, ...], str] = {}
    for log_dir in log_dirs:
        meta = log_dir.meta
        broker = (log_dir.path,) if meta is None else (meta.cluster_id, meta.node_id)
        for partition in log_dir.partitions:
            if partition.state not in (DirectoryKind.PARTITION, DirectoryKind.FUTURE):
                continue
            key = (broker, partition.state, partition.topic, partition.partition)
            first = brokers.setdefault(key, partition.path)
            if first != partition.path:
                message = f"the same partition as {first}: no broker starts with both"
                yield Problem(partition.path, Trouble.MALFORMED, message)
