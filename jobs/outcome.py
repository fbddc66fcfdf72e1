"""The outcome of a verb over partitions: its rows, what went wrong, and the exit code."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs import options
from kafka_format.shown_text import say
from kafka_log.checkpoints import CHECKPOINT_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobs.selected_partitions import SelectedPartitions

Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class VerbOutcome:
    """The outcome of a verb."""

    rows: list[Row] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    """Paths that could not be read; a partition and its files count once."""
    malformed: frozenset[str] = frozenset()
    """Malformed paths; each was reported on stderr."""
    damaged: set[str] = field(default_factory=set)
    """Partitions without rows because of a malformed file."""
    is_dry: bool = True
    """Whether this is a dry run."""
    was_written: bool = False
    where: str = ""
    """The end of the summary: where the result was written."""
    error: str | None = None
    checkpoints: list[Row] = field(default_factory=list)
    """Findings about malformed checkpoints; each was reported on stderr."""
    _reported: set[str] = field(default_factory=set)
    """Paths and failures already reported on stderr: several tasks may meet the same one."""

    @classmethod
    def of(cls, found: SelectedPartitions, *, is_dry: bool = True) -> VerbOutcome:
        """Start without rows. A dry run reports malformed checkpoints; other runs end with them."""
        outcome = cls(
            unreadable=set(found.unreadable),
            malformed=found.malformed,
            checkpoints=list(found.checkpoints),
            is_dry=is_dry,
            _reported={*found.unreadable, *found.malformed},
        )
        for row in found.checkpoints if is_dry else ():
            say(
                f"{row['file']}@{row['position']}: {row['id']}: found {row['found']}, expected"
                f" {row['expected']}; treated as empty here, but a broker takes the log dir"
                " offline: repair the file or move it away"
            )
        return outcome

    def report(self, line: str) -> bool:
        """Report a line on stderr unless it was reported before; return whether it is new."""
        if line in self._reported or any(_is_about(line, each) for each in self._reported):
            return False
        self._reported.add(line)
        say(line)
        return True

    def fail(self, partition: str, message: str, *, is_damage: bool = False) -> None:
        """Count a partition without rows once, however many of its files could not be read.

        A partition that fails because of a malformed file is damaged, not unreadable.
        """
        below = f"{partition}{os.sep}"
        bad = [each for each in self.malformed if each.startswith(below)]
        if is_damage or (bad and message.startswith((*bad, f"{partition}: "))):
            self.damaged.add(partition)
            return
        self.unreadable = {each for each in self.unreadable if not each.startswith(below)}
        self.unreadable.add(partition)

    @property
    def failures(self) -> int:
        return len(self.unreadable)

    def ensure_complete(self, output: str | None) -> None:
        """Raise OutputError if the output would be incomplete."""
        if (self.failures or self.damaged) and output is not None:
            from kafka_log.disk.output import OutputError

            raise OutputError(f"{output}: not written, because it would be incomplete")

    @property
    def findings(self) -> list[Row]:
        return [*self.checkpoints, *self.skipped_damage]

    @property
    def skipped_damage(self) -> list[Row]:
        """Return the findings about damage that --skip-damaged skipped."""
        return [row for row in self.rows if row.get("kind") == "finding"]

    @property
    def exit_code(self) -> int:
        """Damage is a finding; a partition that should have been written and was not is worse."""
        if self.failures or self.error or (self.damaged and not self.is_dry):
            return options.COULD_NOT_RUN
        is_damaged = self.findings or self.malformed or self.damaged
        return options.FINDINGS if is_damaged else options.CLEAN


def _is_about(line: str, path: str) -> bool:
    """Return whether a line is about a path, as it was given or absolute."""
    return line.startswith(f"{path}: ") or f"{os.path.abspath(path)}: " in line  # noqa: PTH100


def report_findings(rows: Iterable[Row]) -> None:
    """Report skipped damage, one line per finding."""
    for row in rows:
        last = (
            "the end of the file" if row["next_offset"] is None else f"offset {row['next_offset']}"
        )
        say(
            f"{row['file']}@{row['position']}: {row['id']}: found {row['found']}, expected"
            f" {row['expected']}; skipped {row['size_in_bytes']} bytes, from offset"
            f" {row['first_offset']} up to {last}"
        )


def error_text(error: Exception) -> str:
    from pipelines.engine.processes import os_error_text

    return os_error_text(error) if isinstance(error, OSError) else str(error)


def broken_promise(row: Row) -> str:
    """Describe a checkpoint that is beyond the log end, from the fields of a row."""
    promise = f"the {CHECKPOINT_NAMES[row['promised_by']]} checkpoint says {row['promised_offset']}"
    if row["log_end_offset"] is None:
        return f"no directory; {promise}"
    return f"{promise}, the log ends at {row['log_end_offset']}"
