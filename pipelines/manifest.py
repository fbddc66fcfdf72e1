"""What went in and what came out: the SHA-256, size and time of every file that was looked at.

Files are read here before the tables are; whoever exported looks again afterwards, and files that
were changed meanwhile are named, for of them the sums prove nothing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.engine import Failure, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafka_log.evidence.inventory import File, Inventory
    from pipelines.storage import Storage

_PIECE = 4 * 1024 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    path: str
    size_in_bytes: int
    """As read; as listed, without a sum."""
    modified_ms: int
    sha256: str | None = None
    """None if nobody wanted it, or it could not be read."""
    problem: str | None = None


def input_files(inventory: Inventory, wanted: Callable[[str, int | None], bool]) -> list[InputFile]:
    """Of each log dir its own files, and those of the partitions that are wanted; by path."""

    def found() -> Iterator[File]:
        for log_dir in inventory.log_dirs:
            yield from log_dir.files
            for partition in log_dir.partitions:
                if wanted(partition.topic, partition.partition):
                    yield from partition.files

    listed = {
        file.path: InputFile(
            path=file.path, size_in_bytes=file.size_in_bytes, modified_ms=file.modified_ms
        )
        for file in found()
    }
    return [listed[path] for path in sorted(listed)]


def with_digests(
    files: Sequence[InputFile],
    storage: Storage,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[InputFile]:
    """The same with their SHA-256, by as many processes as this machine has processors."""
    answers = run(
        files,
        partial(_digest, storage),
        engine="local",
        bytes_of=lambda file: file.size_in_bytes,
        on_progress=on_progress,
    )
    return [
        InputFile(
            path=each.task.path,
            size_in_bytes=each.task.size_in_bytes,
            modified_ms=each.task.modified_ms,
            problem=each.message,
        )
        if isinstance(each, Failure)
        else each
        for each in answers
    ]


def _digest(storage: Storage, file: InputFile) -> Iterator[InputFile]:
    sha256, size = hashlib.sha256(), 0
    with storage.open(file.path) as source:
        while piece := source.read(_PIECE):
            sha256.update(piece)
            size += len(piece)
    yield InputFile(
        path=file.path,
        size_in_bytes=size,
        modified_ms=file.modified_ms,
        sha256=sha256.hexdigest(),
    )


def changed(before: Iterable[InputFile], after: Iterable[InputFile]) -> list[str]:
    """Paths that came, went, or have another size or time since."""
    first = {(each.path, each.size_in_bytes, each.modified_ms) for each in before}
    second = {(each.path, each.size_in_bytes, each.modified_ms) for each in after}
    return sorted({path for path, _, _ in first ^ second})


def manifest_text(
    *,
    started_ms: int,
    options: dict[str, Any],
    inputs: Iterable[InputFile],
    changed_files: Sequence[str],
    outputs: Sequence[dict[str, Any]],
) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        release = version("kafka-forensics")
    except PackageNotFoundError:  # from --py-files, which have no metadata
        release = "unknown"
    value = {
        "kafka_forensics": release,
        "started": iso_time(started_ms),
        "started_ms": started_ms,
        "options": options,
        "outputs": list(outputs),
        "changed_while_exported": list(changed_files),
        "inputs": [_plain(each) for each in inputs],
    }
    return json.dumps(value, indent=1) + "\n"


def _plain(file: InputFile) -> dict[str, Any]:
    return {name: value for name, value in asdict(file).items() if value is not None}


def iso_time(epoch_ms: int) -> str:
    """`2026-11-16T12:00:00.005Z`"""
    text = (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
