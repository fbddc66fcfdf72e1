"""Options are typed at the door, and refused with a reason."""

import pickle
import re
from pathlib import Path

import pytest

from pipelines.source.options import (
    EARLIEST,
    LATEST,
    IsolationLevel,
    Offsets,
    OptionsError,
    ReadMode,
    parse_options,
)


def parsed(**given):
    return parse_options({"path": "/data", **given})


def test_without_options_all_records_are_read_as_an_uncommitted_consumer_would():
    options = parsed()
    assert options.paths == ("/data",)
    assert options.table == "records"
    assert options.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert options.mode is ReadMode.PERMISSIVE
    assert not options.include_control
    assert options.verify_checksums
    assert options.max_split_bytes == 128 * 1024 * 1024
    assert options.starting_offsets.of("t", 0) == EARLIEST
    assert options.ending_offsets.of("t", 0) == LATEST
    assert options.includes("any", 7)
    assert options.columns[:3] == ("key", "value", "topic")
    assert "path" not in options.columns


def test_names_come_in_any_case_as_spark_hands_them_on():
    options = parsed(MAXSPLITBYTES="64k", isolationlevel="READ_COMMITTED", Mode="failfast")
    assert options.max_split_bytes == 65536
    assert options.isolation_level is IsolationLevel.READ_COMMITTED
    assert options.mode is ReadMode.FAILFAST


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"path": "/a"}, ("/a",)),
        ({"path": "/a, /b"}, ("/a", "/b")),
        ({"paths": '["/a,b", "/c"]'}, ("/a,b", "/c")),
        ({"path": "/x[12]/data"}, ("/x[12]/data",)),
        ({"path": "[ab]/data"}, ("[ab]/data",)),
    ],
)
def test_paths_are_one_or_several(given, paths):
    assert parse_options(given).paths == paths


def test_a_table_of_the_catalog_is_refused_with_what_works():
    """Seen: path and topics are gone by the time that Spark reads."""
    with pytest.raises(OptionsError, match=r"^location: .* expected CREATE TEMPORARY VIEW"):
        parse_options({"path": "/a", "location": "file:/a", "owner": "me"})


def test_topics_are_globs_and_partitions_numbers_or_ranges():
    options = parsed(topics="orders, audit.*", partitions="0,2,5-7")
    assert options.includes("orders", 2)
    assert options.includes("audit.log", 6)
    assert not options.includes("audit", 0)
    assert not options.includes("orders", 3)
    assert not options.includes("orders", None)


def test_offsets_are_one_for_all_or_sparks_json():
    assert parsed(startingOffsets="17").starting_offsets.of("t", 3) == 17
    offsets = parsed(startingOffsets='{"t": {"0": 5, "1": -2}}').starting_offsets
    assert offsets == Offsets(default=EARLIEST, by_partition={("t", 0): 5, ("t", 1): EARLIEST})
    assert offsets.of("t", 0) == 5
    assert offsets.of("u", 0) == EARLIEST
    assert parsed(endingOffsets='{"t": {"0": -1}}').ending_offsets.of("t", 0) == LATEST


def test_columns_come_in_the_order_of_the_schema_whatever_their_case():
    assert parsed(columns="offset, KEY").columns == ("key", "offset")
    assert parsed(columns="path").columns == ("path",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"tabel": "x"},
            r"unknown option tabel \(did you mean table\?\): expected one of assign,",
        ),
        ({"table": "record"}, r"option table='record': no such table \(did you mean records\?\)"),
        ({"table": "zzz"}, r"option table='zzz': no such table: expected one of records, batches"),
        ({"columns": "ofset"}, r"records has no ofset \(did you mean offset\?\)"),
        ({"mode": "x"}, "option mode='x': expected one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"isolationLevel": "x"}, "expected one of read_uncommitted, read_committed"),
        ({"includeControl": "1"}, "option includeControl='1': expected true or false"),
        ({"maxSplitBytes": "0"}, "expected a size such as"),
        ({"maxSplitBytes": "-1"}, "expected a size such as"),
        ({"topics": ""}, "option topics='': found none, expected one or more"),
        ({"topics": " , "}, "option topics=' , ': found none, expected one or more"),
        ({"partitions": ""}, "option partitions='': found none, expected one or more"),
        ({"columns": ""}, "option columns='': found none, expected one or more"),
        ({"partitions": "a"}, "expected numbers or ranges"),
        ({"partitions": "5-2"}, "expected numbers or ranges"),
        ({"startingOffsets": "x"}, "expected earliest, a number, or JSON"),
        ({"startingOffsets": "[1]"}, "expected earliest, a number, or JSON"),
        ({"startingOffsets": '{"t": {"0": "1"}}'}, "expected earliest, a number, or JSON"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "expected earliest, a number, or JSON"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, "expected earliest, a number, or JSON"),
        ({"startingOffsets": '{"t": {"-1": 1}}'}, "expected earliest, a number, or JSON"),
        ({"endingOffsets": '{"t": {"0": -3}}'}, "expected latest, a number, or JSON"),
        ({"startingTimestamp": "yesterday"}, "expected epoch milliseconds"),
        ({"startingOffsets": "latest"}, "startingOffsets: found latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets: found earliest"),
        ({"startingOffsets": "9", "endingOffsets": "3"}, "startingOffsets 9: expected at most"),
        (
            {"startingOffsets": '{"t": {"0": 9}}', "endingOffsets": "3"},
            "startingOffsets 9 of t-0: expected at most endingOffsets 3",
        ),
        ({"startingOffsets": "3", "startingTimestamp": "1"}, "expected at most one of them"),
        ({"endingOffsets": "3", "endingTimestamp": "1"}, "expected at most one of them"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "startingTimestamp 2: expected"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(given, message):
    with pytest.raises(OptionsError, match=message) as caught:
        parsed(**given)
    assert "\n" not in str(caught.value)


def test_a_path_is_needed():
    with pytest.raises(OptionsError, match="no path"):
        parse_options({"table": "records"})


def test_options_travel_to_other_processes():
    options = parsed(startingOffsets='{"t": {"0": 5}}', topics="t")
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_docs_have_every_option_and_no_other():
    page = (Path(__file__).parents[3] / "docs" / "kafka_files.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert {each.lower() for each in named} - {"permissive", "dropmalformed", "failfast"} == {
        *("path", "paths", "table", "topics", "partitions", "startingoffsets", "endingoffsets"),
        *("startingtimestamp", "endingtimestamp", "isolationlevel", "includecontrol", "mode"),
        *("columns", "maxsplitbytes", "verifychecksums", "now", "settings", "rounds"),
        *("subscribe", "subscribepattern", "assign", "followlinks", "maxdecompressedbytes"),
        *("startingoffsetsbytimestamp", "endingoffsetsbytimestamp", "columnnameofcorruptrecord"),
    }
    for name in named - {"PERMISSIVE", "DROPMALFORMED", "FAILFAST"}:
        with pytest.raises(OptionsError) as caught:
            parse_options({name: "{"} if name not in ("path", "paths", "topics") else {})
        assert "unknown option" not in str(caught.value)
