"""What should be records and is not is one row each, the same that `findings` tells."""

import os
import re
import struct

import pytest

from kafka_format.batch import encode_batch
from kafka_format.errors import FormatError, OverLimitError
from kafka_format.record import Header, SimpleRecord
from pipelines.source.arrow import ENOUGH_BYTES
from pipelines.source.data_source import KafkaFiles
from pipelines.source.options import parse_options
from pipelines.source.storage import Storage
from pipelines.source.tables import reader_of
from tests.hostile import logs
from tests.pipelines.readers import read
from tests.pipelines.segments import write_segment

LOG = f"{0:020d}.log"
MIB = 1024 * 1024
COUNT = 400
"""Records of the log that is damaged, ten a batch."""
SPLITS = pytest.mark.parametrize("size", ["1k", "128m"])


def flip(content, batches):
    content[batches[7].position + batches[7].size - 5] ^= 0xFF


def lie_about_the_length(content, batches):
    content[batches[7].position + 8 : batches[7].position + 12] = struct.pack(">i", -1)


def too_long(content, batches):
    content[batches[7].position + 8 : batches[7].position + 12] = struct.pack(">i", 2**31 - 1)


def garbage(content, batches):
    start, end = batches[7].position + 20, batches[9].position + 3
    content[start:end] = (bytes(range(256)) * 100)[: end - start]


def zeros(content, batches):
    start, end = batches[5].position, batches[7].position
    content[start:end] = bytes(end - start)


def torn(content, batches):
    del content[-7:]


def undecodable(content, batches):
    import crc32c

    start, end = batches[3].position, batches[3].position + batches[3].size
    content[start + 61] = 0x7F  # the length of its first record
    content[start + 17 : start + 21] = struct.pack(">I", crc32c.crc32c(content[start + 21 : end]))


def below_its_segment(content, batches):
    content[batches[3].position : batches[3].position + 8] = struct.pack(">q", -5)


DAMAGE = {
    each.__name__: each
    for each in (
        *(flip, lie_about_the_length, too_long, garbage, zeros, torn, undecodable),
        below_its_segment,
    )
}


@pytest.fixture
def damaged(tmp_path):
    """A partition directory, after a function has been at its log."""

    def make(damage):
        directory = tmp_path / "t-0"
        batches = write_segment(directory, 0, COUNT)
        content = bytearray((directory / LOG).read_bytes())
        damage(content, batches)
        (directory / LOG).write_bytes(content)
        return directory, batches

    return make


def corrupt(rows):
    return [row["_corrupt_record"] for row in rows if row["_corrupt_record"] is not None]


def reported(text):
    """Position and rule of one."""
    found = re.search(r"@(\d+): ([A-Z]{3}\d{3}): found .*, expected ", text)
    return int(found[1]), found[2]


@SPLITS
@pytest.mark.parametrize("name", DAMAGE)
def test_each_is_a_row_that_says_what_findings_say(damaged, name, size):
    directory, _ = damaged(DAMAGE[name])
    rows = read(directory, maxSplitBytes=size)
    found = [
        (row["position"], row["id"])
        for row in read(directory, "findings")
        if row["id"][:3] == "LOG"
    ]
    assert [reported(text) for text in corrupt(rows)] == found
    assert len(found) == 1
    (row,) = [row for row in rows if row["_corrupt_record"]]
    assert row["_corrupt_record"].startswith(f"{directory}/{LOG}@")
    assert (row["topic"], row["partition"], row["segment"]) == ("t", 0, 0)
    empty = ("key", "value", "offset", "timestamp", "timestampType", "headers", "timestamp_ms")
    assert {row[column] for column in empty} == {None}


@pytest.mark.parametrize("name", DAMAGE)
def test_dropmalformed_leaves_it_out_and_failfast_fails(damaged, name):
    directory, _ = damaged(DAMAGE[name])
    permissive = [row for row in read(directory) if not row["_corrupt_record"]]
    assert 300 < len(permissive) < COUNT
    assert read(directory, mode="DROPMALFORMED") == permissive
    with pytest.raises(FormatError, match=f"{LOG}@"):
        read(directory, mode="FAILFAST")


def test_a_sound_log_has_none(damaged):
    directory, _ = damaged(lambda content, batches: None)
    rows = read(directory, mode="FAILFAST")
    assert [row["offset"] for row in rows] == [*range(COUNT)]
    assert corrupt(rows) == []


def test_where_its_batch_begins_is_told(damaged):
    directory, batches = damaged(flip)
    (row,) = [row for row in read(directory) if row["_corrupt_record"]]
    assert (row["position"], row["batch_base_offset"]) == (batches[7].position, 70)


