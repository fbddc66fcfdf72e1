"""`kafka-forensics compact`: run Kafka's log cleaner offline, or show what it would do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from jobs import compaction_explained, options, rewriting, selected_partitions
from jobs.outcome import report_findings
from jobs.table import human_size, json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobs.outcome import Row, VerbOutcome
    from jobs.places import Places
    from jobs.selected_partitions import SelectedPartitions
    from kafka_log.cleaner.passes import PassCount
    from kafka_log.cleaner.settings import CleanerSettings
    from kafka_log.config.settings import Settings
    from pipelines.compaction.compaction import CompactPartition
    from pipelines.engine.partition_tasks import PartitionTask

_DESCRIPTION = """\
Run Kafka's log cleaner offline. The result is byte for byte what a broker with the same settings
and the same clock would leave. Topics without `compact` in cleanup.policy are not changed.
Retention runs after each round, as in a broker: topics with `compact,delete` also lose segments by
retention.ms and retention.bytes. Without --output or --in-place, nothing is written.
"""
_EPILOG = """\
examples:
  How small would a topic become if it were cleaned from its start?
    kafka-forensics compact /data --topic orders --set cleanup.policy=compact --first-dirty 0
  Write a compacted copy of a log dir that a broker can start on.
    kafka-forensics compact /data --passes until-clean --output /copy

exit codes:
  0  success, even if there was nothing to clean
  1  damage was found or skipped (--skip-damaged), or a file is malformed
  2  wrong usage
  3  something could not be read, cleaned or written

