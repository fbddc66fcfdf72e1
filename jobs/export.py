"""`kafka-forensics export`: tables to Delta or Parquet, each time only what is new."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jobs import options
from jobs.table import table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from pipelines.export import Exported, Written

_DESCRIPTION = """\
Write tables of log directories as Delta tables (or Parquet), one directory a table, and beside them
a manifest with the SHA-256 of every file that was looked at. A second export to the same place adds
only what is new. PATH is a log dir, several in one directory, a partition directory, a file, a glob
or a URI. Files are only read.
"""
_EPILOG = """\
example: what a consumer would have seen, and who committed what
  kafka-forensics export /var/lib/kafka/data --output /lake --table records --table consumer_offsets

exit codes: 0 exported, 1 files changed meanwhile, 2 usage, 3 could not run. docs/jobs/export.md
"""


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("export", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser)
    parser.add_argument(
        "--output", metavar="DIR", help="where to, a path or a URI that Spark can write to"
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        dest="tables",
        metavar="NAME",
        help="one of them, such as records; repeatable; default: all",
    )
    parser.add_argument(
        "--format", choices=("delta", "parquet"), default="delta", help="delta (default) or parquet"
    )
    options.add_selection(parser)
    group = parser.add_argument_group("which records")
    group.add_argument(
        "--isolation-level",
        choices=("read_uncommitted", "read_committed"),
        default="read_uncommitted",
        metavar="LEVEL",
        help="read_uncommitted (default), or read_committed as a consumer would see it",
    )
    group.add_argument("--include-control", action="store_true", help="control records too")
    options.add_clock(parser, "the time of the export")
    parser.add_argument(
        "--no-sha256",
        action="store_true",
        help="no sums in the manifest: every file is then read once, not twice",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.schema import COLUMNS, WHAT_IF

    if arguments.output is None:
        raise options.UsageError("no --output DIR given")
    for name in arguments.tables:
        if name not in COLUMNS:
            raise options.UsageError(f"no table {name}{options.nearest(name, tuple(COLUMNS))}")
    everything = tuple(name for name in COLUMNS if name not in WHAT_IF)
    exported = _export(arguments, tuple(dict.fromkeys(arguments.tables)) or everything)
    _show(exported.tables)
    for path in exported.changed:
        sys.stderr.write(f"{path}: changed while it was read\n")
    unread = [each for each in exported.inputs if each.problem is not None]
    for each in unread:
        sys.stderr.write(f"{each.path}: {each.problem}\n")
    if not arguments.quiet:
        sys.stderr.write(f"{len(exported.inputs)} files looked at: {exported.manifest}\n")
    if unread:
        return options.COULD_NOT_RUN
    return options.FINDINGS if exported.changed else options.CLEAN


def _export(arguments: argparse.Namespace, tables: Sequence[str]) -> Exported:
    from kafka_log.errors import LogError
    from pipelines.options import OptionsError
    from pipelines.storage import Storage, StorageError

    try:
        Storage(arguments.paths).scan()  # what is wrong with paths is said before Spark starts
    except StorageError as error:
        raise options.CannotRunError(str(error)) from None
    spark = spark_session(arguments.format)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pipelines.export import DeltaUnavailableError, export
    from pipelines.log_directory import LogDirectory
    from pipelines.progress import progress_bar

    try:
        return export(
            LogDirectory(spark, *arguments.paths),
            arguments.output,
            now_ms=options.clock(arguments)(),
            tables=tables,
            form=arguments.format,
            options=_options(arguments) | _of_what_if(arguments, tables),
            digests=not arguments.no_sha256,
            on_progress=None if arguments.quiet else progress_bar("reading"),
        )
    except (StorageError, DeltaUnavailableError, LogError, OSError) as error:
        raise options.CannotRunError(str(error)) from None
    except OptionsError as error:
        raise options.UsageError(str(error)) from None
    except (PySparkException, Py4JError) as error:
        raise options.CannotRunError(_first_line(error)) from error


def spark_session(form: str) -> SparkSession:
    """With Delta's jars only where they are wanted: Parquet needs no download."""
    from pipelines import session as sessions

    reason = sessions.unavailable()
    if reason is not None:
        raise options.CannotRunError(reason)
    try:
        return sessions.session(delta=form == "delta")
    except sessions.SparkUnavailableError as error:
        if form != "delta":
            raise options.CannotRunError(str(error)) from None
        from pipelines.export import without_delta

        found = "Spark did not start with Delta's jars"
        raise options.CannotRunError(without_delta(found)) from None


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    given = {"isolationLevel": arguments.isolation_level}
    if arguments.include_control:
        given["includeControl"] = "true"
    if arguments.topics:
        given["topics"] = ",".join(arguments.topics)
    if arguments.partitions:
        given["partitions"] = ",".join(map(str, arguments.partitions))
    return given


def _of_what_if(arguments: argparse.Namespace, tables: Sequence[str]) -> dict[str, str]:
    """The time to judge by, for tables of what would be."""
    from pipelines.schema import WHAT_IF

    is_asked = arguments.now is not None and not WHAT_IF.isdisjoint(tables)
    return {"now": str(arguments.now)} if is_asked else {}


def _show(written: Sequence[Written]) -> None:
    header = ("table", "rows added", "version", "location")
    rows: list[list[Any]] = [
        [each.table, each.rows_added, each.version, each.location] for each in written
    ]
    for line in table(header, rows, right=("rows added", "version")):
        print(line)


def _first_line(error: Exception) -> str:
    """Of what Spark says; the rest is where in Spark it was said."""
    thrown = getattr(error, "java_exception", None)  # else py4j only says which call failed
    text = str(error) if thrown is None else str(thrown.toString())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    raise SystemExit(main())
