"""`kafka_files` through Spark itself: found by its name, from SQL too, rows as real consumers'."""

import base64
import io
from datetime import UTC, datetime, timedelta

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

import pipelines
from pipelines.source import data_source as source
from pipelines.source.data_source import PUSHDOWN, planned_bytes
from pipelines.source.schema import spark_schema
from tests import golden
from tests.pipelines.readers import splits

PACK = "unclean-4.3.1"
KAFKA_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
KAFKA_COLUMNS += ["headers"]
WORKER_LOGS = "spark.sql.pyspark.worker.logging.enabled"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def load(spark, path, **options):
    return spark.read.format("kafka_files").options(**options).load(str(path))


def consumer_rows(name: str, isolation: str) -> list[tuple]:
    """As Spark's Kafka source would show what a consumer received."""

    def plain(text):
        return None if text is None else bytearray(base64.b64decode(text))

    return [
        (
            plain(row["key"]),
            plain(row["value"]),
            row["topic"],
            row["partition"],
            row["offset"],
            EPOCH + timedelta(milliseconds=row["timestamp"]),
            {"CreateTime": 0, "LogAppendTime": 1}[row["timestamp_type"]],
            [(key, plain(value)) for key, value in row["headers"]] or None,
        )
        for row in golden.expected(name)
        if "offset" in row and row["isolation"] == isolation and row["timestamp"] < 2**53
    ]


def test_the_first_columns_are_what_sparks_kafka_source_would_show(spark):
    isolation = "read_committed"
    schema = spark_schema("records", KAFKA_COLUMNS)
    expected = spark.createDataFrame(consumer_rows(PACK, isolation), schema)
    found = load(spark, golden.shared(PACK), isolationLevel=isolation).select(*KAFKA_COLUMNS)
    found = found.where("topic not in ('far-timestamps', '__cluster_metadata')")
    expected = expected.where("topic != 'far-timestamps'")
    order = lambda df: df.orderBy("topic", "partition", "offset")  # noqa: E731
    assert_df_equality(found, expected, transforms=[order])


def test_a_time_that_spark_cannot_hold_is_null_and_exact_beside(spark):
    rows = load(spark, golden.shared(PACK), topics="far-timestamps").orderBy("offset")
    found = rows.select("timestamp", "timestamp_ms").collect()
    assert [row.timestamp_ms for row in found] == [0, 1_700_000_000_000, 2**63 - 1]
    assert [row.timestamp is None for row in found] == [False, False, True]


def test_sql_finds_the_source_without_registration(spark):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW nulls USING kafka_files OPTIONS "
        f"(path '{golden.shared(PACK)}', topics 'nulls-and-empties', columns 'key,value,offset')"
    )
    rows = spark.sql("SELECT count(*), count(key), count(value), max(offset) FROM nulls").collect()
    received = [
        row
        for row in golden.expected(PACK)
        if row["topic"] == "nulls-and-empties" and row["isolation"] == "read_uncommitted"
    ]
    records = [row for row in received if "offset" in row]
    keys = [row for row in records if row["key"] is not None]
    values = [row for row in records if row["value"] is not None]
    assert len(keys) < len(records) > len(values)
    last = max(row["offset"] for row in records)
    assert [*rows[0]] == [len(records), len(keys), len(values), last]
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE nulls").collect()}
    assert comments["key"] == "null is not empty"


def test_a_table_of_the_catalog_is_refused_with_what_works(spark):
    where = golden.shared(PACK)
    with pytest.raises(PySparkException, match="expected CREATE TEMPORARY VIEW"):
        try:
            spark.sql(f"CREATE TABLE kept USING kafka_files LOCATION '{where}'")
            spark.sql("SELECT count(*) FROM kept").collect()
        finally:
            spark.sql("DROP TABLE IF EXISTS kept")


def test_a_schema_of_ones_own_is_ours_or_refused(spark):
    reader = spark.read.format("kafka_files").option("topics", "nulls-and-empties")
    path = str(golden.shared(PACK))
    ours = spark_schema("records")
    assert reader.schema(ours).load(path).count() == reader.load(path).count() > 0
    for schema, odd in (
        ("offset long, foo string", "foo string"),
        ("topic string, offset int", "offset int"),
        ("topic string, offset long", "another order, or fewer"),
    ):
        with pytest.raises(PySparkException) as caught:
            reader.schema(schema).load(path).collect()
        assert f"schema of records: found {odd}, expected no schema, or key binary" in str(
            caught.value
        )
        assert "the option columns chooses some of them" in str(caught.value)
    few = reader.option("columns", "topic,offset").schema("topic string, offset long")
    assert few.load(path).columns == ["topic", "offset"]
    assert few.load(path).count() > 0


