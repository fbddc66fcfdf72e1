"""An audit for GitHub Actions: annotations, and the summary of the step in Markdown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafka_format.shown_text import escaped, name_text
from kafka_log.disk.files import open_to_write
from kafka_log.disk.output import check_output_file
from pipelines.audit.outputs.sarif import relative_path
from pipelines.audit.outputs.text import group_cells
from pipelines.report.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipelines.audit.report import AuditReport, GroupOfFindings

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_MOST = 10
"""Annotations of each kind that GitHub shows of a step."""
_MOST_ROWS = 200


def annotation_lines(report: AuditReport) -> Iterator[str]:
    """Yield workflow commands, one per rule and partition; accepted findings have none."""
    shown = dict.fromkeys(_COMMANDS, 0)
    for group in report.groups():
        if group.accepted == group.count:
            continue
        shown[group.severity] += 1
        if shown[group.severity] <= _MOST:
            yield _annotation(group)
    more = sum(max(0, number - _MOST) for number in shown.values())
    if more:
        yield f"::notice title=kafka-forensics::{counted(more, 'annotation')} more: see the summary"


def _annotation(group: GroupOfFindings) -> str:
    row = group.first
    _, rule, where, count, what, advice = group_cells(group)
    times = "" if count == "1" else f" ({count} times)"
    title = f"{rule} {where}"
    return (
        f"::{_COMMANDS[group.severity]} file={_property(name_text(relative_path(row)))},line=1,"
        f"title={_property(title)}::{_data(f'{what}{times}. {advice}')}"
    )


def _data(text: object) -> str:
    return escaped(str(text)).replace("%", "%25")


def _property(text: object) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def append_summary(report: AuditReport, path: str | None, evidence: Sequence[str]) -> None:
    """Append the summary to the file that GitHub names, if it does. Raises OutputError, OSError."""
    if not path:
        return
    check_output_file(path, evidence)
    data = summary(report).encode("utf-8", "replace")
    fd = open_to_write(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def summary(report: AuditReport) -> str:
    """Return the verdict, a table of findings and what was not checked, as Markdown."""
    lines = [f"### {_cell(report.verdict)}", ""]
    groups = report.groups()
    if groups:
        lines += ["| severity | rule | where | count | what is wrong | what to do |"]
        lines += ["|---|---|---|---:|---|---|"]
        for group in groups[:_MOST_ROWS]:
            lines.append("| " + " | ".join(map(_cell, group_cells(group))) + " |")
        if len(groups) > _MOST_ROWS:
            lines += ["", f"and {counted(len(groups) - _MOST_ROWS, 'row')} more"]
        lines.append("")
    for row in report.not_checked[:_MOST_ROWS]:
        lines.append(_cell(f"- not checked: {row['what']}: {row['why']}"))
    return "\n".join([*lines, ""])


def _cell(value: object) -> str:
    """Return text that Markdown and HTML show as it is."""
    text = escaped(str(value)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_[]|":
        text = text.replace(mark, f"\\{mark}")
    return text
