"""One audit in this process: the findings of whole directories."""

import os
from typing import NamedTuple

from kafka_log.inventory.scan import scan
from pipelines.audit.audit import Running, audit_inventory
from pipelines.audit.plan import AuditRequest
from pipelines.audit.report import AuditReport

NOW = 1_795_100_000_000
"""Some days after the packs were made."""


class Found(NamedTuple):
    """A finding, as far as tests look at it."""

    id: str
    severity: str
    path: str
    position: int | None
    offset: int | None
    found: str
    expected: str
    on_restart: str


def audit(*paths: str | os.PathLike[str], now_ms: int = NOW) -> list[Found]:
    """Every finding, the worst first."""
    return [Found(*(row[name] for name in Found._fields)) for row in report(*paths, now_ms=now_ms)]


def report(*paths: str | os.PathLike[str], now_ms: int = NOW) -> AuditReport:
    """A full audit, as `kafka-forensics audit` makes it of directories of this size."""
    texts = tuple(os.fspath(each) for each in paths)
    request = AuditRequest(paths=texts, now_ms=now_ms)
    return audit_inventory(scan(paths), request, AuditReport(paths=texts), Running())
