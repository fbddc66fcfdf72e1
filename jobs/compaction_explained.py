"""`compact --explain`, `--explain-key` and `--what-if`: explain the cleaner without cleaning."""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import io
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import options, rewriting, selected_partitions
from jobs.outcome import VerbOutcome, error_text, report_findings
from jobs.table import human_size, json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted, iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jobs.selected_partitions import SelectedPartitions
    from pipelines.compaction.compaction import CompactPartition
    from pipelines.compaction.what_if import ScenarioTask

Row = dict[str, Any]

_HEX, _BASE64 = "0x", "base64:"
_LIFE = ("partition", "round", "offset", "time", "type", "verdict", "rule", "detail")
_BAR = 40


def add_arguments(parser: options.Parser) -> None:
    """Add `explain`, `explain_format`, `explain_key` and `what_if`."""
    group = parser.add_argument_group("explain instead of cleaning")
    group.add_argument(
        "--explain",
        type=options.new_directory,
        metavar="DIR",
        help="write the table `compaction` to this new directory: one row per record, kept or"
        " removed, and by which rule",
    )
    group.add_argument(
        "--explain-format",
        choices=("parquet", "delta"),
        help="write --explain as parquet (default, one file per partition) or delta (needs Spark)",
    )
    group.add_argument(
        "--explain-key",
        type=key_of,
        metavar="KEY",
        help="print every record of this key and what happens to it; KEY is text, 0xHEX or"
        " base64:TEXT",
    )
    group.add_argument(
        "--what-if",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="compare the result under other settings, such as 'delete.retention.ms=0"
        " segment.bytes=1048576'; repeatable",
    )


def key_of(text: str) -> bytes:
    """Parse a key: text, 0x and hexadecimal digits, or base64: and base64."""
    try:
        if text.startswith(_HEX):
            return bytes.fromhex(text.removeprefix(_HEX))
        if text.startswith(_BASE64):
            return base64.b64decode(text.removeprefix(_BASE64), validate=True)
    except (ValueError, binascii.Error):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected text, {_HEX} and hexadecimal digits, or {_BASE64} and base64"
        ) from None
    return text.encode(errors="surrogateescape")