def test_registered_it_is_the_same_source_and_filters_are_handed_on(spark):
    pipelines.register(spark)
    assert spark.conf.get(PUSHDOWN) == "true"
    assert load(spark, golden.shared("groups-4.3.1"), topics="words").count() == sum(
        row["topic"] == "words" and row["isolation"] == "read_uncommitted" and "offset" in row
        for row in golden.expected("groups-4.3.1")
    )


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_filter_gives_the_same_rows_whether_it_is_pushed_or_not(spark, pushdown):
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        rows = load(spark, golden.shared("unclean-3.9.1"), maxSplitBytes="1k")
        found = rows.where(
            (F.col("topic") == "rolled") & (F.col("offset") >= 20) & (F.col("offset") < 26)
        )
        partitions = found.rdd.getNumPartitions()
        assert sorted(row.offset for row in found.select("offset").collect()) == [*range(20, 26)]
    finally:
        spark.conf.set(PUSHDOWN, before)
    everything = len(splits(golden.shared("unclean-3.9.1"), maxSplitBytes="1k"))
    assert partitions == (2 if pushdown == "true" else everything)


def test_batches_are_counted_by_sql(spark):
    rows = load(spark, golden.shared("legacy-2.8.2"), table="batches", topics="magic-*")
    found = {row.magic: row["count"] for row in rows.groupBy("magic").count().collect()}
    expected = {0: 0, 1: 0, 2: 0}
    for log in golden.shared("legacy-2.8.2").glob("data/magic-*/*.log"):
        content, position = io.BytesIO(log.read_bytes()).getbuffer(), 0
        while position < len(content):
            expected[content[position + 16]] += 1
            position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    assert found == expected


def test_a_topic_that_is_not_there_is_an_error_and_a_filter_is_not(spark):
    with pytest.raises(PySparkException, match="topics no-such-topic: no such topic, expected one"):
        load(spark, golden.shared(PACK), topics="no-such-topic").collect()
    assert load(spark, golden.shared(PACK)).where("topic = 'no-such-topic'").collect() == []


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/nowhere/at/all", {}, "/nowhere/at/all: No such file or directory"),
        ("/nowhere", {"tabel": "records"}, "did you mean table?"),
        ("/nowhere", {"table": "record"}, "did you mean records?"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(spark, path, options, message):
    with pytest.raises(PySparkException) as caught:
        load(spark, path, **options).collect()
    assert message in str(caught.value)


def test_much_to_read_without_filters_comes_with_a_hint(monkeypatch, caplog):
    options = {"path": str(golden.shared("unclean-3.9.1")), "topics": "rolled"}
    reader = source.KafkaFiles(options).reader(source.KafkaFiles(options).schema())
    reader.partitions()
    assert caplog.messages == []
    monkeypatch.setattr(source, "_HINT_BYTES", 1)
    reader.partitions()
    (hint,) = caplog.messages
    assert hint.startswith("kafka_files: ")
    assert hint.endswith(f"do if {PUSHDOWN} is true")


def test_bytes_read_are_told_to_whoever_collects_the_logs_of_workers(spark):
    root = golden.shared("unclean-3.9.1")
    wanted = "topic = 'rolled' AND offset BETWEEN 20 AND 25"
    before = spark.conf.get(WORKER_LOGS)
    spark.conf.set(WORKER_LOGS, "true")
    try:
        assert load(spark, root, maxSplitBytes="1k").where(wanted).count() == 6
        reported = spark.sql(
            "SELECT ts, msg, context['bytes_read'] AS bytes, context['bytes_planned'] AS planned"
            " FROM python_worker_logs() WHERE logger = 'kafka_files' ORDER BY ts"
        ).collect()
    finally:
        spark.conf.set(WORKER_LOGS, before)
    planned = [row for row in reported if row.msg.startswith("kafka_files: planned 2 splits")]
    own = [row for row in reported if row.ts >= planned[0].ts]  # a session keeps the logs of all
    read = [int(row.bytes) for row in own if row.msg.startswith("kafka_files: read a split")]
    logs = {log: log.stat().st_size for log in root.glob("data/*/*.log")}
    assert [int(row.planned) for row in planned] == [sum(read)]
    # Of the partition, the segments that hold these six records: less than a tenth of all.
    assert 0 < sum(read) < sum(logs.values()) / 10


def test_planned_bytes_are_those_of_the_ranges():
    root = golden.shared("unclean-3.9.1")
    logs = [*root.glob("data/rolled-0/*.log")]
    planned = splits(root, topics="rolled")
    assert planned_bytes(planned) == sum(log.stat().st_size for log in logs)
    assert planned_bytes([None, 3]) == 0
