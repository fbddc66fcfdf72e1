"""A log directory in Python: tables as methods, SQL through views, and a summary for notebooks.

    from pipelines import LogDirectory
    from pipelines.values import json, text

    log = LogDirectory(spark, "/var/lib/kafka/data")
    log                                              # what is there
    log.records(topics="orders", key=text(), value=json("id LONG, total DOUBLE"))
    log.batches(partitions=[0, 1]).where("not is_valid")
    log.audit()                                      # what is wrong, the worst first
    log.create_views("kafka")
    spark.sql("SELECT topic, count(*) FROM kafka_records GROUP BY topic")

Options are those of `kafka_files` (pipelines/source/options.py), with Python's spelling and values.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from pipelines.report.summary import Summary
from pipelines.source.options import OptionsError, parse_options
from pipelines.source.schema import COLUMNS, VIEWS, nearest
from pipelines.source.selection import ensure_matches
from pipelines.source.storage import Storage, StorageError, shown

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import DataFrame, SparkSession

    from kafka_log.inventory.inventory import Inventory
    from pipelines.values import Reading

FORMAT = "kafka_files"


class TableOptions(TypedDict, total=False):
    """See pipelines.source.options."""

    topics: str | Iterable[str]
    subscribe: str | Iterable[str]
    subscribe_pattern: str
    assign: str | Mapping[str, Iterable[int]]
    partitions: int | str | Iterable[int]
    starting_offsets: int | str | Mapping[str, Mapping[int, int]]
    ending_offsets: int | str | Mapping[str, Mapping[int, int]]
    starting_timestamp: int | str | datetime
    ending_timestamp: int | str | datetime
    starting_offsets_by_timestamp: str | Mapping[str, Mapping[int, int | datetime]]
    ending_offsets_by_timestamp: str | Mapping[str, Mapping[int, int | datetime]]
    isolation_level: str
    include_control: bool
    mode: str
    columns: str | Iterable[str]
    column_name_of_corrupt_record: str
    max_decompressed_bytes: int | str
    follow_links: bool
    max_split_bytes: int | str
    verify_checksums: bool
    now: int | datetime
    settings: str | Mapping[str, Any]
    rounds: int


class LogDirectory:
    """Log dirs, partition directories or files, by paths, globs or URIs. Read-only.

    Raises StorageError if a path does not exist, or has no Kafka files.
    """

    def __init__(self, spark: SparkSession, *paths: str | os.PathLike[str]) -> None:
        from pipelines.source.data_source import register

        if not paths:
            raise StorageError("no path given: expected LogDirectory(spark, path, …)")
        self.spark = spark
        self.paths = tuple(os.fspath(path) for path in paths)
        self.storage = Storage(self.paths)
        self.storage.scan()
        register(spark)

    def inventory(self) -> Inventory:
        """Return what is there now, according to names and small files."""
        return self.storage.scan()

    def table(self, table: str, **options: Unpack[TableOptions]) -> DataFrame:
        """Return a table of `pipelines.source.schema.COLUMNS` by name. Raises OptionsError."""
        return self.read(table, option_texts(options))

    def read(self, table: str, options: Mapping[str, str]) -> DataFrame:
        """Return a table, with options as Spark names them: `startingOffsets` and so on."""
        named = {"table": table, **options, "paths": json.dumps(self.paths)}
        parsed = parse_options(named)  # says here what Spark would wrap in a page
        if parsed.is_narrowed:
            ensure_matches(parsed, self.storage)
        return self.spark.read.format(FORMAT).options(**named).load()

    def create_views(
        self,
        prefix: str = "kafka",
        *,
        tables: Iterable[str] = tuple(COLUMNS),
        **options: Unpack[TableOptions],
    ) -> list[str]:
        """Create one temporary view per table, such as `kafka_records`. Returns their names.

        With `transactions` comes `kafka_open_transactions`: those without a marker.
        """
        if "columns" in options:
            raise OptionsError("columns: views have all columns of their tables")
        names = []
        for table in tables:
            name = f"{prefix}_{table}" if prefix else table
            self.table(table, **options).createOrReplaceTempView(name)
            names.append(name)
            for part, (whole, condition) in VIEWS.items():
                if whole == table:
                    view = f"{prefix}_{part}" if prefix else part
                    self.spark.table(name).where(condition).createOrReplaceTempView(view)
                    names.append(view)
        return names

    def records(
        self,
        *,
        key: Reading | None = None,
        value: Reading | None = None,
        **options: Unpack[TableOptions],
    ) -> DataFrame:
        """One row per record, with the columns of Spark's Kafka source. See pipelines.values."""
        found = self.table("records", **options)
        for name, reading in (("key", key), ("value", value)):
            if reading is not None:
                found = found.withColumn(name, reading(name))
        return found

    def batches(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per batch header, with the stored and the computed checksum."""
        return self.table("batches", **options)

    def segments(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per segment, including those with a suffix."""
        return self.table("segments", **options)

    def partitions(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per partition directory, with its offsets."""
        return self.table("partitions", **options)

    def log_dirs(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per log dir: its broker, and how it was stopped."""
        return self.table("log_dirs", **options)

    def files(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per file, with its kind."""
        return self.table("files", **options)

    def offset_index(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per entry of an .index."""
        return self.table("offset_index", **options)

    def time_index(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per entry of a .timeindex."""
        return self.table("time_index", **options)

    def transaction_index(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per aborted transaction in a .txnindex."""
        return self.table("transaction_index", **options)

    def producer_snapshots(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per producer in a .snapshot."""
        return self.table("producer_snapshots", **options)

    def leader_epochs(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per epoch in a leader-epoch-checkpoint."""
        return self.table("leader_epochs", **options)

    def checkpoints(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per partition in one of the four checkpoint files."""
        return self.table("checkpoints", **options)

    def consumer_offsets(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per committed offset in __consumer_offsets, including tombstones."""
        return self.table("consumer_offsets", **options)

    def group_metadata(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per other record of __consumer_offsets."""
        return self.table("group_metadata", **options)

    def transaction_state(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per record of __transaction_state."""
        return self.table("transaction_state", **options)

    def share_group_state(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per record of __share_group_state."""
        return self.table("share_group_state", **options)

    def cluster_metadata(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per record of the KRaft metadata, in its log and its snapshots."""
        return self.table("cluster_metadata", **options)

    def findings(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per problem."""
        return self.table("findings", **options)

    def audit(self, **options: Unpack[TableOptions]) -> DataFrame:
        """Return the findings, the worst first, with the titles of their rules."""
        from pipelines.audit.worst_first import worst_first

        if "columns" in options:
            raise OptionsError("columns: an audit has all columns of the findings")
        return self.findings(**options).transform(worst_first)

    def compaction(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per record: whether the cleaner would keep it, and by which rule.

        `now` is the time to assume; `settings` (Kafka's names) override those of the topics.
        """
        return self.table("compaction", **options)

    def transactions(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per transaction of a partition: open, hanging, committed or aborted.

        `now` is the time to assume; only what is idle for long enough can hang.
        """
        return self.table("transactions", **options)

    def producers(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per producer of a partition, as a broker's DescribeProducers answers."""
        return self.table("producers", **options)

    def transactional_ids(self, **options: Unpack[TableOptions]) -> DataFrame:
        """One row per transactional id, as its coordinator has it."""
        return self.table("transactional_ids", **options)

    def __repr__(self) -> str:
        name = f"LogDirectory({', '.join(map(repr, map(shown, self.paths)))})"
        try:
            return f"{name}\n{Summary.of(self.inventory()).text()}"
        except StorageError as error:  # a repr must not fail
            return f"{name}\n{error}"

    def _repr_html_(self) -> str:
        try:
            return Summary.of(self.inventory()).html()
        except StorageError as error:
            from html import escape

            return f"<p>{escape(str(error))}</p>"


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Convert Python's names and values to those of `kafka_files`. Raises OptionsError."""
    known = tuple(TableOptions.__annotations__)
    for name in options:
        if name not in known:
            raise OptionsError(
                f"unknown option {name}{nearest(name, known)}: expected one of {', '.join(known)}"
            )
    return {_camel(name): _text(value) for name, value in options.items() if value is not None}


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return json.dumps(value, default=_plain)
    if isinstance(value, datetime):
        return str(_epoch_ms(value))
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _plain(value: object) -> object:
    """Convert a value inside JSON."""
    return _epoch_ms(value) if isinstance(value, datetime) else list(value)  # type: ignore[call-overload]


def _epoch_ms(moment: datetime) -> int:
    from datetime import UTC, timedelta

    if moment.tzinfo is None:
        raise OptionsError(f"{moment!r}: found a time without a zone, expected one with tzinfo")
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
