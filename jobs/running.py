"""Warn before anything else that a broker is running on a directory.

warn_running(each.path for each in inventory.log_dirs)    after a scan
warn_running(log_dirs_around(paths))                      without one (dump, export)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DEEPEST = 8
"""How deep below a path log dirs are searched for, as in kafka_log/inventory/scan.py."""


def warn_running(log_dirs: Iterable[str]) -> None:
    """Write one line to stderr for each directory whose lock a broker holds."""
    from kafka_format.shown_text import say
    from kafka_log.disk.live_lock import is_held

    for log_dir in dict.fromkeys(log_dirs):
        if is_held(log_dir):
            say(
                f"{log_dir}: a broker is running on this directory;"
                " its files may change while they are read"
            )


def log_dirs_around(paths: Iterable[str]) -> Iterator[str]:
    """Yield the directories with a `.lock` at, directly above or below these paths."""
    from kafka_log.names import FileKind, parse_directory_name

    lock = FileKind.LOCK.value
    for path in paths:
        directory = Path(path) if Path(path).is_dir() else Path(path).parent
        is_partition = parse_directory_name(directory.absolute().name).partition is not None
        if (directory / lock).exists():
            yield str(directory)
        elif is_partition and (directory.absolute().parent / lock).exists():
            yield os.path.normpath(directory / os.pardir)
        elif Path(path) == directory:
            yield from _below(path, lock, _DEEPEST)


def _below(directory: str, lock: str, depth: int) -> Iterator[str]:
    from kafka_log.inventory.directory import EntryKind, list_directory
    from kafka_log.names import parse_directory_name

    # The verb itself reports directories that cannot be listed.
    entries = list_directory(directory).entries
    if any(entry.name == lock for entry in entries):
        yield directory
    elif depth:
        for entry in entries:
            is_partition = parse_directory_name(entry.name).partition is not None
            if entry.kind is EntryKind.DIRECTORY and not entry.target and not is_partition:
                yield from _below(entry.path, lock, depth - 1)
