"""Check a broker: what its log dirs, checkpoints, metadata and internal topics say of each other.

    for each in check_broker(audited, facts, files_of): Finding or NotChecked

A check is a function with these arguments, in a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafka_log.checks.transaction_checks import check_transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.checks.facts import AuditedBroker, NotChecked, PartitionFacts
    from kafka_log.checks.finding import Finding
    from kafka_log.disk.files import Files

    FilesOf: TypeAlias = Callable[[str], Files]
    BrokerCheck: TypeAlias = Callable[
        [AuditedBroker, Sequence[PartitionFacts], FilesOf], Iterator[Finding | NotChecked]
    ]

CHECKS: tuple[BrokerCheck, ...] = (check_transactions,)


def check_broker(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], files_of: FilesOf
) -> Iterator[Finding | NotChecked]:
    """Yield the findings between the partitions of a broker. `files_of` opens a directory."""
    for check in CHECKS:
        yield from check(audited, facts, files_of)
