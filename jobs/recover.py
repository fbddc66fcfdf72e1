"""`kafka-forensics recover`: what a restart would truncate and rebuild."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobs import options, rewriting
from jobs.table import human_size, json_line, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from jobs.rewriting import Done, Found, Row
    from kafka_log.recovery import Assignments
    from pipelines.partition_tasks import PartitionTask

_DESCRIPTION = """\
Tell what a broker that starts on this directory would do to each file: swaps completed, leftovers
dropped, logs cut (where and why), indexes and producer snapshots rebuilt, leader epochs trimmed.
PATH is a log dir, several in one directory, or a partition directory. Without --output and
--in-place nothing is written.
"""
_EPILOG = """\
example: what a restart after a crash would lose, whatever the marker says
  kafka-forensics recover /data --topic orders --clean-shutdown no

exit codes: 0 nothing is lost, 1 a restart would lose data, give up a log dir or fail, 2 usage,
3 something could not be read or written. All fields: docs/jobs/recover.md
"""
_FATAL = ("stop", "offline")
"""Of a log dir: the broker does not start, or goes on without the dir."""
_COLUMNS = ("partition", "file", "action", "before", "after", "reason")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _work)


def _parser() -> options.Parser:
    parser = options.Parser("recover", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_partitions(parser)
    group = parser.add_argument_group("what the broker would know (default: its files)")
    group.add_argument(
        "--clean-shutdown", choices=("yes", "no"), help="whether it was stopped in order"
    )
    group.add_argument(
        "--recovery-point",
        type=options.offset,
        metavar="OFFSET",
        help="up to where the log was flushed",
    )
    group.add_argument(
        "--log-start", type=options.offset, metavar="OFFSET", help="the log start offset"
    )
    options.add_mode(parser)
    options.add_running(parser)
    return parser


def _work(arguments: argparse.Namespace) -> int:
    from pipelines.recovery import RecoverPartition, checkpoint_changes

    found = rewriting.find(arguments)
    found.of_one(arguments.recovery_point, arguments.log_start)
    found.tasks[:] = [_with_knowledge(task, arguments) for task in found.tasks]
    recover = rewriting.Rewriting(
        verb="recover",
        function=RecoverPartition(_assignments(found)),
        changes_of=checkpoint_changes,
    )
    done = recover.run(arguments, found)
    done.rows[:0] = list(_log_dir_rows(found, arguments))
    _show(done, arguments.format)
    if done.rows and not arguments.quiet:
        sys.stderr.write(_summary(done))
    return done.exit_code or (options.FINDINGS if any(map(_is_bad, done.rows)) else options.CLEAN)


def _with_knowledge(task: PartitionTask, arguments: argparse.Namespace) -> PartitionTask:
    if arguments.clean_shutdown is not None:
        task = replace(task, is_clean=arguments.clean_shutdown == "yes")
    if arguments.recovery_point is not None:
        task = replace(task, recovery_point=arguments.recovery_point)
    if arguments.log_start is not None:
        task = replace(task, log_start_offset=arguments.log_start)
    return task


def _assignments(found: Found) -> Assignments | None:
    """What the metadata log says of this broker's replicas, if it is among what was given."""
    from kafka_log.recovery import Assignments

    metas = [each.meta for each in found.log_dirs if each.meta is not None]
    if found.metadata is None or not metas or metas[0].node_id is None:
        return None
    node_id = metas[0].node_id
    return Assignments(
        broker_id=node_id,
        replicas=found.metadata.replicas,
        directories=found.metadata.directories_of(node_id),
        directory_id=metas[0].directory_id if len(metas) == 1 else None,
    )


def _log_dir_rows(found: Found, arguments: argparse.Namespace) -> Iterator[Row]:
    """What happens to the log dirs themselves, where whole ones were given."""
    from kafka_log.config import LogConfig
    from kafka_log.names import FileKind
    from kafka_log.recovery import plan_log_dir

    answered = set() if found.metadata is None else {"-stray"}
    if arguments.clean_shutdown is not None:
        answered.add(FileKind.CLEAN_SHUTDOWN.value)  # the marker was overruled
    for log_dir in found.log_dirs:
        if log_dir.is_clean is None:
            continue
        for row in plan_log_dir(log_dir.path, LogConfig()).rows:
            if row.name not in answered:
                yield {
                    "kind": "log_dir",
                    "path": log_dir.path,
                    "file": row.name,
                    "action": row.action,
                    "reason": row.why,
                }


def _is_bad(row: Row) -> bool:
    if row["kind"] == "log_dir":
        return row["action"] in _FATAL
    return row["kind"] == "partition" and bool(row["lost_bytes"] or row["error"])


def _show(done: Done, form: str) -> None:
    if form == "json":
        for row in (*done.checkpoints, *done.rows):
            print(json_line(row))
        return
    cells = [each for row in done.rows if (each := _cells(row)) is not None]
    if cells:
        for line in table(_COLUMNS, cells, right=("before", "after")):
            print(line)


def _cells(row: Row) -> list[Any] | None:
    if row["kind"] == "log_dir":
        return [None, row["file"], row["action"], None, None, row["reason"]]
    name = f"{row['topic']}-{row['partition']}"
    if row["kind"] == "partition":
        if row["error"]:
            return [name, None, "stop", None, None, row["error"]]
        return [name, None, row["fate"], None, None, row["note"]] if row["note"] else None
    action = row["action"]
    if row["renamed_to"] is not None:
        action = f"{action} to {row['renamed_to']}"
    sizes = [human_size(row["size_before"]), human_size(row["size_after"])]
    return [name, row["file"], action, *sizes, row["reason"]]


def _summary(done: Done) -> str:
    partitions = [row for row in done.rows if row["kind"] == "partition"]
    lost = sum(row["lost_bytes"] for row in partitions)
    cut = sum(row["lost_bytes"] > 0 for row in partitions)
    stopped = sum(row["error"] is not None for row in partitions)
    read = sum(row["bytes_read"] for row in partitions)
    seconds = sum(row["estimated_seconds"] for row in partitions)
    verb = "lost" if done.was_written else "would lose"
    losses = f"{rewriting.counted(cut, 'partition')} {verb} {human_size(lost)}"
    whole = f"{rewriting.counted(len(partitions), 'partition')}, no data lost"
    parts = [losses if cut else whole if partitions else "nothing was recovered"]
    if stopped:
        parts.append(f"{rewriting.counted(stopped, 'partition')} would not load")
    given_up = {row["path"] for row in done.rows if row["kind"] == "log_dir" and _is_bad(row)}
    given_up |= {row["path"] for row in done.checkpoints}
    if given_up:
        parts.append(f"{rewriting.counted(len(given_up), 'log dir')} would not load")
    if done.failures:
        parts.append(f"{rewriting.counted(done.failures, 'place')} could not be looked at")
    parts.append(f"a broker reads {human_size(read)} of logs, about {seconds:.1f} s")
    return "; ".join(parts) + f"{done.where}\n"


if __name__ == "__main__":
    raise SystemExit(main())
