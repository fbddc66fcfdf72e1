"""`kafka-forensics offsets`: print the offsets of each log and what blocks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs import options, rewriting, selected_partitions
from jobs.outcome import VerbOutcome, broken_promise
from jobs.table import json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted, time_and_age

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from jobs.outcome import Row
    from jobs.selected_partitions import SelectedPartitions

_DESCRIPTION = """\
Print the log start offset, recovery point, high watermark, last stable offset and log end offset of
every partition, and the transaction that blocks the last stable offset. Only batch headers are
read. Nothing is written.
"""
_EPILOG = """\
example:
  Which transaction blocks a topic, according to the whole log?
    kafka-forensics offsets /data --topic orders --replay --format json

exit codes:
  0  nothing is wrong
  1  a last stable offset is unknown because of damage, a checkpoint promises offsets beyond the
     log end, or a file is malformed
  2  wrong usage
  3  something could not be read, or no Kafka files were found

All columns and JSON fields: docs/jobs/offsets.md
"""
_OFFSETS = ("log start", "recovery point", "high watermark", "last stable", "log end")
_COLUMNS = ("partition", *_OFFSETS, "blocked by")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("offsets", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    parser.add_argument(
        "--replay",
        action="store_true",
        help="read all batch headers instead of starting at the newest producer snapshot",
    )
    options.add_running(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.offsets import ReadOffsets

    found = selected_partitions.find(arguments)
    selected_partitions.skip_empty_partitions(arguments, found)
    outcome = VerbOutcome.of(found)
    function = ReadOffsets(arguments.replay)
    outcome.rows += rewriting.task_rows(arguments, "offsets", found.tasks, function, outcome)
    _show(outcome, found, arguments)
    if outcome.rows and not arguments.quiet:
        say(_summary(outcome.rows))
    is_damaged = any(row["damage"] or row["promised_offset"] is not None for row in outcome.rows)
    return outcome.exit_code or (options.FINDINGS if is_damaged else options.CLEAN)


def _show(outcome: VerbOutcome, found: SelectedPartitions, arguments: argparse.Namespace) -> None:
    rows = outcome.rows
    if arguments.format == "json":
        for row in rows:
            print(json_line(row))
    elif rows:
        places, now_ms = found.places, options.clock(arguments)()
        lines = [places.cells(row["path"], _cells(row, now_ms)) for row in rows]
        for line in table(places.header(_COLUMNS), lines, right=_OFFSETS, wide=arguments.wide):
            print(line)
    for row in rows:
        if row["damage"]:
            outcome.report(row["damage"])
        if row["promised_offset"] is not None:
            outcome.report(f"{row['path']}: {broken_promise(row)}")


def _cells(row: Row, now_ms: int) -> list[object]:
    name = f"{row['topic']}-{row['partition']}"
    return [
        name if row["state"] == "live" else f"{name} ({row['state']})",
        row["log_start_offset"],
        row["recovery_point"],
        row["high_watermark"],
        row["last_stable_offset"],
        row["log_end_offset"],
        _holder(row["held_by"], now_ms),
    ]


def _holder(holder: dict[str, Any] | None, now_ms: int) -> str | None:
    """Describe the transaction at which the last stable offset stops."""
    if holder is None:
        return None
    producer, first = f"producer {holder['producer_id']}", holder["first_offset"]
    if holder["end_offset"] is not None:
        return f"{producer}, offsets {first} to {holder['end_offset']}, marker not replicated"
    last_seen = time_and_age(holder["last_timestamp"], now_ms)
    return (
        f"{producer} epoch {holder['producer_epoch']}, open since offset {first},"
        f" last seen {last_seen}"
    )


def _summary(rows: Sequence[Row]) -> str:
    blocked = sum(row["held_by"] is not None for row in rows)
    below_end = sum(
        row["high_watermark"] is not None and row["high_watermark"] < row["log_end_offset"]
        for row in rows
    )
    return (
        f"{counted(len(rows), 'partition')}; {blocked} blocked by a transaction,"
        f" {below_end} with a high watermark below the log end"
    )


if __name__ == "__main__":
    raise SystemExit(main())