All columns and JSON fields: docs/jobs/compact.md
"""
_UNTIL_CLEAN, _UNTIL_UNCHANGED = "until-clean", "until-unchanged"
_MIB = 1024 * 1024
_PARALLEL_ABOVE = 4096 * _MIB
_TASK_MEMORY = 512 * _MIB
_LEAST_TASK_MEMORY = 16 * 1024
_NUMBERS = ("dirty from", "cleaned to", "size before", "size after", "saved", "messages", "kept")
_COLUMNS = ("partition", *_NUMBERS, "removed", "due", "blocked by")
_REASONS = {
    "removed_superseded": "superseded",
    "removed_tombstone": "tombstones",
    "removed_aborted": "aborted",
    "removed_without_key": "without a key",
    "removed_marker": "markers",
}
_RETENTION = {
    "log start offset": "below the log start",
    "retention.bytes": "by retention.bytes",
    "retention.ms": "by retention.ms",
}


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    from kafka_log.cleaner.releases import RELEASES

    parser = options.Parser("compact", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    cleaning = parser.add_argument_group("cleaning")
    _add_rounds(cleaning)
    _add_resources(cleaning)
    _add_keys(cleaning)
    compaction_explained.add_arguments(parser)
    options.add_mode(parser)
    options.add_running(parser, tuple(RELEASES))
    return parser


def _add_rounds(group: argparse._ArgumentGroup) -> None:
    """Add `first_dirty`, `high_watermark`, `passes` and `when_due`."""
    group.add_argument(
        "--first-dirty",
        type=options.offset,
        metavar="OFFSET",
        help="start every round at this offset, such as 0; default: cleaner-offset-checkpoint, then"
        " the end of the previous round",
    )
    group.add_argument(
        "--high-watermark",
        type=options.high_watermark,
        metavar="OFFSET",
        help="high watermark: an offset, or `end` for the log end; default: the checkpoint, else"
        " the log end",
    )
    group.add_argument(
        "--passes",
        type=_passes,
        default=1,
        metavar=f"N|{_UNTIL_CLEAN}|{_UNTIL_UNCHANGED}",
        help=f"rounds to run: a number (default: 1), `{_UNTIL_CLEAN}` (until nothing is dirty) or"
        f" `{_UNTIL_UNCHANGED}` (from the same offset, until no file changes)",
    )
    group.add_argument(
        "--when-due",
        action="store_true",
        help="clean only the logs that a broker would clean at this time",
    )


def _add_resources(group: argparse._ArgumentGroup) -> None:
    """Add `dedupe_buffer_size`, `cores`, `parallel_above` and `task_memory`."""
    group.add_argument(
        "--dedupe-buffer-size",
        type=_size,
        metavar="BYTES",
        help="size of the offset map, 24 bytes per key; default: log.cleaner.dedupe.buffer.size",
    )
    group.add_argument(
        "--cores",
        type=_cores,
        metavar="N",
        help="threads per partition; default: the cores that other partitions do not use",
    )
    group.add_argument(
        "--parallel-above",
        type=_size,
        metavar="BYTES",
        help="clean partitions larger than this in many tasks; default: 4 GiB",
    )
    group.add_argument(
        "--task-memory",
        type=_task_memory,
        metavar="BYTES",
        help="approximate memory per task; default: 512 MiB",
    )


def _add_keys(group: argparse._ArgumentGroup) -> None:
    """Add `exact_keys` or `md5_keys`, and `skip_damaged`."""
    known_by = group.add_mutually_exclusive_group()
    known_by.add_argument(
        "--exact-keys",
        action="store_true",
        help="compare whole keys instead of 128-bit hashes; slower, but cannot collide",
    )
    known_by.add_argument(
        "--md5-keys",
        action="store_true",
        help="identify keys by their MD5 hash, as Kafka does, even where hashes collide",
    )
    group.add_argument(
        "--skip-damaged",
        action="store_true",
        help="skip damaged batches and report each, instead of stopping at the first",
    )


def _passes(text: str) -> PassCount:
    from kafka_log.cleaner.passes import UNTIL_CLEAN, UNTIL_UNCHANGED

    if text == _UNTIL_CLEAN:
        return UNTIL_CLEAN
    if text == _UNTIL_UNCHANGED:
        return UNTIL_UNCHANGED
    expected = f"1 or more, `{_UNTIL_CLEAN}` or `{_UNTIL_UNCHANGED}`"
    return options.natural(text, expected, least=1)


def _cores(text: str) -> int:
    return options.natural(text, "1 or more", least=1)


def _size(text: str) -> int:
    return options.size(text, "a size")


def _task_memory(text: str) -> int:
    least = _LEAST_TASK_MEMORY
    return options.size(text, f"a size of {least} bytes or more", least=least)


# --------------------------------------------------------------------------------------- work


def _work(arguments: argparse.Namespace) -> int:
    from kafka_log.checkpoints import cleaner_rows_without_log
    from pipelines.compaction.compaction import checkpoint_changes
    from pipelines.engine.partition_tasks import END

    compaction_explained.check(arguments)
    if arguments.skip_damaged and arguments.in_place:
        raise options.UsageError(
            "--skip-damaged would drop bytes permanently: use it with --output, not --in-place"
        )
    found = selected_partitions.find(arguments)
    if not arguments.quiet:
        _warn_of_unused_options(arguments)
    high_watermark = arguments.high_watermark
    # `end` and offset 0 exist in every log, other offsets do not.
    found.require_one_partition(
        None if high_watermark == END else high_watermark, arguments.first_dirty or None
    )
    if arguments.high_watermark is not None:
        found.tasks[:] = [replace(task, high_watermark=high_watermark) for task in found.tasks]
    compact = function(arguments, found)
    code = compaction_explained.run(arguments, found, compact)
    if code is not None:
        return code
    rewrite = rewriting.Rewriting(
        verb="compact",
        function=compact,
        changes_of=partial(checkpoint_changes, lost_rows=cleaner_rows_without_log(found.log_dirs)),
        is_large=compact.is_large,
    )
    outcome = rewrite.run(arguments, found)
    _show(outcome, found.places, arguments)
    if not arguments.quiet and outcome.error is None:
        _report(outcome, found.tasks, arguments)
    return outcome.exit_code


def _warn_of_unused_options(arguments: argparse.Namespace) -> None:
    """Report options that have no effect here."""
    given = [
        name
        for name, value in (
            ("--parallel-above", arguments.parallel_above),
            ("--task-memory", arguments.task_memory),
        )
        if value is not None
    ]
    if given and (why := _why_one_task(arguments)) is not None:
        say(f"{', '.join(given)}: no effect with {why}, which runs one task per partition")


def _why_one_task(arguments: argparse.Namespace) -> str | None:
    """Return the option because of which a partition is one task, if any."""
    reasons = {
        "--explain": arguments.explain is not None,
        "--explain-key": arguments.explain_key is not None,
        "--what-if": bool(arguments.what_if),
        "--in-place": options.mode(arguments) is options.Mode.IN_PLACE,
        "--dry-run (the default)": options.mode(arguments) is options.Mode.DRY_RUN,
        "--exact-keys": arguments.exact_keys,
        "--md5-keys": arguments.md5_keys,
    }
    return next((name for name, holds in reasons.items() if holds), None)


def function(arguments: argparse.Namespace, found: SelectedPartitions) -> CompactPartition:
    """Return the function to run on each partition."""
    from pipelines.compaction.compaction import CompactPartition
    from pipelines.compaction.parallel_compaction import Parallel
    from pipelines.engine.engine import available_processors

    return CompactPartition(
        settings=_broker_settings(arguments, found.settings),
        passes=arguments.passes,
        first_dirty_offset=arguments.first_dirty,
        only_when_due=arguments.when_due,
        skip_damaged=arguments.skip_damaged,
        cores=arguments.cores or max(1, available_processors() // max(1, len(found.tasks))),
        parallel=Parallel(
            above=_or_default(arguments.parallel_above, _PARALLEL_ABOVE),
            task_memory=_or_default(arguments.task_memory, _TASK_MEMORY),
            engine=arguments.engine,
        ),
    )


def _or_default(given: int | None, default: int) -> int:
    return default if given is None else given


def _broker_settings(arguments: argparse.Namespace, settings: Settings) -> CleanerSettings:
    from kafka_log.cleaner.offset_map import Keys
    from kafka_log.cleaner.releases import RELEASES
    from kafka_log.cleaner.settings import CleanerSettings, TooSmallMapError

    keys = Keys.EXACT if arguments.exact_keys else Keys.MD5 if arguments.md5_keys else Keys.HASHED
    rules = RELEASES[arguments.kafka_version]
    chosen = replace(CleanerSettings.of(settings), keys=keys, rules=rules)
    if arguments.dedupe_buffer_size is not None:
        chosen = replace(chosen, dedupe_buffer_size=arguments.dedupe_buffer_size)
    try:
        chosen.ensure_room()
    except TooSmallMapError as error:
        raise options.UsageError(str(error)) from error
    return chosen


# --------------------------------------------------------------------------------------- rows


def _show(outcome: VerbOutcome, places: Places, arguments: argparse.Namespace) -> None:
    rows = outcome.rows
    if arguments.format == "json":
        for row in (*outcome.checkpoints, *rows):
            print(json_line(row))
        return
    # Most topics of a log dir are not compacted: list those only if they were selected.
    shown = [row for row in rows if "is_due" in row or row["kind"] == "round"]
    if not shown or not options.Selection.of(arguments).is_everything:
        shown = list(rows)
    cells = [places.cells(row["path"], each) for row in shown if (each := _cells(row)) is not None]
    if cells:
        header = places.header(_COLUMNS)
        for line in table(header, cells, right=_NUMBERS, wide=arguments.wide):
            print(line)
    report_findings(outcome.skipped_damage)


def _cells(row: Row) -> list[object] | None:
    """Return one line per round, or one line for a partition without rounds."""
    name = f"{row['topic']}-{row['partition']}"
    if row["kind"] == "round":
        return [
            name,
            row["first_dirty_offset"],
            row["next_dirty_offset"],
            human_size(row["bytes_read"]),
            human_size(row["kept_bytes"]),
            _percent(row["bytes_read"], row["kept_bytes"]),
            row["messages_read"] + row["messages_unread"],
            row["kept_messages"],
            _removed(row),
            _due(row),
            row["held_by"],
        ]
    if row["kind"] != "partition" or row["is_compacted"]:
        return None
    nothing: list[object] = [None] * len(_NUMBERS)
    if "is_due" not in row:
        return [name, *nothing, None, f"no: {row['note']}", None]
    nothing[0] = row["first_dirty_offset"]
    return [name, *nothing, _removed(row), _due(row), row["held_by"]]


def _percent(before: int, after: int) -> str | None:
    """Return `66.1 %`; `100.0 %` and `0.0 %` are never the result of rounding."""
    if not before:
        return None
    text = f"{100 * (1 - after / before):.1f}"
    if text == "100.0" and after:
        return "> 99.9 %"
    if text == "0.0" and after < before:
        return "< 0.1 %"
    return f"{text} %"


def _removed(row: Row) -> str | None:
    """Return counts such as `12 superseded, 1 aborted, 300 by retention.ms`."""
    parts = [f"{row[key]:,} {name}" for key, name in _REASONS.items() if row.get(key)]
    for rule, name in _RETENTION.items():
        field = "records" if row.get("kind") == "partition" else "cleaned_records"
        deleted = [each[field] for each in row["retention"] if each["rule"] == rule]
        if None in deleted:
            parts.append(f"an unknown number {name}")
        elif sum(deleted):
            parts.append(f"{sum(deleted):,} {name}")
    return ", ".join(parts) or None


def _due(row: Row) -> str:
    return f"{'yes' if row['is_due'] else 'no'}: {row['due_reason']}"


# ------------------------------------------------------------------------------------ messages


def _report(
    outcome: VerbOutcome, tasks: Sequence[PartitionTask], arguments: argparse.Namespace
) -> None:
    """Print what Kafka's cleaner writes to its log, for all partitions together."""
    rounds = [row for row in outcome.rows if row["kind"] == "round"]
    partitions = [row for row in outcome.rows if row["kind"] == "partition" and "is_due" in row]
    for row in partitions:
        for hint in _hints(row, arguments.first_dirty):
            say(f"{row['path']}: {hint}")
    if tasks and not any(task.config.compact for task in tasks):
        say(
            "no topic is known to have cleanup.policy=compact;"
            " --set cleanup.policy=compact cleans all topics"
        )
    end = f"{options.by_rules(arguments)}{outcome.where}"
    if rounds:
        say(*_summary(rounds, partitions, end))
    elif partitions:
        what = "is due" if any(row["cleanable_bytes"] for row in partitions) else "to clean"
        say(f"nothing {what} in {_partition_count(partitions)}{end}")


