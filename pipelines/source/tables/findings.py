"""The table `findings`: everything that is wrong, by the rules of kafka_log.checks.

Every live file is read. Logs are read whole: checksums are verified, and the records of Kafka's own
topics are decoded. Findings about names and directories are known when the query is planned.
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kafka_format.access import watching
from kafka_format.errors import FormatError
from kafka_format.file_kinds import BATCH_FILE_KINDS, TIME_INDEX_KINDS
from kafka_log.checks.directories import directory_findings
from kafka_log.checks.finding import About, Finding
from kafka_log.checks.logs import check_log
from kafka_log.checks.small_files import UNCHECKED, check_small_file
from kafka_log.checks.time_indexes import uncovered_finding
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import CLUSTER_METADATA_TOPIC, FileKind
from pipelines.source.refusals import Refusal, refusal_of, shrunk
from pipelines.source.segment_index import end_missing_in_index
from pipelines.source.storage import Storage, local_path
from pipelines.source.tables.rows import FileTask, batches_of_rows, packed, wants_everything
from pipelines.source.tables.side_files import file_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafka_log.inventory.inventory import Inventory, Segment
    from pipelines.source.options import Options
    from pipelines.source.tables.rows import Row


class _Findings:
    def plan(self, options: Options, storage: Storage) -> Sequence[tuple[Any, ...]]:
        inventory = storage.scan()
        known = tuple(
            finding for finding in directory_findings(inventory) if _is_selected(finding, options)
        )
        full, following = _full_segments(inventory), _next_bases(inventory)
        tasks = (
            task._replace(segment=full.get(task.file.path), next_base=following.get(task.file.path))
            for task in file_tasks(inventory, options, storage.given_paths())
        )
        files = packed(tasks, options, lambda task: task.size_in_bytes)
        return [known, *files] if known else files

    def read(self, split: tuple[Any, ...], options: Options) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in every mode: this table is about damage."""
        storage = Storage(options.paths)
        rows = self._rows(split, storage, verify=options.verify_checksums)
        yield from batches_of_rows(rows, options)

    def _rows(self, split: tuple[Any, ...], storage: Storage, *, verify: bool) -> Iterator[Row]:
        for item in split:
            if isinstance(item, Finding):
                yield finding_row(item)
            else:
                yield from map(finding_row, file_findings(item, storage, verify=verify))


def _full_segments(inventory: Inventory) -> dict[str, Segment]:
    """Return the segments that are no longer written to, by the paths of their time indexes."""
    return {
        segment.files[FileKind.TIME_INDEX].path: segment
        for _, partition in inventory.partitions()
        for segment in partition.segments[:-1]
        if FileKind.TIME_INDEX in segment.files
    }


def _next_bases(inventory: Inventory) -> dict[str, int]:
    """Return the base offset of the segment that follows each log, by the path of the log."""
    return {
        segment.log.path: following.base_offset
        for _, partition in inventory.partitions()
        for segment, following in pairwise(partition.segments)
        if segment.log is not None
    }


def _is_selected(finding: Finding, options: Options) -> bool:
    if finding.topic is None:
        return wants_everything(options)
    return options.includes(finding.topic, finding.partition)


def finding_row(finding: Finding) -> Row:
    return finding._asdict() | {
        "severity": str(finding.severity),
        "on_restart": finding.on_restart,
        "what_to_do": finding.what_to_do,
    }


def file_findings(task: FileTask, storage: Storage, *, verify: bool = True) -> Iterator[Finding]:
    """Yield the findings of one file; `verify` also checks the checksums of its batches."""
    kind = task.file.name.kind
    topic = CLUSTER_METADATA_TOPIC if kind is FileKind.BOOTSTRAP_CHECKPOINT else task.topic
    about = About(task.file.path, topic, task.partition)
    with watching() as watch:
        try:
            if kind in BATCH_FILE_KINDS:
                yield from _log_findings(task, storage, about, verify=verify)
            else:
                yield from _small_file_findings(task, storage, about)
        except (OSError, FormatError) as error:
            if _is_about(error, about.path):  # the log beside it has its own findings
                yield _error_finding(error, about)
        for change in watch.changes():
            if change.filename == local_path(about.path):
                yield _error_finding(change, about)


def _log_findings(
    task: FileTask, storage: Storage, about: About, *, verify: bool
) -> Iterator[Finding]:
    is_segment = task.file.name.kind is FileKind.LOG
    with storage.open(about.path) as log:
        size = log.seek(0, io.SEEK_END)
        if size < task.size_in_bytes:
            yield _refusal_finding(shrunk(task.size_in_bytes, size), about)
        yield from check_log(
            log,
            about,
            base_offset=task.file.offset if is_segment else None,
            next_base=task.next_base,
            verify=verify,
        )


def _is_about(error: OSError | FormatError, path: str) -> bool:
    place = error.location.path if isinstance(error, FormatError) else error.filename
    return place is None or place in (path, local_path(path))


def _error_finding(error: OSError | FormatError, about: About) -> Finding:
    refusal = refusal_of(error, about.path)
    if refusal is None:
        message = str(error) if not isinstance(error, OSError) else error.strerror or str(error)
        refusal = Refusal("DIR001", message, "a file that can be read")
    return _refusal_finding(refusal, about)


def _refusal_finding(refusal: Refusal, about: About) -> Finding:
    return Finding.of(refusal.rule, about, refusal.found, refusal.expected)


def _small_file_findings(task: FileTask, storage: Storage, about: About) -> Iterator[Finding]:
    kind, base_offset = task.file.name.kind, task.file.offset or 0
    if kind in UNCHECKED:
        return
    data = storage.read(about.path, limit=largest_size(kind))
    yield from check_small_file(kind, data, base_offset, about)
    if kind not in TIME_INDEX_KINDS or task.segment is None:
        return
    if end := end_missing_in_index(task.segment, storage):
        yield uncovered_finding(*end, about)


READER = _Findings()
