"""The data source `kafka_files`: tables of Kafka log directories, for Spark and its SQL.

    spark.read.format("kafka_files").option("table", "batches").load("/var/lib/kafka/data")

    CREATE TEMPORARY VIEW orders USING kafka_files
    OPTIONS (path '/var/lib/kafka/data', topics 'orders', isolationLevel 'read_committed')

Options are in options.py, tables and columns in schema.py. A query is planned where Spark plans
(files are listed, indexes and a few headers read), and read split by split by Spark's workers.

Spark hands filters on only if `spark.sql.python.filterPushdown.enabled` is true, and refuses a
reader that takes filters while it is not. Nothing tells a data source which it is, except for who
asks: with pushdown another worker of pyspark does. So there are two readers, and where much would
be read without filters, a hint.

What was planned and read is told to the logger `kafka_files`. Spark collects what its workers log
if `spark.sql.pyspark.worker.logging.enabled` is true, and shows it by python_worker_logs().
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pipelines.engine.worker_memory import settle
from pipelines.source.options import OptionsError, parse_options
from pipelines.source.pushdown import bounds_of
from pipelines.source.schema import CORRUPT_RECORD, spark_schema
from pipelines.source.selection import ScannedOnce
from pipelines.source.storage import process_bytes_read
from pipelines.source.tables import reader_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableMapping

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from pipelines.source.options import Options

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_CATALOG = "spark.sql.catalog.spark_catalog"
_MUCH = 1024**3
_LOGS_ARE_WANTED = "PYSPARK_SPARK_SESSION_UUID"
"""In the environment of a worker whose logs Spark collects."""

_log = logging.getLogger("kafka_files")


class KafkaFiles(DataSource):
    """`kafka_files`: a directory of Kafka's as tables. See the module."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(dict(options))

    @classmethod
    def name(cls) -> str:
        return "kafka_files"

    def schema(self) -> StructType:
        names = shown_names(self._parsed)
        return spark_schema(self._parsed.table, self._parsed.columns, names)

    def reader(self, schema: StructType) -> DataSourceReader:
        self._refuse_other(schema)
        if _takes_filters():
            return _FilteringReader(self._parsed)
        return _Reader(self._parsed)

    def _refuse_other(self, schema: StructType) -> None:
        """One that was given: Spark believes it, and does not ask for ours."""
        ours = _named_types(self.schema())
        if (given := _named_types(schema)) != ours:
            odd = next((each for each in given if each not in ours), "another order, or fewer")
            raise OptionsError(
                f"schema of {self._parsed.table}: found {odd}, expected no schema, or"
                f" {', '.join(ours)}; the option columns chooses some of them"
            )


def shown_names(options: Options) -> list[str]:
    """Of the columns: the one that tells of damage has the name that the options give it."""
    return [options.corrupt_column if name == CORRUPT_RECORD else name for name in options.columns]


def _named_types(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema]


class _Reader(DataSourceReader):
    """Picklable: it goes to the workers as it is."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        before = process_bytes_read()
        splits = reader_of(self.options.table).plan(self.options, ScannedOnce(self.options.paths))
        size = planned_bytes(splits)
        log_numbers(
            f"planned {len(splits)} splits of {self.options.table}",
            splits=len(splits),
            bytes_planned=size,
            bytes_read=process_bytes_read() - before,
        )
        self._hint(size)
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # what Spark makes of an empty list
            return
        before, rows = process_bytes_read(), 0
        names, shown = list(self.options.columns), shown_names(self.options)
        try:
            for batch in reader_of(self.options.table).read(partition.value, self.options):
                if batch.num_rows:
                    rows += batch.num_rows
                    yield batch.select(names).rename_columns(shown)
        finally:
            size = process_bytes_read() - before
            log_numbers(f"read a split of {self.options.table}", rows=rows, bytes_read=size)
            settle(self.options.table)

    def _hint(self, size: int) -> None:
        if size >= _MUCH:
            _log.warning(
                "kafka_files: %d MiB to read, and no filter leaves anything out: those on topic,"
                " partition, offset and time do if %s is true",
                size >> 20,
                PUSHDOWN,
            )


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """All go back: Spark checks every row, we only leave out what cannot hold one."""
        bounds = bounds_of(self.options.table, filters)
        self.options = replace(self.options, bounds=bounds)
        return filters

    def _hint(self, size: int) -> None:
        """None needed."""


def log_numbers(message: str, **numbers: int) -> None:
    """For python_worker_logs(): the numbers are in its column `context`."""
    if _LOGS_ARE_WANTED in os.environ:
        _log.setLevel(logging.INFO)
    context = {name: str(number) for name, number in numbers.items()}
    _log.info("kafka_files: %s %s", message, context, extra={"context": context})


def planned_bytes(splits: Iterable[Any]) -> int:
    """Of log files, that these splits will read; 0 of tables that do not scan any."""
    return sum(
        each.size_in_bytes
        for split in splits
        if isinstance(split, tuple)
        for each in split
        if hasattr(each, "size_in_bytes")
    )


def _takes_filters() -> bool:
    """Whether the worker that handles filters is the one that runs."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(spec, "name", None) == _PUSHDOWN_WORKER


def register(spark: SparkSession) -> None:
    """Make `kafka_files` known to a session, and let it hand filters on.

    Where the settings name Delta's catalog and its jars are not there, no query at all would run:
    such a session gets Spark's own.
    """
    spark.dataSource.register(KafkaFiles)
    spark.conf.set(PUSHDOWN, "true")
    catalog = spark.conf.get(_CATALOG, None) or ""
    if catalog.startswith("org.apache.spark.sql.delta.") and not has_class(spark, catalog):
        spark.conf.set(_CATALOG, "builtin")


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether Spark's JVM has it."""
    from py4j.java_gateway import JavaClass

    found: Any = spark._jvm  # noqa: SLF001  # there is no other way to ask
    for part in name.split("."):
        found = getattr(found, part)
    return isinstance(found, JavaClass)
