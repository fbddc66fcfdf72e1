"""`kafka-forensics list`: list log dirs by file names, small files and a few batch headers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import options, selected_partitions
from jobs.places import Places
from jobs.running import warn_running
from jobs.table import cell, human_size, json_line, table
from kafka_format.shown_text import say, shortened
from pipelines.report.text import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_log.inventory.inventory import Inventory, InventoryFile, LogDir

Row = dict[str, Any]

_DESCRIPTION = """\
List what is in log directories: which node they belong to, whether a broker is running, was stopped
cleanly or crashed, topics and partitions with offsets and sizes, and files that are out of place.
Fast for any size: only file names, small files and the last few batch headers of each log are read.
"""
_EPILOG = """\
example:
  List every file of one topic as JSON.
    kafka-forensics list /var/lib/kafka --topic orders --files --format json

exit codes:
  0  nothing is wrong
  1  something is malformed
  2  wrong usage
  3  something could not be read, no Kafka files were found, or no partition matches

All columns and JSON fields: docs/jobs/list.md
"""
_OFFSETS = ("log start", "high watermark", "log end")
_PARTITIONS = ("topic", "partition", "state", *_OFFSETS, "segments", "size", "other files")
_SEGMENTS = ("base offset", "state", "size", "index", "time index", "txn index", "snapshot")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _list)


def _parser() -> options.Parser:
    parser = options.Parser("list", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser)
    parser.add_argument("--segments", action="store_true", help="also list every segment")
    parser.add_argument("--files", action="store_true", help="also list every file and its purpose")
    options.add_selection(parser)
    options.add_format(parser)
    options.add_engine(parser)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    from kafka_log.config.settings import read_settings
    from kafka_log.inventory.lost_segments import with_lost_segments
    from kafka_log.inventory.scan import scan

    inventory = scan(arguments.paths)
    settings = read_settings(metadata=inventory.metadata, node_id=inventory.node_id)
    selection = options.Selection.of(arguments)
    inventory = with_lost_segments(inventory, settings, includes=selection.includes)
    warn_running(each.path for each in inventory.log_dirs)
    selected_partitions.report_links(arguments, inventory)
    rows = _rows(inventory, arguments)
    output = _Json() if arguments.format == "json" else _Text(arguments, inventory)
    for row in rows:
        output.show(row)
    output.finish()
    is_missing = bool(selected_partitions.report_missing(arguments, inventory, log_dirs_count=True))
    return options.COULD_NOT_RUN if is_missing else output.code


def _rows(inventory: Inventory, arguments: argparse.Namespace) -> Iterator[Row]:
    from pipelines.source.tables.inventory import file_row, log_dir_row, problem_row

    selection = options.Selection.of(arguments)
    placed = _placed_rows(inventory, selection, arguments)
    following = next(placed, None)
    for log_dir in inventory.log_dirs:
        yield log_dir_row(log_dir)
        while following is not None and following[0] == log_dir.path:
            yield following[1]
            following = next(placed, None)
        if arguments.files and selection.is_everything:
            yield from map(file_row, log_dir.files)
    yield from map(problem_row, selected_partitions.problems_of(inventory, selection))


def _placed_rows(
    inventory: Inventory, selection: options.Selection, arguments: argparse.Namespace
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of the partitions of all log dirs in order, each with its log dir."""
    from pipelines.engine.engine import EngineError, Failure, run
    from pipelines.engine.progress import progress_bar
    from pipelines.source.tables.inventory import ListingTask, bytes_to_read, placed_rows

    tasks = [
        ListingTask(log_dir.path, partition, arguments.segments, arguments.files)
        for log_dir in inventory.log_dirs
        for partition in log_dir.partitions
        if selection.includes(partition.topic, partition.partition)
    ]
    try:
        for placed in run(
            tasks,
            placed_rows,
            engine=arguments.engine,
            bytes_of=bytes_to_read,
            on_progress=None if arguments.quiet else progress_bar("reading"),
        ):
            if isinstance(placed, Failure):
                path, message = placed.task.partition.path, placed.message
                row = {"kind": "problem", "path": path, "trouble": "unreadable", "message": message}
                yield placed.task.log_dir, row
            else:
                yield placed
    except EngineError as error:
        raise options.CannotRunError(str(error)) from error


class _Output:
    code = options.CLEAN

    def show(self, row: Row) -> None:
        if row["kind"] == "problem":
            self._report_problem(row)

    def finish(self) -> None:
        sys.stdout.flush()

    def _report_problem(self, row: Row) -> None:
        worse = options.COULD_NOT_RUN if row["trouble"] == "unreadable" else options.FINDINGS
        self.code = max(self.code, worse)
        say(f"{row['path']}: {row['message']}")


class _Json(_Output):
    def show(self, row: Row) -> None:
        super().show(row)
        print(json_line(row))


