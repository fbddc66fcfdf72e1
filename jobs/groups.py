"""`kafka-forensics groups`: print consumer groups, their members, offsets and lag, and history."""

from __future__ import annotations

import argparse
import csv
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from jobs import options, rewriting, selected_partitions
from jobs.outcome import VerbOutcome
from jobs.table import json_line, table
from kafka_format.shown_text import say
from pipelines.report.text import counted, iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs.selected_partitions import SelectedPartitions
    from kafka_log.image.replay import Until
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

_DESCRIPTION = """\
Print consumer groups as their coordinators have them after loading __consumer_offsets: classic,
consumer, share and streams groups with states, members and assignments, committed offsets and lag.
Or print what happened to a group, and why an offset is gone. Nothing is written.
"""
_EPILOG = """\
examples:
  Where did a group stand at noon?
    kafka-forensics groups /data --group orders-app --at 2026-01-31T12:00:00Z
  Why are its offsets gone?
    kafka-forensics groups /data --history orders-app
  Restore its offsets on another cluster:
    kafka-forensics groups /data --group orders-app --reset-csv > offsets.csv
    kafka-consumer-groups.sh --bootstrap-server HOST:9092 --group orders-app \\
      --reset-offsets --from-file offsets.csv --execute

exit codes:
  0  nothing is wrong
  1  a log is damaged, or has a record that a coordinator refuses; the rest is printed
  2  wrong usage
  3  something could not be read, or no partition of __consumer_offsets was found

All columns and JSON fields: docs/jobs/groups.md
"""
_GLOB = set("*?[")
_MINUTE_MS = 60_000
_MOST_NAMED = 8


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("groups", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser, files=False)
    group = parser.add_argument_group("what to print")
    group.add_argument(
        "--group",
        action="append",
        default=[],
        dest="groups",
        metavar="GLOB",
        help="only groups that match, such as 'orders-*'; repeatable",
    )
    group.add_argument(
        "--at",
        type=options.point,
        metavar="OFFSET|TIME",
        help="the groups after the record at this offset of __consumer_offsets-N, or at this time,"
        " such as 1200 or 2026-01-31T12:00:00Z",
    )
    group.add_argument(
        "--history",
        metavar="GROUP",
        help="each commit, reset, rebalance, expiry and deletion of one group",
    )
    group.add_argument(
        "--reset-csv",
        action="store_true",
        help="print committed offsets as kafka-consumer-groups --reset-offsets --from-file reads"
        " them",
    )
    group.add_argument(
        "--kind", action="append", default=[], metavar="KIND", help="only these rows; repeatable"
    )
    options.add_selection(parser)
    options.add_settings(parser)
    options.add_clock(parser, "judge which offsets expire at this time")
    options.add_format(parser)
    options.add_engine(parser)
    return parser


class _Coordinators(NamedTuple):
    """The partitions of __consumer_offsets."""

    tasks: list[PartitionTask]
    total: int
    is_known: bool
    """Whether the cluster metadata has the count; otherwise it is from the settings."""

    def with_groups(self, groups: Iterable[str]) -> list[PartitionTask]:
        from kafka_log.coordinators.groups import partition_for

        wanted = {partition_for(each, self.total) for each in groups}
        return [task for task in self.tasks if task.partition in wanted]

    def missing(self) -> list[int]:
        here = {task.partition for task in self.tasks}
        return [number for number in range(self.total) if number not in here]


def _work(arguments: argparse.Namespace) -> int:
    _check(arguments)
    found = _find(arguments)
    outcome = VerbOutcome.of(found)
    coordinators = _coordinators(found)
    if outcome.failures and not found.tasks:
        return options.COULD_NOT_RUN
    if arguments.history is not None:
        rows = _history_rows(arguments, found, coordinators, outcome)
    else:
        rows = _group_rows(arguments, found, coordinators, outcome)
    problems = [row for row in rows if row["kind"] == "problem"]
    rows = [row for row in rows if row["kind"] != "problem"]
    for row in problems:
        outcome.report(f"{row['path']}: {row['problem']}")
    _show(arguments, rows)
    if not arguments.quiet:
        say(_summary(arguments, rows))
    return outcome.exit_code or (options.FINDINGS if problems else options.CLEAN)


