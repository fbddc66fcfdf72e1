"""What checks of several files or partitions need to know of each. Plain, picklable values.

Depth               how much of a log is read
AuditedPartition    a partition directory and its context, for every check
SegmentSummary      what reading a `.log` has shown, for checks between segments
PartitionFacts      what the checks of a partition have shown, for checks between partitions
AuditedBroker       the log dirs of one node and their context, for checks between partitions
NotChecked          something that was not checked, and why
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.checks.finding import About

if TYPE_CHECKING:
    from kafka_format.producer_snapshot import ProducerSnapshotEntry
    from kafka_log.config.log_config import LogConfig
    from kafka_log.config.settings import Settings
    from kafka_log.inventory.inventory import Broker, Partition
    from kafka_log.producers.transactions import OpenTransaction


class Depth(StrEnum):
    """How much of a log is read."""

    FULL = "full"
    """Every record is decoded, and every checksum verified."""
    HEADERS = "headers"
    """Only batch headers and side files."""


class NotChecked(NamedTuple):
    """Something that was not checked, and why."""

    what: str
    """What an audit would have checked, such as `replica assignments`."""
    why: str
    path: str = ""
    """The file or directory it is about; empty if it is about everything."""


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
    depth: Depth = Depth.FULL
    is_whole: bool = True
    """Whether its directory was given, not only some of its files: other files may be missing."""
    never_cleaned: bool = False
    """Whether the checkpoints of its log dir show that no cleaner has worked on it
    (kafka_log.inventory.lost_segments.was_never_cleaned)."""

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
    last_position: int | None = None
    """The position of the last batch."""
    largest_batch: int = 0
    """The size of its largest batch."""
    batches: int = 0
    records: int = 0
    """In Depth.HEADERS a legacy wrapper counts as one: its header has no count."""
    null_keys: int = 0
    """Data records without a key; only known in Depth.FULL."""
    tombstones: int = 0
    """Data records without a value; only known in Depth.FULL."""
    min_timestamp: int = -1
    """The smallest that is not negative; in Depth.HEADERS, of the first records of batches."""
    max_timestamp: int = -1
    """The largest in a batch header, as retention and time indexes count it."""
    first_leader_epoch: int | None = None
    """The leader epoch of the first batch that has one; legacy batches have none."""
    last_leader_epoch: int | None = None
    has_gaps: bool = False
    """Whether offsets are missing between its batches, or records in them: it was compacted."""
    is_damaged: bool = False
    """Whether something in it could not be read."""
    has_damage_before_end: bool = False
    """Whether that is more than a torn or zeroed end."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedBroker:
    """The log dirs of one node, with what all of its checks need."""

    broker: Broker
    settings: Settings
    now_ms: int
    depth: Depth = Depth.FULL
