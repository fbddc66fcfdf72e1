"""The inputs and outputs of an export: SHA-256, size and time of every file that was read.

Digests are computed before the tables are read. The files are listed again afterwards: the manifest
names those that shrank, vanished, were replaced or written to, because their digests prove nothing.
A last segment that grew, or a new file, is only noted.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.access import TOUCHED, Identity, is_appended_to
from kafka_format.errors import FormatError
from kafka_format.shown_text import name_base64, name_text
from pipelines.engine.engine import Failure, run
from pipelines.report.text import iso_time
from pipelines.source.storage import is_local, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafka_log.inventory.inventory import Inventory, InventoryFile
    from pipelines.source.storage import Storage

_PIECE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    path: str
    size_in_bytes: int
    """As read; without a digest, as listed."""
    modified_ms: int
    sha256: str | None = None
    """None if it was not requested, or the file could not be read."""
    problem: str | None = None
    """Why it could not be read."""
    is_malformed: bool = False
    """Whether the problem is damage (not a regular file, too large), not an error of the disk."""
    identity: Identity | None = None
    """The identity of a local file when it was listed."""


class Changes(NamedTuple):
    """What happened to files while they were read, by path."""

    changed: dict[str, str]
    """What changed; the digests of these prove nothing."""
    grown: tuple[str, ...]
    """Files that are longer, and new ones."""


def input_files(
    inventory: Inventory, is_input: Callable[[str, int | None], bool]
) -> list[InputFile]:
    """Return the files of each log dir, and those of the partitions that are read; by path."""

    def found() -> Iterator[InventoryFile]:
        for log_dir in inventory.log_dirs:
            yield from log_dir.files
            for partition in log_dir.partitions:
                if is_input(partition.topic, partition.partition):
                    yield from partition.files

    listed = {
        file.path: InputFile(
            path=file.path,
            size_in_bytes=file.size_in_bytes,
            modified_ms=file.modified_ms,
            identity=_identity(file.path),
        )
        for file in found()
    }
    return [listed[path] for path in sorted(listed)]


def _identity(path: str) -> Identity | None:
    if not is_local(path):
        return None
    try:
        return Identity.of(os.stat(local_path(path)))  # noqa: PTH116  # of many files
    except OSError:  # missing or refused: reading it will report that
        return None


def with_digests(
    files: Sequence[InputFile],
    storage: Storage,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[InputFile]:
    """Return the files with their SHA-256, computed by one process per processor."""
    answers = run(
        files,
        partial(_digest, storage),
        engine="local",
        bytes_of=lambda file: file.size_in_bytes,
        on_progress=on_progress,
    )
    return [
        replace(each.task, problem=each.message) if isinstance(each, Failure) else each
        for each in answers
    ]


def _digest(storage: Storage, file: InputFile) -> Iterator[InputFile]:
    sha256, size = hashlib.sha256(), 0
    try:
        with storage.open(file.path) as source:
            while piece := source.read(_PIECE):
                sha256.update(piece)
                size += len(piece)
    except FormatError as error:  # it cannot be a file of Kafka's
        yield replace(file, problem=str(error), is_malformed=True)
        return
    yield replace(file, size_in_bytes=size, sha256=sha256.hexdigest())


def changes(before: Iterable[InputFile], after: Iterable[InputFile]) -> Changes:
    """Compare two listings of the same directories."""
    later = {each.path: each for each in after}
    changed, grown = {}, []
    for first in before:
        second = later.pop(first.path, None)
        if second is None:
            changed[first.path] = "it vanished"
        elif (how := _difference(first, second)) == _GREW:
            grown.append(first.path)
        elif how is not None:
            changed[first.path] = how
    return Changes(changed, tuple(sorted([*grown, *later])))


_GREW = "it grew"


def _difference(first: InputFile, second: InputFile) -> str | None:
    if first.identity and second.identity and first.identity[:2] != second.identity[:2]:
        return "it was replaced"
    if second.size_in_bytes < first.size_in_bytes:
        return f"it shrank from {first.size_in_bytes} to {second.size_in_bytes} bytes"
    if second.size_in_bytes > first.size_in_bytes:
        if first.identity is None or is_appended_to(local_path(first.path)):
            return _GREW
        return f"it grew from {first.size_in_bytes} to {second.size_in_bytes} bytes"
    if (first.modified_ms, first.identity) == (second.modified_ms, second.identity):
        return None
    if first.identity and second.identity and first.identity[:-1] == second.identity[:-1]:
        return TOUCHED
    return "it was written to"


def release() -> str:
    """Return the version of this program."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kafka-forensics")
    except PackageNotFoundError:  # from --py-files, which have no metadata
        return "unknown"


def manifest_text(
    *,
    started_ms: int,
    options: dict[str, Any],
    inputs: Iterable[InputFile],
    moved: Changes,
    outputs: Sequence[dict[str, Any]],
    findings: Mapping[str, int] | None,
    source: str | None,
) -> str:
    """Return JSON in ASCII. A path that is not UTF-8 is escaped, and has a `path_base64`."""
    value = {
        "kafka_forensics": release(),
        "started": iso_time(started_ms),
        "started_ms": started_ms,
        "options": options,
        "source": source,
        "findings": findings,
        "outputs": list(outputs),
        "changed_while_exported": list(map(name_text, moved.changed)),
        "grown_while_exported": list(map(name_text, moved.grown)),
        "inputs": [_plain(each, moved.changed.get(each.path)) for each in inputs],
    }
    return json.dumps(value, indent=1) + "\n"


def _plain(file: InputFile, changed: str | None) -> dict[str, Any]:
    value = {
        "path": name_text(file.path),
        "path_base64": name_base64(file.path),
        "size_in_bytes": file.size_in_bytes,
        "modified_ms": file.modified_ms,
        "sha256": file.sha256,
        "problem": None if file.problem is None else name_text(file.problem),
        "changed": changed,
    }
    return {name: each for name, each in value.items() if each is not None}
