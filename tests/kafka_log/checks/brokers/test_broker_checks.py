"""Which log dirs are judged together, and what belongs to no broker."""

from pathlib import Path

from kafka_log.checks.brokers.broker_checks import audited_brokers, inventory_findings
from kafka_log.checks.facts import Depth
from kafka_log.config.settings import read_settings
from kafka_log.inventory.scan import scan
from tests.kafka_log.checks.broker_cases import (
    NOW,
    findings,
    ids,
    log_dir_of,
    set_property,
    set_row,
)


def test_log_dirs_of_one_node_are_one_broker(tmp_path: Path) -> None:
    first = log_dir_of(tmp_path, "cleaner-4.3.1", "data-1")
    second = log_dir_of(tmp_path, "cleaner-4.3.1", "data-2")
    inventory = scan([first, second])
    settings = read_settings(metadata=inventory.metadata, node_id=inventory.node_id)
    (audited,) = audited_brokers(inventory, settings, NOW, Depth.HEADERS)
    assert [each.path for each in audited.broker.log_dirs] == [str(first), str(second)]
    assert (audited.depth, audited.now_ms) == (Depth.HEADERS, NOW)


def test_different_nodes_are_different_brokers(tmp_path: Path) -> None:
    first = log_dir_of(tmp_path)
    second = log_dir_of(tmp_path, name="data", pack="clean-3.9.1", into="other")
    set_property(second, "node.id", "2")
    set_row(first, "replication-offset-checkpoint", "counts 0", 12)
    set_row(second, "replication-offset-checkpoint", "codecs 0", 10**6)
    inventory = scan([first, second])
    settings = read_settings(metadata=inventory.metadata, node_id=inventory.node_id)
    assert len(list(audited_brokers(inventory, settings, NOW))) == 2
    wrong = [each for each in findings(first, second) if each.id == "CKP002"]
    assert [each.topic for each in wrong] == ["counts", "codecs"]


def test_one_partition_in_two_log_dirs_belongs_to_no_broker(tmp_path: Path) -> None:
    first = log_dir_of(tmp_path)
    second = log_dir_of(tmp_path, into="copy")
    found = [each.id for each in inventory_findings(scan([first, second]))]
    assert set(found) == {"DIR003"}
    assert "MET010" in ids(first, second)
