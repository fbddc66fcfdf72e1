"""`kafka-forensics offsets`: where each log begins, ends, is replicated, flushed and decided."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jobs import options, rewriting
from jobs.table import json_line, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobs.rewriting import Row

_DESCRIPTION = """\
Tell the log start offset, recovery point, high watermark, last stable offset and log end offset of
every partition, and which transaction holds the last stable offset. PATH is a log dir, several in
one directory, or a partition directory. Only headers are read, and files are only read.
"""
_EPILOG = """\
example: what a transaction holds back, by a replay of the whole log
  kafka-forensics offsets /data --topic orders --replay --format json

exit codes: 0 told, 1 damage hides a last stable offset, or a checkpoint is malformed, 2 usage,
3 something could not be read. All fields: docs/jobs/offsets.md
"""
_OFFSETS = ("log start", "recovery point", "high watermark", "last stable", "log end")
_COLUMNS = ("partition", *_OFFSETS, "held by")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("offsets", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    parser.add_argument(
        "--replay",
        action="store_true",
        help="from all batch headers, not only from those behind the newest producer snapshot",
    )
    options.add_running(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.offsets import OffsetsOf

    found = rewriting.find(arguments)
    done = rewriting.Done.of(found)
    function = OffsetsOf(arguments.replay)
    done.rows += rewriting.answers(arguments, "offsets", found.tasks, function, done)
    _show(done.rows, arguments.format)
    if done.rows and not arguments.quiet:
        sys.stderr.write(_summary(done.rows))
    is_damaged = any(row["damage"] for row in done.rows)
    return done.exit_code or (options.FINDINGS if is_damaged else options.CLEAN)


def _show(rows: Sequence[Row], form: str) -> None:
    if form == "json":
        for row in rows:
            print(json_line(row))
    elif rows:
        for line in table(_COLUMNS, map(_cells, rows), right=_OFFSETS):
            print(line)
    for row in rows:
        if row["damage"]:
            rewriting.tell(row["damage"])


def _cells(row: Row) -> list[Any]:
    name = f"{row['topic']}-{row['partition']}"
    return [
        name if row["state"] == "live" else f"{name} ({row['state']})",
        row["log_start_offset"],
        row["recovery_point"],
        row["high_watermark"],
        row["last_stable_offset"],
        row["log_end_offset"],
        _holder(row["held_by"]),
    ]


def _holder(holder: dict[str, Any] | None) -> str | None:
    if holder is None:
        return None
    producer, first = f"producer {holder['producer_id']}", holder["first_offset"]
    if holder["end_offset"] is not None:
        return f"{producer}, from {first} to {holder['end_offset']}, its end not replicated"
    return (
        f"{producer} epoch {holder['producer_epoch']}, open since offset {first},"
        f" last seen {rewriting.iso_time(holder['last_timestamp'])}"
    )


def _summary(rows: Sequence[Row]) -> str:
    held = sum(row["held_by"] is not None for row in rows)
    behind = sum(
        row["high_watermark"] is not None and row["high_watermark"] < row["log_end_offset"]
        for row in rows
    )
    return (
        f"{rewriting.counted(len(rows), 'partition')}; {held} held by a transaction,"
        f" {behind} with a high watermark below the log end\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
