"""The tables log_dirs, partitions, segments and files: the rows of `list`, column for column."""

import json
from pathlib import Path

import pytest

from jobs import cli
from pipelines.source.schema import column_names
from tests import golden
from tests.pipelines.in_process import read_table

KINDS = {"log_dirs": "log_dir", "partitions": "partition", "segments": "segment", "files": "file"}


def in_order(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("pack", golden.names())
def test_rows_are_those_of_list(pack, capsys):
    root = golden.shared(pack)
    argv = ["list", str(root), "--segments", "--files", "--format", "json", "--quiet"]
    assert cli.main(argv) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for table, kind in KINDS.items():
        expected = [line for line in lines if line["kind"] == kind]
        rows = [{"kind": kind, **row} for row in read_table(root, table)]
        for row in rows:
            if table == "log_dirs":
                row["checkpoints"] = dict(row["checkpoints"])
            assert row.pop("path_base64") is None  # of names that are UTF-8 `list` has none
        assert expected
        assert in_order(rows) == in_order(expected)


@pytest.mark.parametrize(("table", "kind"), KINDS.items())
def test_list_has_the_columns_of_the_schema_and_no_others(table, kind, capsys):
    argv = ["list", str(golden.shared("clean-3.9.1")), "--segments", "--files"]
    assert cli.main([*argv, "--format", "json", "--quiet"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = {tuple(line) for line in lines if line["kind"] == kind}
    columns = [name for name in column_names(table) if name != "path_base64"]
    assert names == {("kind", *columns)}


def test_topics_and_partitions_choose_partitions_and_what_is_in_them():
    root = golden.shared("unclean-4.3.1")
    for table in ("partitions", "segments", "files"):
        rows = read_table(root, table, topics="codecs.*", partitions="0")
        assert {row["topic"] for row in rows} == {
            *("codecs.java", "codecs.kafka-python", "codecs.librdkafka")
        }
        assert {row["partition"] for row in rows} == {0}
    everything = read_table(root, "files")
    assert {Path(row["path"]).name for row in everything if row["topic"] is None} >= {
        *("meta.properties", ".lock", "recovery-point-offset-checkpoint")
    }


def test_one_segment_by_the_path_of_its_log():
    (log,) = golden.shared("unclean-4.3.1").glob("*/codecs.java-0/*.log")
    (segment,) = read_table(log, "segments")
    assert (segment["base_offset"], segment["size_in_bytes"]) == (0, log.stat().st_size)


@pytest.mark.parametrize("table", KINDS)
def test_columns_can_be_chosen(table):
    root = golden.shared("clean-3.9.1")
    rows = read_table(root, table)
    for name in column_names(table):
        assert read_table(root, table, columns=name) == [{name: row[name]} for row in rows]