def _check(arguments: argparse.Namespace) -> None:
    from pipelines.groups import KINDS

    for kind in arguments.kind:
        if kind not in KINDS:
            raise options.UsageError(
                f"--kind {kind}: unknown{options.nearest(kind, KINDS)}; known: {', '.join(KINDS)}"
            )
    if arguments.history is not None and arguments.groups:
        raise options.UsageError("--history and --group exclude each other")
    if arguments.history is not None and arguments.reset_csv:
        raise options.UsageError("--history and --reset-csv exclude each other")


def _find(arguments: argparse.Namespace) -> SelectedPartitions:
    """Find all partitions: --topic and --partition select what was committed for."""
    every = argparse.Namespace(**{**vars(arguments), "topics": [], "partitions": []})
    found = selected_partitions.find(every)
    partitions = () if found.inventory is None else found.inventory.partitions()
    with_files = {partition.path for _, partition in partitions if partition.files}
    found.tasks[:] = [task for task in found.tasks if task.path in with_files]
    return found


def _coordinators(found: SelectedPartitions) -> _Coordinators:
    from pipelines.groups import OFFSETS_TOPIC, best_replicas, partition_count

    tasks = best_replicas(task for task in found.tasks if task.topic == OFFSETS_TOPIC)
    known = partition_count(found.metadata)
    default = found.settings.broker["offsets.topic.num.partitions"]
    count = known if known is not None else int(str(default))
    highest = max((task.partition for task in tasks), default=-1)
    return _Coordinators(tasks, max(count, highest + 1), known is not None)


def _retention_ms(found: SelectedPartitions) -> int:
    return int(str(found.settings.broker["offsets.retention.minutes"])) * _MINUTE_MS


def _until(arguments: argparse.Namespace, tasks: Sequence[PartitionTask]) -> Until:
    from kafka_log.image.replay import TO_THE_END

    until: Until = arguments.at or TO_THE_END
    if until.offset != TO_THE_END.offset and len(tasks) > 1:
        raise options.UsageError(
            f"--at {until.offset}: an offset applies to one partition of __consumer_offsets, but"
            f" {len(tasks)} are here: choose a group with --group, or give one partition as PATH"
        )
    return until


# ------------------------------------------------------------------------------------- rows


def _group_rows(
    arguments: argparse.Namespace,
    found: SelectedPartitions,
    coordinators: _Coordinators,
    outcome: VerbOutcome,
) -> list[Row]:
    from pipelines import groups

    literal = [each for each in arguments.groups if not _GLOB & set(each)]
    tasks = coordinators.tasks
    if coordinators.is_known and literal and len(literal) == len(arguments.groups):
        tasks = coordinators.with_groups(literal)
    if not coordinators.tasks:
        raise _no_partition(arguments)
    metadata = found.metadata
    names = {} if metadata is None else {each: name for name, each in metadata.topic_ids.items()}
    function = groups.ReadGroups(
        retention_ms=_retention_ms(found),
        topic_names=names,
        globs=tuple(arguments.groups),
        until=_until(arguments, tasks),
    )
    rows = [*rewriting.task_rows(arguments, "groups", tasks, function, outcome)]
    problems = [row for row in rows if row["kind"] == "problem"]
    rows = [row for row in rows if row["kind"] != "problem"]
    is_trusted = coordinators.is_known or groups.are_in_partitions(rows, coordinators.total)
    _report_missing(arguments, coordinators, is_trusted=is_trusted)
    if is_trusted:
        rows += _unknown_groups(coordinators, literal)
    _report_no_match(arguments, rows, outcome)
    rows = _selected(arguments, rows)
    rows = _with_lag(arguments, found, rows, outcome)
    return [*groups.in_order(rows), *problems]


def _no_partition(arguments: argparse.Namespace) -> options.CannotRunError:
    paths = ", ".join(arguments.paths)
    return options.CannotRunError(f"{paths}: no partition of __consumer_offsets found")


