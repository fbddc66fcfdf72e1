"""Checks that a query matches something: its paths, topics and partitions must exist.

A mistyped name would give an empty table, which looks like an answer. So every path must have Kafka
files, every named topic must exist, and globs and numbers must match something; otherwise the error
lists what is there. What a filter of the query leaves out is no error.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kafka_format.shown_text import escaped, name_text
from kafka_log.names import DirectoryKind, FileKind
from pipelines.source.options import OptionsError
from pipelines.source.schema import nearest
from pipelines.source.storage import Storage, StorageError, is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka_log.inventory.inventory import Inventory, InventoryFile, Partition
    from pipelines.source.options import Options

_MOST_NAMES = 10
_GLOB = frozenset("*?[")
_LOG_TABLES = frozenset({"records", "batches"})
"""Tables of live partitions, and of others only if their path was given."""
_CONTENT_TABLES = frozenset(
    {
        *("consumer_offsets", "group_metadata", "transaction_state", "share_group_state"),
        "cluster_metadata",
    }
)
"""Tables whose topics are named inside records: those topics need not be here."""


class SingleScanStorage(Storage):
    """Scans once, for the time of one plan: what is there does not change in between."""

    @cached_property
    def _scanned(self) -> Inventory:
        return super().scan()

    def scan(self) -> Inventory:
        return self._scanned


def ensure_matches(options: Options, storage: Storage) -> None:
    """Raise StorageError for a path, OptionsError for a topic or partition that is not there."""
    inventory = storage.scan()
    given = storage.given_paths()
    _ensure_paths(given, inventory)
    if options.table in _LOG_TABLES and not any(_partitions(inventory)):
        raise StorageError(f"{_listed(sorted(given))}: found no partition, expected one or more")
    if options.is_narrowed and options.table not in _CONTENT_TABLES:
        _ensure_selected(options, inventory, given)


def _partitions(inventory: Inventory) -> Iterator[Partition]:
    return (partition for _, partition in inventory.partitions())


# ------------------------------------------------------------------------------------- paths


def _ensure_paths(given: Iterable[str], inventory: Inventory) -> None:
    known = {each.path.rstrip("/") for each in inventory.log_dirs}
    known |= {each.path.rstrip("/") for each in _partitions(inventory)}
    missing = [path for path in given if path not in known]
    if not missing:
        return
    known |= {file.path for file in _kafka_files(inventory)}
    # What could not be listed is reported elsewhere: it may have Kafka files.
    known |= {problem.path for problem in inventory.all_problems()}
    known = set(map(_real, known))
    for path in sorted(missing):
        real = _real(path)
        if real not in known and not any(each.startswith(f"{real}/") for each in known):
            raise StorageError(f"{shown_name(path)}: no Kafka files found")


def _real(path: str) -> str:
    """Return one text for all ways to write a path."""
    return os.path.realpath(path) if is_local(path) else path


def _kafka_files(inventory: Inventory) -> Iterator[InventoryFile]:
    for log_dir in inventory.log_dirs:
        for files in (log_dir.files, *(each.files for each in log_dir.partitions)):
            yield from (each for each in files if each.name.kind is not FileKind.UNKNOWN)


# ------------------------------------------------------------------------ topics, partitions


def _ensure_selected(options: Options, inventory: Inventory, given: frozenset[str]) -> None:
    here = _known_partitions(options, inventory, given)
    topics = sorted({topic for topic, _ in here})
    for option, name in _names(options):
        if name not in topics:
            also = _not_live(name, inventory) if options.table in _LOG_TABLES else ""
            hint = nearest(name, tuple(topics))
            raise OptionsError(
                f"{option} {shown_name(name)}: no such topic{hint}{also}, expected one of"
                f" the {len(topics)} here: {_listed(topics)}"
            )
    if any(options.selects(topic, partition) for topic, partition in here):
        if options.assigned is not None and (missing := sorted(options.assigned - here)):
            raise OptionsError(
                f"assign {_pairs(missing)}: no such partition{_existing_text(missing, here)}"
            )
        return
    named = {topic for topic in topics if _selects_topic(options, topic)}
    if not named:
        raise OptionsError(
            f"{_selection_text(options)}: no topic matches, expected one of the {len(topics)} here:"
            f" {_listed(topics)}"
        )
    pairs = [(topic, -1) for topic in sorted(named)]
    raise OptionsError(
        f"{_selection_text(options)}: no such partition{_existing_text(pairs, here)}"
    )


def _known_partitions(
    options: Options, inventory: Inventory, given: frozenset[str]
) -> set[tuple[str, int | None]]:
    here = {
        (name_text(each.topic), each.partition)
        for each in _partitions(inventory)
        if options.table not in _LOG_TABLES or is_live_or_given(each, given)
    }
    if options.table == "checkpoints":
        here |= {
            (topic, number)
            for log_dir in inventory.log_dirs
            for checkpoint in log_dir.checkpoints.values()
            for topic, number in checkpoint.offsets
        }
    return here


def is_live_or_given(partition: Partition, given: frozenset[str]) -> bool:
    """Return whether its records are read: it is live, or its path was given."""
    inside = f"{partition.path.rstrip('/')}/"
    was_named = any(f"{path}/".startswith(inside) for path in given)
    return partition.state is DirectoryKind.PARTITION or was_named


def _names(options: Options) -> Iterator[tuple[str, str]]:
    """Yield the topics that are named, not matched, each with the option that names it."""
    for name in options.topics:
        if not _GLOB & set(name):
            yield "topics", name
    for name in options.subscribed:
        yield "subscribe", name
    for name, _ in sorted(options.assigned or ()):
        yield "assign", name


def _selects_topic(options: Options, topic: str) -> bool:
    from dataclasses import replace

    if options.assigned is not None:
        return any(topic == name for name, _ in options.assigned)
    return replace(options, partitions=None).selects(topic, 0)


def _not_live(name: str, inventory: Inventory) -> str:
    """Return a hint for a topic that has directories, but no live one."""
    paths = [each.path for each in _partitions(inventory) if name_text(each.topic) == name]
    if not paths:
        return ""
    return f" that lives (give the path to read {_listed(sorted(paths))})"


def _selection_text(options: Options) -> str:
    parts = [f"topics {','.join(options.topics)}"] if options.topics else []
    parts += [f"subscribe {','.join(options.subscribed)}"] if options.subscribed else []
    if options.subscribed_pattern is not None:
        parts.append(f"subscribePattern {options.subscribed_pattern}")
    if options.assigned is not None:
        parts.append(f"assign {_pairs(sorted(options.assigned))}")
    if options.partitions is not None:
        numbers = sorted(options.partitions)
        parts.append(f"partitions {_listed(list(map(str, numbers)))}")
    return shown_name(", ".join(parts))


def _pairs(pairs: Iterable[tuple[str, int]]) -> str:
    return _listed([f"{topic}-{number}" for topic, number in pairs])


def _existing_text(
    requested: Iterable[tuple[str, int]], here: Iterable[tuple[str, int | None]]
) -> str:
    """Return the partitions that the requested topics have."""
    topics = {topic for topic, _ in requested}
    found = sorted((topic, -1 if each is None else each) for topic, each in here if topic in topics)
    return f", expected one of the {len(found)} here: {_pairs(found)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(shown_name, names[:_MOST_NAMES])) + more


def shown_name(name: str) -> str:
    """Return the name as an error shows it."""
    return escaped(name_text(name))
