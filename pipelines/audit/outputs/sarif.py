"""An audit as SARIF 2.1.0, the format of code scanning.

Each finding is a result: with the fingerprint, the file relative to the current directory or to its
log dir, the byte position as a region, and partition and node as logical locations. Code scanning
shows 5,000 results: if there are more findings, each result stands for all findings of a rule about
a partition, and a notification says so. What was not checked is a notification, too.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kafka_format.shown_text import escaped, name_bytes
from kafka_log.checks.rules import RULES
from pipelines.audit.pages import page
from pipelines.report.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from pipelines.audit.report import AuditReport, Row

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "kafkaForensics/v1"
MOST_RESULTS = 5_000
"""What code scanning shows of one upload; from 25,000 on it refuses."""

Json = dict[str, Any]


def write_sarif(file: TextIO, report: AuditReport) -> None:
    json.dump(sarif(report), file, indent=1)
    file.write("\n")


def sarif(report: AuditReport) -> Json:
    """Return the SARIF log of an audit, as JSON values."""
    is_summed_up = len(report) > MOST_RESULTS
    results = list(_sums(report) if is_summed_up else map(_result, report))
    more = len(results) - MOST_RESULTS
    rules = sorted({result["ruleId"] for result in results}, key=list(RULES).index)
    numbers = {rule: number for number, rule in enumerate(rules)}
    for result in results:
        result["ruleIndex"] = numbers[result["ruleId"]]
    notices = [_notification("note", escaped(report.verdict))]
    if is_summed_up:
        text = f"{len(report):,} findings are summed up by rule and partition"
        if more > 0:
            text += f"; the worst {MOST_RESULTS:,} of {len(results):,} sums are listed"
        notices.append(_notification("warning", text))
    notices += map(_not_checked, report.not_checked)
    driver = {
        "name": "kafka-forensics",
        "semanticVersion": _version(),
        "rules": [_rule(each) for each in rules],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": report.is_complete,
                "toolExecutionNotifications": notices,
            }
        ],
        "results": results[:MOST_RESULTS],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _version() -> str:
    from importlib import metadata

    return metadata.version("kafka-forensics")


def _rule(rule: str) -> Json:
    found = RULES[rule]
    text = f"On a restart: {found.on_restart}\n\nWhat to do: {found.what_to_do}"
    return {
        "id": rule,
        "shortDescription": {"text": found.title},
        "fullDescription": {"text": f"{found.title}. {found.on_restart}"},
        "help": {"text": text, "markdown": page(rule)},
        "defaultConfiguration": {"level": str(found.severity)},
        "properties": {"tags": ["kafka"]},
    }


def _result(row: Row) -> Json:
    text = f"{RULES[row['id']].title}: found {row['found']}, expected {row['expected']}."
    return _with_suppression(row, _located(row, text))


def _sums(report: AuditReport) -> Iterator[Json]:
    for group in report.groups():
        row = group.first
        text = (
            f"{counted(group.count, 'finding')}: {group.title}; the first: found {row['found']},"
            f" expected {row['expected']}."
        )
        located = _located(row, text) | {"occurrenceCount": group.count}
        if group.accepted == group.count:
            located = _with_suppression(row, located)
        yield located


def _located(row: Row, text: str) -> Json:
    text = f"{text} On a restart: {row['on_restart']} What to do: {row['what_to_do']}"
    return {
        "ruleId": row["id"],
        "level": row["severity"],
        "message": {"text": escaped(text)},
        "locations": [_location(row)],
        "partialFingerprints": {FINGERPRINT: row["fingerprint"]},
        "properties": {"offset": row["offset"], "expected": escaped(row["expected"])},
    }


def _with_suppression(row: Row, result: Json) -> Json:
    if "accepted" in row:
        result["suppressions"] = [{"kind": "external", "justification": row["accepted"]}]
    return result


def _location(row: Row) -> Json:
    region: Json = {"startLine": 1}
    if row["position"] is not None:
        region["byteOffset"] = max(0, row["position"])
        region["byteLength"] = 0
    physical = {"artifactLocation": {"uri": relative_uri(row)}, "region": region}
    return {"physicalLocation": physical, "logicalLocations": [_logical(row)]}


def _logical(row: Row) -> Json:
    node = "log dir" if row["node_id"] is None else f"node {row['node_id']}"
    if row["topic"] is None:
        return {"name": node, "fullyQualifiedName": node, "kind": "resource"}
    number = "" if row["partition"] is None else f"-{row['partition']}"
    name = escaped(f"{row['topic']}{number}")
    return {"name": name, "fullyQualifiedName": f"{node}/{name}", "kind": "resource"}


def relative_path(row: Row) -> str:
    """Return a path relative to the current directory if it is below, else to its log dir."""
    path, log_dir = os.path.abspath(row["path"]), row["log_dir"]  # noqa: PTH100  # resolves no link
    here = os.getcwd()  # noqa: PTH109
    if path.startswith(here.rstrip(os.sep) + os.sep):
        return os.path.relpath(path, here)
    if log_dir:
        above = Path(os.path.abspath(log_dir)).parent  # noqa: PTH100
        return os.path.relpath(path, above)
    return Path(path).name


def relative_uri(row: Row) -> str:
    return quote(name_bytes(relative_path(row)))


def _notification(level: str, text: str) -> Json:
    return {"level": level, "message": {"text": text}}


def _not_checked(row: Row) -> Json:
    notice = _notification("note", escaped(f"not checked: {row['what']}: {row['why']}"))
    if row["path"]:
        uri = quote(name_bytes(relative_path(row)))
        notice["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": uri}}}]
    return notice
