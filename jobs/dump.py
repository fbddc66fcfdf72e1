"""`kafka-forensics dump`: print files in kafka-dump-log's format, or as JSON lines."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from jobs import options
from jobs.running import log_dirs_around, warn_running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.dump import BytesDecoder, DumpOptions, Filters, Report
    from kafka_log.inventory.directory import FoundFile

_LARGE = 256 * 1024 * 1024
_STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
_DESCRIPTION = """\
Print the contents of the files of a log directory. The text output is the same as
kafka-dump-log's. With --format json, every line is a JSON object and no field is left out.
Nothing is written.
"""
_EPILOG = """\
example:
  Print all records of one producer with their contents as JSON.
    kafka-forensics dump /data/orders-0 --print-data-log --producer-id 4711 --format json

exit codes:
  0  no damage found
  1  damage found, such as an invalid batch, a wrong index entry or a torn end; or a batch above
     --max-decompressed-bytes was not decoded
  2  wrong usage
  3  something could not be read or changed while it was read, or no Kafka files were found

All JSON fields: docs/jobs/dump.md
"""


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _dump, paths_of=_paths)


def _paths(arguments: argparse.Namespace) -> list[str]:
    return [*arguments.paths, *(path for files in arguments.files for path in _listed(files))]


def _dump(arguments: argparse.Namespace) -> int:
    chosen = dataclasses.replace(_options(arguments), is_terminal=sys.stdout.isatty())
    return _run(arguments.paths, chosen, all_findings=arguments.all_findings, quiet=arguments.quiet)


def _listed(files: str) -> list[str]:
    """Split a list of files as kafka-dump-log does, ignoring commas at the end."""
    return files.rstrip(",").split(",")


def _parser() -> options.Parser:
    parser = options.Parser("dump", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser)
    _add_original_flags(parser.add_argument_group("options of kafka-dump-log"))
    own = parser.add_argument_group("additional options")
    own.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="print kafka-dump-log's text (default), or one JSON object per line",
    )
    own.add_argument(
        "--auto-decoder",
        action="store_true",
        help="choose the decoder of Kafka's internal topics and snapshots by their names; always on"
        " with --format json and --print-data-log",
    )
    own.add_argument(
        "--verify-index",
        action="store_true",
        help="check indexes more strictly: every entry must point at a batch of an existing log",
    )
    own.add_argument(
        "--all-findings",
        action="store_true",
        help="print every finding on stderr, not only ten of each kind per file",
    )
    own.add_argument("--quiet", action="store_true", help="print no progress, notes or summary")
    _add_filters(
        parser.add_argument_group("filters (only rows that match all of them are printed)")
    )
    return parser


def _add_original_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--files", action="append", default=[], metavar="FILE,FILE", help="comma-separated PATHs"
    )
    group.add_argument(
        "--deep-iteration", action="store_true", help="print records, not only batches"
    )
    group.add_argument(
        "--print-data-log", action="store_true", help="print records with their keys and values"
    )
    group.add_argument(
        "--skip-record-metadata",
        action="store_true",
        help="print only the keys and values of records",
    )
    for part in ("key", "value"):
        group.add_argument(
            f"--{part}-decoder-class",
            nargs="?",
            const=_STRING_DECODER,
            metavar="CLASS",
            help=f"decode {part}s with the StringDecoder (default), IntegerDecoder, LongDecoder or"
            " DefaultDecoder of org.apache.kafka.tools.api",
        )
    for name, topic in (
        ("offsets", "__consumer_offsets"),
        ("transaction-log", "__transaction_state"),
        ("cluster-metadata", "__cluster_metadata and of its snapshots"),
        ("remote-log-metadata", "__remote_log_metadata"),
        ("share-group-state", "__share_group_state"),
    ):
        group.add_argument(
            f"--{name}-decoder", action="store_true", help=f"decode records of {topic}"
        )
    group.add_argument(
        "--index-sanity-check",
        action="store_true",
        help="check indexes only as a broker does at startup",
    )
    group.add_argument(
        "--verify-index-only", action="store_true", help="check indexes without printing them"
    )
    group.add_argument(
        "--max-message-size",
        type=int,
        default=5 * 1024 * 1024,
        metavar="BYTES",
        help="maximum size of a batch that an index entry points at; default: 5 MiB",
    )
    group.add_argument(
        "--max-bytes", type=int, metavar="BYTES", help="read only the first BYTES of each log"
    )
    group.add_argument(
        "--version", action=_Version, help="print the version of kafka-forensics and exit"
    )


class _Version(argparse.Action):
    """Look up the version only when the option is used, because that is slow."""

    def __init__(self, option_strings: Sequence[str], dest: str, **others: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **others)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from jobs.cli import version

        print(version())
        parser.exit()


def _add_filters(group: argparse._ArgumentGroup) -> None:
    number = options.offset
    group.add_argument("--offset", type=number, metavar="N", help="only this offset")
    group.add_argument(
        "--start-offset", type=number, metavar="N", help="from this offset (inclusive)"
    )
    group.add_argument(
        "--end-offset", type=number, metavar="N", help="up to this offset (exclusive)"
    )
    group.add_argument(
        "--start-time",
        type=options.time_ms,
        metavar="TIME",
        help="from this time (inclusive): epoch milliseconds or ISO 8601 (UTC)",
    )
    group.add_argument(
        "--end-time", type=options.time_ms, metavar="TIME", help="up to this time (exclusive)"
    )
    group.add_argument(
        "--producer-id",
        type=options.producer_id,
        action="append",
        default=[],
        metavar="N",
        help="only this producer; repeatable",
    )
    group.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="TEXT",
        help="only records with this key; repeatable",
    )
    group.add_argument(
        "--key-hex",
        type=_hex,
        action="append",
        default=[],
        metavar="HEX",
        help="the same with the key in hex",
    )
    group.add_argument(
        "--key-base64",
        type=_base64,
        action="append",
        default=[],
        metavar="BASE64",
        help="the same with the key in base64",
    )


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected two hex digits per byte") from None


def _base64(text: str) -> bytes:
    import base64

    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected base64") from None


def _options(arguments: argparse.Namespace) -> DumpOptions:
    from kafka_log.dump.options import DumpOptions, RecordDecoder

    record_decoders = [
        decoder for decoder in RecordDecoder if getattr(arguments, decoder.value.replace("-", "_"))
    ]
    if len(record_decoders) > 1:
        raise options.UsageError(
            " and ".join(f"--{each.value}" for each in record_decoders) + " exclude each other"
        )
    for name in ("max_bytes", "max_message_size"):
        if (getattr(arguments, name) or 0) < 0:
            raise options.UsageError(f"--{name.replace('_', '-')} must be 0 or more")
    classes = [arguments.key_decoder_class, arguments.value_decoder_class]
    contents = arguments.print_data_log or bool(record_decoders) or any(classes)
    return DumpOptions(
        format=arguments.format,
        deep=arguments.deep_iteration or contents,
        contents=contents,
        skip_record_metadata=arguments.skip_record_metadata,
        key_decoder=_bytes_decoder("key", classes[0]),
        value_decoder=_bytes_decoder("value", classes[1]),
        record_decoder=record_decoders[0] if record_decoders else None,
        auto_decoder=arguments.auto_decoder,
        index_sanity_check=arguments.index_sanity_check,
        verify_index_only=arguments.verify_index_only,
        verify_index=arguments.verify_index,
        max_message_size=arguments.max_message_size,
        max_bytes=arguments.max_bytes,
        filters=_filters(arguments),
    )


def _bytes_decoder(part: str, name: str | None) -> BytesDecoder:
    from kafka_log.dump.options import BytesDecoder

    try:
        return BytesDecoder(name or _STRING_DECODER)
    except ValueError:
        known = [decoder.value for decoder in BytesDecoder]
        hint = options.nearest(name or "", known) or f": expected one of {', '.join(known)}"
        raise options.UsageError(f"--{part}-decoder-class {name}: unknown class{hint}") from None


def _filters(arguments: argparse.Namespace) -> Filters:
    from kafka_log.dump.options import Filters

    start, end = arguments.start_offset, arguments.end_offset
    if arguments.offset is not None:
        if start is not None or end is not None:
            raise options.UsageError(
                "--offset cannot be combined with --start-offset or --end-offset"
            )
        start, end = arguments.offset, arguments.offset + 1
    _require_range("offset", start, end)
    _require_range("time", arguments.start_time, arguments.end_time)
    keys = [key.encode("utf-8", "surrogateescape") for key in arguments.key]
    return Filters(
        start_offset=start,
        end_offset=end,
        start_time=arguments.start_time,
        end_time=arguments.end_time,
        producer_ids=frozenset(arguments.producer_id),
        keys=frozenset([*keys, *arguments.key_hex, *arguments.key_base64]),
    )


def _require_range(what: str, start: int | None, end: int | None) -> None:
    if start is not None and end is not None and start > end:
        raise options.UsageError(f"--start-{what} {start} is after --end-{what} {end}")


def _run(paths: Sequence[str], chosen: DumpOptions, *, all_findings: bool, quiet: bool) -> int:
    from kafka_log.dump import Output, Report, dump

    warn_running(log_dirs_around(paths))
    output = Output(sys.stdout.buffer, is_terminal=chosen.is_terminal)
    report = Report(
        output,
        sys.stderr,
        json_rows=chosen.format == "json",
        all_findings=all_findings,
        quiet=quiet,
    )
    files = list(_find(paths, report))
    dump(files, chosen, output, report, on_progress=None if quiet else _progress(files))
    if report.is_unreadable:
        return options.COULD_NOT_RUN
    return options.FINDINGS if report.is_damaged else options.CLEAN


def _find(paths: Sequence[str], report: Report) -> Iterator[FoundFile]:
    from kafka_log.dump import is_kafka_file
    from kafka_log.inventory.nearby import names_near

    for path in paths:
        has_kafka_files, problems = False, report.problems
        try:
            for file in _files_at(path, report):
                has_kafka_files = has_kafka_files or is_kafka_file(file)
                yield file
        except FileNotFoundError as error:
            report.missing(path, (error.strerror or str(error)) + names_near(path))
        except OSError as error:
            report.unreadable(error.filename or path, error.strerror or str(error))
        if not has_kafka_files and report.problems == problems:
            report.nothing_here(path)


def _files_at(path: str, report: Report) -> Iterator[FoundFile]:
    """Return a path with the name of a Kafka file itself, else the files below the path."""
    from kafka_log.inventory.directory import find_files, found_file
    from kafka_log.names import FileKind

    file = found_file(path)
    if file.name.kind is FileKind.UNKNOWN:
        return find_files(path, report.unreadable, report.followed)
    return iter([file])


def _progress(files: Sequence[FoundFile]) -> Callable[[int], None] | None:
    total = sum(file.size for file in files)
    if total < _LARGE or not sys.stderr.isatty():
        return None
    shown = -1

    def show(done: int) -> None:
        nonlocal shown
        percent = 100 * done // total
        if percent != shown:
            shown = percent
            end = "\r" if percent < 100 else "\n"
            sys.stderr.write(f"\r{percent:3d} % of {total >> 20} MiB{end}")

    return show


if __name__ == "__main__":
    raise SystemExit(main())
