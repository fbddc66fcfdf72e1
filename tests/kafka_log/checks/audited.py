"""Segments as an audit checks them, and edits of a genuine `.log` that keep its checksums right."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble
from kafka_format.log_file import LogFile
from kafka_log.checks.facts import AuditedPartition, SegmentSummary
from kafka_log.checks.finding import Finding
from kafka_log.checks.segments.segment_checks import check_segment
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.inventory import Partition
from kafka_log.inventory.scan import scan
from tests import golden

NOW = 1_800_000_000_000


def partitions(path: Path, **context: Any) -> Iterator[AuditedPartition]:
    """Every partition below a path; by default of a broker that was stopped cleanly."""
    for _, partition in scan([path]).partitions():
        yield audited(partition, **context)


def audited(partition: Partition, **context: Any) -> AuditedPartition:
    known: dict[str, Any] = {
        "log_dir": "",
        "config": LogConfig(),
        "now_ms": NOW,
        "is_clean": True,
    } | context
    return AuditedPartition(partition=partition, **known)


def check_segments(each: AuditedPartition) -> Iterator[list[Finding | SegmentSummary]]:
    """What check_segment yields, one list per live segment."""
    segments = each.partition.segments
    for segment, following in pairwise((*segments, None)):
        assert segment is not None
        next_base = None if following is None else following.base_offset
        yield list(check_segment(each, segment, DiskFiles(each.path), next_base=next_base))


def findings(path: Path, **context: Any) -> list[Finding]:
    return [
        found
        for each in partitions(path, **context)
        for segment in check_segments(each)
        for found in segment
        if isinstance(found, Finding)
    ]


def ids(path: Path, **context: Any) -> list[str]:
    return [found.id for found in findings(path, **context)]


def summaries(path: Path, **context: Any) -> list[SegmentSummary]:
    """The last thing that each segment yields."""
    return [
        found
        for each in partitions(path, **context)
        for segment in check_segments(each)
        for found in segment[-1:]
        if isinstance(found, SegmentSummary)
    ]


def golden_partition(pack: str, name: str, target: Path) -> Path:
    """A copy of a partition directory that a real broker left, to edit."""
    return Path(shutil.copytree(golden.shared(pack) / "data" / name, target / name))


# --- edits --------------------------------------------------------------------------------------


def edit_bytes(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def positions(log: Path) -> list[int]:
    """Where the batches of a log begin."""
    return [batch.position for batch in LogFile(log.read_bytes()).batches()]


def edit_batch(log: Path, number: int, payload: bytes | None = None, **fields: Any) -> int:
    """Set fields, or the payload, of a batch of magic 2 with a new checksum; its position."""
    data, position = log.read_bytes(), positions(log)[number]
    old = BatchHeader.unpack(data, position)
    end = position + old.size_in_bytes
    records = data[position + HEADER_SIZE : end] if payload is None else payload
    new = assemble(old._replace(**fields), records)
    log.write_bytes(data[:position] + new + data[end:])
    return position
