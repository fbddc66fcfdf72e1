"""Check a broker: what its log dirs, checkpoints, metadata and internal topics say of each other.

    for audited in audited_brokers(inventory, settings, now_ms):
        for each in check_broker(audited, facts, files_of): Finding or NotChecked
    for each in inventory_findings(inventory): Finding       what belongs to no single broker

A check is a function with the arguments of check_broker, in a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafka_log.checks.brokers.checkpoint_checks import check_checkpoints
from kafka_log.checks.brokers.committed_offsets import check_committed_offsets
from kafka_log.checks.brokers.directories import directory_findings
from kafka_log.checks.brokers.identities import check_identities, registration_findings
from kafka_log.checks.brokers.leftovers import check_leftovers
from kafka_log.checks.brokers.remote_storage import check_remote_storage
from kafka_log.checks.brokers.transaction_checks import check_transactions
from kafka_log.checks.facts import AuditedBroker, Depth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.checks.facts import NotChecked, PartitionFacts
    from kafka_log.checks.finding import Finding
    from kafka_log.config.settings import Settings
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import Inventory

    FilesOf: TypeAlias = Callable[[str], Files]
    BrokerCheck: TypeAlias = Callable[
        [AuditedBroker, Sequence[PartitionFacts], FilesOf], Iterator[Finding | NotChecked]
    ]

CHECKS: tuple[BrokerCheck, ...] = (
    check_checkpoints,
    check_identities,
    check_leftovers,
    check_transactions,
    check_committed_offsets,
    check_remote_storage,
)


def audited_brokers(
    inventory: Inventory, settings: Settings, now_ms: int, depth: Depth = Depth.FULL
) -> Iterator[AuditedBroker]:
    """Yield the brokers of an inventory, each with the log dirs that belong to it."""
    for broker in inventory.brokers():
        yield AuditedBroker(broker=broker, settings=settings, now_ms=now_ms, depth=depth)


def check_broker(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], files_of: FilesOf
) -> Iterator[Finding | NotChecked]:
    """Yield the findings between the partitions of a broker. `files_of` opens a directory."""
    for check in CHECKS:
        yield from check(audited, facts, files_of)


def inventory_findings(inventory: Inventory) -> Iterator[Finding]:
    """Yield the findings of names and directories, and those between brokers."""
    yield from directory_findings(inventory)
    yield from registration_findings(inventory)
