"""An audit from Python: a report for notebooks and scripts, and an assertion for tests.

report = audit("/var/lib/kafka/data")
assert_clean("/var/lib/kafka/data", fail_on="warning", baseline="known.json")
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, TypedDict, Unpack

from kafka_format.access import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    Access,
    absolute_roots,
    using,
    watching,
)
from kafka_log.checks.facts import Depth
from kafka_log.clock import system_clock
from kafka_log.inventory.scan import scan
from pipelines.audit.audit import Running, audit_inventory
from pipelines.audit.baseline import read_baseline
from pipelines.audit.outputs.text import finding_line, shown_where, summary_lines
from pipelines.audit.plan import AuditRequest
from pipelines.audit.report import FAIL_ON, AuditReport
from pipelines.audit.rule_selection import RuleSelection
from pipelines.partition_selection import PartitionSelection
from pipelines.source.storage import StorageError, has_anything

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pipelines.engine.engine import Engine

_MOST_FINDINGS = 50


class AuditOptions(TypedDict, total=False):
    """The options of `kafka-forensics audit`, by the same names."""

    headers: bool
    topics: Iterable[str]
    partitions: Iterable[int]
    only: Iterable[str]
    skip: Iterable[str]
    baseline: str | os.PathLike[str]
    config: str | os.PathLike[str]
    settings: Mapping[str, object]
    """Kafka's names, as with `--set`."""
    now_ms: int
    show_data: bool
    engine: Engine
    follow_links: bool
    max_decompressed_bytes: int


def audit(
    *paths: str | os.PathLike[str],
    **options: Unpack[AuditOptions],
) -> AuditReport:
    """Check log dirs, partition directories or `.log` files, and return a report.

    Raises StorageError if there is nothing to check, and ValueError for wrong options.
    """
    given = tuple(os.fspath(path) for path in paths)
    for name in options:
        if name not in AuditOptions.__annotations__:
            raise TypeError(f"audit() got an unexpected option {name!r}")
    now_ms = options.get("now_ms", system_clock())
    report = AuditReport(
        paths=given,
        rules=RuleSelection.of(options.get("only", ()), options.get("skip", ())),
        show_data=options.get("show_data", False),
        now_ms=now_ms,
    )
    if "baseline" in options:
        report.baseline = read_baseline(os.fspath(options["baseline"]), now_ms)
    access = Access(
        roots=absolute_roots(given),
        follow_links=options.get("follow_links", False),
        max_decompressed_bytes=options.get(
            "max_decompressed_bytes", DEFAULT_MAX_DECOMPRESSED_BYTES
        ),
    )
    with using(access), watching():
        inventory = scan(given)
        if not has_anything(inventory):
            where = "; ".join(f"{each.path}: {each.message}" for each in inventory.problems)
            raise StorageError(where or f"{', '.join(given)}: no Kafka files found")
        running = Running(engine=options.get("engine", "auto"))
        return audit_inventory(inventory, _request(given, now_ms, options), report, running)


def _request(paths: tuple[str, ...], now_ms: int, options: AuditOptions) -> AuditRequest:
    selection = PartitionSelection(
        topics=tuple(options.get("topics", ())), partitions=frozenset(options.get("partitions", ()))
    )
    config = options.get("config")
    return AuditRequest(
        paths=paths,
        now_ms=now_ms,
        depth=Depth.HEADERS if options.get("headers") else Depth.FULL,
        config=None if config is None else os.fspath(config),
        overrides=tuple(f"{name}={value}" for name, value in options.get("settings", {}).items()),
        includes=selection.includes,
    )


def assert_clean(
    *paths: str | os.PathLike[str],
    fail_on: str = "error",
    **options: Unpack[AuditOptions],
) -> None:
    """Raise AssertionError, with the findings, if an audit would end with another code than 0."""
    if fail_on not in FAIL_ON:
        raise ValueError(f"fail_on={fail_on!r}: expected {', '.join(FAIL_ON)}")
    report = audit(*paths, **options)
    if report.exit_code(fail_on):
        raise AssertionError("\n".join(_lines(report)))


def _lines(report: AuditReport) -> Iterable[str]:
    yield from summary_lines(report)
    yield ""
    for row in islice(report, _MOST_FINDINGS):
        yield f"{row['id']} {shown_where(row)}"
        yield finding_line(row)
    if len(report) > _MOST_FINDINGS:
        yield f"and {len(report) - _MOST_FINDINGS:,} findings more"
