"""`kafka-forensics recover`: show or do what a restart would truncate and rebuild."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jobs import options, rewriting, selected_partitions
from jobs.outcome import broken_promise
from jobs.table import human_size, json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from jobs.outcome import Row, VerbOutcome
    from jobs.places import Places
    from jobs.selected_partitions import SelectedPartitions
    from pipelines.engine.partition_tasks import PartitionTask

_DESCRIPTION = """\
Show what would be lost if a broker started on this directory: one row per partition that loses
data, does not load, or has less data than its checkpoints say. With --files, also list what the
broker would do to each file. Without --output or --in-place, nothing is written.
"""
_EPILOG = """\
example:
  What would a restart lose if the broker had crashed?
    kafka-forensics recover /data --topic orders --clean-shutdown no

exit codes:
  0  no data is lost or missing
  1  data is lost or missing, or a partition, a log dir or the broker would not start
  2  wrong usage
  3  something could not be read or written

All columns and JSON fields: docs/jobs/recover.md
"""
_FATAL = ("stop", "offline")
"""Actions on a log dir after which the broker does not start, or runs without the dir."""
_NUMBERS = ("from offset", "to offset", "records lost", "bytes lost")
_COLUMNS = ("directory", *_NUMBERS, "cut at", "reason")
_FILE_COLUMNS = ("directory", "file", "action", "size before", "size after", "reason")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("recover", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    group = parser.add_argument_group("assumptions (by default read from the log dir)")
    group.add_argument(
        "--clean-shutdown",
        choices=("yes", "no"),
        help="whether the broker was shut down cleanly",
    )
    group.add_argument(
        "--recovery-point",
        type=options.offset,
        metavar="OFFSET",
        help="the offset up to which the log was flushed",
    )
    group.add_argument(
        "--log-start", type=options.offset, metavar="OFFSET", help="log start offset"
    )
    parser.add_argument(
        "--files", action="store_true", help="also list what happens to each file, and why"
    )
    options.add_mode(parser)
    options.add_running(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from kafka_log.loading.log_dir_recovery import Assignments
    from pipelines.recovery import RecoverPartition, checkpoint_changes

    found = selected_partitions.find(arguments)
    found.require_one_partition(arguments.recovery_point, arguments.log_start)
    found.tasks[:] = [_with_overrides(task, arguments) for task in found.tasks]
    missing = list(_missing_rows(found, arguments))
    if missing and not found.tasks:  # the checkpoints could be read
        found = replace(found, unreadable=found.unreadable.difference(arguments.paths))
    recover = rewriting.Rewriting(
        verb="recover",
        function=RecoverPartition(Assignments.from_metadata(found.log_dirs, found.metadata)),
        changes_of=checkpoint_changes,
    )
    outcome = recover.run(arguments, found)
    if outcome.error is None or outcome.rows:  # a run that was refused has no plan
        outcome.rows[:0] = list(_log_dir_rows(found, arguments))
        outcome.rows += missing
        _show(outcome, _PathNames.of(found, arguments), arguments)
    if outcome.rows and outcome.error is None and not arguments.quiet:
        say(_summary(outcome, is_complete=not (found.unreadable or found.malformed)))
    return outcome.exit_code or (
        options.FINDINGS if any(map(_is_bad, outcome.rows)) else options.CLEAN
    )


def _with_overrides(task: PartitionTask, arguments: argparse.Namespace) -> PartitionTask:
    if arguments.clean_shutdown is not None:
        task = replace(task, is_clean=arguments.clean_shutdown == "yes")
    if arguments.recovery_point is not None:
        task = replace(task, recovery_point=arguments.recovery_point)
    if arguments.log_start is not None:
        task = replace(task, log_start_offset=arguments.log_start)
    return task


def _log_dir_rows(found: SelectedPartitions, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield what happens to the log dirs themselves, if whole ones were given."""
    from kafka_log.config.log_config import LogConfig
    from kafka_log.loading.log_dir_recovery import plan_log_dir
    from kafka_log.names import FileKind

    answered = set() if found.metadata is None else {"-stray"}
    if arguments.clean_shutdown is not None:
        answered.add(FileKind.CLEAN_SHUTDOWN.value)  # an option overrides the marker
    for log_dir in found.log_dirs:
        if log_dir.is_clean is None:
            continue
        for row in plan_log_dir(log_dir.path, LogConfig()).rows:
            if row.name not in answered:
                yield {
                    "kind": "log_dir",
                    "path": log_dir.path,
                    "file": row.name,
                    "action": row.action,
                    "reason": row.why,
                }


