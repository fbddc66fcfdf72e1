"""Some queries over the tables through Spark: types arrive, joins hold, errors are one line."""

import struct

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row

from pipelines.source.schema import spark_schema
from tests import golden
from tests.pipelines.in_process import read_table

TABLES = ("producer_snapshots", "cluster_metadata", "log_dirs")
"""Those that no other test here asks for, of each module one: a query takes seconds."""


def load(spark, path, table, **options):
    return spark.read.format("kafka_files").options(table=table, **options).load(str(path))


def test_tables_arrive_with_their_schemas_and_all_rows(spark):
    root = golden.shared("groups-4.3.1")
    for table in TABLES:
        frame = load(spark, root, table)
        assert frame.schema == spark_schema(table), table
        assert frame.count() == len(read_table(root, table)), table


def test_values_arrive_as_they_were_read(spark):
    root = golden.shared("groups-4.3.1")
    frame = load(spark, root, "transaction_state").orderBy("log_partition", "log_offset")
    rows = sorted(
        read_table(root, "transaction_state"),
        key=lambda row: (row["log_partition"], row["log_offset"]),
    )
    found = [row.asDict(recursive=True) for row in frame.drop(*times(frame)).collect()]
    expected = [{k: v for k, v in row.items() if k not in times(frame)} for row in rows]
    assert found == expected
    seconds = frame.selectExpr("unix_millis(last_update_timestamp)").collect()
    assert [row[0] for row in seconds] == [row["last_update_timestamp_ms"] for row in rows]


def times(frame) -> list[str]:
    return [field.name for field in frame.schema if field.dataType.typeName() == "timestamp"]


def test_lag_is_a_join_of_two_tables(spark):
    root = golden.shared("groups-4.3.1")
    for table in ("consumer_offsets", "partitions"):
        load(spark, root, table).createOrReplaceTempView(f"tables_{table}")
    lags = spark.sql(
        """
        SELECT group_id, topic, partition, log_end_offset - max_by(offset, log_offset) AS lag
        FROM tables_consumer_offsets JOIN tables_partitions USING (topic, partition)
        WHERE group_id = 'classic-librdkafka' AND state = 'live'
        GROUP BY group_id, topic, partition, log_end_offset
        ORDER BY partition
        """
    ).collect()
    assert [row["lag"] for row in lags] == [0, 0, 0]


def test_filters_that_are_handed_on_lose_no_row(spark):
    root = golden.shared("groups-4.3.1")
    for table in ("consumer_offsets", "checkpoints"):
        wanted = load(spark, root, table).where("topic = 'input' AND partition = 1")
        expected = [
            row
            for row in read_table(root, table)
            if (row["topic"], row["partition"]) == ("input", 1)
        ]
        assert expected
        assert wanted.count() == len(expected), table
    assert load(spark, root, "files").where("topic IS NULL").count() == len(
        [row for row in read_table(root, "files") if row["topic"] is None]
    )


def test_damage_is_a_row_and_with_failfast_one_line_of_the_error(spark, tmp_path):
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    index = partition / "00000000000000000000.index"
    index.write_bytes(struct.pack(">iii", 1, 70, 2))
    found = load(spark, tmp_path / "data", "findings").select("id", "severity", "position", "path")
    log = str(index.with_suffix(".log"))
    assert found.orderBy("id").collect() == [
        Row(id="IDX002", severity="warning", position=8, path=str(index)),
        Row(id="LOG021", severity="error", position=None, path=log),
    ]
    with pytest.raises(PySparkException) as raised:
        load(spark, tmp_path / "data", "offset_index", mode="FAILFAST").collect()
    assert f"{index}@8: IDX002: found 4 bytes, expected an entry of 8" in str(raised.value)
