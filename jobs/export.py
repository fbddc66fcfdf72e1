"""`kafka-forensics export`: write tables as Delta or Parquet; later runs add new rows only."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from jobs import options
from jobs.running import log_dirs_around, warn_running
from jobs.table import table
from kafka_format.access import DEFAULT_MAX_DECOMPRESSED_BYTES
from kafka_format.shown_text import say
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from kafka_log.inventory.inventory import Inventory
    from pipelines.export.export import ExportResult, WrittenTable

_DESCRIPTION = """\
Write the contents of log directories as Delta or Parquet tables, one directory per table. A
manifest records the SHA-256 of every file that was read. Later exports to the same place add only
new rows. PATH may also be a glob, or a URI such as s3://bucket/data.
"""
_EPILOG = """\
example:
  Export all records and the offsets that consumers committed.
    kafka-forensics export /data --output /lake --table records --table consumer_offsets

exit codes:
  0  exported
  1  exported, but some files are damaged
  2  wrong usage
  3  could not run, or a file could not be read or changed while it was read

All tables and options: docs/jobs/export.md
"""
_SMALL_INPUT = 256 * 1024 * 1024
_QUICK_START = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""JVM options for a short run."""
_MADE_AGAIN = frozenset({"IDX007", "TIX006", "LEP005", "SNP007", "SNP008"})
"""Rules about missing files that a start makes again: nothing that is exported is missing."""
_UNREAD = frozenset({"DIR001", "DIR007", "DIR008"})
"""Findings about files that were not read, or changed while they were read."""


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("export", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="write the tables to this path, or to a URI that Spark can write to",
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        dest="tables",
        metavar="NAME",
        help="export only this table, such as records; repeatable; default: all tables",
    )
    parser.add_argument(
        "--format",
        choices=("delta", "parquet"),
        default="delta",
        help="format of the tables: delta (default) or parquet",
    )
    options.add_selection(parser)
    group = parser.add_argument_group("records")
    group.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        metavar="LEVEL",
        help="export what a read_uncommitted (default) or read_committed consumer would see",
    )
    group.add_argument("--include-control", action="store_true", help="include control records")
    options.add_clock(parser, "use this as the time of the export")
    parser.add_argument(
        "--no-sha256",
        action="store_true",
        help="leave the SHA-256 out of the manifest, so that every file is read only once",
    )
    parser.add_argument("--quiet", action="store_true", help="print no progress bar and no summary")
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.source.schema import COLUMNS, WHAT_IF

    if arguments.output is None:
        raise options.UsageError("no --output DIR given")
    for name in arguments.tables:
        if name not in COLUMNS:
            raise options.UsageError(f"unknown table {name}{options.nearest(name, tuple(COLUMNS))}")
    warn_running(log_dirs_around(path for path in arguments.paths if "://" not in path))
    everything = tuple(name for name in COLUMNS if name not in WHAT_IF)
    exported = _export(arguments, tuple(dict.fromkeys(arguments.tables)) or everything)
    _show(exported.tables)
    _report(exported, quiet=arguments.quiet)
    return _exit_code(exported)


def _report(exported: ExportResult, *, quiet: bool) -> None:
    """Print to stderr what is wrong with the files, and where the manifest is."""
    from kafka_format.access import forget, note_grown

    for path, how in exported.changes.changed.items():
        say(f"{path}: changed while it was read: {how}")
        forget(path)  # reported here
    note_grown(exported.changes.grown)
    for each in exported.inputs:
        if each.problem is not None and each.path not in exported.changes.changed:
            starts = each.problem.startswith(each.path)
            say(each.problem if starts else f"{each.path}: {each.problem}")
    if quiet:
        return
    if exported.findings:
        listed = ", ".join(f"{rule} {count}" for rule, count in sorted(exported.findings.items()))
        say(f"findings: {listed} (docs/findings)")
    say(f"{counted(len(exported.inputs), 'file')} read; manifest: {exported.manifest}")


def _exit_code(exported: ExportResult) -> int:
    from kafka_log.checks.rules import RULES
    from kafka_log.checks.rules.rule import Severity

    findings = exported.findings or {}
    problems = [each for each in exported.inputs if each.problem is not None]
    if exported.changes.changed or not _UNREAD.isdisjoint(findings):
        return options.COULD_NOT_RUN
    if not all(each.is_malformed for each in problems):
        return options.COULD_NOT_RUN
    damage = [
        rule
        for rule in findings.keys() - _MADE_AGAIN
        if rule not in RULES or RULES[rule].severity is not Severity.NOTE
    ]
    return options.FINDINGS if damage or problems else options.CLEAN