def _hints(row: Row, first_dirty: int | None) -> list[str]:
    hints = []
    if row["checkpoint_was_invalid"] and first_dirty != 0:
        begin = row["cleaner_checkpoint"] if first_dirty is None else first_dirty
        start = row["first_dirty_offset"]
        hints.append(
            f"{begin} is outside the log: cleaned from the log start, {start}, as in Kafka"
        )
    if row["cut_bytes"]:
        hints.append(f"the last {row['cut_bytes']} bytes are not a batch: a restart truncates them")
    if row["deleted_segments"]:
        segments = counted(row["deleted_segments"], "segment")
        size = human_size(sum(each["size_in_bytes"] for each in row["retention"]))
        rules = ", ".join(dict.fromkeys(_RETENTION[each["rule"]] for each in row["retention"]))
        hints.append(
            f"retention deletes {segments} ({size}) up to offset {row['new_log_start_offset']},"
            f" {rules}; {human_size(row['bytes_after'])} of the log are left"
        )
    if not row["is_clean"] and row["rounds"]:
        hints.append(
            f"the offset map was full: still dirty from offset {row['new_cleaner_checkpoint']}"
            f" (use --passes {_UNTIL_CLEAN} or a larger --dedupe-buffer-size)"
        )
    if row["is_settled"] is False:
        rounds = counted(row["rounds"], "round")
        last = "it" if row["rounds"] == 1 else "the last one"
        hints.append(f"stopped after {rounds}, and {last} still changed a file")
    if row["note"]:
        hints.append(row["note"])
    return hints


