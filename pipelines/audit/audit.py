"""The job `audit`: run every check over log dirs, and report.

    round 1, by segment      check_segment: batches, records, indexes
    round 2, by partition    check_partition: what its files say of each other, over headers
    on the driver            names, small files of log dirs, and what needs all partitions

Rounds 1 and 2 run on an engine (pipelines.engine): here, in processes or on Spark. Findings come in
the order of tasks, so they are the same on each.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kafka_log.checks.brokers.broker_checks import check_broker, inventory_findings
from kafka_log.checks.facts import NotChecked, PartitionFacts, SegmentSummary
from kafka_log.checks.finding import About, Finding
from kafka_log.checks.partitions.small_files import check_small_file
from kafka_log.checks.segments.logs import check_snapshot
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import CLUSTER_METADATA_TOPIC, FileKind, parse_file_name
from pipelines.audit.fingerprint import Places
from pipelines.audit.plan import AuditPlan, AuditRequest
from pipelines.audit.store import FindingStore
from pipelines.audit.tasks import (
    FindingBlock,
    PartitionTask,
    check_partitions,
    check_segments,
    guarded,
)
from pipelines.engine.engine import Engine, Failure, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka_log.inventory.inventory import Inventory, LogDir
    from pipelines.audit.plan import SegmentTask
    from pipelines.audit.report import AuditReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How the checks are run."""

    engine: Engine = "auto"
    on_progress: Callable[[int, int], None] | None = None
    on_partition_progress: Callable[[int, int], None] | None = None
    """The progress of round 2."""
    on_failure: Callable[[Failure[Any]], None] = lambda _: None
    """Called for a task that failed unexpectedly; it becomes findings as well."""


def audit_inventory(
    inventory: Inventory, request: AuditRequest, report: AuditReport, running: Running
) -> AuditReport:
    """Fill a report. Raises SettingsError, EngineError, and FormatError or OSError for `config`."""
    plan = AuditPlan.of(inventory, request)
    report.places = Places(inventory)
    report.store = FindingStore(request.paths)
    report.partitions = [
        (each.partition.topic, each.partition.partition) for each in plan.partitions
    ]
    report.checked.partitions = len(plan.partitions)
    report.checked.log_dirs = len(inventory.log_dirs)
    segments = [each for audited in plan.partitions for each in audited.partition.segments]
    report.checked.segments = len(segments)
    report.checked.size_in_bytes = sum(each.size_in_bytes for each in segments)
    _Audit(inventory, plan, request, report, running).run()
    return report


@dataclass(slots=True)
class _Audit:
    inventory: Inventory
    plan: AuditPlan
    request: AuditRequest
    report: AuditReport
    running: Running

    def run(self) -> None:
        for each in inventory_findings(self.inventory):
            self._add(each)
        for log_dir in self.inventory.log_dirs:
            for each in _log_dir_files(log_dir):
                self._add(each)
        summaries = self._check_segments()
        facts = self._check_partitions(summaries)
        partial = {each.path for each in self.plan.partitions if not each.is_whole}
        known = [
            replace(each, log_end_offset=None) if each.path in partial else each for each in facts
        ]
        for broker in self.plan.brokers:
            paths = {each.path for log_dir in broker.broker.log_dirs for each in log_dir.partitions}
            own = [each for each in known if each.path in paths]
            for item in check_broker(broker, own, DiskFiles):
                if isinstance(item, NotChecked):
                    self.report.add_not_checked(item)
                else:
                    self._add(item)
        for not_checked in self.plan.not_checked:
            self.report.add_not_checked(not_checked)
        for partition_facts in facts:
            self.report.add_facts(partition_facts)

    def _add(self, finding: Finding) -> None:
        """Add a finding of the driver, if its partition is selected."""
        if finding.topic is None or self.request.includes(finding.topic, finding.partition):
            self.report.add(finding)

    def _check_segments(self) -> dict[str, list[SegmentSummary]]:
        """Run round 1; return the summaries by partition directory."""
        found: dict[str, list[SegmentSummary]] = defaultdict(list)
        rows = run(
            self.plan.segment_tasks(),
            check_segments,
            engine=self.running.engine,
            bytes_of=lambda task: task.size_in_bytes,
            on_progress=self.running.on_progress,
        )
        for row in rows:
            if isinstance(row, SegmentSummary):
                found[str(Path(row.path).parent)].append(row)
            elif isinstance(row, FindingBlock):
                self._add_block(row)
            else:
                self._segments_failed(row, found)
        return found

    def _segments_failed(
        self, failure: Failure[SegmentTask], found: dict[str, list[SegmentSummary]]
    ) -> None:
        """Add a finding for each segment that a failed task has not finished."""
        finished = {each.path for summaries in found.values() for each in summaries}
        unfinished = [
            audited.about(checked.segment.log.path)
            for audited, checked in failure.task.segments()
            if checked.segment.log is not None and checked.segment.log.path not in finished
        ]
        self._failed(failure, unfinished)

    def _check_partitions(self, summaries: dict[str, list[SegmentSummary]]) -> list[PartitionFacts]:
        """Run round 2."""
        facts: list[PartitionFacts] = []
        tasks = [
            PartitionTask(
                audited=audited, summaries=tuple(summaries.pop(str(Path(audited.path)), ()))
            )
            for audited in self.plan.partitions
        ]
        rows = run(
            tasks,
            check_partitions,
            engine=self.running.engine,
            bytes_of=lambda task: task.size_in_bytes,
            on_progress=self.running.on_partition_progress,
        )
        for row in rows:
            if isinstance(row, PartitionFacts):
                facts.append(row)
            elif isinstance(row, FindingBlock):
                self._add_block(row)
            else:
                self._failed(row, [row.task.audited.about()])
        return facts

    def _add_block(self, block: FindingBlock) -> None:
        for each in block.findings():
            self.report.add(each)

    def _failed(self, failure: Failure[Any], unfinished: Iterable[About]) -> None:
        """Add what a failed task was about, unless its own findings say it already."""
        if any(failure.message.startswith(f"{path}: ") for path in self.report.unread):
            return
        self.running.on_failure(failure)
        for about in unfinished:
            self.report.add(
                Finding.of("DIR001", about, failure.message, "a file that can be checked")
            )


def _log_dir_files(log_dir: LogDir) -> Iterator[Finding]:
    """Check the small files of a log dir: checkpoints, meta.properties and the others."""
    files = DiskFiles(log_dir.path)
    for file in log_dir.files:
        if file.stray is None and Path(file.path).parent == Path(log_dir.path):
            about = About(file.path)
            yield from guarded(_log_dir_file(files, about, Path(file.path).name), about)


def _log_dir_file(files: DiskFiles, about: About, name: str) -> Iterator[Finding]:
    kind = parse_file_name(name).kind
    if kind is FileKind.BOOTSTRAP_CHECKPOINT:
        about = about._replace(topic=CLUSTER_METADATA_TOPIC)
        with opened(files, name) as file:
            yield from check_snapshot(cast("BinaryIO", file.reader()), about)
    elif kind not in (FileKind.UNKNOWN, FileKind.LOCK):
        data = files.read(name, limit=largest_size(kind))
        yield from check_small_file(kind, data, 0, about)
