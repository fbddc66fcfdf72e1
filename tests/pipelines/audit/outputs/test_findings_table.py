"""All findings as a table."""

import pytest
from pyarrow import parquet

from kafka_log.disk.output import OutputError
from pipelines.audit.outputs.findings_table import COLUMNS, write_delta, write_parquet
from tests.pipelines.audit.damaged import damaged, report_of


def test_parquet_has_every_finding_in_order(tmp_path):
    report = report_of(damaged(tmp_path / "data"))
    write_parquet(report, str(tmp_path / "table"), report.paths)
    table = parquet.read_table(tmp_path / "table")
    assert tuple(table.column_names) == COLUMNS
    assert table.to_pylist() == [{**row, "accepted": None} for row in report]
    with pytest.raises(OutputError, match="expected a new or empty"):
        write_parquet(report, str(tmp_path / "table"), report.paths)


def test_a_dataframe_has_the_same_rows(tmp_path, spark):
    report = report_of(damaged(tmp_path / "data"))
    frame = report.to_dataframe(spark)
    assert [row.asDict() for row in frame.collect()] == [
        {**row, "accepted": None} for row in report
    ]


def test_delta_has_every_finding(tmp_path, delta_spark):
    report = report_of(damaged(tmp_path / "data"))
    write_delta(report, delta_spark, str(tmp_path / "table"))
    frame = delta_spark.read.format("delta").load(str(tmp_path / "table"))
    assert sorted(row["fingerprint"] for row in frame.collect()) == sorted(
        row["fingerprint"] for row in report
    )