def check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that contradict each other."""
    from kafka_log.cleaner.passes import UNTIL_CLEAN

    asked = [
        name
        for name, value in (
            ("--explain", arguments.explain),
            ("--explain-key", arguments.explain_key),
            ("--what-if", arguments.what_if or None),
        )
        if value is not None
    ]
    if arguments.explain_format is not None and arguments.explain is None:
        raise options.UsageError("--explain-format needs --explain")
    if len(asked) > 1:
        raise options.UsageError(f"{' and '.join(asked)} exclude each other")
    if asked and options.mode(arguments) is not options.Mode.DRY_RUN:
        raise options.UsageError(
            f"{asked[0]} writes no log: use it without --output and --in-place"
        )
    if arguments.what_if and (arguments.passes not in (1, UNTIL_CLEAN) or arguments.when_due):
        raise options.UsageError(
            "--what-if always cleans everything: use it without --passes and --when-due"
        )
    if not all(each.split() for each in arguments.what_if):
        raise options.UsageError("--what-if: found an empty string, expected NAME=VALUE")


def run(
    arguments: argparse.Namespace, found: SelectedPartitions, compact: CompactPartition
) -> int | None:
    """Explain if an option asks for it and return the exit code; else return None."""
    if arguments.explain is None and arguments.explain_key is None and not arguments.what_if:
        return None
    if not arguments.quiet and (rules := options.by_rules(arguments)):
        say(rules.removeprefix(", "))
    with rewriting.terminated_as_interrupted():
        if arguments.explain is not None:
            return _explain(arguments, found, compact)
        if arguments.explain_key is not None:
            return _explain_key(arguments, found, compact)
        return _what_if(arguments, found)


# ------------------------------------------------------------------------------------ --explain


def _explain(
    arguments: argparse.Namespace, found: SelectedPartitions, compact: CompactPartition
) -> int:
    from kafka_log.disk.output import check_output, whole_directory
    from kafka_log.errors import LogError

    outcome = VerbOutcome.of(found)
    evidence = [*arguments.paths, *(each.path for each in found.log_dirs)]
    try:
        with contextlib.ExitStack() as stack:
            if arguments.explain_format == "delta":
                check_output(arguments.explain, evidence)
                prefix = "kafka-forensics-"
                own = stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix))
                directory = Path(own) / "whole"
                directory.mkdir()
            else:
                directory = stack.enter_context(whole_directory(arguments.explain, evidence))
            _write(arguments, found, compact, directory, outcome)
            outcome.ensure_complete(arguments.explain)
            if arguments.explain_format == "delta":
                _to_delta(directory, arguments.explain)
    except (LogError, OSError) as error:
        say(error_text(error))
        return options.COULD_NOT_RUN
    _show_rules(outcome, arguments)
    return outcome.exit_code


def _write(
    arguments: argparse.Namespace,
    found: SelectedPartitions,
    compact: CompactPartition,
    directory: Path,
    outcome: VerbOutcome,
) -> None:
    from pipelines.compaction.explanation import ExplanationWriter

    function = ExplanationWriter(
        directory=str(directory), scratch=str(directory.parent), compact=compact
    )
    for row in rewriting.task_rows(
        arguments, "explain", found.tasks, function, outcome, scratch=function.scratch
    ):
        if row["kind"] == "explained":
            # The file is renamed when the directory is complete.
            name = None if arguments.explain_format == "delta" else row["file"]
            place = None if name is None else str(Path(arguments.explain) / Path(name).name)
            row = row | {"file": place}  # noqa: PLW2901
        outcome.rows.append(row)


def _to_delta(source: Path, target: str) -> None:
    from jobs.export import spark_session
    from pipelines.export.export import ensure_delta
    from pipelines.source.schema import column_names, spark_schema

    files = sorted(map(str, source.glob("*.parquet")))
    if not files:
        raise options.CannotRunError("no partition is compacted: nothing to write")
    spark = spark_session("delta")
    ensure_delta(spark)
    schema = spark_schema("compaction", (*column_names("compaction"), "path"))
    frame = spark.read.schema(schema).parquet(*files)
    frame.write.format("delta").partitionBy("topic").save(target)


def _show_rules(outcome: VerbOutcome, arguments: argparse.Namespace) -> None:
    from kafka_log.cleaner.reasons import Reason

    if arguments.format == "json":
        for row in (*outcome.checkpoints, *outcome.rows):
            print(json_line(row))
        return
    report_findings(outcome.skipped_damage)
    rows = [row for row in outcome.rows if row["kind"] == "explained"]
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row["rules"])
    lines = [(each.verdict, each.text, counts[each.text]) for each in Reason if counts[each.text]]
    for line in table(("verdict", "rule", "rows"), lines, right=("rows",)):
        print(line)
    if not arguments.quiet:
        explained = [row for row in rows if row["note"] is None]
        partitions = counted(len(explained), "partition")
        say(f"{counts.total()} rows for {partitions} written to {arguments.explain}")
        if not explained:
            _no_topic()


def _no_topic() -> None:
    say("no topic is known to have cleanup.policy=compact; use --set cleanup.policy=compact")


# -------------------------------------------------------------------------------- --explain-key


def _explain_key(
    arguments: argparse.Namespace, found: SelectedPartitions, compact: CompactPartition
) -> int:
    from pipelines.compaction.key_life import KeyLife

    outcome = VerbOutcome.of(found)
    function = KeyLife(key=arguments.explain_key, compact=compact)
    outcome.rows += rewriting.task_rows(arguments, "explain", found.tasks, function, outcome)
    records = [row for row in outcome.rows if row["kind"] == "record"]
    if arguments.format == "json":
        for row in (*outcome.findings, *records):
            print(json_line(row))
    else:
        report_findings(outcome.skipped_damage)
        lines = table(_LIFE, map(_life_cells, records), right=("round", "offset"))
        for line in lines if records else ():
            print(line)
    if not records and not outcome.failures and not outcome.damaged and not arguments.quiet:
        if any(task.config.compact for task in found.tasks):
            key = shown_key(arguments.explain_key)
            say(f"no record of a compacted topic has the key {key}")
        else:
            _no_topic()
    return outcome.exit_code


def shown_key(key: bytes) -> str:
    """Return a key in the form in which it can be typed."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return _HEX + key.hex()
    is_typed = key and text.isprintable() and not text.startswith((_HEX, _BASE64))
    return text if is_typed else _HEX + key.hex()


def _life_cells(row: Row) -> list[object]:
    return [
        f"{row['topic']}-{row['partition']}",
        row["round"],
        row["offset"],
        iso_time(None if row["timestamp_ms"] == -1 else row["timestamp_ms"]),
        "tombstone" if row["is_tombstone"] else "value",
        row["verdict"],
        row["rule"],
        row["detail"],
    ]


# ------------------------------------------------------------------------------------ --what-if


