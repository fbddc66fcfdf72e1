"""Whether a query means anything: paths, topics and partitions that are there.

A name that was mistyped would be an empty table, which looks like an answer. So every path must
have something of Kafka's, every name of a topic must be there, globs and numbers must match
something; else the error lists what is there. What a filter of the query leaves out is no error.
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

    from kafka_log.inventory.inventory import File, Inventory, Partition
    from pipelines.source.options import Options

_MOST_NAMES = 10
_GLOB = frozenset("*?[")
_OF_RECORDS = frozenset({"records", "batches"})
"""Tables of live partitions, and of others only if their path was given."""
_OF_CONTENT = frozenset(
    {
        *("consumer_offsets", "group_metadata", "transaction_state", "share_group_state"),
        "cluster_metadata",
    }
)
"""Tables whose topics are those that records tell of: they need not be here."""


class ScannedOnce(Storage):
    """For the time of one plan: what is there does not change meanwhile."""

    @cached_property
    def _scanned(self) -> Inventory:
        return super().scan()

    def scan(self) -> Inventory:
        return self._scanned


def ensure_meant(options: Options, storage: Storage) -> None:
    """Raises StorageError for paths, OptionsError for topics and partitions."""
    inventory = storage.scan()
    given = storage.given_paths()
    _ensure_paths(given, inventory)
    if options.table in _OF_RECORDS and not any(_partitions(inventory)):
        raise StorageError(f"{_listed(sorted(given))}: found no partition, expected one or more")
    if options.is_narrowed and options.table not in _OF_CONTENT:
        _ensure_selected(options, inventory, given)


def _partitions(inventory: Inventory) -> Iterator[Partition]:
    return (partition for _, partition in inventory.partitions())


# ------------------------------------------------------------------------------------- paths


def _ensure_paths(given: Iterable[str], inventory: Inventory) -> None:
    there = {each.path.rstrip("/") for each in inventory.log_dirs}
    there |= {each.path.rstrip("/") for each in _partitions(inventory)}
    missing = [path for path in given if path not in there]
    if not missing:
        return
    there |= {file.path for file in _kafka_files(inventory)}
    # What could not be listed is told elsewhere: it is not known to have nothing.
    there |= {problem.path for problem in inventory.all_problems()}
    there = set(map(_real, there))
    for path in sorted(missing):
        real = _real(path)
        if real not in there and not any(each.startswith(f"{real}/") for each in there):
            raise StorageError(f"{shown_name(path)}: no Kafka files found")


def _real(path: str) -> str:
    """One text for all ways to say it."""
    return os.path.realpath(path) if is_local(path) else path


def _kafka_files(inventory: Inventory) -> Iterator[File]:
    for log_dir in inventory.log_dirs:
        for files in (log_dir.files, *(each.files for each in log_dir.partitions)):
            yield from (each for each in files if each.name.kind is not FileKind.UNKNOWN)


# ------------------------------------------------------------------------ topics, partitions


def _ensure_selected(options: Options, inventory: Inventory, given: frozenset[str]) -> None:
    here = _known(options, inventory, given)
    topics = sorted({topic for topic, _ in here})
    for option, name in _names(options):
        if name not in topics:
            also = _not_live(name, inventory) if options.table in _OF_RECORDS else ""
            hint = nearest(name, tuple(topics))
            raise OptionsError(
                f"{option} {shown_name(name)}: no such topic{hint}{also}, expected one of"
                f" the {len(topics)} here: {_listed(topics)}"
            )
    if any(options.selects(topic, partition) for topic, partition in here):
        if options.assigned is not None and (lost := sorted(options.assigned - here)):
            raise OptionsError(f"assign {_pairs(lost)}: no such partition{_numbers(lost, here)}")
        return
    named = {topic for topic in topics if _selects_topic(options, topic)}
    if not named:
        raise OptionsError(
            f"{_said(options)}: no topic matches, expected one of the {len(topics)} here:"
            f" {_listed(topics)}"
        )
    pairs = [(topic, -1) for topic in sorted(named)]
    raise OptionsError(f"{_said(options)}: no such partition{_numbers(pairs, here)}")


def _known(
    options: Options, inventory: Inventory, given: frozenset[str]
) -> set[tuple[str, int | None]]:
    here = {
        (name_text(each.topic), each.partition)
        for each in _partitions(inventory)
        if options.table not in _OF_RECORDS or is_meant(each, given)
    }
    if options.table == "checkpoints":
        here |= {
            (topic, number)
            for log_dir in inventory.log_dirs
            for checkpoint in log_dir.checkpoints.values()
            for topic, number in checkpoint.offsets
        }
    return here


def is_meant(partition: Partition, given: frozenset[str]) -> bool:
    """Whether records of it are read: a live one, or one whose path was given."""
    inside = f"{partition.path.rstrip('/')}/"
    was_named = any(f"{path}/".startswith(inside) for path in given)
    return partition.state is DirectoryKind.PARTITION or was_named


def _names(options: Options) -> Iterator[tuple[str, str]]:
    """Topics that are named, not matched, each with the option that names it."""
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
    """Of a topic that has directories, but none that lives."""
    paths = [each.path for each in _partitions(inventory) if name_text(each.topic) == name]
    if not paths:
        return ""
    return f" that lives (give the path to read {_listed(sorted(paths))})"


def _said(options: Options) -> str:
    said = [f"topics {','.join(options.topics)}"] if options.topics else []
    said += [f"subscribe {','.join(options.subscribed)}"] if options.subscribed else []
    if options.subscribed_pattern is not None:
        said.append(f"subscribePattern {options.subscribed_pattern}")
    if options.assigned is not None:
        said.append(f"assign {_pairs(sorted(options.assigned))}")
    if options.partitions is not None:
        numbers = sorted(options.partitions)
        said.append(f"partitions {_listed(list(map(str, numbers)))}")
    return shown_name(", ".join(said))


def _pairs(pairs: Iterable[tuple[str, int]]) -> str:
    return _listed([f"{topic}-{number}" for topic, number in pairs])


def _numbers(wanted: Iterable[tuple[str, int]], here: Iterable[tuple[str, int | None]]) -> str:
    """What is there of the topics that were asked for."""
    topics = {topic for topic, _ in wanted}
    found = sorted((topic, -1 if each is None else each) for topic, each in here if topic in topics)
    return f", expected one of the {len(found)} here: {_pairs(found)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(shown_name, names[:_MOST_NAMES])) + more


def shown_name(name: str) -> str:
    """As an error may show it."""
    return escaped(name_text(name))
