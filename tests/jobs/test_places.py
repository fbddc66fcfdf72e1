"""Paths in tables, and the column for the log dir."""

import shutil

import pytest

from jobs import cli
from jobs.places import Places

TWO = {"/data/d1/t-0": "/data/d1", "/data/d2/t-0": "/data/d2"}


@pytest.mark.parametrize(
    ("given", "path", "shown"),
    [
        (("/data",), "/data/d1/t-0", "d1/t-0"),
        (("/data/",), "/data/d1", "d1"),
        (("/",), "/data/d1", "data/d1"),
        (("data",), "data/d1", "d1"),
        ((".",), "./t-0", "t-0"),
        (("/data",), "/data", "/data"),
        (("/data",), "/data2/d1", "/data2/d1"),
        (("t-0",), ".", "."),
        (("/data/d1", "/data/d2"), "/data/d1", "/data/d1"),
        (("",), "d1", "d1"),
    ],
)
def test_a_path_is_shown_relative_to_the_only_one_given(given, path, shown):
    assert Places.of(given, {}).shown(path) == shown


def test_rows_of_several_log_dirs_name_theirs():
    places = Places.of(["/data"], TWO)
    assert places.header(("partition", "end")) == ("directory", "partition", "end")
    assert places.cells("/data/d2/t-0", ["t-0", 7]) == ["d2", "t-0", 7]
    assert places.cells("/data/d1", ["t-0", 7]) == ["d1", "t-0", 7]


def test_rows_of_one_log_dir_do_not():
    places = Places.of(["/data"], {"/data/d1/t-0": "/data/d1", "/data/d1/t-1": "/data/d1"})
    assert places.header(("partition",)) == ("partition",)
    assert places.cells("/data/d1/t-0", ["t-0"]) == ["t-0"]


@pytest.mark.parametrize("verb", ["offsets", "retain"])
def test_a_table_over_several_log_dirs_says_which(verb, data, capsys):
    shutil.copytree(data, data.parent / "other")
    cli.main([verb, str(data.parent), "--topic", "tiny.segments"])
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["DIRECTORY", "PARTITION"]
    assert {tuple(line.split()[:2]) for line in lines} == {
        ("data", "tiny.segments-0"),
        ("other", "tiny.segments-0"),
    }
    cli.main([verb, str(data), "--topic", "tiny.segments"])
    assert capsys.readouterr().out.split()[0] == "PARTITION"
