"""`kafka-forensics retain`: what retention would delete, and why the rest stays."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from jobs import options, rewriting
from jobs.table import human_duration, human_size, json_line, table
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobs.rewriting import Found, Row
    from pipelines.partition_tasks import PartitionTask

_DESCRIPTION = """\
Show what one run of delete retention would do: by log start offset, then by size, then by time,
never beyond the high watermark. PATH is a log dir, several in one directory, or a partition
directory. Without --output and --in-place nothing is written.
"""
_EPILOG = """\
example: what would be deleted if a week were kept, judged at a given time
  kafka-forensics retain /data --set retention.ms=604800000 --now 2026-11-16T12:00:00Z

exit codes: 0 done (whether anything is deleted or not), 1 a file is malformed, 2 usage, 3 something
could not be read or written, or nothing is there. All fields: docs/jobs/retain.md
"""
_COLUMNS = ("partition", "segment", "end", "size", "newest record", "verdict", "reason")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("retain", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    parser.add_argument(
        "--high-watermark",
        type=options.high_watermark,
        metavar="OFFSET",
        help="what is replicated: an offset, or `end`; default: the checkpoint",
    )
    parser.add_argument(
        "--log-start",
        type=options.offset,
        metavar="OFFSET",
        help="the log start offset; default: the checkpoint",
    )
    options.add_mode(parser)
    options.add_running(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.partition_tasks import END
    from pipelines.retention import checkpoint_changes, retain_partition

    found = rewriting.find(arguments)
    rewriting.skip_empty_partitions(arguments, found)
    high_watermark = arguments.high_watermark
    found.of_one(None if high_watermark == END else high_watermark, arguments.log_start)
    found.tasks[:] = [_with_offsets(task, arguments) for task in found.tasks]
    retain = rewriting.Rewriting(
        verb="retain", function=retain_partition, changes_of=checkpoint_changes
    )
    done = retain.run(arguments, found)
    _show([*done.checkpoints, *done.rows], found, arguments)
    if done.rows and not arguments.quiet:
        sys.stderr.write(_summary(done))
    return done.exit_code


def _with_offsets(task: PartitionTask, arguments: argparse.Namespace) -> PartitionTask:
    if arguments.high_watermark is not None:
        task = replace(task, high_watermark=arguments.high_watermark)
    if arguments.log_start is not None:
        task = replace(task, log_start_offset=arguments.log_start)
    return task


def _show(rows: Sequence[Row], found: Found, arguments: argparse.Namespace) -> None:
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
        header, right = places.header(_COLUMNS), ("segment", "end", "size")
        for line in table(header, lines, right=right, wide=arguments.wide):
            print(line)


def _cells(row: Row) -> list[object]:
    name = f"{row['topic']}-{row['partition']}"
    if row["kind"] == "partition":
        return [name, None, None, None, None, None, row["note"]]
    newest = rewriting.iso_time(row["largest_timestamp"])
    if row["timestamp_source"] == "modification time":
        newest = f"{newest} (file)"
    verdict = f"delete ({row['rule']})" if row["is_deleted"] else "keep"
    return [
        name,
        row["base_offset"],
        row["end_offset"],
        human_size(row["size_in_bytes"]),
        newest,
        verdict,
        _reason(row["reason"]),
    ]


_NUMBERS = re.compile(
    r"retention\.(?P<limit>ms|bytes) (?P<set>\d+)|(?P<number>\d+) (?P<unit>ms|bytes)"
)
"""Milliseconds and bytes in the reasons of kafka_log/retention.py."""


def _reason(text: str) -> str:
    """Rewrite `94830400000 ms old, retention.ms 3600000` with times and sizes for people."""

    def shown(match: re.Match[str]) -> str:
        as_people_write = (
            human_duration if (match["limit"] or match["unit"]) == "ms" else human_size
        )
        if match["limit"]:
            return f"{match[0]} ({as_people_write(int(match['set']))})"
        return str(as_people_write(int(match["number"])))

    return _NUMBERS.sub(shown, text)


def _summary(done: rewriting.Done) -> str:
    partitions = [
        row for row in done.rows if row["kind"] == "partition" and "deleted_segments" in row
    ]
    segments = sum(row["deleted_segments"] for row in partitions)
    size = sum(row["deleted_bytes"] for row in partitions)
    kept = sum(row["kept_segments"] for row in partitions)
    kept_size = sum(row["kept_bytes"] for row in partitions)
    verb = "deleted" if done.was_written else "would be deleted"
    return (
        f"{counted(segments, 'segment')} ({human_size(size)}) {verb},"
        f" {kept} ({human_size(kept_size)}) kept,"
        f" in {counted(len(partitions), 'partition')}{done.where}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
