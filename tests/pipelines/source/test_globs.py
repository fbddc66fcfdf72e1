"""Braces in paths, as Hadoop and shells have them."""

import time

import pytest

from pipelines.source.globs import alternatives, split_outside
from pipelines.source.storage import Storage, StorageError
from tests.pipelines.readers import read
from tests.pipelines.segments import write_segment


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data", ["data"]),
        ("data-{1,2}", ["data-1", "data-2"]),
        ("{a,b}/{c,d}", ["a/c", "a/d", "b/c", "b/d"]),
        ("d{1,2{x,y}}z", ["d1z", "d2xz", "d2yz"]),
        ("d{,-old}", ["d", "d-old"]),
        ("d{1,1}", ["d1"]),
        ("{topic}-0", ["{topic}-0"]),
        ("a{b,c", ["a{b,c"]),
        ("a}b", ["a}b"]),
        ("", [""]),
    ],
)
def test_a_path_stands_for_its_alternatives(path, expected):
    assert alternatives(path) == expected


def test_too_many_are_refused():
    with pytest.raises(ValueError, match="alternatives or more, expected 10000 at most"):
        alternatives("{a,b}" * 14)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{a,b}" * 13 + "{" + "{a,b}" * 13 + ",c}", "alternatives or more, expected 10000 at most"),
        ("{" + "{a,b}" * 13 + ",c}" + "{a,b}" * 13, "alternatives or more, expected 10000 at most"),
        ("{a," * 2000 + "b" + "}" * 2000, "braces nested more than 32 deep"),
        ("{" * 20_000, "found braces in 20000 characters, expected 10000 at most"),
    ],
)
def test_what_would_take_too_long_is_refused_at_once(path, message):
    start = time.process_time()
    with pytest.raises(ValueError, match=message):
        alternatives(path)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("path", ["{" * 9_999, "{a}" * 3_333, "{" * 5_000 + "}" * 5_000])
def test_braces_that_are_no_alternatives_are_read_at_once(path):
    start = time.process_time()
    assert alternatives(path) == [path]
    assert time.process_time() - start < 1


@pytest.mark.parametrize("path", ["a" * 5_000, "a" * 5_000 + "*", "{" + "a" * 5_000 + ",b*}"])
def test_a_path_that_no_disk_takes_is_an_error_of_storage(path):
    with pytest.raises(StorageError, match=r"too long|no match"):
        Storage([path]).scan()


def test_commas_between_paths_are_those_outside_of_braces():
    assert split_outside("a-{1,2},b") == ["a-{1,2}", "b"]
    assert split_outside("a{b,c") == ["a{b", "c"]


def test_tables_are_read_from_all_alternatives(tmp_path):
    for name in ("one", "two", "three"):
        write_segment(tmp_path / name / f"{name}-0", 0, 10)
    for path in (f"{tmp_path}/{{one,t[v-x]o}}", f"{tmp_path}/{{one,two}},{tmp_path}/two"):
        rows = read(path, columns="topic")
        assert {row["topic"] for row in rows} == {"one", "two"}


def test_a_name_with_braces_that_is_there_is_itself(tmp_path):
    write_segment(tmp_path / "{a,b}" / "t-0", 0, 10)
    write_segment(tmp_path / "a" / "other-0", 0, 10)
    assert {row["topic"] for row in read(tmp_path / "{a,b}", columns="topic")} == {"t"}