def _export(arguments: argparse.Namespace, tables: Sequence[str]) -> ExportResult:
    from kafka_log.errors import LogError
    from pipelines.source.options import OptionsError
    from pipelines.source.storage import Storage, StorageError

    try:
        inventory = Storage(arguments.paths).scan()  # report problems before Spark starts
    except StorageError as error:
        raise options.CannotRunError(str(error)) from None
    _ensure_selected(arguments, inventory)
    size = sum(each.size_in_bytes for each in inventory.log_dirs)
    spark = spark_session(arguments.format, is_small=size <= _SMALL_INPUT)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pipelines.engine.progress import progress_bar
    from pipelines.export.export import DeltaUnavailableError, ExportOptions, export
    from pipelines.log_directory import LogDirectory

    try:
        return export(
            LogDirectory(spark, *arguments.paths),
            arguments.output,
            ExportOptions(
                tables=tables,
                form=arguments.format,
                source=_options(arguments) | _what_if_options(arguments, tables),
                digests=not arguments.no_sha256,
            ),
            now_ms=options.clock(arguments)(),
            on_progress=None if arguments.quiet else progress_bar("reading"),
        )
    except (StorageError, DeltaUnavailableError, LogError, OSError) as error:
        raise options.CannotRunError(str(error)) from None
    except OptionsError as error:
        raise options.UsageError(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise options.CannotRunError(_reason(error, arguments.output)) from error


def _ensure_selected(arguments: argparse.Namespace, inventory: Inventory) -> None:
    """Raise CannotRunError if no partition matches: empty tables would look like a result."""
    selection = options.Selection.of(arguments)
    found = [each for _, each in inventory.partitions() if each.partition is not None]
    if selection.is_everything or any(
        selection.includes(each.topic, each.partition) for each in found
    ):
        return
    count = counted(len(found), "partition")
    raise options.CannotRunError(f"no partition matches {selection.text} ({count} found)")


def spark_session(form: str, *, is_small: bool = False) -> SparkSession:
    """Start Spark, with Delta's jars only if they are needed: Parquet needs no download.

    What the JVM writes to stderr is discarded: the search for jars prints pages of text, and
    failures are raised here anyway. For small inputs (`is_small`) the JVM compiles quickly rather
    than well, which reduces the processor time of the start and the first job to a third.
    """
    from pipelines import session as sessions

    reason = sessions.unavailable()
    if reason is not None:
        raise options.CannotRunError(reason)
    try:
        with _silent_stderr(), _utf8_names():
            more = _QUICK_START if is_small else None
            return sessions.session(delta=form == "delta", more=more)
    except sessions.SparkUnavailableError as error:
        if form != "delta":
            raise options.CannotRunError(str(error)) from None
        from pipelines.export.export import without_delta

        found = "Spark did not start with Delta's jars"
        raise options.CannotRunError(without_delta(found)) from None


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard the stderr of processes started in the block, but not of this process."""
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed
        yield
        return
    ours = sys.stderr
    ours.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with open(kept, "w", closefd=False) as stream:  # an open descriptor
            kept_stderr = options.OptionalStderr(stream) if _is_descriptor_2(ours) else ours
            with contextlib.redirect_stderr(kept_stderr):
                yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _is_descriptor_2(stream: TextIO) -> bool:
    """Return whether a stream writes to file descriptor 2."""
    try:
        return stream.fileno() == 2
    except OSError:  # not a file: a test's, or spark-submit's
        return False


@contextlib.contextmanager
def _utf8_names() -> Iterator[None]:
    """Set a UTF-8 locale for processes started in the block, because topics name directories.

    Java on Linux refuses a name that the locale cannot encode.
    """
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    effective = next((os.environ[name] for name in names if os.environ.get(name)), "C")
    is_utf8 = effective.lower().replace("-", "").endswith("utf8")
    before = os.environ.get("LC_ALL")
    if not is_utf8 and sys.platform == "linux":
        os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        if before is not None:
            os.environ["LC_ALL"] = before
        elif not is_utf8:
            os.environ.pop("LC_ALL", None)


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    given = {"isolationLevel": arguments.isolation_level}
    if arguments.include_control:
        given["includeControl"] = "true"
    if arguments.topics:
        given["topics"] = ",".join(arguments.topics)
    if arguments.partitions:
        given["partitions"] = ",".join(map(str, arguments.partitions))
    if arguments.max_decompressed_bytes != DEFAULT_MAX_DECOMPRESSED_BYTES:
        given["maxDecompressedBytes"] = str(arguments.max_decompressed_bytes)
    if arguments.follow_links:
        given["followLinks"] = "true"
    return given


def _what_if_options(arguments: argparse.Namespace, tables: Sequence[str]) -> dict[str, str]:
    """Return the option `now` for tables that show what would happen at a time."""
    from pipelines.source.schema import WHAT_IF

    is_asked = arguments.now is not None and not WHAT_IF.isdisjoint(tables)
    return {"now": str(arguments.now)} if is_asked else {}


def _show(written: Sequence[WrittenTable]) -> None:
    header = ("table", "rows added", "version", "location")
    rows: list[list[Any]] = [
        [each.table, each.rows_added, each.version, each.location] for each in written
    ]
    for line in table(header, rows, right=("rows added", "version")):
        print(line)


def _reason(error: Exception, output: str) -> str:
    """Return one line of the pages that Spark prints for an error."""
    thrown = _innermost(error)
    text = str(error) if thrown is None else str(thrown.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    for line in lines:
        for full in ("No space left on device", "Disk quota exceeded"):
            if full in line:
                return f"{output}: {full}"
    # For an error in Python, Spark shows the traceback; its last line is the message.
    if any("Traceback (most recent call last)" in line for line in lines):
        return next(line for line in reversed(lines) if _PYTHON_ERROR.match(line) or line)
    return lines[0]


_PYTHON_ERROR = re.compile(r"[\w.]+(Error|Exception): ")


def _innermost(error: Exception) -> Any:
    """Return the Java exception that caused all others; None if there is none."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while thrown is not None and thrown.getCause() is not None:
        thrown = thrown.getCause()
    return thrown


if __name__ == "__main__":
    raise SystemExit(main())
