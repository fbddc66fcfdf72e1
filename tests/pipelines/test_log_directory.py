"""The Python face: tables as methods, views, values, and a look at a directory."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from json import dumps
from pathlib import Path

import pytest

from pipelines import LogDirectory, values
from pipelines.log_directory import option_texts
from pipelines.source.options import OptionsError
from pipelines.source.schema import COLUMNS
from pipelines.source.storage import StorageError
from pipelines.values import REGISTRY_HEADER, AvroUnavailableError, avro, json, text
from tests import golden
from tests.pipelines.segments import write_segment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data() -> Path:
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    return log_dir


@pytest.fixture(scope="module")
def log(spark, data):
    return LogDirectory(spark, data)


def test_names_and_values_of_options_are_pythons():
    assert option_texts(
        {
            "topics": ["orders", "pay*"],
            "partitions": range(3),
            "starting_offsets": {"orders": {0: 23}},
            "ending_timestamp": datetime(2026, 11, 16, 12, 0, 0, 5000, tzinfo=UTC),
            "isolation_level": "read_committed",
            "include_control": True,
            "max_split_bytes": 1000,
            "columns": None,
        }
    ) == {
        "topics": "orders,pay*",
        "partitions": "0,1,2",
        "startingOffsets": '{"orders": {"0": 23}}',
        "endingTimestamp": "1794830400005",
        "isolationLevel": "read_committed",
        "includeControl": "true",
        "maxSplitBytes": "1000",
    }


def test_an_unknown_option_is_refused_with_the_nearest():
    with pytest.raises(OptionsError, match=r"unknown option topic \(did you mean topics\?\)"):
        option_texts({"topic": "orders"})


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(OptionsError, match="expected one with tzinfo"):
        option_texts({"starting_timestamp": datetime(2026, 1, 1)})  # noqa: DTZ001


def test_every_table_is_a_method_that_says_what_a_row_is():
    assert [name for name in COLUMNS if not getattr(LogDirectory, name).__doc__] == []


def test_the_face_is_there_without_spark():
    program = (
        "import sys, pipelines; print('pyspark' in sys.modules);"
        "from pipelines import LogDirectory; print('pyspark' in sys.modules, LogDirectory.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\nTrue LogDirectory\n"


def test_a_path_at_which_nothing_is_is_refused(spark, tmp_path):
    missing = f"{tmp_path}/nowhere: No such file or directory"
    with pytest.raises(StorageError, match=rf"^{missing} \({tmp_path} is empty\)$"):
        LogDirectory(spark, tmp_path / "nowhere")
    for number in range(11):
        (tmp_path / f"node-{number:02}").mkdir()
    names = ", ".join(f"node-{number:02}" for number in range(10))
    with pytest.raises(StorageError, match=rf"^{missing} \({tmp_path} has {names} and 1 more\)$"):
        LogDirectory(spark, tmp_path / "nowhere")
    with pytest.raises(StorageError, match=rf"found no match, .* \({tmp_path} has {names} and 1"):
        LogDirectory(spark, f"{tmp_path}/broker-*/data")
    with pytest.raises(StorageError, match="found no match"):
        LogDirectory(spark, f"{tmp_path}/*/data")
    with pytest.raises(StorageError, match="no path given"):
        LogDirectory(spark)


def test_a_directory_of_nothing_of_kafkas_is_refused_at_once(spark, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=f"^{tmp_path}: no Kafka files found"):
        LogDirectory(spark, tmp_path)


def test_an_audit_is_the_findings_the_worst_first(spark, tmp_path):
    """A note, two warnings and an error, by four files."""
    partition = tmp_path / "orders-1"
    (partition / "old").mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(b"")
    (partition / f"{0:020d}.index").write_bytes(b"\0\0\0\1")
    (partition / f"{0:020d}.timeindex").write_bytes(b"\0\0\0\1")
    (partition / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 x\n")
    audit = LogDirectory(spark, tmp_path).audit()
    rows = audit.collect()
    assert [(row["severity"], row["id"], row["title"]) for row in rows] == [
        ("error", "LEP001", "a leader epoch checkpoint that cannot be read"),
        ("warning", "IDX002", "a partial entry at the end of an offset index"),
        ("warning", "TIX002", "a partial entry at the end of a time index"),
        ("note", "DIR004", "a directory inside a partition directory"),
    ]
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 1)}
    assert {name for name, _, _ in COLUMNS["findings"]} < set(audit.columns)
    with pytest.raises(OptionsError, match="an audit has all columns"):
        LogDirectory(spark, tmp_path).audit(columns="id")


def test_an_empty_list_is_refused_and_does_not_mean_everything(log):
    for option in ("partitions", "topics", "columns"):
        with pytest.raises(OptionsError, match="found none, expected one or more"):
            log.records(**{option: []})


def test_contradictions_are_refused_before_spark_is_asked(log):
    with pytest.raises(OptionsError, match="startingOffsets 5: expected at most endingOffsets 3"):
        log.records(starting_offsets=5, ending_offsets=3)
    with pytest.raises(OptionsError, match=r"did you mean batches\?"):
        log.table("batch")
    with pytest.raises(OptionsError, match="views have all columns"):
        log.create_views(columns="key")


def test_keys_and_values_are_read_as_text(log):
    found = log.records(topics="nulls-and-empties", key=text(), value=text(), columns="key,value")
    got = {(row["key"], row["value"]) for row in found.collect()}
    received = {
        (row["key"], row["value"])
        for row in golden.expected("unclean-4.3.1")
        if row.get("topic") == "nulls-and-empties"
        and "offset" in row
        and row["isolation"] == "read_uncommitted"
    }
    assert {(key is None, key == "", value is None, value == "") for key, value in got} == {
        (key is None, key == "", value is None, value == "") for key, value in received
    }
    assert (None, None) in got


def test_values_are_read_by_sparks_functions(spark):
    rows = [b'{"id": 7}', b'\0\0\0\0\1{"id": 8}', b"", None, b"a\xffb"]
    frame = spark.createDataFrame(
        [(number, row and bytearray(row)) for number, row in enumerate(rows)],
        "number INT, value BINARY",
    )
    plain, framed = json("id LONG"), json("id LONG", skip=REGISTRY_HEADER)
    found = frame.orderBy("number").select(
        plain("value").id, framed("value").id, text()("value").alias("text")
    )
    assert [tuple(row) for row in found.collect()] == [
        (7, None, '{"id": 7}'),
        (None, 8, '\0\0\0\0\1{"id": 8}'),
        (None, None, ""),
        (None, None, None),
        (None, None, "a\ufffdb"),
    ]


ORDER = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": ["null", "string"]}],
}


def test_values_are_read_as_avro(sources_spark):
    # By Avro's specification: longs and lengths are zigzag varints, a union begins with its branch.
    rows = [b"\x0e\x02\x06eve", b"\x01\x00", None]
    framed = [row and b"\0\0\0\0\x2a" + row for row in rows]
    frame = sources_spark.createDataFrame(
        [
            (row and bytearray(row), behind and bytearray(behind))
            for row, behind in zip(rows, framed, strict=True)
        ],
        "plain BINARY, framed BINARY",
    )
    plain, behind = avro(ORDER), avro(dumps(ORDER), skip=REGISTRY_HEADER)
    found = frame.select(plain("plain"), behind("framed")).collect()
    expected = [(7, "eve"), (-1, None), None]
    assert [tuple(row) for row in found] == [(each, each) for each in expected]


def test_avro_that_cannot_be_read_is_null_if_spark_is_told_so(sources_spark):
    frame = sources_spark.createDataFrame([(bytearray(b"\x0e"),)], "value BINARY")
    (found,) = frame.select(avro(ORDER, options={"mode": "PERMISSIVE"})("value")).first()
    assert found is None or tuple(found) == (None, None)


def test_avro_without_its_package_names_the_package(spark, monkeypatch):
    reading = avro(ORDER)
    monkeypatch.setattr(values, "_AVRO_CLASS", "org.apache.spark.sql.avro.NotThere")
    with pytest.raises(AvroUnavailableError) as raised:
        reading("value")
    assert str(raised.value) == (
        "this Spark session has no Avro: in conf/spark-defaults.conf add"
        " org.apache.spark:spark-avro_2.13:4.2.0 to the line spark.jars.packages"
        " (a comma between packages)"
    )


def test_views_are_for_sql(spark, log):
    names = log.create_views("dead", topics="transactions", tables=["records", "batches"])
    assert names == ["dead_records", "dead_batches"]
    found = spark.sql("""
        SELECT partition, max(offset) + 1 AS `end` FROM dead_records GROUP BY partition
        UNION ALL
        SELECT partition, max(last_offset) + 1 FROM dead_batches GROUP BY partition
    """)
    # The log end of both, by `kafka-forensics offsets`: 52 and 47; their last batches are data.
    assert sorted(map(tuple, found.collect())) == [(0, 52), (0, 52), (1, 47), (1, 47)]


def test_the_transactions_come_with_a_view_of_the_open_ones(spark, log):
    names = log.create_views("dead", tables=["transactions"], now=1_700_000_000_000)
    assert names == ["dead_transactions", "dead_open_transactions"]
    found = spark.sql("""
        SELECT topic, partition, producer_id, first_offset, state FROM dead_open_transactions
    """)
    # The four that the pack's story leaves open, by `kafka-forensics offsets --replay`.
    assert sorted(map(tuple, found.collect())) == [
        ("__consumer_offsets", 0, 16, 27, "open"),
        ("transactions", 0, 14, 46, "open"),
        ("transactions", 0, 16, 45, "open"),
        ("transactions", 1, 14, 41, "open"),
    ]
    assert log.transactional_ids().count() == 6
    assert log.producers(topics="transactions").where("current_txn_start_offset >= 0").count() == 3


def test_a_directory_tells_what_is_in_it(log, data):
    lines = repr(log).splitlines()
    assert lines[0] == f"LogDirectory('{data}')"
    assert lines[1] == (f"{data}: node 1, not stopped cleanly, 12 topics, 26 partitions, 43 MiB")
    assert lines[3].split() == ["topic", "partitions", "segments", "size", "not", "live"]
    assert ["transactions", "2", "4", "262", "KiB"] in [line.split() for line in lines]


def test_a_notebook_shows_it_as_a_table(spark, tmp_path):
    (tmp_path / "<b>-0").mkdir()
    (tmp_path / "<b>-0" / "00000000000000000000.log").touch()
    shown = LogDirectory(spark, tmp_path)._repr_html_()
    assert "<td>&lt;b&gt;</td><td>1</td><td>1</td><td>0 B</td>" in shown
    assert "<b>" not in shown


def test_a_directory_that_is_gone_does_not_fail_its_repr(spark, tmp_path):
    write_segment(tmp_path / "data" / "orders-0", 0, 3)
    log = LogDirectory(spark, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "orders-0")
    assert "no Kafka files found" in repr(log)
    assert "no Kafka files found" in log._repr_html_()
