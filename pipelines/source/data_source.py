"""The data source `kafka_files`: tables of Kafka log directories, for Spark and its SQL.

    spark.read.format("kafka_files").option("table", "batches").load("/var/lib/kafka/data")

    CREATE TEMPORARY VIEW orders USING kafka_files
    OPTIONS (path '/var/lib/kafka/data', topics 'orders', isolationLevel 'read_committed')

The options are in options.py, the tables and columns in schema.py. A query is planned where Spark
plans (files are listed, indexes and a few headers are read), and Spark's workers read its splits.

Spark passes filters on only if `spark.sql.python.filterPushdown.enabled` is true, and refuses a
reader that takes filters if it is not. A data source cannot ask for the setting, but with pushdown
a different worker of pyspark runs it. So there are two readers, and a hint where much would be read
without filters.

What was planned and read goes to the logger `kafka_files`. Spark collects the logs of its workers
if `spark.sql.pyspark.worker.logging.enabled` is true, and python_worker_logs() shows them.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pipelines.engine.worker_memory import freeze_loaded
from pipelines.source.options import OptionsError, parse_options
from pipelines.source.pushdown import bounds_of
from pipelines.source.schema import CORRUPT_RECORD, spark_schema
from pipelines.source.selection import SingleScanStorage
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
_HINT_BYTES = 1024**3
_LOGS_COLLECTED = "PYSPARK_SPARK_SESSION_UUID"
"""Set in the environment of a worker whose logs Spark collects."""

_log = logging.getLogger("kafka_files")


class KafkaFiles(DataSource):
    """`kafka_files`: Kafka log directories as tables. See the module."""

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
        return _KafkaFilesReader(self._parsed)

    def _refuse_other(self, schema: StructType) -> None:
        """Refuse a schema that the user gave: Spark would use it without asking for ours."""
        ours = _named_types(self.schema())
        if (given := _named_types(schema)) != ours:
            odd = next((each for each in given if each not in ours), "another order, or fewer")
            raise OptionsError(
                f"schema of {self._parsed.table}: found {odd}, expected no schema, or"
                f" {', '.join(ours)}; the option columns chooses some of them"
            )


def shown_names(options: Options) -> list[str]:
    """Return the column names, with the name that the options give to the one for damage."""
    return [options.corrupt_column if name == CORRUPT_RECORD else name for name in options.columns]


def _named_types(schema: StructType) -> list[str]:
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema]


class _KafkaFilesReader(DataSourceReader):
    """Picklable: Spark sends it to the workers."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        before = process_bytes_read()
        splits = reader_of(self.options.table).plan(
            self.options, SingleScanStorage(self.options.paths)
        )
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
        if partition.value is None:  # Spark's split for an empty list
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
            freeze_loaded(self.options.table)

    def _hint(self, size: int) -> None:
        if size >= _HINT_BYTES:
            _log.warning(
                "kafka_files: %d MiB to read, and no filter leaves anything out: those on topic,"
                " partition, offset and time do if %s is true",
                size >> 20,
                PUSHDOWN,
            )


class _FilteringReader(_KafkaFilesReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Return every filter: Spark checks each row, and we only skip what cannot hold a match."""
        bounds = bounds_of(self.options.table, filters)
        self.options = replace(self.options, bounds=bounds)
        return filters

    def _hint(self, size: int) -> None:
        """No hint is needed."""


def log_numbers(message: str, **numbers: int) -> None:
    """Log a message; python_worker_logs() has the numbers in its column `context`."""
    if _LOGS_COLLECTED in os.environ:
        _log.setLevel(logging.INFO)
    context = {name: str(number) for name, number in numbers.items()}
    _log.info("kafka_files: %s %s", message, context, extra={"context": context})


def planned_bytes(splits: Iterable[Any]) -> int:
    """Return the bytes of log files that these splits read; 0 for tables that read none."""
    return sum(
        each.size_in_bytes
        for split in splits
        if isinstance(split, tuple)
        for each in split
        if hasattr(each, "size_in_bytes")
    )


def _takes_filters() -> bool:
    """Return whether pyspark's worker for filters runs this."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(spec, "name", None) == _PUSHDOWN_WORKER


def register(spark: SparkSession) -> None:
    """Register `kafka_files` with a session, and switch filter pushdown on.

    If the settings name Delta's catalog and its jars are missing, no query would run: such a
    session gets Spark's own catalog.
    """
    spark.dataSource.register(KafkaFiles)
    spark.conf.set(PUSHDOWN, "true")
    catalog = spark.conf.get(_CATALOG, None) or ""
    if catalog.startswith("org.apache.spark.sql.delta.") and not has_class(spark, catalog):
        spark.conf.set(_CATALOG, "builtin")


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether Spark's JVM has the class."""
    from py4j.java_gateway import JavaClass

    found: Any = spark._jvm  # noqa: SLF001  # there is no other way to ask
    for part in name.split("."):
        found = getattr(found, part)
    return isinstance(found, JavaClass)
