"""An audit as text: the verdict, findings by rule and partition, and what was not checked.

2 errors, 1 warning in 14 partitions (…)
error    LOG001  orders-0      2  a batch has a wrong checksum: restore the partition …
…
not checked: replica assignments: no metadata log here …
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafka_format.shown_text import escaped
from pipelines.audit.baseline import where_of
from pipelines.report.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipelines.audit.report import AuditReport, GroupOfFindings, Row

_MOST_GROUPS = 20
_MOST_NOT_CHECKED = 20
COLUMNS = ("severity", "id", "partition", "count", "what is wrong", "what to do")


def group_cells(group: GroupOfFindings) -> list[object]:
    """Return the cells of a group, for COLUMNS."""
    what = group.title if group.count > 1 else f"{group.title}: {group.first['found']}"
    accepted = f" ({group.accepted:,} accepted)" if group.accepted else ""
    return [
        group.severity,
        group.first["id"],
        shown_where(group.first),
        f"{group.count:,}{accepted}",
        what,
        first_sentence(group.what_to_do),
    ]


def shown_where(row: Row) -> str:
    """Return where a finding is: its partition, else its path."""
    return where_of(row)


def first_sentence(text: str) -> str:
    """Return the first sentence of an advice; `--explain` prints the whole page."""
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def finding_line(row: Row) -> str:
    """Return one finding as a line."""
    place = Path(row["path"]).name if row["topic"] is not None else row["path"]
    if row["position"] is not None:
        place += f"@{row['position']}"
    at = "" if row["offset"] is None else f", offset {row['offset']}"
    accepted = f" (accepted: {row['accepted']})" if "accepted" in row else ""
    return escaped(f"  {place}{at}: found {row['found']}, expected {row['expected']}{accepted}")


def record_line(record: Row) -> str:
    """Return a record next to a finding, as a line."""
    key, value = (
        "null" if record[name] is None else repr(record[name]) for name in ("key", "value")
    )
    return escaped(f"    offset {record['offset']}: key {key}, value {value}")


def not_checked_lines(report: AuditReport, *, everything: bool = False) -> Iterator[str]:
    """Yield what was not checked and why; of many the first ones."""
    shown = report.not_checked if everything else report.not_checked[:_MOST_NOT_CHECKED]
    for row in shown:
        path = f" ({row['path']})" if row["path"] else ""
        yield escaped(f"not checked: {row['what']}{path}: {row['why']}")
    if len(shown) < len(report.not_checked):
        more = len(report.not_checked) - len(shown)
        yield f"not checked: {more:,} more (--all lists them)"


def summary_lines(report: AuditReport) -> Iterator[str]:
    """Yield the verdict, the worst groups and what was not checked, for a short report."""
    yield report.verdict
    groups = report.groups()
    for group in groups[:_MOST_GROUPS]:
        yield escaped(_line(group_cells(group)))
    if len(groups) > _MOST_GROUPS:
        yield f"and {counted(len(groups) - _MOST_GROUPS, 'group')} of findings more"
    yield from not_checked_lines(report)


def _line(cells: Sequence[object]) -> str:
    severity, rule, where, count, what, advice = cells
    times = "" if count == "1" else f" ({count} times)"
    return f"{severity} {rule} {where}: {what}{times}. {advice}"
