"""Plain values to the Arrow batches of a table, and what several tables share in planning.

Arrow is imported where rows are made: Spark plans every query in a new process, which would wait
for the import.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from kafka_format.shown_text import name_base64, name_text
from pipelines.source.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from kafka_log.inventory.inventory import InventoryFile, Partition, Segment
    from pipelines.source.options import Options

    Row = Mapping[str, Any]

ROWS_PER_BATCH = 8 * 1024
_MOST_FILES = 200
"""In one split: a remote file takes a while to open."""
_PATH_BYTES = "path_base64"
_Item = TypeVar("_Item")


class FileTask(NamedTuple):
    """A file to read. Picklable."""

    file: InventoryFile
    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None
    segment: Segment | None = None
    """For a time index: the segment that it must cover to the end."""
    next_base: int | None = None
    """For a log: the offset at which the next segment begins."""

    @property
    def size_in_bytes(self) -> int:
        return self.file.size_in_bytes


def packed(
    items: Iterable[_Item], options: Options, size_of: Callable[[_Item], int]
) -> list[tuple[_Item, ...]]:
    """Pack items into splits, in order."""
    splits: list[tuple[_Item, ...]] = []
    group: list[_Item] = []
    size = 0
    for item in items:
        if group and (size + size_of(item) > options.max_split_bytes or len(group) >= _MOST_FILES):
            splits.append(tuple(group))
            group, size = [], 0
        group.append(item)
        size += size_of(item)
    return [*splits, tuple(group)] if group else splits


def wants_everything(options: Options) -> bool:
    """Return whether files that belong to no partition are selected as well."""
    bounds = options.bounds
    narrowed = [each for each in (bounds.topics, bounds.partitions) if each is not None]
    return not options.is_narrowed and all(None in each for each in narrowed)


def wants(partition: Partition, options: Options) -> bool:
    return options.includes(partition.topic, partition.partition)


def batches_of_rows(rows: Iterable[Row], options: Options) -> Iterator[pa.RecordBatch]:
    """Yield batches of some thousand rows; a column that a row does not have is null."""
    remaining = iter(rows)
    while group := list(islice(remaining, ROWS_PER_BATCH)):
        columns = {name: [row.get(name) for row in group] for name in source_columns(options)}
        if _PATH_BYTES in columns:
            columns[_PATH_BYTES] = [row.get(_PATH_BYTES) or _path_bytes(row) for row in group]
        yield batch_of_columns(columns, options)


def _path_bytes(row: Row) -> str | None:
    path = row.get("path")
    return None if path is None else name_base64(path)


def source_columns(options: Options) -> list[str]:
    """Return the columns that rows must have: for a timestamp the `…_ms` it is computed from."""
    selected = _selected_columns(options)
    times = {f"{name}_ms" for name in selected if _is_time(options.table, name)}
    return [name for name in arrow_schema(options.table).names if name in selected | times]


def _selected_columns(options: Options) -> set[str]:
    return set(options.columns or arrow_schema(options.table).names)


def _is_time(table: str, name: str) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(arrow_schema(table).field(name).type))


def batch_of_columns(columns: Mapping[str, Any], options: Options) -> pa.RecordBatch:
    """Return a batch of lists, numpy or Arrow arrays by name; timestamps come from their `…_ms`."""
    import pyarrow as pa

    names = tuple(options.columns or arrow_schema(options.table).names)
    schema = arrow_schema(options.table, names)
    arrays = []
    for field in schema:
        if pa.types.is_timestamp(field.type):
            arrays.append(_times(columns[f"{field.name}_ms"]))
        else:
            arrays.append(_array(columns[field.name], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values.cast(kind)
    if isinstance(values, np.ndarray):
        return pa.array(values).cast(kind)
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # a name that is not UTF-8
        return pa.array([_utf8(each) for each in values], kind)


def _utf8(value: Any) -> Any:
    if isinstance(value, str):
        return name_text(value)
    if isinstance(value, dict):
        return {_utf8(key): _utf8(each) for key, each in value.items()}
    return [_utf8(each) for each in value] if isinstance(value, list) else value


def _times(milliseconds: Any) -> pa.Array:
    import pyarrow as pa

    from pipelines.source.arrow import timestamps

    if isinstance(milliseconds, pa.Array):
        milliseconds = milliseconds.fill_null(-1).to_numpy(zero_copy_only=False)
    elif not isinstance(milliseconds, np.ndarray):
        none = [-1 if each is None else each for each in milliseconds]
        milliseconds = np.array(none, np.int64)
    return timestamps(milliseconds)
