"""The table `compaction`: what it keeps is what a live broker's cleaner kept."""

import dataclasses
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafka_format.errors import FormatError
from kafka_log.errors import LogError
from pipelines.compaction.compaction import CompactPartition
from pipelines.compaction.explanation import ExplanationWriter, time_texts
from pipelines.log_directory import LogDirectory
from pipelines.source.options import OptionsError, parse_options
from pipelines.source.schema import column_names, spark_schema
from pipelines.source.tables.compaction import READER
from tests import golden
from tests.golden import earlier
from tests.jobs.compact.compacting import NOW, batch_positions, damage, write_log
from tests.pipelines.in_process import read_table
from tests.pipelines.readers import splits


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    return earlier.log_dir(tmp_path_factory.mktemp("earlier"))


@pytest.fixture(scope="module")
def rows(log_dir):
    return read_table(log_dir, "compaction", now=earlier.NOW)


def of(rows, topic, partition=0):
    return sorted(
        (row for row in rows if (row["topic"], row["partition"]) == (topic, partition)),
        key=lambda row: (row["base_offset"], row["offset"] is None, row["offset"] or 0),
    )


def test_kept_rows_are_what_the_live_cleaner_of_the_pack_left(rows):
    kept = defaultdict(list)
    for row in rows:
        if row["verdict"] == "kept" and row["offset"] is not None:
            kept[row["topic"], row["partition"]].append(row["offset"])
    assert {place: sorted(offsets) for place, offsets in kept.items()} == earlier.survivors()


def test_aborted_rows_name_the_marker_and_markers_stay_for_them(rows):
    reported = of(rows, "compacted.aborted")
    aborted = [row for row in reported if row["rule"] == "aborted"]
    # As Kafka's own .txnindex has them: offsets 4 to 9 and 15 to 19, both of producer 4.
    assert [row["offset"] for row in aborted] == [4, 5, 6, 7, 15, 16, 17, 18]
    assert {row["marker_offset"] for row in aborted} == {9, 19}
    assert {row["producer_id"] for row in aborted} == {4}
    assert aborted[0]["detail"] == "producer 4 aborted its transaction: the marker is at 9"
    dropped = [row for row in reported if row["rule"] == "batch_dropped"]
    assert [(row["offset"], row["record_count"]) for row in dropped] == [(None, 4)] * len(dropped)


def test_superseded_rows_name_a_kept_or_active_row_of_their_key(rows):
    gone = [row for row in rows if row["rule"] == "superseded"]
    assert len(gone) > 90
    by_place = {(row["topic"], row["partition"], row["offset"]): row for row in rows}
    for row in gone:
        latest = by_place[row["topic"], row["partition"], row["superseded_by"]]
        assert latest["key"] == row["key"]
        assert latest["offset"] > row["offset"]
        assert latest["verdict"] == "kept"


