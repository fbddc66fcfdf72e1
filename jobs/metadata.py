"""`kafka-forensics metadata`: print the KRaft metadata at an offset or a time, and its history."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from jobs import options, selected_partitions
from jobs.running import warn_running
from jobs.table import json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted, iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka_log.image.replay import ReplayedMetadata
    from pipelines.metadata import MetadataCopy

Row = dict[str, Any]

_DESCRIPTION = """\
Print the cluster as its KRaft metadata log describes it: topics, partitions with replicas, leaders
and epochs, settings, features, brokers, controllers, ACLs, quotas and voters, at the end of the
log, at an offset or at a time. Or print each change of a topic. Nothing is written.
"""
_EPILOG = """\
examples:
  Who led a partition, and when?
    kafka-forensics metadata /data --history orders-3
  What changed between two offsets?
    kafka-forensics metadata /data --diff 1000 2000

exit codes:
  0  nothing is wrong
  1  the log is damaged, or has a record that a broker refuses; what precedes it is printed
  2  wrong usage
  3  something could not be read, or no metadata log was found

All columns and JSON fields: docs/jobs/metadata.md
"""
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,9})")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("metadata", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser, files=False)
    group = parser.add_argument_group("what to print")
    group.add_argument(
        "--at",
        type=options.point,
        metavar="OFFSET|TIME",
        help="the cluster after the record at this offset, or at this time, such as 1200 or"
        " 2026-01-31T12:00:00Z",
    )
    group.add_argument(
        "--history",
        metavar="TOPIC[-PARTITION]",
        help="each change of a topic: leaders, in-sync replicas, settings",
    )
    group.add_argument(
        "--diff",
        nargs=2,
        type=options.point,
        metavar=("A", "B"),
        help="what differs between two offsets or times",
    )
    group.add_argument(
        "--kind", action="append", default=[], metavar="KIND", help="only these rows; repeatable"
    )
    group.add_argument(
        "--topic",
        action="append",
        default=[],
        dest="topics",
        metavar="GLOB",
        help="only rows of topics that match; repeatable",
    )
    options.add_format(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from kafka_log.inventory.scan import scan
    from pipelines import metadata

    _check(arguments)
    inventory = scan(arguments.paths)
    warn_running(each.path for each in inventory.log_dirs)
    selected_partitions.report_links(arguments, inventory)
    for problem in inventory.problems:
        say(f"{problem.path}: {problem.message}")
    every = argparse.Namespace(**{**vars(arguments), "topics": [], "partitions": []})
    missing = selected_partitions.report_missing(every, inventory, log_dirs_count=True)
    copies = metadata.find_copies(inventory)
    if not copies and (missing or inventory.problems):
        return options.COULD_NOT_RUN
    if not copies:
        raise options.CannotRunError(
            f"{', '.join(arguments.paths)}: no metadata log (__cluster_metadata-0) found"
        )
    copy, found = metadata.best_copy(copies)
    if len(copies) > 1 and not arguments.quiet:
        say(f"{copy.path}: used, because it holds the most of {len(copies)} copies")
    rows, found = _rows(arguments, copy, found)
    _show(arguments, rows)
    return _report(arguments, found, is_unread=bool(missing or inventory.problems))


def _check(arguments: argparse.Namespace) -> None:
    from pipelines.metadata import KINDS

    for kind in arguments.kind:
        if kind not in KINDS:
            raise options.UsageError(
                f"--kind {kind}: unknown{options.nearest(kind, KINDS)}; known: {', '.join(KINDS)}"
            )
    if arguments.history and arguments.diff:
        raise options.UsageError("--history and --diff exclude each other")
    if arguments.diff and arguments.at:
        raise options.UsageError("--at and --diff exclude each other")


def _rows(
    arguments: argparse.Namespace, copy: MetadataCopy, found: ReplayedMetadata
) -> tuple[list[Row], ReplayedMetadata]:
    from kafka_log.image.replay import TO_THE_END
    from pipelines import metadata

    if arguments.history:
        topic, partition = _topic_and_partition(arguments.history, found)
        until = arguments.at or TO_THE_END
        rows, found = metadata.history_rows(copy, topic, partition, until)
        return [metadata.source_row(copy, found), *rows], found
    if arguments.diff:
        images = [metadata.replay(copy, point) for point in arguments.diff]
        both = [_selected(arguments, metadata.image_rows(image)) for image in images]
        return [*metadata.difference_rows(*both)], images[1]
    if arguments.at:
        found = metadata.replay(copy, arguments.at)
    image = _selected(arguments, metadata.image_rows(found))
    return [metadata.source_row(copy, found), *image], found


def _topic_and_partition(text: str, found: ReplayedMetadata) -> tuple[str, int | None]:
    """Split `orders-3`; a topic may have such a name itself."""
    known = {*found.image.topics.values(), *found.image.deleted_topics.values()}
    match = _PARTITION.fullmatch(text)
    if text not in known and match is not None:
        return match["topic"], int(match["partition"])
    return text, None


def _selected(arguments: argparse.Namespace, rows: Iterable[Row]) -> list[Row]:
    from fnmatch import fnmatchcase

    def is_wanted(row: Row) -> bool:
        if arguments.kind and row["kind"] not in arguments.kind:
            return False
        if not arguments.topics:
            return True
        name = row.get("topic")
        if row["kind"] == "config" and row["resource_type"] == "topic":
            name = row["resource_name"]
        return name is not None and any(fnmatchcase(name, glob) for glob in arguments.topics)

    return [row for row in rows if is_wanted(row)]


# ------------------------------------------------------------------------------------- output


def _show(arguments: argparse.Namespace, rows: list[Row]) -> None:
    if arguments.format == "json":
        for row in rows:
            print(json_line(row))
        return
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(row["kind"], []).append(row)
    source = by_kind.pop("image", [])
    for row in source:
        print(_source_line(row))
    differences = by_kind.pop("difference", [])
    if differences:
        by_kind["difference"] = [_named(row) for row in differences]
    elif arguments.diff:
        print("no difference")
    for kind, each in by_kind.items():
        print()
        columns = [name for name in each[0] if name not in _HIDDEN.get(kind, ("kind",))]
        header = [_HEADINGS.get(name, name.replace("_", " ")) for name in columns]
        lines = [[_cell(name, row[name]) for name in columns] for row in each]
        for line in table(header, lines, wide=arguments.wide):
            print(line)


def _named(row: Row) -> Row:
    """Return a difference with one column for the name of what it is about."""
    shared = ("kind", "of", "what", "before", "after")
    name = " ".join(_cell_text(value) for key, value in row.items() if key not in shared)
    return {"of": row["of"], "which": name, **{key: row[key] for key in shared[2:]}}


def _cell_text(value: Any) -> str:
    return str(_cell("", value))


_HIDDEN = {
    "topic": ("kind",),
    "partition": ("kind", "topic_id", "directories", "is_recovering"),
    "config": ("kind", "is_sensitive"),
    "broker": ("kind", "incarnation_id", "features"),
    "controller": ("kind", "incarnation_id", "features"),
    "difference": (),
}
"""Fields that only JSON has."""
_HEADINGS = {"resource_type": "of", "resource_name": "name", "name": "setting", "node_id": "node"}


def _source_line(row: Row) -> str:
    from kafka_format.shown_text import escaped

    time = iso_time(row["timestamp"]) if row["timestamp"] is not None else "no time"
    snapshot = f", from snapshot {row['snapshot']}" if row["snapshot"] else ""
    tail = row["end_offset"] - row["committed_offset"]
    unknown = f"; the last {counted(tail, 'record')} may not be committed" if tail else ""
    return escaped(f"{row['path']}: up to offset {row['end_offset']}, {time}{snapshot}{unknown}")


def _cell(name: str, value: Any) -> object:
    if name == "timestamp" and isinstance(value, int):
        return iso_time(value)
    if isinstance(value, list):
        return ",".join(_item(each) for each in value) or "-"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_cell(key, each)}" for key, each in value.items())
    return value


def _item(value: Any) -> str:
    if isinstance(value, dict) and "host" in value:
        return f"{value['name']}://{value['host']}:{value['port']}"
    return str(value)


def _report(arguments: argparse.Namespace, found: ReplayedMetadata, *, is_unread: bool) -> int:
    """Report on stderr why replay ended, and return the exit code."""
    if found.pending and not arguments.quiet:
        say(
            f"{found.path}: {counted(found.pending, 'record')} of a transaction that has not"
            " ended: not applied"
        )
    failure = found.failure
    if failure is not None:
        at = "" if failure.offset is None else f" at offset {failure.offset}"
        say(f"{failure.path}: replay ends{at}: {failure.reason}")
    if is_unread:
        return options.COULD_NOT_RUN
    return options.CLEAN if failure is None else options.FINDINGS


if __name__ == "__main__":
    raise SystemExit(main())
