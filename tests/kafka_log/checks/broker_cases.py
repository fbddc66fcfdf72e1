"""Brokers for the checks between partitions: copies of a golden log dir, and their findings.

`groups-4.3.1` was stopped cleanly, has its metadata log, and gives no finding at all.
"""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from kafka_format.java_text import parse_uuid
from kafka_log.checks.brokers.broker_checks import audited_brokers, inventory_findings
from kafka_log.checks.brokers.checkpoint_checks import check_checkpoints
from kafka_log.checks.brokers.identities import check_identities
from kafka_log.checks.brokers.leftovers import check_leftovers
from kafka_log.checks.facts import AuditedBroker, NotChecked, PartitionFacts
from kafka_log.checks.finding import Finding
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.config.settings import read_settings
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.inventory.inventory import Inventory
from kafka_log.inventory.scan import scan
from kafka_log.log.partition_offsets import read_offsets
from tests import golden
from tests.kafka_log.inventory.test_cluster_metadata import log

NOW = 1_790_000_000_000
PACK = "groups-4.3.1"
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
DIRECTORY_ID = parse_uuid("yIckUInzRhWcVm-nD304zw")
BROKER_EPOCH = 13
CLUSTER_ID = "Z29sZGVuLWRpcmVjdG9yeQ"
MARKER = ".kafka_cleanshutdown"


def log_dir_of(
    tmp_path: Path, pack: str = PACK, name: str = "data", into: str = "evidence"
) -> Path:
    """A copy to damage."""
    copy = tmp_path / into / name
    shutil.copytree(golden.shared(pack) / name, copy)
    return copy


def checked(*paths: Path) -> list[Finding | NotChecked]:
    """What the checks of checkpoints, ids and leftovers yield for these paths."""
    inventory = scan(paths)
    settings = read_settings(metadata=inventory.metadata, node_id=inventory.node_id)
    yielded: list[Finding | NotChecked] = []
    for audited in audited_brokers(inventory, settings, NOW):
        facts = list(facts_of(audited))
        for check in (check_checkpoints, check_identities, check_leftovers):
            yielded += check(audited, facts, DiskFiles)
    return yielded + list(inventory_findings(inventory))


def facts_of(audited: AuditedBroker) -> Iterator[PartitionFacts]:
    """The ends of all logs, by the headers of their last segments."""
    partitions = Inventory(log_dirs=audited.broker.log_dirs).partitions()
    for _, partition in partitions:
        try:
            end = read_offsets(partition.path, LogConfig(), FixedClock(NOW)).log_end_offset
        except LogError:
            end = None  # no segments
        yield PartitionFacts(
            path=partition.path,
            topic=partition.topic,
            partition=partition.partition,
            log_start_offset=partition.log_start_offset,
            log_end_offset=end,
        )


def findings(*paths: Path) -> list[Finding]:
    return [each for each in checked(*paths) if isinstance(each, Finding)]


def not_checked(*paths: Path) -> list[tuple[str, str]]:
    return [(each.what, each.why) for each in checked(*paths) if isinstance(each, NotChecked)]


def ids(*paths: Path) -> list[str]:
    return [each.id for each in findings(*paths)]


def only(*paths: Path) -> Finding:
    """The one finding that there is."""
    (finding,) = findings(*paths)
    return finding


def set_row(log_dir: Path, file: str, partition: str, offset: int | None) -> None:
    """Change, add or remove (None) a row of a checkpoint."""
    path = log_dir / file
    rows = [row for row in path.read_text().splitlines()[2:] if not row.startswith(f"{partition} ")]
    rows += [] if offset is None else [f"{partition} {offset}"]
    path.write_text("\n".join(["0", str(len(rows)), *rows, ""]))


def topic_id(directory: Path) -> uuid.UUID:
    return parse_uuid((directory / "partition.metadata").read_text().split()[-1])


# --- records of the metadata log, by hand: frame, api key, version, fields, tagged fields


def add_metadata(log_dir: Path, *records: bytes) -> None:
    """Append records at higher offsets; a record is larger than one byte."""
    with (log_dir / METADATA_LOG).open("ab") as file:
        file.write(log(*records, base_offset=file.tell()))


def replicas_change(topic: uuid.UUID, partition: int, *nodes: int) -> bytes:
    """A PartitionChangeRecord with other replicas."""
    value = bytes([len(nodes) + 1]) + b"".join(node.to_bytes(4, "big") for node in nodes)
    fields = partition.to_bytes(4, "big") + topic.bytes
    return bytes([1, 5, 0]) + fields + bytes([1, 2, len(value)]) + value


def directories_change(topic: uuid.UUID, partition: int, *directories: uuid.UUID) -> bytes:
    """A PartitionChangeRecord with other log dirs."""
    fields = partition.to_bytes(4, "big") + topic.bytes
    return bytes([1, 5, 1]) + fields + _uuids(8, directories)


def registration_change(broker: int, *directories: uuid.UUID) -> bytes:
    """A BrokerRegistrationChangeRecord with other log dirs."""
    fields = broker.to_bytes(4, "big") + BROKER_EPOCH.to_bytes(8, "big")
    return bytes([1, 17, 2]) + fields + _uuids(2, directories)


def _uuids(tag: int, ids: tuple[uuid.UUID, ...]) -> bytes:
    value = bytes([len(ids) + 1]) + b"".join(each.bytes for each in ids)
    return bytes([1, tag, len(value)]) + value


def set_property(log_dir: Path, name: str, value: str | None) -> None:
    """Change or remove (None) a line of meta.properties."""
    path = log_dir / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
    lines += [] if value is None else [f"{name}={value}"]
    path.write_text("\n".join([*lines, ""]))