def _missing_rows(found: SelectedPartitions, arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each partition that is in a checkpoint and has no directory."""
    from kafka_log.checkpoints import missing_partitions
    from pipelines.recovery import missing_partition_row

    if found.inventory is None:
        return
    includes = options.Selection.of(arguments).includes
    for broker in found.inventory.brokers():
        for log_dir, checkpointed in missing_partitions(broker.log_dirs):
            is_given = _is_given_whole(log_dir, arguments.paths)
            if is_given and includes(checkpointed.topic, checkpointed.partition):
                yield missing_partition_row(log_dir, checkpointed)


def _is_given_whole(log_dir: str, paths: Sequence[str]) -> bool:
    """Return whether a whole log dir was given, not only some of its partitions."""
    real = os.path.realpath(log_dir)
    given = (os.path.realpath(path) for path in paths)
    return any(real == each or real.startswith(each.rstrip(os.sep) + os.sep) for each in given)


def _is_bad(row: Row) -> bool:
    if row["kind"] == "log_dir":
        return row["action"] in _FATAL
    return row["kind"] == "partition" and bool(
        row["lost_bytes"] or row["error"] or row["promised_offset"] is not None
    )


# ------------------------------------------------------------------------------------ tables


@dataclass(frozen=True, slots=True)
class _PathNames:
    """How paths are shown: relative to the given path, unless several log dirs are read."""

    root: str | None
    places: Places

    @classmethod
    def of(cls, found: SelectedPartitions, arguments: argparse.Namespace) -> _PathNames:
        is_one = len(arguments.paths) == 1 and len(found.log_dirs) <= 1
        return cls(arguments.paths[0] if is_one else None, found.places)

    def path(self, path: str) -> str:
        if self.root is None:
            return path
        if "\0" not in path and os.path.realpath(path) == os.path.realpath(self.root):
            return os.path.basename(os.path.abspath(path))  # noqa: PTH100, PTH119
        return self.text(path)

    def directory(self, path: str) -> str:
        """Return the name of a partition directory, with its target if it is a link."""
        return self.places.linked(path, self.path(path))

    def text(self, text: str) -> str:
        """Shorten the paths in a message."""
        if self.root is None:
            return text
        for root in (os.path.abspath(self.root), self.root.rstrip(os.sep)):  # noqa: PTH100
            text = re.sub(rf"(?<![^\s'(]){re.escape(root)}/+", "", text)
        return text


def _show(outcome: VerbOutcome, shown: _PathNames, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        for row in (*outcome.checkpoints, *outcome.rows):
            print(json_line(row))
        return
    cells = [_cells(row, shown) for row in outcome.rows if _is_bad(row)]
    if cells:
        for line in table(_COLUMNS, cells, right=_NUMBERS, wide=arguments.wide):
            print(line)
    if not arguments.files:
        return
    files = [each for row in outcome.rows if (each := _file_cells(row, shown)) is not None]
    if cells and files:
        print()
    if files:
        right = ("size before", "size after")
        for line in table(_FILE_COLUMNS, files, right=right, wide=arguments.wide):
            print(line)


def _cells(row: Row, shown: _PathNames) -> list[Any]:
    if row["kind"] == "log_dir":
        consequence = "the broker does not start" if row["action"] == "stop" else "taken offline"
        reason = row["reason"]
        if consequence not in reason:
            reason = f"{reason}; {consequence}"
        reason = shown.text(reason)
        if not reason.startswith(row["file"]):
            reason = f"{row['file']}: {reason}"
        return [shown.path(row["path"]), None, None, None, None, None, reason]
    name = shown.directory(row["path"])
    cut_at = None
    if row["lost_bytes"] and row["lost_file"] is not None:
        cut_at = shown.path(row["lost_file"])
        if row["lost_position"] is not None:
            cut_at = f"{cut_at}@{row['lost_position']}"
    if row["lost_bytes"]:
        numbers = [
            row["lost_from_offset"],
            row["lost_to_offset"],
            _number(row["lost_records"]),
            _number(row["lost_bytes"]),
        ]
    elif row["promised_offset"] is not None:
        start = row["log_end_offset"] or 0
        numbers = [start, row["promised_offset"] - 1, None, None]
    else:
        numbers = [None] * 4
    return [name, *numbers, cut_at, _reason(row, shown)]


def _number(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


def _reason(row: Row, shown: _PathNames) -> str:
    reasons = []
    if row["lost_reason"]:
        reasons.append(shown.text(_without_place(row["lost_reason"], row)))
    if row["promised_offset"] is not None:
        reasons.append(broken_promise(row))
    return "; ".join(reasons)


def _without_place(reason: str, row: Row) -> str:
    """Drop `path: ` and `path@position: ` where the table has them in columns."""
    reason = reason.removeprefix(f"{row['path']}: ")
    if row["lost_file"] is None or not row["lost_bytes"]:
        return reason
    return re.sub(rf"{re.escape(row['lost_file'])}@\d+: ", "", reason, count=1)


def _file_cells(row: Row, shown: _PathNames) -> list[Any] | None:
    if row["kind"] == "log_dir":
        name = shown.path(row["path"])
        return [name, row["file"], row["action"], None, None, shown.text(row["reason"])]
    name = shown.directory(row["path"])
    if row["kind"] == "partition":
        if row["error"]:
            return [name, None, "stop", None, None, shown.text(row["error"])]
        return [name, None, row["fate"], None, None, row["note"]] if row["note"] else None
    action = row["action"]
    if row["renamed_to"] is not None:
        action = f"{action} to {row['renamed_to']}"
    sizes = [human_size(row["size_before"]), human_size(row["size_after"])]
    return [name, row["file"], action, *sizes, shown.text(row["reason"])]


# ----------------------------------------------------------------------------------- summary


def _summary(outcome: VerbOutcome, *, is_complete: bool) -> str:
    """Return one line; "no data lost" only if all of the input could be read."""
    partitions = [row for row in outcome.rows if row["kind"] == "partition"]
    read = sum(row["bytes_read"] for row in partitions)
    seconds = sum(row["estimated_seconds"] for row in partitions)
    parts = _losses(partitions, was_written=outcome.was_written)
    if not parts and partitions:
        lost = "no data lost"
        if outcome.failures or outcome.checkpoints or not is_complete:
            lost = "no loss found in what could be read"
        parts = [f"{counted(len(partitions), 'partition')}, {lost}"]
    elif not partitions:
        parts = ["nothing was recovered"]
    given_up = {row["path"] for row in outcome.rows if row["kind"] == "log_dir" and _is_bad(row)}
    given_up |= {row["path"] for row in outcome.checkpoints}
    if given_up:
        parts.append(f"{counted(len(given_up), 'log dir')} would not load")
    if outcome.failures:
        parts.append(f"{counted(outcome.failures, 'path')} could not be read")
    parts.append(f"a broker would read {human_size(read)} of logs in about {seconds:.1f} s")
    return "; ".join(parts) + outcome.where


def _losses(partitions: Sequence[Row], *, was_written: bool) -> list[str]:
    """Return how much is lost or missing, one clause per kind of loss."""
    parts = []
    cut = [row for row in partitions if row["lost_bytes"]]
    if cut:
        verb = "lost" if was_written else "would lose"
        size = human_size(sum(row["lost_bytes"] for row in cut))
        records = [row["lost_records"] for row in cut]
        records_text = "an unknown number of records"
        if None not in records:
            records_text = counted(sum(records), "record")
        parts.append(f"{counted(len(cut), 'partition')} {verb} {size} ({records_text})")
    stopped = sum(row["error"] is not None for row in partitions)
    if stopped:
        parts.append(f"{counted(stopped, 'partition')} would not load")
    promised = [row for row in partitions if row["promised_offset"] is not None]
    missing = sum(row["log_end_offset"] is None for row in promised)
    short = len(promised) - missing
    if short:
        verb = "ends" if short == 1 else "end"
        of = "its" if short == 1 else "their"
        parts.append(f"{counted(short, 'partition')} {verb} before the offset in {of} checkpoints")
    if missing:
        verb = "has" if missing == 1 else "have"
        parts.append(f"{counted(missing, 'partition')} in the checkpoints {verb} no directory")
    return parts


if __name__ == "__main__":
    raise SystemExit(main())
