"""What an audit writes: text or JSON on stdout, and any number of report files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from jobs import options
from jobs.table import json_line, table
from kafka_format.shown_text import escaped, say
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from pipelines.audit.report import AuditReport
    from pipelines.audit.rule_selection import RuleSelection

_MOST_ENTRIES = 10
"""Entries of a baseline that are listed; the others are only counted."""


def add_arguments(parser: options.Parser) -> None:
    """Add the options of outputs and of the baseline."""
    group = parser.add_argument_group("outputs")
    group.add_argument("--all", action="store_true", help="print every finding, not only counts")
    for name, what in (
        ("sarif", "SARIF 2.1.0 report, for code scanning"),
        ("junit", "JUnit XML report, with one test case per partition"),
        ("html", "HTML report: one page that needs no network"),
    ):
        group.add_argument(f"--{name}", type=_file, metavar="FILE", help=f"write a {what}")
    group.add_argument(
        "--github",
        action="store_true",
        help="print annotations for GitHub Actions, and write its step summary",
    )
    group.add_argument(
        "--findings-table",
        type=options.new_directory,
        metavar="DIR",
        help="write all findings to this new directory as Parquet; delta:DIR writes a Delta table",
    )
    group.add_argument(
        "--show-data", action="store_true", help="show keys and values of records next to findings"
    )
    group = parser.add_argument_group("exit code")
    group.add_argument(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        default="error",
        help="end with 1 if there are findings of this severity or worse; default: error",
    )
    group.add_argument(
        "--baseline", type=_file, metavar="FILE", help="accept the findings that this file lists"
    )
    group.add_argument(
        "--write-baseline",
        type=_file,
        metavar="FILE",
        help="write a baseline that accepts all current findings; add a reason to each",
    )


def _file(text: str) -> str:
    import argparse

    if not text:
        raise argparse.ArgumentTypeError("found an empty string, expected a file")
    return text


def rule_selection(arguments: argparse.Namespace) -> RuleSelection:
    from pipelines.audit.rule_selection import RuleSelection, UnknownRuleError

    try:
        return RuleSelection.of(arguments.only, arguments.skip)
    except UnknownRuleError as error:
        raise options.UsageError(str(error)) from None


def check(arguments: argparse.Namespace, report: AuditReport) -> None:
    """Read the baseline, and check all outputs, before the work begins."""
    from kafka_log.disk.output import OutputError, check_output, check_output_file
    from pipelines.audit.baseline import BaselineError, read_baseline

    if arguments.baseline is not None:
        try:
            report.baseline = read_baseline(arguments.baseline, report.now_ms)
        except BaselineError as error:
            raise options.UsageError(f"--baseline: {error}") from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise options.UsageError(f"--baseline: {arguments.baseline}: {reason}") from None
    target = arguments.write_baseline
    is_update = arguments.baseline is not None and _is_same(target, arguments.baseline)
    if target is not None and os.path.lexists(target) and not is_update:
        raise options.UsageError(
            f"--write-baseline: {target} exists: to update it and keep its reasons, also give it"
            " as --baseline"
        )
    try:
        for path, _ in _files(arguments, report):
            check_output_file(path, arguments.paths)
        if arguments.findings_table is not None:
            check_output(arguments.findings_table.removeprefix("delta:"), arguments.paths)
    except OutputError as error:
        raise options.CannotRunError(str(error)) from None


def _is_same(one: str | None, other: str) -> bool:
    return one is not None and os.path.realpath(one) == os.path.realpath(other)


def write(arguments: argparse.Namespace, report: AuditReport) -> None:
    """Print the report, and write all files."""
    if arguments.format == "json":
        for line in _json_lines(arguments, report):
            print(line)
    else:
        for line in _text_lines(arguments, report):
            print(line)
    _say_baseline(arguments, report)
    _write_files(arguments, report)


def _json_lines(arguments: argparse.Namespace, report: AuditReport) -> Iterator[str]:
    for row in report:
        yield json_line({"kind": "finding", **row})
    for row in report.not_checked:
        yield json_line({"kind": "not_checked", **row})
    yield json_line({"kind": "summary", **report.summary(arguments.fail_on)})


def _text_lines(arguments: argparse.Namespace, report: AuditReport) -> Iterator[str]:
    from pipelines.audit.outputs.text import (
        COLUMNS,
        finding_line,
        group_cells,
        not_checked_lines,
        record_line,
    )

    yield escaped(report.verdict)
    groups = report.groups()
    if groups:
        cells = [group_cells(group) for group in groups]
        yield ""
        header, *lines = table(COLUMNS, cells, right=("count",), wide=arguments.wide)
        yield header
        rows = iter(report)
        for group, line in zip(groups, lines, strict=True):
            yield line
            for _ in range(group.count if arguments.all else 0):
                row = next(rows)
                yield finding_line(row)
                yield from map(record_line, row.get("records", ()))
    if report.not_checked:
        yield ""
        yield from not_checked_lines(report, everything=arguments.all)


def _say_baseline(arguments: argparse.Namespace, report: AuditReport) -> None:
    """Report entries of the baseline that have ended, are not needed, or give no reason."""
    if arguments.baseline is None or arguments.quiet:
        return
    baseline = report.baseline
    is_whole = options.Selection.of(arguments).is_everything and report.rules.is_everything
    for what, entries in (
        ("no longer accepted, the date has passed", baseline.expired()),
        ("accepted, but not found any more", baseline.unused() if is_whole else []),
        ("accepted without a reason", baseline.without_reason()),
    ):
        for each in entries[:_MOST_ENTRIES]:
            about = " ".join(part for part in (each.id, each.where) if part)
            say(f"{arguments.baseline}: {what}: {each.fingerprint} {about}".rstrip())
        if len(entries) > _MOST_ENTRIES:
            more = counted(len(entries) - _MOST_ENTRIES, "other entry").replace("entrys", "entries")
            say(f"{arguments.baseline}: {what}: {more}")


def _write_files(arguments: argparse.Namespace, report: AuditReport) -> None:
    from kafka_format.access import forget
    from kafka_log.disk.output import OutputError, whole_file
    from pipelines.audit.outputs.github import annotation_lines, append_summary

    try:
        for path, write_to in _files(arguments, report):
            forget(path)  # a baseline that was read
            with whole_file(path, arguments.paths) as file:
                write_to(file)
        if arguments.findings_table is not None:
            _write_table(arguments, report)
        if arguments.github:
            for line in annotation_lines(report):
                if arguments.format == "json":
                    say(line)
                else:
                    print(line)
            append_summary(report, os.environ.get("GITHUB_STEP_SUMMARY"), arguments.paths)
    except OutputError as error:
        raise options.CannotRunError(str(error)) from None


def _files(
    arguments: argparse.Namespace, report: AuditReport
) -> Iterator[tuple[str, Callable[[TextIO], None]]]:
    """Yield the files to write, each with the function that writes it."""
    from pipelines.audit.baseline import write_baseline

    if arguments.sarif is not None:
        from pipelines.audit.outputs.sarif import write_sarif

        yield arguments.sarif, lambda file: write_sarif(file, report)
    if arguments.junit is not None:
        from pipelines.audit.outputs.junit import write_junit

        yield arguments.junit, lambda file: write_junit(file, report, arguments.fail_on)
    if arguments.html is not None:
        from pipelines.audit.outputs.html import write_html

        yield arguments.html, lambda file: write_html(file, report)
    if arguments.write_baseline is not None:
        before = report.baseline
        yield arguments.write_baseline, lambda file: write_baseline(file, report, before)


def _write_table(arguments: argparse.Namespace, report: AuditReport) -> None:
    from jobs.export import spark_session
    from pipelines.audit.outputs.findings_table import write_delta, write_parquet

    target = arguments.findings_table
    if not target.startswith("delta:"):
        write_parquet(report, target, arguments.paths)
        return
    from pipelines.export.export import DeltaUnavailableError, ensure_delta

    spark = spark_session("delta", is_small=True)
    try:
        ensure_delta(spark)
    except DeltaUnavailableError as error:
        raise options.CannotRunError(str(error)) from None
    write_delta(report, spark, str(Path(target.removeprefix("delta:")).absolute()))