def _report_missing(
    arguments: argparse.Namespace, coordinators: _Coordinators, *, is_trusted: bool
) -> None:
    """Say which groups cannot be known."""
    if arguments.quiet:
        return
    here = counted(len(coordinators.tasks), "partition")
    if not is_trusted:
        say(
            f"only {here} of __consumer_offsets are here, and without cluster metadata it is"
            " unknown how many there are: groups of others are unknown"
        )
    elif missing := coordinators.missing():
        say(
            f"{here} of __consumer_offsets here, of {coordinators.total}: groups in"
            f" {_ranges(missing)} are unknown"
        )


def _ranges(numbers: Sequence[int]) -> str:
    """Return `0-3, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    more = f" and {len(texts) - _MOST_NAMED} more ranges" if len(texts) > _MOST_NAMED else ""
    return ", ".join(texts[:_MOST_NAMED]) + more


def _unknown_groups(coordinators: _Coordinators, literal: Sequence[str]) -> list[Row]:
    from kafka_log.coordinators.groups import partition_for
    from pipelines.groups import unknown_group_row

    missing = set(coordinators.missing())
    partitions = {each: partition_for(each, coordinators.total) for each in literal}
    return [
        unknown_group_row(group, partition)
        for group, partition in partitions.items()
        if partition in missing
    ]


def _report_no_match(
    arguments: argparse.Namespace, rows: Sequence[Row], outcome: VerbOutcome
) -> None:
    """Report that --group, or --topic and --partition, select nothing."""
    selection = options.Selection.of(arguments)
    if arguments.groups and not any(row["kind"] == "group" for row in rows):
        outcome.error = "no group matches " + " ".join(
            f"--group {each}" for each in arguments.groups
        )
    elif not selection.is_everything and not any(
        row.get("topic") is not None and selection.includes(row["topic"], row["partition"])
        for row in rows
    ):
        outcome.error = f"no committed offset matches {selection.text}"
    if outcome.error is not None:
        outcome.report(outcome.error)


def _selected(arguments: argparse.Namespace, rows: Iterable[Row]) -> list[Row]:
    selection = options.Selection.of(arguments)

    def is_wanted(row: Row) -> bool:
        if arguments.kind and row["kind"] not in arguments.kind:
            return False
        topic = row.get("topic")
        if topic is None:
            return row["kind"] in ("group", "member") or selection.is_everything
        return selection.includes(topic, row["partition"])

    return [row for row in rows if is_wanted(row)]


def _with_lag(
    arguments: argparse.Namespace,
    found: SelectedPartitions,
    rows: Sequence[Row],
    outcome: VerbOutcome,
) -> list[Row]:
    """Read the offsets of the logs that groups have committed for."""
    from pipelines import groups
    from pipelines.offsets import ReadOffsets

    wanted = {(row["topic"], row["partition"]) for row in rows if row["kind"] == "offset"}
    tasks = groups.best_replicas(
        task for task in found.tasks if (task.topic, task.partition) in wanted
    )
    ends = {
        (row["topic"], row["partition"]): row
        for row in rewriting.task_rows(arguments, "offsets", tasks, ReadOffsets(), outcome)
    }
    for row in ends.values():
        if row["damage"]:
            outcome.report(row["damage"])
    return [*groups.with_log_offsets(rows, ends)]


def _history_rows(
    arguments: argparse.Namespace,
    found: SelectedPartitions,
    coordinators: _Coordinators,
    outcome: VerbOutcome,
) -> list[Row]:
    from kafka_log.coordinators.groups import partition_for
    from pipelines import groups

    group: str = arguments.history
    if not coordinators.tasks or found.inventory is None:
        raise _no_partition(arguments)
    tasks = coordinators.with_groups([group]) if coordinators.is_known else coordinators.tasks
    if not tasks:
        number = partition_for(group, coordinators.total)
        raise options.CannotRunError(
            f"{', '.join(arguments.paths)}: the history of {group} is unknown:"
            f" __consumer_offsets-{number} is not here"
        )
    function = groups.ReadHistory(
        group=group,
        retention_ms=_retention_ms(found),
        removed_topics=tuple(groups.topic_removals(found.inventory)),
        until=_until(arguments, tasks),
    )
    rows = [*rewriting.task_rows(arguments, "groups", tasks, function, outcome)]
    problems = [row for row in rows if row["kind"] == "problem"]
    events = [row for row in rows if row["kind"] == "event"]
    if not events:
        outcome.error = f"no record of group {group} found"
        outcome.report(outcome.error)
    events = _selected(arguments, events)
    return [*events, *problems]


# ------------------------------------------------------------------------------------- output

_COLUMNS = {
    "group": {
        "group": "group",
        "type": "type",
        "state": "state",
        "protocol": "protocol",
        "generation": "generation",
        "epoch": "epoch",
        "assignor": "assignor",
        "members": "members",
        "records": "records",
        "size_in_bytes": "bytes",
        "expires": "expires",
    },
    "member": {
        "group": "group",
        "member_id": "member",
        "instance_id": "instance",
        "client_id": "client",
        "client_host": "host",
        "epoch": "epoch",
        "subscribed_topics": "topics",
        "assignment": "assignment",
    },
    "offset": {
        "group": "group",
        "topic": "topic",
        "partition": "partition",
        "committed_offset": "committed",
        "last_stable_offset": "last stable",
        "log_end_offset": "log end",
        "lag": "lag",
        "commit_timestamp": "committed at",
        "expires": "expires",
        "metadata": "metadata",
    },
    "pending": {
        "group": "group",
        "topic": "topic",
        "partition": "partition",
        "producer_id": "producer",
        "offset": "offset",
        "commit_timestamp": "written at",
    },
    "event": {
        "offset": "offset",
        "timestamp": "time",
        "event": "event",
        "topic": "topic",
        "partition": "partition",
        "committed_offset": "committed",
        "previous_offset": "previous",
        "producer_id": "producer",
        "epoch": "epoch",
        "members": "members",
        "member_id": "member",
        "reason": "reason",
    },
}
"""The fields that a table shows, with their headings."""
_TIMES = ("timestamp", "commit_timestamp")
_RIGHT = ("committed", "previous", "last stable", "log end", "lag", "records", "bytes", "members")


def _show(arguments: argparse.Namespace, rows: Sequence[Row]) -> None:
    if arguments.reset_csv:
        _show_csv(rows)
        return
    if arguments.format == "json":
        for row in rows:
            print(json_line(row))
        return
    is_first = True
    for kind, columns in _COLUMNS.items():
        lines = [
            [_cell(name, row[name]) for name in columns] for row in rows if row["kind"] == kind
        ]
        if not lines:
            continue
        if not is_first:
            print()
        is_first = False
        for line in table([*columns.values()], lines, right=_RIGHT, wide=arguments.wide):
            print(line)


def _show_csv(rows: Sequence[Row]) -> None:
    """Print group, topic, partition and offset. Kafka's tool reads one offset per line."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for row in rows:
        if row["kind"] != "offset":
            continue
        if "\n" in row["group"] or not row["group"]:
            say(f"{row['group']!r}: left out: kafka-consumer-groups cannot read such a group id")
            continue
        writer.writerow([row["group"], row["topic"], row["partition"], row["committed_offset"]])


