"""The tables' schemas: Spark's Kafka source first, Arrow as Spark wants it."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import _parse_datatype_json_string

from pipelines.source import schema

KAFKA_SOURCE = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
    "timestampType:int,headers:array<struct<key:string,value:binary>>>"
)
TABLES = {
    *("records", "batches", "segments", "partitions", "log_dirs", "files"),
    *("offset_index", "time_index", "transaction_index"),
    *("producer_snapshots", "leader_epochs", "checkpoints"),
    *("consumer_offsets", "group_metadata", "transaction_state", "share_group_state"),
    *("cluster_metadata", "findings", "compaction"),
    *("transactions", "producers", "transactional_ids"),
}


def test_every_table_of_the_architecture_has_a_schema():
    assert set(schema.COLUMNS) == TABLES


def test_records_begin_with_the_columns_of_sparks_kafka_source():
    first = schema.spark_schema("records", schema.column_names("records")[:8])
    assert first.simpleString() == KAFKA_SOURCE


@pytest.mark.parametrize("table", sorted(TABLES))
def test_arrow_types_are_those_spark_derives_from_the_schema_it_was_given(table):
    given: Any = _parse_datatype_json_string(schema.spark_schema(table).json())
    assert to_arrow_schema(given, timezone="UTC").equals(schema.arrow_schema(table))


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_column_has_a_comment_and_no_name_comes_twice(table):
    names = [name for name, _, _ in schema.COLUMNS[table]]
    assert len({name.lower() for name in names}) == len(names)
    assert all(comment for _, _, comment in schema.COLUMNS[table])


def test_columns_on_request_are_there_when_named():
    assert "path" not in schema.arrow_schema("records").names
    assert schema.arrow_schema("records", ("path",)) == pa.schema([("path", pa.string())])
