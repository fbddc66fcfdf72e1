"""The tables log_dirs, partitions, segments and files: the inventory, with the rows of `list`.

The scan runs where the query is planned; the tasks only read the end of each partition's log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.source.storage import Storage
from pipelines.source.tables.inventory import (
    ListingTask,
    bytes_to_read,
    file_row,
    log_dir_row,
    partition_rows,
)
from pipelines.source.tables.rows import batches_of_rows, packed, wants, wants_everything

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pipelines.source.options import Options
    from pipelines.source.tables.inventory import Row

_KINDS = {"log_dirs": "log_dir", "partitions": "partition", "segments": "segment", "files": "file"}


class _Listing:
    def plan(self, options: Options, storage: Storage) -> Sequence[Any]:
        """Return rows that are known already, and tasks for the partitions that must be read."""
        inventory = storage.scan()
        if options.table == "log_dirs":
            return [tuple(log_dir_row(each) for each in inventory.log_dirs)]
        tasks = [
            ListingTask(
                log_dir.path,
                partition,
                segments=options.table == "segments",
                files=options.table == "files",
            )
            for log_dir, partition in inventory.partitions()
            if wants(partition, options)
        ]
        splits: list[Any] = [*packed(tasks, options, bytes_to_read)]
        if options.table == "files" and wants_everything(options):
            rows = tuple(file_row(file) for each in inventory.log_dirs for file in each.files)
            splits = [rows, *splits]
        return splits

    def read(self, split: Any, options: Options) -> Iterator[pa.RecordBatch]:
        yield from batches_of_rows(self._rows(split, options), options)

    def _rows(self, split: Any, options: Options) -> Iterator[Row]:
        storage = Storage(options.paths)
        for item in split:
            if not isinstance(item, ListingTask):
                yield item
                continue
            rows = partition_rows(
                item, open_file=storage.open, log_end=options.table == "partitions"
            )
            for row in rows:
                if row["kind"] == _KINDS[options.table]:
                    yield row


READER = _Listing()
