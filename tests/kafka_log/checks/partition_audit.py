"""Audits partitions of a log dir, and says what was found.

Summaries of segments are made here by the plainest rules: check_segment has its own tests.
"""

from __future__ import annotations

from pathlib import Path

from kafka_format.columnar.headers import HeaderWalk
from kafka_log.checks.facts import AuditedPartition, PartitionFacts, SegmentSummary
from kafka_log.checks.finding import Finding
from kafka_log.checks.partitions.partition_checks import check_partition
from kafka_log.config.log_config import LogConfig
from kafka_log.config.settings import read_settings
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.inventory import Inventory, LogDir, Partition
from kafka_log.inventory.lost_segments import was_never_cleaned
from kafka_log.inventory.scan import scan
from kafka_log.names import DirectoryKind

NOW = 1_900_000_000_000


def audit_log_dir(path: Path, *overrides: str, now_ms: int = NOW) -> list[Finding]:
    """Return the findings of all live and future partitions of a log dir."""
    found: list[Finding] = []
    inventory = scan([path])
    for log_dir, partition in inventory.partitions():
        if partition.state in (DirectoryKind.PARTITION, DirectoryKind.FUTURE):
            audited = audited_partition(inventory, log_dir, partition, *overrides, now_ms=now_ms)
            found += audit(audited)[0]
    return found


def audit_directory(
    path: Path,
    *,
    is_clean: bool | None = None,
    now_ms: int = NOW,
    config: LogConfig | None = None,
    knows_settings: bool = False,
    never_cleaned: bool = False,
) -> tuple[list[Finding], PartitionFacts]:
    """Return the findings and the facts of a partition directory by itself."""
    ((_, partition),) = scan([path]).partitions()
    return audit(
        AuditedPartition(
            partition=partition,
            log_dir=str(path.parent),
            config=config or LogConfig(),
            now_ms=now_ms,
            is_clean=is_clean,
            knows_settings=knows_settings,
            never_cleaned=never_cleaned,
        )
    )


def audited_partition(
    inventory: Inventory, log_dir: LogDir, partition: Partition, *overrides: str, now_ms: int = NOW
) -> AuditedPartition:
    settings = read_settings(
        metadata=inventory.metadata, node_id=inventory.node_id, overrides=overrides
    )
    return AuditedPartition(
        partition=partition,
        log_dir=log_dir.path,
        config=settings.for_topic(partition.topic),
        now_ms=now_ms,
        is_clean=log_dir.is_clean,
        knows_settings=inventory.metadata is not None,
        never_cleaned=was_never_cleaned(log_dir, partition),
    )


def audit(audited: AuditedPartition) -> tuple[list[Finding], PartitionFacts]:
    summaries = [
        summary_of(Path(each.log.path), each.base_offset)
        for each in audited.partition.segments
        if each.log is not None
    ]
    *findings, facts = check_partition(audited, DiskFiles(audited.path), summaries)
    assert isinstance(facts, PartitionFacts)
    assert all(isinstance(each, Finding) for each in findings)
    return [each for each in findings if isinstance(each, Finding)], facts


def summary_of(path: Path, base_offset: int) -> SegmentSummary:
    expected, has_gaps, batches = base_offset, False, 0
    walk = HeaderWalk(path.read_bytes())
    for columns in walk:
        rows = zip(
            columns.base_offset.tolist(),
            columns.last_offset.tolist(),
            columns.record_count.tolist(),
            strict=True,
        )
        for first, last, count in rows:
            has_gaps |= first != expected or count != last - first + 1
            expected = last + 1
            batches += 1
    return SegmentSummary(
        path=str(path),
        base_offset=base_offset,
        next_offset=expected,
        batches=batches,
        has_gaps=has_gaps,
        is_damaged=walk.end is not None and walk.end.reason != "end_of_file",
    )


def ids(findings: list[Finding]) -> list[str]:
    return [each.id for each in findings]
