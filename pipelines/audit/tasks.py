"""The checks of segments and of partitions, as functions over tasks for the engine.

    check_segments(task)     -> FindingBlock …, SegmentSummary …
    check_partitions(task)   -> FindingBlock …, PartitionFacts

Findings travel in compressed blocks: a task may have millions of them. What cannot be read is a
finding too, and the other files of the task are still checked.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_format.access import watching
from kafka_format.errors import FormatError
from kafka_log.checks.finding import Finding
from kafka_log.checks.partitions.partition_checks import check_partition
from kafka_log.checks.segments.segment_checks import check_segment
from kafka_log.disk.files import DiskFiles, File
from kafka_log.names import FileKind
from pipelines.engine.progress import Progress
from pipelines.source.refusals import Refusal, refusal_of, shrunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafka_format.primitives import Buffer
    from kafka_log.checks.facts import AuditedPartition, PartitionFacts, SegmentSummary
    from kafka_log.checks.finding import About
    from kafka_log.disk.files import Files
    from pipelines.audit.plan import SegmentTask, SegmentToCheck

_BLOCK = 1000
_Other = TypeVar("_Other")


class FindingBlock(NamedTuple):
    """Some findings, compressed."""

    data: bytes

    @classmethod
    def of(cls, findings: list[Finding]) -> FindingBlock:
        return cls(zlib.compress(pickle.dumps([tuple(each) for each in findings]), 1))

    def findings(self) -> list[Finding]:
        """Return the findings. The block comes from a process of ours."""
        return [Finding._make(each) for each in pickle.loads(zlib.decompress(self.data))]  # noqa: S301


def in_blocks(items: Iterable[Finding | _Other]) -> Iterator[FindingBlock | _Other]:
    """Gather findings in blocks; everything else comes after the findings before it."""
    pending: list[Finding] = []
    for item in items:
        if isinstance(item, Finding):
            pending.append(item)
            if len(pending) < _BLOCK:
                continue
        if pending:
            yield FindingBlock.of(pending)
            pending = []
        if not isinstance(item, Finding):
            yield item
    if pending:
        yield FindingBlock.of(pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """A partition, with what its segments have shown."""

    audited: AuditedPartition
    summaries: tuple[SegmentSummary, ...]

    @property
    def size_in_bytes(self) -> int:
        """Return what is read at most: headers, a small part of the log."""
        return self.audited.partition.readable_bytes


def check_segments(task: SegmentTask) -> Iterator[FindingBlock | SegmentSummary]:
    """Check the segments of a task. A segment that cannot be read has no summary."""
    progress = Progress()
    progress.begin(task.size_in_bytes)
    for audited, checked in task.segments():
        files = _CountedFiles(audited.path, progress)
        yield from in_blocks(checked_segment(audited, checked, files))


def check_partitions(task: PartitionTask) -> Iterator[FindingBlock | PartitionFacts]:
    """Check one partition."""
    files = DiskFiles(task.audited.path)
    yield from in_blocks(checked_partition(task.audited, files, task.summaries))


def checked_segment(
    audited: AuditedPartition, checked: SegmentToCheck, files: Files
) -> Iterator[Finding | SegmentSummary]:
    """Check one segment. If it cannot be read, that is a finding, and there is no summary."""
    file = checked.segment.files[FileKind.LOG]
    about = audited.about(file.path)

    def check() -> Iterator[Finding | SegmentSummary]:
        size = files.size(Path(file.path).name)
        if size < file.size_in_bytes:
            refusal = shrunk(file.size_in_bytes, size)
            yield Finding.of(refusal.rule, about, refusal.found, refusal.expected)
        yield from check_segment(audited, checked.segment, files, next_base=checked.next_base)

    yield from _without_noise(guarded(check(), about), audited)


def checked_partition(
    audited: AuditedPartition, files: Files, summaries: Sequence[SegmentSummary]
) -> Iterator[Finding | PartitionFacts]:
    """Check what is between the files of one partition. What cannot be read is a finding."""
    checked = check_partition(audited, files, summaries)
    yield from _without_noise(guarded(checked, audited.about()), audited)


def _without_noise(
    items: Iterator[Finding | _Other], audited: AuditedPartition
) -> Iterator[Finding | _Other]:
    """Leave out what is about files that were not given, if single files were."""
    given = {file.path for file in audited.partition.files}
    for item in items:
        if audited.is_whole or not isinstance(item, Finding) or item.path in given:
            yield item


# ------------------------------------------------------------------------ what cannot be read


def guarded(items: Iterator[Finding | _Other], about: About) -> Iterator[Finding | _Other]:
    """Yield the items, and a finding for what could not be read or changed meanwhile."""
    with watching() as watch:
        try:
            yield from items
        except (OSError, FormatError) as error:
            yield read_failure(error, about)
        for change in watch.changes():
            yield read_failure(change, about._replace(path=str(change.filename)))


def read_failure(error: OSError | FormatError, about: About) -> Finding:
    """Return the finding for an error that ended the reading of a file."""
    place = error.location.path if isinstance(error, FormatError) else error.filename
    about = about._replace(path=str(place)) if place else about
    refusal = refusal_of(error, about.path)
    if refusal is None:
        message = str(error) if not isinstance(error, OSError) else error.strerror or str(error)
        refusal = Refusal("DIR001", message, "a file that can be read")
    return Finding.of(refusal.rule, about, refusal.found, refusal.expected)


# ----------------------------------------------------------------------------------- progress


class _CountedFiles(DiskFiles):
    """A directory whose reading is counted."""

    def __init__(self, directory: str, progress: Progress) -> None:
        super().__init__(directory)
        self._progress = progress

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(name, create=create, write=write)
        return file if write or create else _CountedFile(file, self._progress.add)


class _CountedFile(File):
    def __init__(self, file: File, count: Callable[[int], None]) -> None:
        self.path = file.path
        self._file, self._count = file, count

    @property
    def size(self) -> int:
        return self._file.size

    def readinto_at(self, position: int, target: memoryview) -> int:
        got = self._file.readinto_at(position, target)
        self._count(got)
        return got

    def read_at(self, position: int, size: int) -> bytes:
        data = self._file.read_at(position, size)
        self._count(len(data))
        return data

    def write_at(self, position: int, data: Buffer) -> None:
        self._file.write_at(position, data)  # refuses: the file is open for reading

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