@SPLITS
@pytest.mark.parametrize(
    ("name", "first", "end"),
    [("flip", 70, 80), ("lie_about_the_length", 70, 80), ("zeros", 50, 70)],
)
def test_one_outside_of_the_offsets_that_are_asked_for_gives_no_row(
    damaged, name, first, end, size
):
    directory, _ = damaged(DAMAGE[name])

    def count(start, stop):
        options = {"startingOffsets": str(start), "endingOffsets": str(stop)}
        return len(corrupt(read(directory, maxSplitBytes=size, **options)))

    assert count(0, first) == count(end, COUNT) == 0
    assert count(0, first + 1) == count(end - 1, COUNT) == count(first + 3, first + 5) == 1


def test_rows_come_whether_their_column_is_asked_for_or_not(damaged):
    directory, _ = damaged(flip)
    rows = read(directory, columns="topic,offset")
    assert len(rows) == COUNT - 10 + 1
    assert {row["topic"] for row in rows} == {"t"}
    assert [row["offset"] for row in rows].count(None) == 1


def test_the_column_has_the_name_that_is_asked_for(damaged):
    directory, _ = damaged(flip)
    given = {
        "path": str(directory),
        "columnNameOfCorruptRecord": "broken",
        "columns": "offset,broken",
    }
    source = KafkaFiles(given)
    assert source.schema().names == ["offset", "broken"]
    reader = source.reader(source.schema())
    rows = [
        row
        for split in reader.partitions()
        for batch in reader.read(split)
        for row in batch.to_pylist()
    ]
    assert [list(row) for row in rows] == [["offset", "broken"]] * len(rows)
    (text,) = [row["broken"] for row in rows if row["broken"]]
    assert "LOG001" in text


@pytest.mark.parametrize("table", ["consumer_offsets", "group_metadata"])
def test_tables_of_internal_topics_tell_it_by_their_column_damage(tmp_path, table):
    directory = tmp_path / "__consumer_offsets-3"
    directory.mkdir()
    log = bytearray(encode_batch([SimpleRecord(0, b"\0\1", b"v")], base_offset=0))
    log[-2] ^= 1
    (directory / LOG).write_bytes(log)
    (row,) = read(tmp_path, table)
    assert "@17: LOG001: found stored crc" in row["damage"]
    assert (row["log_partition"], row["log_offset"], row["position"]) == (3, None, 0)
    assert read(tmp_path, table, mode="DROPMALFORMED") == []
    with pytest.raises(FormatError):
        read(tmp_path, table, mode="FAILFAST")


# ------------------------------------------------------------------------------------ one limit

BOMBS = [
    (codec, magic)
    for codec in ("gzip", "snappy", "lz4", "zstd")
    for magic in (0, 1, 2)
    if codec != "zstd" or magic == 2
]


@pytest.mark.parametrize(("codec", "magic"), BOMBS)
def test_a_bomb_is_not_decoded_and_the_rest_is(tmp_path, codec, magic):
    write_segment(tmp_path / "healthy-0", 0, 20)
    (tmp_path / "bomb-0").mkdir()
    behind = encode_batch([SimpleRecord(1, b"k", b"v")], base_offset=1)
    (tmp_path / "bomb-0" / LOG).write_bytes(logs.bomb(codec, magic, 3 * MIB) + behind)
    rows = read(tmp_path, maxDecompressedBytes="1m", columns="topic,offset,_corrupt_record")
    assert sum(row["topic"] == "healthy" for row in rows) == 20
    bomb, sound = [row for row in rows if row["topic"] == "bomb"]
    assert (sound["offset"], sound["_corrupt_record"]) == (1, None)
    assert reported(bomb["_corrupt_record"])[1] == "LOG006"
    assert "at most 1048576 bytes" in bomb["_corrupt_record"]
    (finding,) = read(tmp_path, "findings", maxDecompressedBytes="1m")
    assert (finding["id"], finding["severity"]) == ("LOG006", "warning")
    (value,) = [
        row["value"]
        for row in read(tmp_path, topics="bomb", columns="value")
        if row["value"] != b"v"
    ]
    assert value == bytes(3 * MIB)
    with pytest.raises(OverLimitError):
        read(tmp_path, maxDecompressedBytes="1m", mode="FAILFAST")


