"""`kafka-forensics list`: what is here, by names, small files and a few headers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jobs import options, rewriting
from jobs.table import cell, human_size, json_line, table

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_log.evidence.inventory import Inventory

Row = dict[str, Any]

_DESCRIPTION = """\
Tell what is in log directories: who had them and whether they were stopped cleanly, their topics
and partitions with offsets and sizes, and every file that is out of place. Quick on any size: only
names, small files and the last few batch headers of a log are read. Files are only read.
"""
_EPILOG = """\
example: every file of one topic, as JSON
  kafka-forensics list /var/lib/kafka --topic orders --files --format json

exit codes: 0 all was told, 1 something is malformed, 2 usage, 3 something could not be read, or
nothing is meant by --topic and --partition. All fields: docs/jobs/list.md
"""
_OFFSETS = ("start", "high watermark", "end")
_PARTITIONS = ("topic", "partition", "state", *_OFFSETS, "segments", "size", "strays")
_SEGMENTS = ("base offset", "state", "size", "index", "time index", "txn index", "snapshot")


def main(argv: Sequence[str] | None = None) -> int:
    return options.run(_parser(), argv, _list)


def _parser() -> options.Parser:
    parser = options.Parser("list", description=_DESCRIPTION, epilog=_EPILOG)
    options.add_paths(parser)
    parser.add_argument("--segments", action="store_true", help="every segment of a partition too")
    parser.add_argument("--files", action="store_true", help="every file too, with what it is")
    options.add_selection(parser)
    options.add_format(parser)
    options.add_engine(parser)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    from kafka_log.evidence.scan import scan

    inventory = scan(arguments.paths)
    rows = _rows(inventory, arguments)
    output = _Json() if arguments.format == "json" else _Text()
    for row in rows:
        output.show(row)
    output.finish()
    if _is_nothing_meant(inventory, arguments):
        rewriting.tell(rewriting.nothing_meant(arguments, inventory))
        return options.COULD_NOT_RUN
    return output.code


def _is_nothing_meant(inventory: Inventory, arguments: argparse.Namespace) -> bool:
    """A log dir without partitions is told of, but for nobody who asked for some of them."""
    selection = options.Selection.of(arguments)
    if selection.is_everything:
        is_told = any(problem.path in arguments.paths for problem in inventory.problems)
        return not inventory.log_dirs and not is_told
    return not any(
        selection.includes(each.topic, each.partition) for _, each in inventory.partitions()
    )


def _rows(inventory: Inventory, arguments: argparse.Namespace) -> Iterator[Row]:
    from pipelines.tables.inventory import file_row, log_dir_row, problem_row

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
    yield from map(problem_row, inventory.all_problems())


def _placed_rows(
    inventory: Inventory, selection: options.Selection, arguments: argparse.Namespace
) -> Iterator[tuple[str, Row]]:
    """Rows of the partitions of all log dirs, each with its log dir, in their order."""
    from pipelines.engine import EngineError, Failure, run
    from pipelines.progress import progress_bar
    from pipelines.tables.inventory import PartitionTask, bytes_to_read, placed_rows

    tasks = [
        PartitionTask(log_dir.path, partition, arguments.segments, arguments.files)
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
                path, said = placed.task.partition.path, placed.message
                row = {"kind": "problem", "path": path, "trouble": "unreadable", "message": said}
                yield placed.task.log_dir, row
            else:
                yield placed
    except EngineError as error:
        raise options.CannotRunError(str(error)) from error


class _Output:
    code = options.CLEAN

    def show(self, row: Row) -> None:
        if row["kind"] == "problem":
            self._blame(row)

    def finish(self) -> None:
        sys.stdout.flush()

    def _blame(self, row: Row) -> None:
        worse = options.COULD_NOT_RUN if row["trouble"] == "unreadable" else options.FINDINGS
        self.code = max(self.code, worse)
        sys.stderr.write(f"{cell(row['path'])}: {row['trouble']}: {cell(row['message'])}\n")


class _Json(_Output):
    def show(self, row: Row) -> None:
        super().show(row)
        print(json_line(row))


class _Text(_Output):
    """A log dir, its partitions in a table, and below each what else was asked for."""

    def __init__(self) -> None:
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
        for line in _heading(row):
            print(line)

    def _flush(self) -> None:
        if self._partitions:
            print()
            _print_table(_PARTITIONS, map(_partition_cells, self._partitions))
        segments = [row for row in self._details if row["kind"] == "segment"]
        if segments:
            print()
            _print_table(("directory", *_SEGMENTS, "missing"), map(_segment_cells, segments))
        files = [row for row in self._details if row["kind"] == "file"]
        if files:
            print()
            _print_table(("size", "file", "what"), map(_file_cells, files))
        self._partitions, self._details = [], []


_NUMBERS = {*_OFFSETS, "partition", "segments", "size", "strays", *_SEGMENTS} - {"state"}


def _print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    for line in table(header, rows, right=_NUMBERS):
        print(line)


def _heading(row: Row) -> Iterator[str]:
    who = [f"node {row['node_id']}"] if row["node_id"] is not None else []
    who += [f"{name} {row[f'{name}_id']}" for name in ("cluster", "directory") if row[f"{name}_id"]]
    yield f"{cell(row['path'])}: {cell(', '.join(who)) or 'no meta.properties'}"
    if row["is_clean"] is None:
        yield "  no sign of a broker here"
    elif row["is_clean"]:
        epoch = row["broker_epoch"]
        yield "  stopped cleanly" + ("" if epoch is None else f", at broker epoch {epoch}")
    else:
        lock = "; .lock is there" if row["has_lock"] else ""
        yield f"  not stopped cleanly: the next start recovers its logs{lock}"
    if row["is_clean"] is not None:
        lacking = [
            f"{name} {state}" for name, state in row["checkpoints"].items() if state != "with rows"
        ]
        yield f"  checkpoints: {'; '.join(lacking) or 'all there'}"
    if row["metadata_end_offset"] is not None:
        yield f"  KRaft metadata up to offset {row['metadata_end_offset']}"
    strays = f", {row['strays']} stray files" if row["strays"] else ""
    yield (
        f"  {_count(row['topics'], 'topic')}, {_count(row['partitions'], 'partition')}, "
        f"{human_size(row['size_in_bytes'])}{strays}"
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _partition_cells(row: Row) -> list[object]:
    return [
        row["topic"] if row["topic"] is not None else row["path"],
        row["partition"],
        row["state"],
        row["log_start_offset"],
        row["high_watermark"],
        row["log_end_offset"],
        row["segments"],
        human_size(row["size_in_bytes"]),
        row["strays"] or None,
    ]


def _segment_cells(row: Row) -> list[object]:
    return [
        row["path"],
        row["base_offset"],
        row["state"],
        human_size(row["size_in_bytes"]),
        human_size(row["offset_index_size"]),
        human_size(row["time_index_size"]),
        human_size(row["transaction_index_size"]),
        human_size(row["producer_snapshot_size"]),
        " ".join(row["missing"]) if row["state"] == "live" else None,
    ]


def _file_cells(row: Row) -> list[object]:
    return [human_size(row["size_in_bytes"]), row["path"], row["what"]]


if __name__ == "__main__":
    raise SystemExit(main())
