"""What checks of several files or partitions need to know of each. Plain, picklable values.

AuditedPartition    a partition directory and its context, for every check
SegmentSummary      what reading a `.log` has shown, for checks between segments
PartitionFacts      what the checks of a partition have shown, for checks between partitions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_log.checks.finding import About

if TYPE_CHECKING:
    from kafka_format.producer_snapshot import ProducerSnapshotEntry
    from kafka_log.config.log_config import LogConfig
    from kafka_log.inventory.inventory import Partition
    from kafka_log.producers.transactions import OpenTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """A partition directory, with what its log dir and the cluster metadata say of it."""

    partition: Partition
    log_dir: str
    config: LogConfig
    """Its settings, Kafka's defaults where nothing else is known."""
    now_ms: int
    is_clean: bool | None = None
    """Whether its log dir was stopped cleanly; None if nothing shows that a broker used it."""
    knows_settings: bool = False
    """Whether the cluster metadata, or the user, gave the settings of the topic."""

    @property
    def path(self) -> str:
        return self.partition.path

    def about(self, path: str | None = None) -> About:
        """Return the coordinates of a finding about a file, or about the directory."""
        return About(path or self.path, self.partition.topic, self.partition.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """What reading a `.log` has shown. Offsets are those of its sound batches."""

    path: str
    base_offset: int
    next_offset: int
    """The offset after the last batch; the base offset if there is none."""
    first_offset: int | None = None
    """The base offset of the first batch."""
    size_in_bytes: int = 0
    valid_bytes: int = 0
    """The position after the last batch."""
    batches: int = 0
    records: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    has_gaps: bool = False
    """Whether offsets are missing between its batches, or records in them: it was compacted."""
    is_damaged: bool = False
    """Whether something in it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What the checks of a partition have shown."""

    path: str
    topic: str
    partition: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    """The offset after the last sound batch; None if that could not be found out."""
    segments: tuple[SegmentSummary, ...] = ()
    producers: tuple[ProducerSnapshotEntry, ...] = ()
    """Every producer at the log end, as a snapshot there would have it."""
    open_transactions: tuple[OpenTransaction, ...] = ()