@pytest.mark.parametrize("part", ["key", "value", "header"])
def test_a_row_is_bound_by_the_same_limit_where_nothing_is_compressed(tmp_path, part):
    (tmp_path / "t-0").mkdir()
    large = b"x" * MIB
    record = {
        "key": SimpleRecord(5, large, b""),
        "value": SimpleRecord(5, None, large),
        "header": SimpleRecord(5, None, b"", (Header("h", large),)),
    }[part]
    small = SimpleRecord(5, b"k", b"v" * 1000)
    (tmp_path / "t-0" / LOG).write_bytes(encode_batch([small, record, small], base_offset=10))
    limit = {"maxDecompressedBytes": str(MIB - 1), "columns": "offset,_corrupt_record"}
    rows = read(tmp_path, **limit)
    assert sorted(row["offset"] for row in rows if row["offset"] is not None) == [10, 12]
    (text,) = corrupt(rows)
    size = MIB + 1 if part == "header" else MIB
    assert f"@0: LOG006: found a record of {size} bytes at offset 11, not decoded" in text
    (finding,) = read(tmp_path, "findings", maxDecompressedBytes=str(MIB - 1))
    assert (finding["id"], finding["offset"], finding["position"]) == ("LOG006", 11, 0)
    rows = read(tmp_path, maxDecompressedBytes=str(MIB + 1), columns="offset,_corrupt_record")
    assert [row["offset"] for row in rows] == [10, 11, 12]
    assert corrupt(rows) == []


def test_large_rows_do_not_make_one_large_arrow_batch(tmp_path):
    (tmp_path / "t-0").mkdir()
    records = [SimpleRecord(0, b"%d" % at, bytes(3 * MIB), (Header("h", b"x"),)) for at in range(8)]
    records.append(SimpleRecord(0, None, bytes(2 * ENOUGH_BYTES)))
    records.append(SimpleRecord(0, b"last", b""))
    (tmp_path / "t-0" / LOG).write_bytes(encode_batch(records, base_offset=0))
    options = parse_options({"path": str(tmp_path)})
    reader = reader_of("records")
    (split,) = reader.plan(options, Storage(options.paths))
    batches = list(reader.read(split, options))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [*range(10)]
    assert [len(row["headers"] or []) for row in rows] == [1] * 8 + [0, 0]
    assert [row["key"] for row in rows] == [b"%d" % at for at in range(8)] + [None, b"last"]
    for batch in batches:
        assert batch.num_rows == 1 or batch.nbytes < ENOUGH_BYTES + 64 * 1024
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 2, 1, 1]


# ------------------------------------------------------------------------- files that change


@pytest.fixture
def large(tmp_path):
    """A log of several chunks: what is read later is not in memory yet."""
    directory = tmp_path / "t-0"
    write_segment(directory, 0, 2000, per_batch=20, size=10_000)
    return directory / LOG


def shrink(log):
    os.truncate(log, 3 * MIB)


def replace(log):
    other = log.with_suffix(".new")
    other.write_bytes(log.read_bytes())
    other.replace(log)


def vanish(log):
    log.unlink()


def grow(log):
    with log.open("ab") as file:
        file.write(b"more")


def read_while(change, log, table, **options):
    """Rows, of which the first come before the log changes."""
    parsed = parse_options({"path": str(log.parent), "table": table, **options})
    reader = reader_of(table)
    (split,) = reader.plan(parsed, Storage(parsed.paths))
    batches = reader.read(split, parsed)
    rows = next(batches).to_pylist()
    change(log)
    return rows + [row for batch in batches for row in batch.to_pylist()]


CHANGES = {shrink: "it shrank from", replace: "it was replaced", vanish: "it vanished"}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_read_before_is_given_and_the_change_told(large, change):
    rows = read_while(change, large, "records", columns="offset,value,_corrupt_record")
    last = corrupt(rows)[-1]
    assert re.search(r"\.log@\d+: DIR008: found changed while it was read: ", last)
    assert CHANGES[change] in last
    offsets = [row["offset"] for row in rows if row["offset"] is not None]
    assert offsets == [*range(len(offsets))]
    assert len(offsets) >= 300


@pytest.mark.parametrize("change", CHANGES)
def test_failfast_fails_with_the_change(large, change):
    with pytest.raises(FormatError, match="changed while it was read"):
        read_while(change, large, "records", mode="FAILFAST", columns="offset,value")


def test_growth_is_no_change(large):
    rows = read_while(grow, large, "records", columns="offset,value,_corrupt_record")
    assert [row["offset"] for row in rows] == [*range(2000)]


@pytest.mark.parametrize("table", ["records", "findings", "batches"])
@pytest.mark.parametrize("change", [shrink, vanish])
def test_a_change_between_plan_and_read_is_told(large, table, change):
    parsed = parse_options({"path": str(large.parent), "table": table})
    reader = reader_of(table)
    splits = reader.plan(parsed, Storage(parsed.paths))
    change(large)
    rows = [
        row for split in splits for batch in reader.read(split, parsed) for row in batch.to_pylist()
    ]
    texts = [str(row) for row in rows if "changed while it was read" in str(row)]
    assert len(texts) == 1
    if table == "findings":
        assert next(row["id"] for row in rows if row["path"] == str(large)) == "DIR008"
