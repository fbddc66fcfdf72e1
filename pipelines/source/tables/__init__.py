"""The tables of `kafka_files`: how each is planned and read.

A table is planned once, where the query is planned, and read split by split, anywhere:

    plan(options, storage)    -> splits: picklable values, of about equal work
    read(split, options)      -> Arrow batches with all columns of the table, or the chosen ones

`TABLES` says which module has which table; a module is imported when its table is asked for. All
of them read by the query's rules (kafka_format.access).

batches           one row per batch header
compaction        what the cleaner would do to each record
decoded           coordinator and metadata records as columns
findings          everything that is wrong
internal_topics   records of Kafka's own topics, decoded
inventory         rows of log_dirs, partitions, segments and files
listing           the tables log_dirs, partitions, segments and files
records           one row per record
rows              plain values to Arrow batches
side_files        one row per entry of the files beside a log
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kafka_format.access import access, given, using

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafka_format.access import Access
    from pipelines.source.options import Options
    from pipelines.source.storage import Storage


class TableReader(Protocol):
    """How one table is read. What reads several is told which by `options.table`."""

    def plan(self, options: Options, storage: Storage) -> Sequence[Any]:
        """Picklable pieces of work; an empty plan is an empty table. Raises OptionsError."""

    def read(self, split: Any, options: Options) -> Iterator[pa.RecordBatch]:
        """The rows of one piece: columns of `schema.arrow_schema(table)`, or `options.columns`."""


TABLES: dict[str, str] = {
    "records": "pipelines.source.tables.records:READER",
    "batches": "pipelines.source.tables.batches:READER",
    **dict.fromkeys(
        ("log_dirs", "partitions", "segments", "files"), "pipelines.source.tables.listing:READER"
    ),
    **dict.fromkeys(
        (
            *("offset_index", "time_index", "transaction_index"),
            *("producer_snapshots", "leader_epochs", "checkpoints"),
        ),
        "pipelines.source.tables.side_files:READER",
    ),
    **dict.fromkeys(
        (
            *("consumer_offsets", "group_metadata", "transaction_state", "share_group_state"),
            "cluster_metadata",
        ),
        "pipelines.source.tables.internal_topics:READER",
    ),
    "findings": "pipelines.source.tables.findings:READER",
    "compaction": "pipelines.source.tables.compaction:READER",
}
"""By table: the module and the name of its TableReader in it."""


class _ByItsRules:
    """A reader that reads as the options say, and says so where they mean nothing."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    def plan(self, options: Options, storage: Storage) -> Sequence[Any]:
        from pipelines.source.selection import ensure_meant

        with using(_rules(options)):
            ensure_meant(options, storage)
            return self._reader.plan(options, storage)

    def read(self, split: Any, options: Options) -> Iterator[pa.RecordBatch]:
        """One batch at a time: whoever asks for them may read something else meanwhile."""
        rules = _rules(options)
        with using(rules):
            batches = iter(self._reader.read(split, options))
        while True:
            with using(rules):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _rules(options: Options) -> Access:
    """Links stay inside the paths of the query."""
    from pipelines.source.storage import Storage, StorageError, is_local

    local = tuple(path for path in options.paths if is_local(path))
    try:
        roots = given(Storage(local).given_paths())
    except StorageError:  # of a glob that matches nothing: reading tells
        roots = given(local)
    return replace(
        access(),
        roots=roots,
        follow_links=options.follow_links or access().follow_links,
        max_decompressed_bytes=options.max_decompressed_bytes,
    )


def reader_of(table: str) -> TableReader:
    module, _, name = TABLES[table].partition(":")
    reader: TableReader = getattr(import_module(module), name)
    return _ByItsRules(reader)
