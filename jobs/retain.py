"""`kafka-forensics retain`: show or do what retention would delete."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from jobs import options, rewriting, selected_partitions
from jobs.table import human_duration, human_size, json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted, iso_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobs.outcome import Row, VerbOutcome
    from jobs.selected_partitions import SelectedPartitions
    from pipelines.engine.partition_tasks import PartitionTask

_DESCRIPTION = """\
Show which segments one run of retention would delete, and why it keeps the others. Segments are
deleted by log start offset, then by size, then by time, but never beyond the high watermark.
Without --output or --in-place, nothing is written.
"""
_EPILOG = """\
example:
  What would be deleted if one week were kept, as of a given time?
    kafka-forensics retain /data --set retention.ms=604800000 --now 2026-11-16T12:00:00Z

exit codes:
  0  success, even if there is nothing to delete
  1  a file is malformed
  2  wrong usage
  3  something could not be read or written, or no Kafka files were found

All columns and JSON fields: docs/jobs/retain.md
"""
_COLUMNS = ("partition", "segment", "end offset", "size", "newest record", "action", "reason")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("retain", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    parser.add_argument(
        "--high-watermark",
        type=options.high_watermark,
        metavar="OFFSET",
        help="high watermark: an offset, or `end` for the log end; default: the checkpoint",
    )
    parser.add_argument(
        "--log-start",
        type=options.offset,
        metavar="OFFSET",
        help="log start offset; default: the checkpoint",
    )
    options.add_mode(parser)
    options.add_running(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.engine.partition_tasks import END
    from pipelines.retention import checkpoint_changes, retain_partition

    found = selected_partitions.find(arguments)
    selected_partitions.skip_empty_partitions(arguments, found)
    high_watermark = arguments.high_watermark
    found.require_one_partition(
        None if high_watermark == END else high_watermark, arguments.log_start
    )
    found.tasks[:] = [_with_offsets(task, arguments) for task in found.tasks]
    retain = rewriting.Rewriting(
        verb="retain", function=retain_partition, changes_of=checkpoint_changes
    )
    outcome = retain.run(arguments, found)
    _show([*outcome.checkpoints, *outcome.rows], found, arguments)
    if outcome.rows and not arguments.quiet:
        say(_summary(outcome))
    return outcome.exit_code


def _with_offsets(task: PartitionTask, arguments: argparse.Namespace) -> PartitionTask:
    if arguments.high_watermark is not None:
        task = replace(task, high_watermark=arguments.high_watermark)
    if arguments.log_start is not None:
        task = replace(task, log_start_offset=arguments.log_start)
    return task


def _show(rows: Sequence[Row], found: SelectedPartitions, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        for row in rows:
            print(json_line(row))
        return
    places = found.places
    lines = [
        places.cells(row["path"], _cells(row))
        for row in rows
        if row["kind"] == "segment" or row.get("note")
    ]
    if lines:
        header, right = places.header(_COLUMNS), ("segment", "end offset", "size")
        for line in table(header, lines, right=right, wide=arguments.wide):
            print(line)


def _cells(row: Row) -> list[object]:
    name = f"{row['topic']}-{row['partition']}"
    if row["kind"] == "partition":
        return [name, None, None, None, None, None, row["note"]]
    newest = iso_time(row["largest_timestamp"])
    if row["timestamp_source"] == "modification time":
        newest = f"{newest} (file)"
    action = f"delete ({row['rule']})" if row["is_deleted"] else "keep"
    return [
        name,
        row["base_offset"],
        row["end_offset"],
        human_size(row["size_in_bytes"]),
        newest,
        action,
        _reason(row["reason"]),
    ]


_NUMBERS = re.compile(
    r"retention\.(?P<limit>ms|bytes) (?P<set>\d+)|(?P<number>\d+) (?P<unit>ms|bytes)"
)
"""Durations and sizes in the reasons of kafka_log/retention/breaches.py."""


def _reason(text: str) -> str:
    """Make durations and sizes readable: `94830400000 ms` becomes `3 y 2 d`."""

    def shown(match: re.Match[str]) -> str:
        readable = human_duration if (match["limit"] or match["unit"]) == "ms" else human_size
        if match["limit"]:
            return f"{match[0]} ({readable(int(match['set']))})"
        return str(readable(int(match["number"])))

    return _NUMBERS.sub(shown, text)


def _summary(outcome: VerbOutcome) -> str:
    partitions = [
        row for row in outcome.rows if row["kind"] == "partition" and "deleted_segments" in row
    ]
    segments = sum(row["deleted_segments"] for row in partitions)
    size = sum(row["deleted_bytes"] for row in partitions)
    kept = sum(row["kept_segments"] for row in partitions)
    kept_size = sum(row["kept_bytes"] for row in partitions)
    verb = "deleted" if outcome.was_written else "would be deleted"
    return (
        f"{counted(segments, 'segment')} ({human_size(size)}) {verb},"
        f" {kept} ({human_size(kept_size)}) kept,"
        f" in {counted(len(partitions), 'partition')}{outcome.where}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
