"""The tables of `kafka_files`: how each is planned and read.

A table is planned once, on the driver, and read split by split by the workers:

    plan(options, storage)    -> splits: picklable values, of about equal work
    read(split, options)      -> Arrow batches with all columns of the table, or the chosen ones

`TABLES` says which module has which table; a module is imported when its table is first read. Every
reader follows the access rules of its query (kafka_format.access).

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
transactions      transactions, producers and transactional ids
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from kafka_format.access import absolute_roots, access, using

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafka_format.access import Access
    from pipelines.source.options import Options
    from pipelines.source.storage import Storage


class TableReader(Protocol):
    """Plans and reads one table, or the tables of one family (`options.table` says which)."""

    def plan(self, options: Options, storage: Storage) -> Sequence[Any]:
        """Return picklable splits; an empty plan is an empty table. Raises OptionsError."""

    def read(self, split: Any, options: Options) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split: the columns of `arrow_schema(table)`, or `options.columns`."""


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
    **dict.fromkeys(
        ("transactions", "producers", "transactional_ids"),
        "pipelines.source.tables.transactions:READER",
    ),
}
"""By table: `module:name` of its TableReader."""


class _RuledReader:
    """Applies the access rules of a query to a reader, and refuses a query that matches nothing."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    def plan(self, options: Options, storage: Storage) -> Sequence[Any]:
        from pipelines.source.selection import ensure_matches

        with using(_access_rules(options)):
            ensure_matches(options, storage)
            return self._reader.plan(options, storage)

    def read(self, split: Any, options: Options) -> Iterator[pa.RecordBatch]:
        """Set the rules for each batch only: between batches the caller may read something else."""
        rules = _access_rules(options)
        with using(rules):
            batches = iter(self._reader.read(split, options))
        while True:
            with using(rules):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _access_rules(options: Options) -> Access:
    """Return the access rules of a query: links must stay inside its paths."""
    from pipelines.source.storage import Storage, StorageError, is_local

    local = tuple(path for path in options.paths if is_local(path))
    try:
        roots = absolute_roots(Storage(local).given_paths())
    except StorageError:  # a glob that matches nothing: the scan will report it
        roots = absolute_roots(local)
    return replace(
        access(),
        roots=roots,
        follow_links=options.follow_links or access().follow_links,
        max_decompressed_bytes=options.max_decompressed_bytes,
    )


def reader_of(table: str) -> TableReader:
    module, _, name = TABLES[table].partition(":")
    reader: TableReader = getattr(import_module(module), name)
    return _RuledReader(reader)
