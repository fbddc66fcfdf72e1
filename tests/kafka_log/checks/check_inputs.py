"""Inputs of checks, made from directories without the checks that usually make them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_log.checks.facts import (
    AuditedBroker,
    AuditedPartition,
    Depth,
    NotChecked,
    PartitionFacts,
    SegmentSummary,
)
from kafka_log.checks.finding import Finding
from kafka_log.config.settings import read_settings
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.inventory import Broker, Partition
from kafka_log.inventory.scan import scan
from kafka_log.log.unloaded_log import read_facts

NOW = 1_800_000_000_000


def facts_of(partition: Partition) -> PartitionFacts:
    return PartitionFacts(
        path=partition.path,
        topic=partition.topic,
        partition=partition.partition,
        log_start_offset=partition.log_start_offset,
        log_end_offset=read_facts(DiskFiles(partition.path)).log_end_offset,
        segments=summaries_of(partition),
    )


def partitions_of(broker: Broker) -> Iterator[Partition]:
    for log_dir in broker.log_dirs:
        for partition in log_dir.partitions:
            if partition.segments:
                yield partition


def run_broker_check(check, root: Path, depth: Depth = Depth.FULL) -> list[Finding | NotChecked]:
    """Return what a check between partitions yields for each broker below `root`."""
    found: list[Finding | NotChecked] = []
    for broker in scan([root]).brokers():
        facts = [facts_of(partition) for partition in partitions_of(broker)]
        settings = read_settings(metadata=broker.metadata, node_id=broker.node_id)
        audited = AuditedBroker(broker=broker, settings=settings, now_ms=NOW, depth=depth)
        found += check(audited, facts, DiskFiles)
    return found


def audited_partitions(root: Path, *, now_ms: int = NOW) -> Iterator[AuditedPartition]:
    """Yield the partitions below `root`, with the settings in their metadata."""
    for broker in scan([root]).brokers():
        settings = read_settings(metadata=broker.metadata, node_id=broker.node_id)
        for log_dir in broker.log_dirs:
            for partition in log_dir.partitions:
                if partition.segments:
                    yield AuditedPartition(
                        partition=partition,
                        log_dir=log_dir.path,
                        config=settings.for_topic(partition.topic),
                        now_ms=now_ms,
                        is_clean=log_dir.is_clean,
                        knows_settings=broker.metadata is not None,
                    )


def summaries_of(partition: Partition) -> tuple[SegmentSummary, ...]:
    """Return the summaries of the segments, by the row decoder."""
    return tuple(
        _summary(segment.log.path, segment.base_offset)
        for segment in partition.segments
        if segment.log is not None
    )


def _summary(path: str, base_offset: int) -> SegmentSummary:
    log = LogFile(Path(path).read_bytes(), path=path)
    found = SegmentSummary(path=path, base_offset=base_offset, next_offset=base_offset)
    null_keys = tombstones = 0
    is_damaged = False
    for batch in log.batches():
        found = replace(found, next_offset=batch.header.last_offset + 1)
        try:
            batch.ensure_valid()
            records = [] if batch.magic == 2 and batch.header.is_control else list(batch.records())
        except FormatError:
            is_damaged = True
            continue
        null_keys += sum(record.key is None for record in records)
        tombstones += sum(record.value is None for record in records)
    is_damaged = is_damaged or (log.end is not None and log.end.reason != "end_of_file")
    return replace(found, null_keys=null_keys, tombstones=tombstones, is_damaged=is_damaged)