def _cell(name: str, value: Any) -> object:
    if name in _TIMES and isinstance(value, int):
        return iso_time(value)
    if name == "expires":
        return "yes" if value else None
    if name == "assignment":
        return _assignment(value)
    if isinstance(value, list):
        return ",".join(map(str, value)) or None
    return None if value == "" and name != "group" else value


def _assignment(value: Any) -> str | None:
    """Return `orders(0,1)`, or the active tasks of a streams group."""
    if isinstance(value, dict):
        value = value.get("active", [])
    parts = [
        f"{each.get('topic') or each.get('subtopology') or each.get('topic_id')}"
        f"({','.join(map(str, each['partitions']))})"
        for each in value or ()
    ]
    return " ".join(parts) or None


def _summary(arguments: argparse.Namespace, rows: Sequence[Row]) -> str:
    if arguments.history is not None:
        return counted(len(rows), "event")
    count = {kind: sum(row["kind"] == kind for row in rows) for kind in ("group", "offset")}
    expiring = sum(row["kind"] == "offset" and bool(row["expires"]) for row in rows)
    return (
        f"{counted(count['group'], 'group')}, {counted(count['offset'], 'committed offset')};"
        f" {expiring} expire at the next clean-up"
    )


if __name__ == "__main__":
    raise SystemExit(main())
