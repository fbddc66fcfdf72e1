"""What lies between the segments of a partition: lost segments, gaps and overlaps.

A log that was compacted has gaps, so gaps are only checked if the log never was: its settings are
known and do not say so, its log dir has no cleaner checkpoint for it, and no offset is missing
inside its segments. Below the log start, nothing is needed any more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kafka_log.checks.finding import Finding
from kafka_log.inventory.lost_segments import missing_offsets, segments_without_logs
from kafka_log.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_log.checks.facts import AuditedPartition, SegmentSummary


def check_between_segments(
    audited: AuditedPartition, summaries: Sequence[SegmentSummary]
) -> Iterator[Finding]:
    """Yield the findings between segments; `summaries` are in the order of base offsets."""
    for lost in segments_without_logs(audited.partition):
        names = ", ".join(lost.names)
        yield Finding.of(
            "LOG021",
            audited.about(lost.path),
            f"{names} without a .log",
            "the .log with the records of the segment",
            offset=lost.base_offset,
        )
    reports_gaps = is_never_compacted(audited, summaries)
    log_start_offset = audited.partition.log_start_offset or 0
    for segment, following in pairwise(summaries):
        end, next_base = segment.next_offset, following.base_offset
        is_needed = _is_read_to_its_end(segment) and next_base > log_start_offset
        offsets = missing_offsets(end, next_base) if reports_gaps and is_needed else ""
        if offsets:
            yield Finding.of(
                "LOG020",
                audited.about(following.path),
                f"{offsets} missing before this segment",
                f"a segment that begins at {end}",
                offset=end,
            )
        if end > next_base:
            yield Finding.of(
                "LOG022",
                audited.about(following.path),
                f"the segment before it ends at {end}, this one begins at {next_base}",
                f"a segment that begins at {end} or later",
                offset=next_base,
            )


def _is_read_to_its_end(segment: SegmentSummary) -> bool:
    """Whether its damage, if any, is only a torn or zeroed end: what follows there is lost."""
    return not segment.is_damaged or (
        not segment.has_damage_before_end and segment.valid_bytes < segment.size_in_bytes
    )


def is_never_compacted(audited: AuditedPartition, summaries: Sequence[SegmentSummary]) -> bool:
    """Whether the log has certainly never been compacted, so that every offset was kept."""
    return (
        audited.knows_settings
        and audited.never_cleaned
        and not audited.config.compact
        and audited.partition.topic != CLUSTER_METADATA_TOPIC
        and not any(summary.has_gaps for summary in summaries)
    )
