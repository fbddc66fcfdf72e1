"""What an audit reads: brokers, partitions, and the segments in tasks of about equal work.

plan = AuditPlan.of(inventory, request)
plan.brokers         AuditedBroker of each node
plan.partitions      AuditedPartition of each directory that is read, in the order of its files
plan.segment_tasks() -> tasks of segments; small ones share a task
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.checks.facts import AuditedBroker, AuditedPartition, Depth, NotChecked
from kafka_log.config.settings import read_settings
from kafka_log.inventory.file_limits import largest_size
from kafka_log.inventory.lost_segments import was_never_cleaned
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.config.settings import Settings
    from kafka_log.inventory.inventory import Broker, Inventory, LogDir, Partition, Segment

_TASK_BYTES = 8 * 1024 * 1024
"""Segments share a task up to this size: a task costs some milliseconds."""
_TASK_SEGMENTS = 256
_LOADED = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
"""Directories that a broker opens as logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """What to check, and how."""

    paths: tuple[str, ...]
    now_ms: int
    depth: Depth = Depth.FULL
    config: str | None = None
    overrides: tuple[str, ...] = ()
    includes: Callable[[str, int | None], bool] = lambda *_: True
    """Whether a partition is selected."""
    show_data: bool = False


class SegmentToCheck(NamedTuple):
    segment: Segment
    next_base: int | None
    """The base offset of the next segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """Segments of some partitions, in order."""

    parts: tuple[tuple[AuditedPartition, tuple[SegmentToCheck, ...]], ...]
    size_in_bytes: int

    def segments(self) -> Iterator[tuple[AuditedPartition, SegmentToCheck]]:
        for audited, segments in self.parts:
            for each in segments:
                yield audited, each


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """What is checked, and what is not."""

    brokers: tuple[AuditedBroker, ...] = ()
    partitions: tuple[AuditedPartition, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    others: tuple[Partition, ...] = field(default=())
    """Directories of which only the names are checked."""

    @classmethod
    def of(cls, inventory: Inventory, request: AuditRequest) -> AuditPlan:
        """Plan an audit. Raises SettingsError, and FormatError or OSError for `config`."""
        brokers: list[AuditedBroker] = []
        read: list[AuditedPartition] = []
        others: list[Partition] = []
        for broker in inventory.brokers():
            audited = _audited_broker(broker, request)
            brokers.append(audited)
            for log_dir in broker.log_dirs:
                for partition in log_dir.partitions:
                    if not request.includes(partition.topic, partition.partition):
                        continue
                    if _is_read(partition, request.paths):
                        read.append(_audited(audited, log_dir, partition, request))
                    else:
                        others.append(partition)
        return cls(
            brokers=tuple(brokers),
            partitions=tuple(read),
            others=tuple(others),
            not_checked=tuple(_not_checked(brokers, read, others, request)),
        )

    def segment_tasks(self, task_bytes: int | None = None) -> Iterator[SegmentTask]:
        """Yield tasks for all segments, in the order of partitions and offsets."""
        limit = min(task_bytes or _TASK_BYTES, _TASK_BYTES)
        parts: list[tuple[AuditedPartition, tuple[SegmentToCheck, ...]]] = []
        size = count = 0
        for audited in self.partitions:
            pending: list[SegmentToCheck] = []
            for each in segments_to_check(audited.partition):
                pending.append(each)
                size += _bytes_to_read(each.segment)
                count += 1
                if size >= limit or count >= _TASK_SEGMENTS:
                    parts.append((_slim(audited, pending), tuple(pending)))
                    yield SegmentTask(parts=tuple(parts), size_in_bytes=size)
                    parts, pending, size, count = [], [], 0, 0
            if pending:
                parts.append((_slim(audited, pending), tuple(pending)))
        if parts:
            yield SegmentTask(parts=tuple(parts), size_in_bytes=size)


def segments_to_check(partition: Partition) -> Iterator[SegmentToCheck]:
    """Yield the segments of a partition, each with the base offset of the next."""
    for segment, following in pairwise((*partition.segments, None)):
        if segment is not None and segment.log is not None:
            next_base = None if following is None else following.base_offset
            yield SegmentToCheck(segment, next_base)


def _bytes_to_read(segment: Segment) -> int:
    """Return the size of the log; a file larger than Kafka writes is not opened."""
    size = segment.size_in_bytes
    return size if size <= largest_size(FileKind.LOG) else 0


def _slim(audited: AuditedPartition, checked: Sequence[SegmentToCheck]) -> AuditedPartition:
    """Return the partition with few of its files: it is sent with each task.

    The first segment stays, since the log start may be its base offset, and so does the last.
    """
    everything = audited.partition.segments
    kept = {each.segment.base_offset for each in checked}
    kept |= {everything[0].base_offset, everything[-1].base_offset}
    segments = tuple(each for each in everything if each.base_offset in kept)
    paths = {file.path for each in segments for file in each.files.values()}
    files = tuple(file for file in audited.partition.files if file.path in paths)
    slim = replace(audited.partition, segments=segments, files=files, leftovers=(), problems=())
    return replace(audited, partition=slim)


def _is_read(partition: Partition, paths: Sequence[str]) -> bool:
    """Return whether a directory is read: live and future ones are, others if they were given."""
    given = {path.rstrip(os.sep) for path in paths}
    if partition.partition is None:
        return bool(partition.segments)
    return partition.state in _LOADED or partition.path.rstrip(os.sep) in given


def _audited_broker(broker: Broker, request: AuditRequest) -> AuditedBroker:
    settings = read_settings(
        metadata=broker.metadata,
        node_id=broker.node_id,
        config=request.config,
        overrides=request.overrides,
    )
    return AuditedBroker(
        broker=broker, settings=settings, now_ms=request.now_ms, depth=request.depth
    )


def _audited(
    broker: AuditedBroker, log_dir: LogDir, partition: Partition, request: AuditRequest
) -> AuditedPartition:
    return AuditedPartition(
        partition=partition,
        log_dir=log_dir.path,
        config=broker.settings.for_topic(partition.topic),
        now_ms=request.now_ms,
        is_clean=log_dir.is_clean,
        knows_settings=_knows_settings(broker.settings, partition.topic, request),
        depth=request.depth,
        never_cleaned=was_never_cleaned(log_dir, partition),
        is_whole=_is_whole(partition, request.paths),
    )


def _knows_settings(settings: Settings, topic: str, request: AuditRequest) -> bool:
    metadata = settings.metadata
    is_in_metadata = metadata is not None and topic in metadata.topic_ids
    is_given = request.config is not None or bool(request.overrides)
    return is_in_metadata or is_given or topic == CLUSTER_METADATA_TOPIC


def _is_whole(partition: Partition, paths: Sequence[str]) -> bool:
    """Return whether the directory was given or is below a given one, not only its files."""
    directory = os.path.abspath(partition.path)  # noqa: PTH100  # resolves no link
    return any(
        directory == given or directory.startswith(given.rstrip(os.sep) + os.sep)
        for given in map(os.path.abspath, paths)
    )


def _not_checked(
    brokers: Sequence[AuditedBroker],
    read: Sequence[AuditedPartition],
    others: Sequence[Partition],
    request: AuditRequest,
) -> Iterator[NotChecked]:
    for each in brokers:
        is_known = request.config is not None or bool(request.overrides)
        if each.broker.metadata is None and not is_known and each.broker.node_id is not None:
            yield NotChecked(
                "what depends on the settings of a topic",
                "no metadata log here: give the log dir that has __cluster_metadata-0, or --config",
                each.broker.log_dirs[0].path,
            )
    if read and len(brokers) == 1 and brokers[0].broker.node_id is not None:
        yield NotChecked("differences between replicas", "no other replicas were given")
    if request.depth is Depth.HEADERS:
        yield NotChecked("checksums and records", "--headers reads only batch headers")
    for partition in others:
        yield NotChecked(
            "the records of a directory that a broker does not load",
            "give its path to have them checked",
            partition.path,
        )