def test_tombstones_wait_for_the_horizon_that_the_live_cleaner_set(rows):
    reported = [row for row in of(rows, "compacted.tombstones") if row["is_tombstone"]]
    assert {row["rule"] for row in reported} == {"tombstone_in_horizon"}
    # Of 2026, by the clock of the broker that cleaned the first time, and its day of retention.
    assert {row["delete_horizon_ms"] // 10**10 for row in reported} == {179}
    assert {row["detail"][:43] for row in reported} == {
        "a tombstone that stays until 2026-11-17T08:"
    }


def test_producers_whose_last_batch_lost_its_records_keep_it_empty(rows):
    reported = of(rows, "compacted.producers")
    empty = [row["rule"] for row in reported if row["offset"] is None and row["verdict"] == "kept"]
    assert empty.count("empty_batch_kept_last_of_producer") >= 1


def test_columns_come_as_asked_for_and_the_path_on_request(log_dir):
    found = read_table(log_dir, "compaction", now=earlier.NOW, columns="rule,offset,path")
    assert set(found[0]) == {"rule", "offset", "path"}
    assert "path" not in column_names("compaction")
    assert {row["path"].split("/")[-1] for row in found} >= {"compacted.codecs-3"}


def test_a_topic_that_is_not_compacted_has_rows_once_settings_say_so():
    root = golden.shared("unclean-4.3.1")
    options = {"now": str(earlier.NOW), "topics": "rolled-by.time"}
    assert read_table(root, "compaction", **options) == []
    for settings in ("cleanup.policy=compact", '{"cleanup.policy": ["compact"]}'):
        found = read_table(root, "compaction", settings=settings, **options)
        # Three keys written four times, the last time into the active segment.
        assert Counter(row["rule"] for row in found) == {
            "superseded": 6,
            "latest": 3,
            "not_cleanable_active_segment": 3,
        }


def test_filters_on_topics_leave_other_partitions_alone(log_dir):
    wanted = splits(log_dir, "compaction", now=str(earlier.NOW), topics="compacted.codecs")
    assert len(wanted) == 5


@pytest.mark.parametrize(
    ("option", "value", "reported"),
    [
        ("settings", "delete.retention.m=1", "did you mean delete.retention.ms"),
        ("settings", "delete.retention.ms=soon", "soon"),
        ("settings", "{not json", "expected JSON"),
        ("rounds", "0", "expected a number, 1 or more"),
        ("now", "yesterday", "expected epoch milliseconds"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(option, value, reported):
    with pytest.raises(OptionsError, match=rf"option {option}=.*{reported}"):
        parse_options({"path": "x", "table": "compaction", option: value})


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
def test_damage_is_left_out_or_fails_as_the_mode_says(tmp_path, mode, rounds):
    """Three keys take turns. The third key's last record, 8, is damaged, so 5 is its latest."""
    damaged = write_log(tmp_path / "data", 10)
    log = damaged / "orders-0" / "00000000000000000008.log"
    damage(log, batch_positions(log)[1] - 1)
    options = {"now": NOW, "settings": "cleanup.policy=compact", "mode": mode, "rounds": rounds}
    before = log.read_bytes()
    if mode == "FAILFAST":
        with pytest.raises(FormatError, match=f"{log}@0: found stored crc"):
            read_table(damaged, "compaction", **options)
    else:
        reported = {
            row["offset"]: row["rule"] for row in read_table(damaged, "compaction", **options)
        }
        superseded = dict.fromkeys((0, 1, 2, 3, 4, 6), "superseded")
        assert reported == superseded | dict.fromkeys((5, 7, 9), "latest")
    assert log.read_bytes() == before


def test_files_that_are_not_on_this_machine_are_refused():
    options = parse_options({"path": "s3://bucket/data", "table": "compaction"})
    with pytest.raises(OptionsError, match="found a URI, expected local files"):
        READER.plan(options, None)


def test_times_that_no_calendar_has_stay_numbers():
    given = pa.array([0, 1_700_000_000_123, 2**63 - 1, None], pa.int64())
    assert time_texts(given).to_pylist() == [
        "1970-01-01T00:00:00.000Z",
        "2023-11-14T22:13:20.123Z",
        "9223372036854775807",
        None,
    ]


def explained_into(folder):
    for name in ("whole", "scratch"):
        (folder / name).mkdir()
    return ExplanationWriter(
        directory=str(folder / "whole"),
        scratch=str(folder / "scratch"),
        compact=CompactPartition(),
    )


def test_a_parquet_file_has_the_rows_of_the_table(log_dir, rows, tmp_path):
    task = splits(log_dir, "compaction", now=str(earlier.NOW), topics="compacted.aborted")[0].task
    (row,) = explained_into(tmp_path)(task)
    found = parquet.read_table(row["file"]).to_pylist()
    assert row["rows"] == len(found) == len(of(rows, "compacted.aborted"))
    assert {each["path"] for each in found} == {task.path}
    plain = [{name: each[name] for name in column_names("compaction")} for each in found]
    assert sorted(plain, key=str) == sorted(of(rows, "compacted.aborted"), key=str)
    assert Counter(row["rules"]) == Counter(each["rule"] for each in found)


def test_a_partition_that_fails_leaves_no_file(log_dir, tmp_path):
    task = splits(log_dir, "compaction", now=str(earlier.NOW), topics="compacted.aborted")[0].task
    lost = dataclasses.replace(task, path=f"{task.path}-not-there")
    with pytest.raises((LogError, OSError)):
        list(explained_into(tmp_path)(lost))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_spark_has_the_same_rows(spark, log_dir, rows):
    frame = LogDirectory(spark, log_dir).compaction(
        now=earlier.NOW, settings={"delete.retention.ms": 5}
    )
    assert frame.schema == spark_schema("compaction")
    counted = frame.groupBy("verdict", "rule").count().collect()
    expected = Counter((row["verdict"], row["rule"]) for row in rows)
    assert {(row[0], row[1]): row[2] for row in counted} == expected
