"""The result of an audit: findings, what was not checked, the verdict and the exit code.

for row in report: ...            every finding, the worst first
report.groups()                   one GroupOfFindings per rule and partition, in that order
report.verdict, report.exit_code("error"), report.not_checked, report.summary()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_log.checks.rules import RULES
from kafka_log.checks.rules.rule import Severity
from pipelines.audit.baseline import Baseline, where_of
from pipelines.audit.fingerprint import Place, Places, fingerprint
from pipelines.audit.rule_selection import RuleSelection
from pipelines.audit.store import FindingStore, SortKey
from pipelines.report.text import counted, human_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from kafka_log.checks.facts import NotChecked, PartitionFacts
    from kafka_log.checks.finding import Finding

Row = dict[str, Any]

FAIL_ON = (*map(str, Severity), "never")
"""The worst severity that is still accepted is the one after it."""
CLEAN, FINDINGS, INCOMPLETE = 0, 1, 3
UNREAD = frozenset({"DIR001", "DIR007", "DIR008"})
"""Rules about a file that should have been read and was not, or changed meanwhile."""
FIELDS = (
    *("id", "severity", "log_dir", "node_id", "topic", "topic_id", "partition", "path"),
    *("position", "offset", "found", "expected", "on_restart", "what_to_do", "fingerprint"),
)
"""The fields of a finding. One that a baseline accepts has its reason as `accepted`, too."""
_MOST_DRAWN = 100
"""Damaged logs whose facts are kept for the maps of a report."""


class GroupKey(NamedTuple):
    """What the findings of a group have in common."""

    id: str
    log_dir: str | None
    topic: str | None
    partition: int | None


@dataclass(slots=True)
class GroupOfFindings:
    """The findings of a rule about a partition: how many, and the first of them."""

    key: SortKey
    first: Row
    count: int = 0
    accepted: int = 0

    @property
    def where(self) -> str:
        return where_of(self.first)

    @property
    def severity(self) -> str:
        return str(self.first["severity"])

    @property
    def title(self) -> str:
        return RULES[self.first["id"]].title

    @property
    def what_to_do(self) -> str:
        return str(self.first["what_to_do"])


@dataclass(slots=True)
class Checked:
    """What was read."""

    partitions: int = 0
    log_dirs: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_in_bytes: int = 0


@dataclass(slots=True)
class AuditReport:
    """What an audit has found. Renders as HTML in a notebook."""

    paths: tuple[str, ...] = ()
    places: Places | None = None
    rules: RuleSelection = field(default_factory=RuleSelection)
    baseline: Baseline = field(default_factory=Baseline)
    show_data: bool = False
    now_ms: int = 0
    checked: Checked = field(default_factory=Checked)
    not_checked: list[Row] = field(default_factory=list)
    partitions: list[tuple[str, int | None]] = field(default_factory=list)
    """Every partition that was checked."""
    facts: dict[str, PartitionFacts] = field(default_factory=dict)
    """Partitions with findings, by path; only some of them if there are many."""
    unread: dict[str, str] = field(default_factory=dict)
    """Files that should have been read and were not, and why."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Severity), 0))
    """Findings by severity, without accepted ones."""
    accepted: int = 0
    store: FindingStore = field(default_factory=FindingStore)
    _groups: dict[GroupKey, GroupOfFindings] = field(default_factory=dict)
    _damaged: set[str] = field(default_factory=set)

    # ------------------------------------------------------------------------------- filling

    def add(self, finding: Finding) -> None:
        """Add a finding, unless its rule is not selected."""
        place = Place() if self.places is None else self.places.of(finding.path)
        if finding.id in UNREAD and finding.path not in self.unread:
            self._add_unread(finding, place)
        if not self.rules.includes(finding.id):
            return
        row = _row(finding, place)
        reason = self.baseline.reason(row["fingerprint"])
        if reason is not None:
            row["accepted"] = reason
            self.accepted += 1
        else:
            self.counts[row["severity"]] += 1
        self._count(row)
        self.store.add(row)

    def _add_unread(self, finding: Finding, place: Place) -> None:
        self.unread[finding.path] = finding.found
        about = _coordinates(finding, place)
        self.not_checked.append({"what": "a file that was not read", "why": finding.found} | about)

    def add_missing(self, path: str) -> None:
        """Add a path that was given and has nothing to check."""
        self.unread[path] = "no Kafka files found"
        row = {"what": "a path without Kafka files", "why": "no Kafka files found", "path": path}
        self.not_checked.append(row | dict.fromkeys(("log_dir", "node_id", "topic", "partition")))

    def _count(self, row: Row) -> None:
        key = GroupKey(row["id"], row["log_dir"], row["topic"], row["partition"])
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = GroupOfFindings(SortKey.of(row, 0), row)
        elif (order := SortKey.of(row, group.count)) < group.key:
            group.key, group.first = order, row
        group.count += 1
        group.accepted += "accepted" in row

    def add_not_checked(self, each: NotChecked) -> None:
        place = Place() if self.places is None else self.places.of(each.path)
        row: Row = {"what": each.what, "why": each.why, "path": each.path or None}
        row |= {"log_dir": place.log_dir or None, "node_id": place.node_id}
        row |= {"topic": None, "partition": None}
        if row not in self.not_checked:
            self.not_checked.append(row)

    def add_facts(self, facts: PartitionFacts) -> None:
        """Count what was read, and keep what a map of a damaged log needs."""
        for each in facts.segments:
            self.checked.batches += each.batches
            self.checked.records += each.records
        if len(self.facts) < _MOST_DRAWN and self._has_findings(facts):
            self.facts[facts.path] = facts

    def _has_findings(self, facts: PartitionFacts) -> bool:
        if len(self._damaged) < len(self._groups):
            self._damaged = {f"{key.topic}-{key.partition}" for key in self._groups}
        return f"{facts.topic}-{facts.partition}" in self._damaged

    # ------------------------------------------------------------------------------- reading

    def __iter__(self) -> Iterator[Row]:
        """Yield every finding, with all its fields, the worst first.

        With `show_data`, a field `records` has the first records of its batch.
        """
        if not self.show_data:
            yield from self.store
            return
        from pipelines.audit.outputs.shown_records import records_of

        for row in self.store:
            yield {**row, "records": records_of(row)}

    def __len__(self) -> int:
        return len(self.store)

    def rows(self) -> list[Row]:
        """Return every finding. There may be millions: iterate over the report instead."""
        return list(self)

    def groups(self) -> list[GroupOfFindings]:
        """Return the findings by rule and partition, the worst first."""
        return sorted(self._groups.values(), key=lambda each: each.key)

    @property
    def is_complete(self) -> bool:
        """Whether everything was read that should have been."""
        return not self.unread

    def exit_code(self, fail_on: str = "error") -> int:
        """Return 3 if something was not read, 1 with findings at or above `fail_on`, else 0."""
        if self.unread:
            return INCOMPLETE
        return FINDINGS if self.failing(fail_on) else CLEAN

    def failing(self, fail_on: str) -> int:
        """Return the number of findings at or above a severity that no baseline accepts."""
        if fail_on == FAIL_ON[-1]:
            return 0
        return sum(self.counts[each] for each in FAIL_ON[: FAIL_ON.index(fail_on) + 1])

    @property
    def verdict(self) -> str:
        """Return one line: how much of what was found, in what."""
        known = [counted(number, name) for name, number in self.counts.items() if number]
        where = f"in {counted(self.checked.partitions, 'partition')} ({self._sizes()})"
        if self.counts["error"] or self.counts["warning"]:
            text = f"{', '.join(known)} {where}"
        elif self.unread:
            text = f"nothing found in what could be read {where}"
        elif known:
            text = f"healthy: no errors or warnings {where}; {known[0]}"
        else:
            text = f"healthy: nothing found {where}"
        if self.accepted:
            text += f"; {self.accepted:,} accepted by the baseline"
        if self.unread:
            text += f"; {counted(len(self.unread), 'file')} could not be read"
        return text

    def _sizes(self) -> str:
        checked = self.checked
        parts = [counted(checked.segments, "segment"), str(human_size(checked.size_in_bytes))]
        if checked.records:
            parts.insert(1, counted(checked.records, "record"))
        if checked.log_dirs > 1:
            parts.append(f"{checked.log_dirs} log dirs")
        return ", ".join(parts)

    def summary(self, fail_on: str = "error") -> Row:
        """Return the last row of the JSON output."""
        checked = self.checked
        return {
            "verdict": self.verdict,
            "errors": self.counts["error"],
            "warnings": self.counts["warning"],
            "notes": self.counts["note"],
            "accepted": self.accepted,
            "not_checked": len(self.not_checked),
            "unread": len(self.unread),
            "log_dirs": checked.log_dirs,
            "partitions": checked.partitions,
            "segments": checked.segments,
            "batches": checked.batches,
            "records": checked.records,
            "size_in_bytes": checked.size_in_bytes,
            "exit_code": self.exit_code(fail_on),
        }

    def to_dataframe(self, spark: SparkSession) -> DataFrame:
        """Return the findings as a DataFrame, with the columns of FIELDS."""
        from pipelines.audit.outputs.findings_table import dataframe

        return dataframe(spark, self)

    def __repr__(self) -> str:
        from pipelines.audit.outputs.text import summary_lines

        return "\n".join(summary_lines(self))

    def _repr_html_(self) -> str:
        from pipelines.audit.outputs.html import fragment

        return fragment(self)


def _row(finding: Finding, place: Place) -> Row:
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        **_coordinates(finding, place),
        "position": finding.position,
        "offset": finding.offset,
        "found": finding.found,
        "expected": finding.expected,
        "on_restart": finding.on_restart,
        "what_to_do": finding.what_to_do,
        "fingerprint": fingerprint(finding, place),
    }


def _coordinates(finding: Finding, place: Place) -> Row:
    return {
        "log_dir": place.log_dir or None,
        "node_id": place.node_id,
        "topic": finding.topic,
        "topic_id": place.topic_id if finding.topic is not None else None,
        "partition": finding.partition,
        "path": finding.path,
    }