def _summary(rounds: Sequence[Row], partitions: Sequence[Row], end: str) -> list[str]:
    """Return Kafka's own statistics (LogCleaner.CleanerThread.recordStats), counted its way."""
    total: Row = {name: sum(row[name] for row in rounds) for name in _SUMMED}
    total["retention"] = [each for row in rounds for each in row["retention"]]
    seconds, index_seconds = total["elapsed_seconds"], total["elapsed_index_seconds"]
    read, unread = total["messages_read"], total["messages_unread"]
    left = [row["kept_messages"] for row in rounds]
    kept = None if None in left else sum(left)
    fullest = max(row["buffer_utilization"] for row in rounds)
    less = _percent(total["bytes_read"], total["kept_bytes"])
    fewer = "an unknown part" if kept is None else _percent(read, kept)
    more = f"; {unread:,} more in batches that were removed unread" if unread else ""
    messages = "an unknown number of messages" if kept is None else counted(kept, "message")
    lines = [
        f"{_partition_count(partitions)}, {counted(len(rounds), 'round')}{end}",
        f"log processed   {_speed(total['bytes_read'], seconds)}",
        f"indexed         {_speed(total['map_bytes_read'], index_seconds, of=seconds)}",
        f"buffer          {100 * fullest:.1f} % of the offset map used",
        f"cleaned         {_speed(total['bytes_read'], seconds - index_seconds, of=seconds)}",
        f"start size      {human_size(total['bytes_read'])} ({counted(read, 'message')}{more})",
        f"end size        {human_size(total['kept_bytes'])} ({messages})",
        f"reduction       {less or '0.0 %'} of the size, {fewer or '0.0 %'} of the messages",
    ]
    if (removed := _removed(total)) is not None:
        lines.append(f"removed         {removed}")
    if invalid := total["invalid_messages_read"]:
        lines.append(f"invalid         {counted(invalid, 'message')} without a key")
    delays = [row["compaction_delay_ms"] for row in partitions if row["compaction_delay_ms"]]
    if delays:
        due = sum(row["is_due"] for row in partitions)
        lines.append(
            f"delayed         {len(delays)} of {counted(due, 'partition')} due,"
            f" by up to {max(delays) / 1000:,.1f} s (max.compaction.lag.ms)"
        )
    return lines


_SUMMED = (
    "map_bytes_read",
    "bytes_read",
    "messages_read",
    "messages_unread",
    "bytes_written",
    "messages_written",
    "kept_bytes",
    "invalid_messages_read",
    "elapsed_seconds",
    "elapsed_index_seconds",
    *_REASONS,
)


def _speed(size: int, seconds: float, *, of: float | None = None) -> str:
    """Return `17 KiB in 0.2 s (0.1 MB/s, 50.0 % of the time)`."""
    parts = []
    if seconds > 0:
        parts.append(f"{size / _MIB / seconds:,.1f} MB/s")
    if of:
        parts.append(f"{100 * seconds / of:.1f} % of the time")
    speed = f" ({', '.join(parts)})" if parts else ""
    return f"{human_size(size)} in {seconds:.1f} s{speed}"


def _partition_count(partitions: Sequence[Row]) -> str:
    return counted(len(partitions), "partition")


if __name__ == "__main__":
    raise SystemExit(main())
