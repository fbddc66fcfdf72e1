"""An audit as one HTML page, and as a fragment for notebooks.

The page needs no network and no script. Of many findings, partitions or rules it shows the worst.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_format.shown_text import escaped
from kafka_log.checks.rules import RULES
from pipelines.audit.baseline import where_of
from pipelines.audit.outputs.html_template import FRAGMENT, PAGE
from pipelines.audit.outputs.log_map import log_map
from pipelines.audit.outputs.text import group_cells
from pipelines.report.text import iso_time

if TYPE_CHECKING:
    from typing import TextIO

    from jinja2 import Environment

    from pipelines.audit.report import AuditReport, GroupOfFindings, Row

_MOST_GROUPS = 500
_MOST_SECTIONS = 100
_MOST_ROWS = 50
_MOST_NOT_CHECKED = 100

Section = tuple[str | None, str | None, int | None]
"""Log dir, topic and partition."""


def write_html(file: TextIO, report: AuditReport) -> None:
    file.writelines(_environment().get_template("page").generate(_page_values(report)))


def fragment(report: AuditReport) -> str:
    """Return the verdict, the findings by rule and partition, and what was not checked."""
    return _environment().get_template("fragment").render(_values(report, links=False))


@cache
def _environment() -> Environment:
    from jinja2 import DictLoader, Environment, StrictUndefined

    return Environment(
        loader=DictLoader({"page": PAGE, "fragment": FRAGMENT}),
        autoescape=True,
        undefined=StrictUndefined,
    )


def _values(report: AuditReport, *, links: bool) -> dict[str, Any]:
    groups, not_checked = report.groups(), report.not_checked
    anchors = {each: name for name, each in _sections(groups).items()} if links else {}
    worst = next((name for name, number in report.counts.items() if number), None)
    return {
        "verdict": escaped(report.verdict),
        "state": worst or ("healthy" if report.is_complete else "error"),
        "links": links,
        "groups": [
            _group(each) | {"anchor": anchors.get(_section_of(each.first))}
            for each in groups[:_MOST_GROUPS]
        ],
        "more_groups": max(0, len(groups) - _MOST_GROUPS),
        "not_checked": [
            {name: row[name] and escaped(str(row[name])) for name in ("what", "why", "path")}
            for row in not_checked[:_MOST_NOT_CHECKED]
        ],
        "more_not_checked": max(0, len(not_checked) - _MOST_NOT_CHECKED),
    }


def _page_values(report: AuditReport) -> dict[str, Any]:
    from markupsafe import Markup

    groups = report.groups()
    sections = _sections(groups)
    rows = _rows_of(report, sections)
    rules = list(dict.fromkeys(each.first["id"] for each in groups))
    inner = _environment().get_template("fragment").render(_values(report, links=True))
    return {
        "title": "kafka-forensics audit",
        "paths": escaped(", ".join(report.paths)),
        "time": iso_time(report.now_ms),
        "fragment": Markup(inner),  # noqa: S704  # rendered by our template, which escapes
        "sections": [
            _section(report, section, anchor, groups, rows) for anchor, section in sections.items()
        ],
        "more_sections": len({_section_of(each.first) for each in groups}) - len(sections),
        "rules": [{"id": rule, **RULES[rule]._asdict()} for rule in rules],
    }


def _section_of(row: Row) -> Section:
    return row["log_dir"], row["topic"], row["partition"]


def _sections(groups: list[GroupOfFindings]) -> dict[str, Section]:
    """Return the partitions with findings, the worst first, by the anchors of their sections."""
    found = list(dict.fromkeys(_section_of(each.first) for each in groups))[:_MOST_SECTIONS]
    return {f"p{number}": each for number, each in enumerate(found, 1)}


def _rows_of(
    report: AuditReport, sections: dict[str, Section]
) -> dict[tuple[Section, str], list[Row]]:
    """Return the first findings of each rule and section, in one pass over the report."""
    wanted = set(sections.values())
    found: dict[tuple[Section, str], list[Row]] = defaultdict(list)
    for row in report:
        section = _section_of(row)
        if section in wanted and len(found[section, row["id"]]) < _MOST_ROWS:
            found[section, row["id"]].append(row)
    return found


def _section(
    report: AuditReport,
    section: Section,
    anchor: str,
    groups: list[GroupOfFindings],
    rows: dict[tuple[Section, str], list[Row]],
) -> dict[str, Any]:
    own = [each for each in groups if _section_of(each.first) == section]
    findings = [row for each in own for row in rows[section, each.first["id"]]]
    place = section[0] or ""
    facts = next(
        (
            each
            for each in report.facts.values()
            if (each.topic, each.partition) == section[1:] and each.path.startswith(place)
        ),
        None,
    )
    name = where_of(own[0].first) if section[1] is not None else "files of the log dir"
    return {
        "anchor": anchor,
        "name": escaped(name),
        "log_dir": escaped(place),
        "map": None if facts is None else log_map(facts, findings),
        "groups": [
            _group(each)
            | {
                "rows": [_shown(row) for row in rows[section, each.first["id"]]],
                "more": each.count - len(rows[section, each.first["id"]]),
                "on_restart": escaped(each.first["on_restart"]),
                "title": each.title,
            }
            for each in own
        ],
    }


def _group(group: GroupOfFindings) -> dict[str, Any]:
    names = ("severity", "rule", "where", "count", "what", "advice")
    return {name: escaped(str(cell)) for name, cell in zip(names, group_cells(group), strict=True)}


def _shown(row: Row) -> dict[str, Any]:
    place = Path(row["path"]).name
    if row["position"] is not None:
        place += f"@{row['position']}"
    if row["offset"] is not None:
        place += f", offset {row['offset']}"
    return {
        "place": escaped(place),
        "found": escaped(row["found"]),
        "expected": escaped(row["expected"]),
        "accepted": row.get("accepted"),
        "records": row.get("records", []),
    }
