"""One audit in this process: the findings of a whole directory, without Spark or processes."""

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from kafka_log.checks.broker_checks import check_broker
from kafka_log.checks.directories import directory_findings
from kafka_log.checks.facts import AuditedBroker, AuditedPartition, PartitionFacts, SegmentSummary
from kafka_log.checks.finding import Finding
from kafka_log.checks.partition_checks import check_partition
from kafka_log.checks.segment_checks import check_segment
from kafka_log.config.settings import read_settings
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.inventory import Broker
from kafka_log.inventory.scan import scan
from kafka_log.names import FileKind
from pipelines.source.options import parse_options
from pipelines.source.storage import Storage
from pipelines.source.tables.findings import file_findings
from pipelines.source.tables.side_files import file_tasks

NOW = 1_795_100_000_000
"""Some days after the packs were made."""


def audit(*paths: str | os.PathLike[str], now_ms: int = NOW) -> list[Finding]:
    """Every finding, each once."""
    storage = Storage(tuple(map(os.fspath, paths)))
    inventory = scan(paths)
    found = list(directory_findings(inventory))
    options = parse_options({"table": "findings", "paths": json.dumps([*map(os.fspath, paths)])})
    for task in file_tasks(inventory, options, storage.given_paths()):
        if task.file.name.kind is not FileKind.LOG:
            found += file_findings(task, storage)
    for broker in inventory.brokers():
        found += _broker_findings(broker, now_ms)
    return list(dict.fromkeys(found))


def _broker_findings(broker: Broker, now_ms: int) -> Iterator[Finding]:
    settings = read_settings(metadata=broker.metadata, node_id=broker.node_id)
    facts: list[PartitionFacts] = []
    for log_dir in broker.log_dirs:
        for partition in log_dir.partitions:
            audited = AuditedPartition(
                partition=partition,
                log_dir=log_dir.path,
                config=settings.for_topic(partition.topic),
                now_ms=now_ms,
                is_clean=log_dir.is_clean,
                knows_settings=broker.metadata is not None,
            )
            files = DiskFiles(Path(partition.path))
            summaries: list[SegmentSummary] = []
            segments = [each for each in partition.segments if each.is_live]
            for segment, following in pairwise([*segments, None]):
                next_base = None if following is None else following.base_offset
                for each in check_segment(audited, segment, files, next_base=next_base):
                    if isinstance(each, SegmentSummary):
                        summaries.append(each)
                    else:
                        yield each
            for each in check_partition(audited, files, summaries):
                if isinstance(each, PartitionFacts):
                    facts.append(each)
                else:
                    yield each
    audited_broker = AuditedBroker(broker=broker, settings=settings, now_ms=now_ms)
    for each in check_broker(audited_broker, facts, lambda path: DiskFiles(Path(path))):
        if isinstance(each, Finding):
            yield each
