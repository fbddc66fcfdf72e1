"""An audit as JUnit XML: one test case per partition, and one per log dir.

A test case fails with findings at or above `--fail-on`; others are in its `system-out`. A partition
with a file that was not read is an error. Findings are listed by rule, with the first of each.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from kafka_format.shown_text import escaped
from pipelines.audit.outputs.text import group_cells
from pipelines.audit.report import FAIL_ON, UNREAD

if TYPE_CHECKING:
    from typing import TextIO

    from pipelines.audit.report import AuditReport, GroupOfFindings

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST_LINES = 200

Case = tuple[str, str]
"""The suite (a topic, or `log dirs`) and the name of a test case."""


def write_junit(file: TextIO, report: AuditReport, fail_on: str) -> None:
    root = ET.Element("testsuites", name="kafka-forensics audit")
    suites: dict[str, list[ET.Element]] = defaultdict(list)
    found = _groups(report)
    for case in sorted({*_cases(report), *found}):
        suites[case[0]].append(_test_case(case, found.get(case, []), fail_on))
    for name, cases in suites.items():
        counts = {
            "tests": len(cases),
            "failures": sum(each.find("failure") is not None for each in cases),
            "errors": sum(each.find("error") is not None for each in cases),
        }
        attributes = {"name": name} | {key: str(value) for key, value in counts.items()}
        suite = ET.SubElement(root, "testsuite", attributes)
        suite.extend(cases)
    file.write('<?xml version="1.0" encoding="utf-8"?>\n')
    ET.indent(root)
    file.write(ET.tostring(root, encoding="unicode"))
    file.write("\n")


def _cases(report: AuditReport) -> list[Case]:
    return [_case(topic, partition, "") for topic, partition in report.partitions]


def _case(topic: str | None, partition: int | None, log_dir: str) -> Case:
    if topic is None:
        return "log dirs", xml_text(log_dir)
    return xml_text(topic), xml_text(topic if partition is None else f"{topic}-{partition}")


def _groups(report: AuditReport) -> dict[Case, list[GroupOfFindings]]:
    found: dict[Case, list[GroupOfFindings]] = defaultdict(list)
    for group in report.groups():
        row = group.first
        case = _case(row["topic"], row["partition"], row["log_dir"] or row["path"])
        found[case].append(group)
    return found


def _test_case(case: Case, groups: list[GroupOfFindings], fail_on: str) -> ET.Element:
    element = ET.Element("testcase", classname=case[0], name=case[1])
    bad = FAIL_ON[: FAIL_ON.index(fail_on) + 1] if fail_on != FAIL_ON[-1] else ()
    new = [group for group in groups if group.accepted < group.count]
    unread = [group for group in new if group.first["id"] in UNREAD]
    failing = [group for group in new if group.severity in bad]
    for tag, counted in (("error", unread), ("failure", failing)):
        if counted:
            attributes = {"message": _line(counted[0]), "type": str(counted[0].first["id"])}
            ET.SubElement(element, tag, attributes).text = _text(counted)
            break
    others = [group for group in groups if group not in failing]
    if others:
        ET.SubElement(element, "system-out").text = _text(others)
    return element


def _text(groups: list[GroupOfFindings]) -> str:
    lines = [_line(group) for group in groups[:_MOST_LINES]]
    if len(groups) > _MOST_LINES:
        lines.append(f"and {len(groups) - _MOST_LINES:,} more")
    return "\n".join(lines)


def _line(group: GroupOfFindings) -> str:
    severity, rule, _, count, what, advice = group_cells(group)
    times = "" if count == "1" else f" ({count} times)"
    return xml_text(f"{severity} {rule}: {what}{times}. {advice}")


def xml_text(text: str) -> str:
    """Return text on one line that XML can hold."""
    return _NOT_IN_XML.sub("\ufffd", escaped(text))
