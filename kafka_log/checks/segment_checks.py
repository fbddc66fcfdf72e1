"""Check one live segment: its `.log`, and the index files next to it.

    for each in check_segment(audited, segment, files, next_base=...):
        Finding, Finding, ..., SegmentSummary      the summary comes last, whatever was found

The segments of a partition can be checked in any order and in several processes. What lies between
them, and what needs the producers of earlier segments, is checked by partition_checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from kafka_log.checks.facts import SegmentSummary
from kafka_log.checks.logs import check_log
from kafka_log.disk.files import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.checks.facts import AuditedPartition
    from kafka_log.checks.finding import Finding
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import Segment


def check_segment(
    audited: AuditedPartition, segment: Segment, files: Files, *, next_base: int | None = None
) -> Iterator[Finding | SegmentSummary]:
    """Yield the findings of a live segment, then its summary. Raises OSError and FormatError."""
    log = segment.log
    if log is None:
        return
    with opened(files, Path(log.path).name) as file:
        yield from check_log(
            cast("BinaryIO", file.reader()),
            audited.about(log.path),
            base_offset=segment.base_offset,
            next_base=next_base,
        )
    yield SegmentSummary(
        path=log.path, base_offset=segment.base_offset, next_offset=segment.base_offset
    )
