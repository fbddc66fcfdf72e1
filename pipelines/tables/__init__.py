"""The tables of `kafka_files`: how each is planned and read.

A table is planned once, where the query is planned, and read split by split, anywhere:

    plan(options, storage)    -> splits: picklable values, of about equal work
    read(split, options)      -> Arrow batches with all columns of the table, or just the wanted
                                 ones; what opens files is `Storage(options.paths)`

`TABLES` says which module has which table; a module is imported when its table is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pipelines.options import Options
    from pipelines.storage import Storage


class TableReader(Protocol):
    """How one table is read. What reads several is told which by `options.table`."""

    def plan(self, options: Options, storage: Storage) -> Sequence[Any]:
        """Picklable pieces of work; an empty plan is an empty table. Raises OptionsError."""

    def read(self, split: Any, options: Options) -> Iterator[pa.RecordBatch]:
        """The rows of one piece: columns of `schema.arrow_schema(table)`, or `options.columns`."""


TABLES: dict[str, str] = {
    "records": "pipelines.tables.records:READER",
    "batches": "pipelines.tables.batches:READER",
    **dict.fromkeys(
        ("log_dirs", "partitions", "segments", "files"), "pipelines.tables.listing:READER"
    ),
    **dict.fromkeys(
        (
            *("offset_index", "time_index", "transaction_index"),
            *("producer_snapshots", "leader_epochs", "checkpoints"),
        ),
        "pipelines.tables.side_files:READER",
    ),
    **dict.fromkeys(
        (
            *("consumer_offsets", "group_metadata", "transaction_state", "share_group_state"),
            "cluster_metadata",
        ),
        "pipelines.tables.internal_topics:READER",
    ),
    "findings": "pipelines.tables.findings:READER",
    "compaction": "pipelines.tables.compaction:READER",
}
"""By table: the module and the name of its TableReader in it."""


def reader_of(table: str) -> TableReader:
    module, _, name = TABLES[table].partition(":")
    reader: TableReader = getattr(import_module(module), name)
    return reader