def _what_if(arguments: argparse.Namespace, found: SelectedPartitions) -> int:
    from pipelines.compaction.what_if import AS_IT_IS, run_scenario, totals, with_counted

    outcome = VerbOutcome.of(found)
    arguments.now = options.clock(arguments)()  # the same time for all scenarios
    scenarios = {AS_IT_IS: ()} | {each: tuple(each.split()) for each in arguments.what_if}
    tasks = [task for name, given in scenarios.items() for task in _tasks(arguments, name, given)]
    outcome.rows += rewriting.task_rows(
        arguments, "what-if", with_counted(tasks), run_scenario, outcome
    )
    total = totals(outcome.rows)
    if arguments.format == "json":
        for row in (*outcome.checkpoints, *outcome.rows, *total):
            print(json_line(row))
        return outcome.exit_code
    report_findings(outcome.skipped_damage)
    if any(row["partitions"] for row in total):
        for line in (*_side_by_side(total), "", *_chart(total)):
            print(line)
    elif not outcome.failures and not outcome.damaged:
        _no_topic()
    return outcome.exit_code


def _tasks(
    arguments: argparse.Namespace, name: str, given: tuple[str, ...]
) -> Iterator[ScenarioTask]:
    """Yield the partitions as `compact` would find them with these settings."""
    from jobs import compact
    from kafka_log.cleaner.passes import UNTIL_CLEAN
    from pipelines.compaction.what_if import ScenarioTask

    changed = argparse.Namespace(**vars(arguments) | {"set": [*arguments.set, *given]})
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # everything was reported before
            found = selected_partitions.find(changed)
    except options.UsageError as error:
        raise options.UsageError(f"--what-if {name!r}: {error}") from error
    function = replace(compact.function(changed, found), passes=UNTIL_CLEAN)
    for task in found.tasks:
        if arguments.high_watermark is not None:
            task = replace(task, high_watermark=arguments.high_watermark)  # noqa: PLW2901
        yield ScenarioTask(scenario=name, task=task, compact=function)


def _side_by_side(total: Sequence[Row]) -> Iterator[str]:
    names = ("", *(row["scenario"] for row in total))
    notes: list[str] = []
    lines = [(name, *(show(row, notes) for row in total)) for name, show in _MEASURES]
    # The names of settings must not become upper case, so they are not the header.
    _, *rest = table([""] * len(names), [names, *lines])
    yield from rest
    yield ""
    for number, note in enumerate(notes, 1):
        yield f"[{number}] {note}"


def _reduction(row: Row, _: list[str]) -> str | None:
    from pipelines.compaction.what_if import reduction

    percent = reduction(row)
    return None if percent is None else f"{percent:.1f} %"


def _number(name: str) -> Any:
    return lambda row, _: f"{row[name]:,}"


def _size(name: str) -> Any:
    return lambda row, _: human_size(row[name])


def _when(at: str, reason: str) -> Any:
    """Return a function that shows a time or `unknown`, with the reason as a note below."""

    def show(row: Row, notes: list[str]) -> str:
        if row[reason] not in notes:
            notes.append(row[reason])
        moment = iso_time(row[at]) or "unknown"
        return f"{moment} [{notes.index(row[reason]) + 1}]"

    return show


def _may_go(row: Row, _: list[str]) -> str | None:
    if row["oldest_tombstone_ms"] is None:
        return None
    when = iso_time(row["oldest_tombstone_may_go_ms"])
    return when or f"unknown ({row['oldest_tombstone_reason']})"


_MEASURES: tuple[tuple[str, Any], ...] = (
    ("records before", _number("records_before")),
    ("records after", _number("records_after")),
    ("size before", _size("bytes_before")),
    ("size after", _size("bytes_after")),
    ("reduction", _reduction),
    ("segments before", _number("segments_before")),
    ("segments after", _number("segments_after")),
    ("tombstones after", _number("tombstones_after")),
    ("oldest tombstone", lambda row, _: iso_time(row["oldest_tombstone_ms"])),
    ("removable from", _may_go),
    ("cleaning due", _when("due_at_ms", "due_reason")),
    ("next cleaning due", _when("next_cleaning_at_ms", "next_cleaning_reason")),
)


def _chart(total: Sequence[Row]) -> Iterable[str]:
    """Yield one bar per scenario: the bytes that are left, on one scale."""
    most = max(max(row["bytes_before"], row["bytes_after"]) for row in total) or 1
    width = max(len(row["scenario"]) for row in total)
    for row in total:
        bar = "█" * round(_BAR * row["bytes_after"] / most)
        yield f"{row['scenario']:{width}}  {bar:░<{_BAR}}  {human_size(row['bytes_after'])}"