class _Text(_Output):
    """Prints each log dir, a table of its partitions, and below it the segments and files."""

    def __init__(self, arguments: argparse.Namespace, inventory: Inventory) -> None:
        self._places = Places.of(arguments.paths, {}, inventory)
        self._log_dirs = {each.path: each for each in inventory.log_dirs}
        self._files = {each.path: each.strays for _, each in inventory.partitions()}
        self._wide = arguments.wide
        self._partitions: list[Row] = []
        self._details: list[Row] = []
        self._began = False

    def show(self, row: Row) -> None:
        super().show(row)
        if row["kind"] == "log_dir":
            self._flush()
            self._begin(row)
        elif row["kind"] == "partition":
            self._partitions.append(row)
        elif row["kind"] in ("segment", "file"):
            self._details.append(row)

    def finish(self) -> None:
        self._flush()
        super().finish()

    def _begin(self, row: Row) -> None:
        if self._began:
            print()
        self._began = True
        for line in _heading(row, self._log_dirs[row["path"]]):
            print(line)

    def _flush(self) -> None:
        self._print_table(_PARTITIONS, map(self._partition_cells, self._partitions))
        segments = [row for row in self._details if row["kind"] == "segment"]
        self._print_table(("directory", *_SEGMENTS, "missing"), map(self._segment_cells, segments))
        files = [row for row in self._details if row["kind"] == "file"]
        self._print_table(("size", "file", "description"), map(self._file_cells, files))
        self._partitions, self._details = [], []

    def _print_table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        lines = list(rows)
        if lines:
            print()
            for line in table(header, lines, right=_NUMBERS, wide=self._wide):
                print(line)

    def _partition_cells(self, row: Row) -> list[object]:
        return [
            self._name(row),
            row["partition"],
            row["state"],
            row["log_start_offset"],
            row["high_watermark"],
            row["log_end_offset"],
            row["segments"],
            human_size(row["size_in_bytes"]),
            _counts_text(self._files[row["path"]]),
        ]

    def _name(self, row: Row) -> str:
        """Return the topic; the path if it is no partition directory, `a-0 -> b-0` for a link."""
        path = row["path"]
        if path in self._places.links or row["topic"] is None:
            return self._places.linked(path, self._places.shown(path))
        return str(row["topic"])

    def _segment_cells(self, row: Row) -> list[object]:
        return [
            self._places.shown(row["path"]),
            row["base_offset"],
            row["state"],
            human_size(row["size_in_bytes"]),
            human_size(row["offset_index_size"]),
            human_size(row["time_index_size"]),
            human_size(row["transaction_index_size"]),
            human_size(row["producer_snapshot_size"]),
            " ".join(row["missing"]) or None if row["state"] == "live" else None,
        ]

    def _file_cells(self, row: Row) -> list[object]:
        path = self._places.shown(row["path"])
        return [human_size(row["size_in_bytes"]), path, row["what"]]


_NUMBERS = {*_OFFSETS, "partition", "segments", "size", *_SEGMENTS} - {"state"}


def _heading(row: Row, log_dir: LogDir) -> Iterator[str]:
    yield f"{cell(row['path'])}: {cell(_owner(row, log_dir))}"
    if row["is_running"]:
        yield "  a broker is running on this directory"
    elif row["is_clean"] is None:
        yield "  no sign that a broker has used this directory"
    elif row["is_clean"]:
        epoch = row["broker_epoch"]
        yield "  stopped cleanly" + ("" if epoch is None else f", broker epoch {epoch}")
    else:
        lock = "; .lock exists" if row["has_lock"] else ""
        yield f"  not stopped cleanly: the next start will recover the logs{lock}"
    if row["is_clean"] is not None:
        lacking = [
            f"{name} {state}" for name, state in row["checkpoints"].items() if state != "with rows"
        ]
        yield f"  checkpoints: {'; '.join(lacking) or 'all present'}"
    if row["metadata_end_offset"] is not None:
        yield f"  KRaft metadata up to offset {row['metadata_end_offset']}"
    amounts = [
        counted(row["topics"], "topic"),
        counted(row["partitions"], "partition"),
        str(human_size(row["size_in_bytes"])),
    ]
    files = [*log_dir.strays, *(file for each in log_dir.partitions for file in each.strays)]
    yield f"  {', '.join([*amounts, *_amounts(files)])}"


def _owner(row: Row, log_dir: LogDir) -> str:
    """Return the ids in meta.properties, or what is wrong with that file."""
    from kafka_log.inventory.inventory import Trouble
    from kafka_log.names import FileKind

    known = [f"node {row['node_id']}"] if row["node_id"] is not None else []
    names = [name for name in ("cluster", "directory") if row[f"{name}_id"]]
    known += [f"{name} {shortened(row[f'{name}_id'])}" for name in names]
    if known:
        return ", ".join(known)
    file = FileKind.META_PROPERTIES.value
    for problem in log_dir.problems:
        if Path(problem.path) == Path(log_dir.path, file):
            is_malformed = problem.trouble is Trouble.MALFORMED
            return f"{file} {'is malformed' if is_malformed else 'cannot be read'}: see stderr"
    is_there = any(each.name.kind is FileKind.META_PROPERTIES for each in log_dir.files)
    return f"{file} has no ids" if is_there else f"no {file}"


def _count_by_fate(files: Iterable[InventoryFile]) -> tuple[int, int, int]:
    """Count files to be deleted, leftovers of the cleaner, and stray files."""
    from kafka_log.names import FileState

    states = [file.name.state for file in files]
    deleted = states.count(FileState.DELETED)
    cleaner = states.count(FileState.CLEANED) + states.count(FileState.SWAP)
    return deleted, cleaner, len(states) - deleted - cleaner


def _amounts(files: Iterable[InventoryFile]) -> Iterator[str]:
    deleted, cleaner, others = _count_by_fate(files)
    if deleted:
        yield f"{counted(deleted, 'file')} waiting to be deleted"
    if cleaner:
        yield f"{counted(cleaner, 'leftover')} of the cleaner"
    if others:
        yield counted(others, "stray file")


def _counts_text(files: Iterable[InventoryFile]) -> str | None:
    names = ("deleted", "cleaner", "stray")
    shown = [f"{n} {name}" for n, name in zip(_count_by_fate(files), names, strict=True) if n]
    return ", ".join(shown) or None


if __name__ == "__main__":
    raise SystemExit(main())
