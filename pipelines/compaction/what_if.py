"""The same partitions under several settings: one row per partition and scenario.

    rows = compare(["/data"], {"no tombstones": {"delete.retention.ms": 0}}, now_ms=…)
    rows += totals(rows)

A log is cleaned until nothing more can be removed, on a view of its files: the cleaner writes to a
temporary directory that is deleted. A partition that only some of the settings compact is counted
under all of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_log.cleaner.cleaner_thread import new_cleaner
from kafka_log.cleaner.passes import UNTIL_CLEAN
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.cleaner.what_if import not_compacted, what_if
from kafka_log.clock import FixedClock
from kafka_log.config.settings import read_settings
from kafka_log.errors import LogError
from kafka_log.inventory.scan import scan
from pipelines.compaction.compaction import CompactPartition, why_not_compacted
from pipelines.engine.engine import Failure, run
from pipelines.engine.partition_tasks import partition_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pipelines.engine.partition_tasks import PartitionTask

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
    """A partition and the settings to apply. Picklable."""

    scenario: str
    task: PartitionTask
    """With these settings."""
    compact: CompactPartition = CompactPartition(passes=UNTIL_CLEAN)  # noqa: RUF009  # frozen
    is_counted: bool = True
    """Whether any of the compared settings compact it."""

    @property
    def path(self) -> str:
        return self.task.path

    @property
    def size_in_bytes(self) -> int:
        return self.task.size_in_bytes

    @property
    def in_place(self) -> bool:
        return False

    @property
    def scratch(self) -> None:
        """None: nothing is written."""


def compare(
    paths: Sequence[str | os.PathLike[str]],
    scenarios: Mapping[str, Mapping[str, object]],
    *,
    now_ms: int,
    topics: Sequence[str] = (),
    processes: int | None = None,
) -> list[Row]:
    """Return rows of the compacted partitions of these topics (globs), "as it is" first.

    Raises SettingsError, and LogError where a partition cannot be cleaned.
    """
    inventory = scan([os.fspath(path) for path in paths])
    tasks = []
    asked: dict[str, Mapping[str, object]] = {AS_IT_IS: {}, **scenarios}
    for name, given in asked.items():
        settings = read_settings(
            metadata=inventory.metadata,
            node_id=inventory.node_id,
            overrides=[f"{setting}={value}" for setting, value in given.items()],
        )
        for task in partition_tasks(
            inventory,
            settings,
            now_ms=now_ms,
            includes=lambda topic, _: not topics or any(fnmatchcase(topic, g) for g in topics),
        ):
            compact = CompactPartition(settings=CleanerSettings.of(settings), passes=UNTIL_CLEAN)
            tasks.append(ScenarioTask(scenario=name, task=task, compact=compact))
    rows: list[Row] = []
    counted = [each for each in with_counted(tasks) if each.is_counted]
    for row in run(
        counted,
        run_scenario,
        engine="local",
        bytes_of=lambda task: task.size_in_bytes,
        processes=processes,
    ):
        if isinstance(row, Failure):
            raise LogError(row.message)
        rows.append(row)
    return rows


def with_counted(tasks: Sequence[ScenarioTask]) -> list[ScenarioTask]:
    """Mark the partitions that any of the settings compact."""
    compacted = {each.path for each in tasks if why_not_compacted(each.task) is None}
    return [replace(each, is_counted=each.path in compacted) for each in tasks]


def run_scenario(scenario: ScenarioTask) -> Iterator[Row]:
    """Clean a view of a log; yield findings only once. Raises LogError, FormatError, OSError."""
    task, compact, clock = scenario.task, scenario.compact, FixedClock(scenario.task.now_ms)
    row: Row = {
        "kind": "what_if",
        "scenario": scenario.scenario,
        "topic": task.topic,
        "partition": task.partition,
        "path": task.path,
        "kafka_version": compact.settings.rules.release,
    }
    note = why_not_compacted(task)
    if note is not None and not scenario.is_counted:
        yield row | {"note": note}
        return
    with compact.sound_log(task) as (log, found):
        if note is not None:
            outcome = not_compacted(log)
        else:
            outcome = what_if(
                log,
                compact.checkpoint_of(task),
                make_cleaner=partial(new_cleaner, compact.settings, task.config, clock),
                now_ms=task.now_ms,
            )
    if scenario.scenario == AS_IT_IS:
        yield from found
    yield row | outcome.row() | {"note": None}


def totals(rows: Sequence[Row]) -> list[Row]:
    """Return one row per scenario: sums, the oldest tombstone, and the first cleaning."""
    rows = [row for row in rows if row["kind"] == "what_if"]
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
    """Return the earliest of these times with its reason; if none is known, any reason."""
    known = sorted(rows, key=lambda row: (row[at] is None, row[at] or 0))
    return {at: known[0][at], reason: known[0][reason]} if known else {at: None, reason: None}


def reduction(row: Row) -> float | None:
    """Return the saved bytes in percent."""
    before = row["bytes_before"]
    return 100 * (1 - row["bytes_after"] / before) if before else None
