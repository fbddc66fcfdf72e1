"""All findings of an audit as a table: Parquet files, a Delta table, or a DataFrame.

Parquet is written by Arrow in pieces, without Spark, whatever the number of findings.
"""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_format.shown_text import name_text
from kafka_log.disk.output import whole_directory
from pipelines.audit.report import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.audit.report import AuditReport, Row

COLUMNS = (*FIELDS, "accepted")
"""`accepted` is the reason in the baseline; null if the finding is not accepted."""
_NUMBERS = {"node_id": "int32", "partition": "int32", "position": "int64", "offset": "int64"}
_PIECE = 10_000
FILE = "findings.parquet"


def arrow_schema() -> pa.Schema:
    import pyarrow as pa

    kinds = {"int32": pa.int32(), "int64": pa.int64()}
    return pa.schema(
        [(name, kinds[_NUMBERS[name]] if name in _NUMBERS else pa.string()) for name in COLUMNS]
    )


def write_parquet(report: AuditReport, output: str, evidence: Sequence[str]) -> None:
    """Write a new directory with one Parquet file. Raises OutputError."""
    with whole_directory(output, evidence) as attempt:
        _write_file(report, attempt / FILE)


def write_delta(report: AuditReport, spark: SparkSession, output: str) -> None:
    """Write a new Delta table; it is complete with its first commit, or is none."""
    with tempfile.TemporaryDirectory(prefix="kafka-forensics-") as scratch:
        _write_file(report, Path(scratch, FILE))
        frame = spark.read.parquet(scratch)
        frame.coalesce(1).write.format("delta").save(output)


def dataframe(spark: SparkSession, report: AuditReport) -> DataFrame:
    """Return the findings as a DataFrame, in the order of the report."""
    import pyarrow as pa

    return spark.createDataFrame(pa.Table.from_batches(_batches(report), arrow_schema()))


def _write_file(report: AuditReport, path: Path) -> None:
    from pyarrow import parquet

    schema = arrow_schema()
    with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
        for batch in _batches(report):
            writer.write_batch(batch)


def _batches(report: AuditReport) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    rows: Iterator[Row] = iter(report)
    while piece := list(islice(rows, _PIECE)):
        plain = [{name: _value(row.get(name)) for name in COLUMNS} for row in piece]
        yield pa.RecordBatch.from_pylist(plain, arrow_schema())


def _value(value: Any) -> Any:
    return name_text(value) if isinstance(value, str) else value
