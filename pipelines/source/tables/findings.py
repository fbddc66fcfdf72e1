"""The table `findings`: everything that is wrong, by the rules of kafka_log.checks.

Every live file is read. A split has segments (records, checksums and indexes), partitions (what
their files say of each other, over batch headers), or single files. Findings about names
and directories are known when the query is planned. What needs several partitions of a broker, such
as its checkpoints and its metadata, is not in this table: the verb `audit` has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kafka_format.file_kinds import BATCH_FILE_KINDS
from kafka_log.checks.brokers.broker_checks import inventory_findings
from kafka_log.checks.facts import Depth, SegmentSummary
from kafka_log.checks.finding import About, Finding
from kafka_log.checks.partitions.small_files import UNCHECKED, check_small_file
from kafka_log.checks.segments.logs import check_log, check_snapshot
from kafka_log.clock import system_clock
from kafka_log.damage.findings import WRONG_CHECKSUM
from kafka_log.disk.files import opened
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import CLUSTER_METADATA_TOPIC, FileKind, FileState
from pipelines.audit.plan import AuditPlan, AuditRequest, SegmentTask, segments_to_check
from pipelines.audit.report import UNREAD
from pipelines.audit.tasks import checked_partition, checked_segment, guarded
from pipelines.source.storage import Storage
from pipelines.source.tables.rows import FileTask, batches_of_rows, packed, wants_everything
from pipelines.source.tables.side_files import file_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafka_log.checks.facts import AuditedPartition
    from kafka_log.inventory.inventory import Inventory
    from pipelines.source.options import Options
    from pipelines.source.tables.rows import Row


@dataclass(frozen=True, slots=True)
class _PartitionTask:
    """A partition whose files are compared with each other."""

    audited: AuditedPartition

    @property
    def size_in_bytes(self) -> int:
        return self.audited.partition.size_in_bytes


_Task = FileTask | SegmentTask | _PartitionTask


class _Findings:
    def plan(self, options: Options, storage: Storage) -> Sequence[tuple[Any, ...]]:
        inventory, given = storage.scan(), storage.given_paths()
        request = AuditRequest(paths=tuple(given), now_ms=system_clock(), includes=options.includes)
        plan = AuditPlan.of(inventory, request)
        known = tuple(each for each in inventory_findings(inventory) if _is_selected(each, options))
        tasks: list[_Task] = [*_other_files(inventory, plan, options, given)]
        tasks += plan.segment_tasks(options.max_split_bytes)
        tasks += map(_PartitionTask, plan.partitions)
        splits = packed(tasks, options, lambda task: task.size_in_bytes)
        return [known, *splits] if known else splits

    def read(self, split: tuple[Any, ...], options: Options) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in every mode: this table is about damage."""
        storage = Storage(options.paths)
        findings = (each for item in split for each in _findings_of(item, storage))
        rows = (
            finding_row(each)
            for each in findings
            if options.verify_checksums or each.id != WRONG_CHECKSUM
        )
        yield from batches_of_rows(rows, options)


def _other_files(
    inventory: Inventory, plan: AuditPlan, options: Options, given: frozenset[str]
) -> Iterator[FileTask]:
    """Yield the files that no segment and no partition of the plan has."""
    read = {each.path for each in plan.partitions}
    for task in file_tasks(inventory, options, given):
        is_live = task.file.name.state is FileState.LIVE
        if not is_live or str(Path(task.file.path).parent) not in read or task.topic is None:
            yield task


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


def _findings_of(item: Finding | _Task, storage: Storage) -> Iterator[Finding]:
    if isinstance(item, Finding):
        yield item
    elif isinstance(item, FileTask):
        yield from _file_findings(item, storage)
    elif isinstance(item, SegmentTask):
        for audited, checked in item.segments():
            found = checked_segment(audited, checked, storage.files(audited.path))
            yield from (each for each in found if isinstance(each, Finding))
    else:
        yield from _partition_findings(item.audited, storage)


def _partition_findings(audited: AuditedPartition, storage: Storage) -> Iterator[Finding]:
    """Yield the findings between the files of a partition; its segments have their own tasks."""
    files = storage.files(audited.path)
    headers = replace(audited, depth=Depth.HEADERS)
    summaries: list[SegmentSummary] = []
    unread: set[tuple[str, str]] = set()
    for checked in segments_to_check(audited.partition):
        for each in checked_segment(headers, checked, files):
            if isinstance(each, SegmentSummary):
                summaries.append(each)
            elif each.id in UNREAD:
                unread.add((each.id, each.path))  # the task of the segment reports it
    for found in checked_partition(audited, files, summaries):
        if isinstance(found, Finding) and (found.id, found.path) not in unread:
            yield found


def _file_findings(task: FileTask, storage: Storage) -> Iterator[Finding]:
    kind = task.file.name.kind
    topic = CLUSTER_METADATA_TOPIC if kind is FileKind.BOOTSTRAP_CHECKPOINT else task.topic
    about = About(task.file.path, topic, task.partition)
    yield from guarded(_content_findings(task, storage, about), about)


def _content_findings(task: FileTask, storage: Storage, about: About) -> Iterator[Finding]:
    kind, name = task.file.name.kind, Path(about.path).name
    files = storage.files(about.path[: -len(name) - 1])
    if kind in BATCH_FILE_KINDS:
        with opened(files, name) as file:
            log = cast("BinaryIO", file.reader())
            if kind is FileKind.LOG:
                yield from check_log(log, about, base_offset=task.file.offset)
            else:
                yield from check_snapshot(log, about)
    elif kind not in UNCHECKED:
        data = files.read(name, limit=largest_size(kind))
        yield from check_small_file(kind, data, task.file.offset or 0, about)


READER = _Findings()
