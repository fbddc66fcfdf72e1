"""The same partitions under several settings, as tasks and rows: a row a partition and scenario.

    tasks = scenarios(inventory, {"as it is": (), "no tombstones": ("delete.retention.ms=0",)}, …)
    rows = list(run(tasks, judge))
    rows += totals(rows)

A log is cleaned until nothing more of it can be, on a view of its files: what a cleaner writes goes
to a temporary directory and away.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_log.cleaner.manager import BrokerSettings
from kafka_log.cleaner.what_if import what_if
from kafka_log.clock import FixedClock
from kafka_log.disk.scratch_files import ScratchFiles
from pipelines.compaction import opened_log, why_left_alone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipelines.partition_tasks import PartitionTask

Row = dict[str, Any]

AS_IT_IS = "as it is"
_SUMS = (
    "rounds",
    "records_before",
    "records_after",
    "bytes_before",
    "bytes_after",
    "segments_before",
    "segments_after",
    "tombstones_after",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTask:
    """A partition and the settings to judge it by; picklable."""

    scenario: str
    task: PartitionTask
    """With these settings."""
    settings: BrokerSettings = BrokerSettings()  # noqa: RUF009  # a frozen value
    first_dirty_offset: int | None = None

    @property
    def path(self) -> str:
        return self.task.path

    @property
    def size_in_bytes(self) -> int:
        return self.task.size_in_bytes

    @property
    def in_place(self) -> bool:
        return False


def judge(scenario: ScenarioTask) -> Iterator[Row]:
    """Raises LogError, FormatError or OSError."""
    task, clock = scenario.task, FixedClock(scenario.task.now_ms)
    row: Row = {
        "kind": "what_if",
        "scenario": scenario.scenario,
        "topic": task.topic,
        "partition": task.partition,
        "path": task.path,
    }
    note = why_left_alone(task)
    if note is not None:
        yield row | {"note": note}
        return
    first = scenario.first_dirty_offset
    with tempfile.TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        files = ScratchFiles(task.path, clock, scratch=scratch)
        with opened_log(task, files) as loading:
            outcome = what_if(
                loading.log,
                task.cleaner_checkpoint if first is None else first,
                make_cleaner=lambda witness: scenario.settings.cleaner(task.config, clock, witness),
                now_ms=task.now_ms,
            )
    yield row | outcome.row() | {"note": None}


def totals(rows: Sequence[Row]) -> list[Row]:
    """A row a scenario: sums, the oldest tombstone, and the partition that is cleaned first."""
    names = list(dict.fromkeys(row["scenario"] for row in rows))
    return [
        _total(name, [row for row in rows if row["scenario"] == name and row["note"] is None])
        for name in names
    ]


def _total(scenario: str, rows: list[Row]) -> Row:
    removed: dict[str, int] = {}
    for row in rows:
        for rule, count in row["removed"].items():
            removed[rule] = removed.get(rule, 0) + count
    total: Row = {"kind": "total", "scenario": scenario, "partitions": len(rows)}
    total |= {name: sum(row[name] for row in rows) for name in _SUMS}
    total |= {"removed": removed}
    with_tombstones = [row for row in rows if row["oldest_tombstone_ms"] is not None]
    oldest = min(with_tombstones, key=lambda row: row["oldest_tombstone_ms"], default={})
    for name in ("ms", "may_go_ms", "reason"):
        total[f"oldest_tombstone_{name}"] = oldest.get(f"oldest_tombstone_{name}")
    total |= _first(rows, "due_at_ms", "due_reason")
    return total | _first(rows, "next_cleaning_at_ms", "next_cleaning_reason")


def _first(rows: Iterable[Row], at: str, reason: str) -> Row:
    """The partition that is cleaned first speaks for all; if none is, any."""
    known = sorted(rows, key=lambda row: (row[at] is None, row[at] or 0))
    return {at: known[0][at], reason: known[0][reason]} if known else {at: None, reason: None}


def reduction(row: Row) -> float | None:
    """In percent of the bytes."""
    before = row["bytes_before"]
    return 100 * (1 - row["bytes_after"] / before) if before else None
