"""Names that are not UTF-8, or that play with whoever shows them."""

import base64
import os

import pytest

from pipelines.report.summary import Summary
from pipelines.source.schema import COLUMNS
from pipelines.source.storage import Storage
from tests.pipelines.readers import read
from tests.pipelines.segments import write_segment

LOG = f"{0:020d}.log"
ODD = os.fsdecode(b"or\xff\xfeders")
SHOWN = "or\ufffd\ufffdders"
HOSTILE = ["<script>alert(1)<", "a\"b'c", "a\x1b[2Jb", "a&amp;b", "a\u202eb", ODD]


@pytest.fixture
def root(tmp_path):
    write_segment(tmp_path / f"{ODD}-0", 0, 20)
    write_segment(tmp_path / "plain-0", 0, 20)
    return tmp_path


def with_path(table):
    return [name for name, _, _ in COLUMNS[table] if name in ("path", "path_base64")]


@pytest.mark.parametrize("table", COLUMNS)
def test_every_table_is_read(root, table):
    read(root, table)


@pytest.mark.parametrize("table", ["records", "batches", "segments", "files", "offset_index"])
def test_a_path_is_shown_and_its_bytes_are_beside(root, table):
    rows = read(root, table, columns=",".join(["topic", *with_path(table)]))
    odd = [row for row in rows if row["topic"] == SHOWN]
    assert odd
    for row in odd:
        assert f"/{SHOWN}-0" in row["path"]
        assert b"/or\xff\xfeders-0" in base64.b64decode(row["path_base64"])
    assert {row["path_base64"] for row in rows if row["topic"] == "plain"} == {None}


def test_every_table_with_a_path_has_its_bytes_too():
    for table in COLUMNS:
        assert len(with_path(table)) in (0, 2), table


def test_a_topic_is_chosen_by_the_name_that_rows_show(root):
    for options in ({"topics": SHOWN}, {"topics": "or*"}, {"subscribe": SHOWN}):
        rows = read(root, columns="topic", **options)
        assert [row["topic"] for row in rows] == [SHOWN] * 20
    offsets = {"startingOffsets": f'{{"{SHOWN}": {{"0": 15}}}}'}
    assert len(read(root, topics=SHOWN, columns="offset", **offsets)) == 5


@pytest.mark.parametrize("table", ["records", "batches", "findings"])
def test_damage_in_it_is_told(root, table):
    log = root / f"{ODD}-0" / LOG
    content = bytearray(log.read_bytes())
    content[-5] ^= 0xFF
    log.write_bytes(content)
    (text,) = [
        text
        for row in read(root, table)
        if (text := row.get("_corrupt_record") or row.get("damage") or row.get("found"))
    ]
    assert "stored crc" in text


def test_nothing_of_a_name_becomes_markup_or_plays_with_a_terminal(tmp_path):
    for name in HOSTILE:
        (tmp_path / f"{name}-0").mkdir()
        (tmp_path / f"{name}-0" / LOG).touch()
    summary = Summary.of(Storage([str(tmp_path)]).scan())
    html, text = summary.html(), summary.text()
    html.encode()
    text.encode()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;" in html
    assert "a&amp;amp;b" in html
    assert '"b' not in html
    assert "'c" not in html
    for shown in (html, text):
        assert not {"\x1b", "\u202e", "\udcff"} & set(shown)
        assert r"a\x1b[2Jb" in shown
