"""Check one live segment: its `.log`, and the index files next to it.

    for each in check_segment(audited, segment, files, next_base=...):
        Finding, Finding, ..., SegmentSummary      the summary comes last, whatever was found

The segments of a partition can be checked in any order and in several processes. What lies between
them, and what needs the producers of earlier segments, is checked by partition_checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from kafka_log.checks.finding import Finding
from kafka_log.checks.segments.logs import check_log
from kafka_log.checks.segments.segment_indexes import SegmentIndexes
from kafka_log.checks.segments.segment_totals import SegmentTotals
from kafka_log.damage.findings import UNREAD_IDS
from kafka_log.disk.files import opened
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.checks.facts import AuditedPartition, SegmentSummary
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import Segment

MISSING_INDEX = {FileKind.OFFSET_INDEX: "IDX007", FileKind.TIME_INDEX: "TIX006"}
"""The rule for an index that a broker has written, and that is gone."""


def check_segment(
    audited: AuditedPartition, segment: Segment, files: Files, *, next_base: int | None = None
) -> Iterator[Finding | SegmentSummary]:
    """Yield the findings of a live segment, then its summary.

    Raises OSError and FormatError if a file cannot be read; for an index, after the summary.
    """
    log = segment.log
    if log is None:
        return
    totals = SegmentTotals(log.path, segment.base_offset)
    is_closed = _is_closed(audited, next_base)
    damage: set[str] = set()
    with opened(files, Path(log.path).name) as file:
        indexes = SegmentIndexes(audited, segment, files, log_size=file.size, is_closed=is_closed)
        yield from indexes.form_findings()
        for finding in check_log(
            cast("BinaryIO", file.reader()),
            audited.about(log.path),
            base_offset=segment.base_offset,
            next_base=next_base,
            depth=audited.depth,
            more=(totals, *indexes.checks()),
        ):
            damage |= {finding.id} & UNREAD_IDS
            yield finding
        yield from indexes.finish(is_full=next_base is not None)
        summary = totals.summary(size_in_bytes=file.size, damage=damage)
    if summary.batches:
        yield from _missing_indexes(audited, segment, is_closed=is_closed)
    yield summary
    if indexes.error is not None:
        raise indexes.error


def _is_closed(audited: AuditedPartition, next_base: int | None) -> bool:
    """Return whether a roll or a clean stop has written and trimmed its indexes.

    The clean shutdown file says nothing of the Raft log, which another component closes, or of a
    deleted directory, whose files are not closed in order.
    """
    if next_base is not None:
        return True
    partition = audited.partition
    is_open_while_running = partition.state in (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
    is_of_log_manager = partition.topic != CLUSTER_METADATA_TOPIC
    return bool(audited.is_clean) and is_open_while_running and is_of_log_manager


def _missing_indexes(
    audited: AuditedPartition, segment: Segment, *, is_closed: bool
) -> Iterator[Finding]:
    """Yield the indexes that a roll or a clean stop has written for a log with batches.

    After a kill, the last segment may have none yet. Somebody may have copied the logs only.
    """
    if not is_closed:
        return
    kinds = {kind for each in audited.partition.segments for kind in each.files}
    if audited.is_clean is None and not kinds & MISSING_INDEX.keys():
        return
    for kind, rule in MISSING_INDEX.items():
        if kind in segment.missing and segment.log is not None:
            path = str(Path(segment.log.path).with_suffix(kind.ending))
            yield Finding.of(rule, audited.about(path), "no such file", "an index of the segment")
