"""Files that tasks and the log of the driver exchange."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_log.disk.files import DiskFiles

if TYPE_CHECKING:
    from kafka_log.disk.files import Files
    from kafka_log.segment.log_segment import LogSegment

_COPY_BYTES = 4 * 1024 * 1024


def path_of(files: Files, segment: LogSegment, work: str) -> str:
    """Return where tasks find a segment: its file, or a copy if only this log sees it."""
    if isinstance(files, DiskFiles):
        return files.path(segment.name)
    there = getattr(files, "path_on_disk", lambda _: None)(segment.name)
    if there is not None:
        return str(there)
    folder = Path(work) / "sources"
    folder.mkdir(exist_ok=True)
    copy = folder / segment.name
    with copy.open("wb") as target:
        for position in range(0, segment.size, _COPY_BYTES):
            target.write(segment.log.read_at(position, _COPY_BYTES))
    return os.fspath(copy)


def adopt(files: Files, name: str, written: DiskFiles) -> None:
    """Move a file that a task wrote into the log's directory, by a rename if possible."""
    modified_ms = written.modified_ms(name)
    if isinstance(files, DiskFiles):
        Path(written.path(name)).replace(files.path(name))
    elif hasattr(files, "adopt"):
        files.adopt(name, written.path(name))
    else:
        source, target = written.open(name, write=False), files.open(name, create=True)
        try:
            for position in range(0, source.size, _COPY_BYTES):
                target.append(source.read_at(position, _COPY_BYTES))
        finally:
            source.close()
            target.close()
        files.set_modified_ms(name, modified_ms)
