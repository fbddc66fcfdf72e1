import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.checkpoint_file import (
    MAX_ROWS,
    CheckpointHead,
    OffsetCheckpoint,
    OffsetCheckpointEntry,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
    read_offset_checkpoint,
)
from kafka_format.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from tests.kafka_format import damage

# Of a 4.3.1 broker: cleaner-offset-checkpoint of the golden pack cleaner-4.3.1.
CLEANER = (
    b"0\n5\ncompacted.codecs 3 60\ncompacted.producers 0 15\ncompacted.no-retention 0 29\n"
    b"compacted-later 0 8\ncompacted.codecs 1 60\n"
)
CLEANER_ENTRIES = (
    ("compacted.codecs", 3, 60),
    ("compacted.producers", 0, 15),
    ("compacted.no-retention", 0, 29),
    ("compacted-later", 0, 8),
    ("compacted.codecs", 1, 60),
)


def test_a_checkpoint_is_its_rows_in_the_order_of_the_file():
    checkpoint = decode_offset_checkpoint(CLEANER)
    assert tuple(checkpoint) == (CLEANER_ENTRIES, CheckpointHead.COMPLETE)
    assert checkpoint.entries[3] == OffsetCheckpointEntry(
        topic="compacted-later", partition=0, offset=8
    )
    assert encode_offset_checkpoint(checkpoint) == CLEANER


def test_offsets_are_found_by_topic_and_partition():
    assert decode_offset_checkpoint(CLEANER).offsets()["compacted.codecs", 1] == 60


def test_of_a_partition_named_twice_the_last_row_counts():
    checkpoint = decode_offset_checkpoint(b"0\n2\na 0 1\na 0 2\n")
    assert checkpoint.offsets() == {("a", 0): 2}
    assert encode_offset_checkpoint(checkpoint) == b"0\n2\na 0 1\na 0 2\n"


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (b"", CheckpointHead.EMPTY_FILE),
        (b"0\n", CheckpointHead.VERSION_ONLY),
        (b"0\n0\n", CheckpointHead.COMPLETE),
    ],
)
def test_a_file_can_be_without_rows_in_three_ways_and_each_comes_back(data, head):
    checkpoint = decode_offset_checkpoint(data)
    assert tuple(checkpoint) == ((), head)
    assert encode_offset_checkpoint(checkpoint) == data


@pytest.mark.parametrize(
    "data",
    [
        b"0\n1\na 0 7",  # no last line end
        b"0\r\n1\r\na 0 7\r\n",
        b"0\r1\ra 0 7\r",
        b"+0\n001\na\t+0  007 \t\n",
        "0\n\u0661\na 0 \uff17\n".encode(),
        b"-0\n1\na -0 7\n",
    ],
)
def test_what_java_reads_is_read(data):
    assert decode_offset_checkpoint(data).entries == (("a", 0, 7),)
    assert encode_offset_checkpoint(decode_offset_checkpoint(data)) == b"0\n1\na 0 7\n"


def test_a_row_that_begins_with_a_space_has_an_empty_topic_as_in_java():
    assert decode_offset_checkpoint(b"0\n1\n 1 2\n").entries == (("", 1, 2),)


@pytest.mark.parametrize(
    ("data", "error", "position"),
    [
        (b"\n", CorruptError, 0),
        (b"x\n", CorruptError, 0),
        (b" 0\n", CorruptError, 0),
        (b"0 \n0\n", CorruptError, 0),
        (b"1\n0\n", UnsupportedError, 0),
        (b"-1\n0\n", UnsupportedError, 0),
        (b"\xef\xbb\xbf0\n0\n", CorruptError, 0),  # a byte order mark is no digit
        (b"0\n\n", CorruptError, 2),
        (b"0\nx\n", CorruptError, 2),
        (b"0\n2147483648\n", CorruptError, 2),
        (b"0\n-1\n", CorruptError, 2),
        (b"0\n2\na 0 1\n", TruncatedError, 2),
        (b"0\n2147483647\na 0 1\n", TruncatedError, 2),  # a broker runs out of memory here
        (b"0\n0\na 0 1\n", CorruptError, 2),
        (b"0\n1\na 0 1\n\n", CorruptError, 10),  # a blank line
        (b"0\n1\n\n", CorruptError, 4),
        (b"0\n1\na 0\n", CorruptError, 4),
        (b"0\n2\na 0 1\na 0 1 2\n", CorruptError, 10),
        (b"0\n1\n a 0 1\n", CorruptError, 4),
        (b"0\n1\na b 1\n", CorruptError, 4),
        (b"0\n1\na 2147483648 1\n", CorruptError, 4),
        (b"0\n1\na 0 9223372036854775808\n", CorruptError, 4),
        (b"0\n1\na 0 1.0\n", CorruptError, 4),
        (b"0\n1\na \xff 1\n", CorruptError, 6),
        (b"0\n1\n" + bytes(16), CorruptError, 4),  # what some file systems leave after a crash
    ],
)
def test_what_makes_kafka_throw_is_located(data, error, position):
    with pytest.raises(FormatError) as caught:
        decode_offset_checkpoint(data, path="checkpoint")
    assert type(caught.value) is error
    assert caught.value.location == ("checkpoint", position)


def test_an_error_shows_the_line_but_not_megabytes_of_it():
    with pytest.raises(CorruptError) as caught:
        decode_offset_checkpoint(b"0\n1\n" + b"x" * 1_000_000)
    assert caught.value.found == f"{'x' * 80!r}… (1000000 characters)"
    assert caught.value.expected == "topic partition offset"


def test_rows_need_a_complete_head():
    rows = (OffsetCheckpointEntry("a", 0, 1),)
    with pytest.raises(ValueError, match="1 rows"):
        encode_offset_checkpoint(OffsetCheckpoint(rows, CheckpointHead.EMPTY_FILE))


topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.builds(OffsetCheckpointEntry, topics, int32, int64)))
def test_any_rows_come_back(entries):
    checkpoint = OffsetCheckpoint(tuple(entries))
    assert decode_offset_checkpoint(encode_offset_checkpoint(checkpoint)) == checkpoint


@given(st.one_of(st.binary(), st.text().map(lambda text: f"0\n1\n{text}".encode())))
def test_any_bytes_give_a_value_or_a_format_error(data):
    damage.value_or_error(decode_offset_checkpoint, data)


def test_every_cut_but_those_in_the_last_number_and_in_the_head_is_noticed():
    read = [
        len(data)
        for data in damage.cuts(CLEANER)
        if not isinstance(damage.value_or_error(decode_offset_checkpoint, data), FormatError)
    ]
    # Nothing, version, version and line end; "6" for 60, and 60 without its line end.
    assert read == [0, 1, 2, len(CLEANER) - 2, len(CLEANER) - 1]


def test_every_flip_in_the_head_is_noticed_but_many_in_rows_are_not():
    unnoticed = damage.unnoticed(decode_offset_checkpoint, CLEANER)
    assert min(unnoticed) == len(b"0\n5\n")
    assert unnoticed >= set(range(4, 20))  # the first row's topic


def test_a_file_is_read_and_its_path_is_in_the_error(tmp_path):
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_bytes(CLEANER)
    assert read_offset_checkpoint(path).entries == CLEANER_ENTRIES
    path.write_bytes(b"0\n1\n")
    with pytest.raises(TruncatedError) as caught:
        read_offset_checkpoint(path)
    assert caught.value.location == (str(path), 2)


def test_a_file_of_absurd_size_is_refused_unread(tmp_path):
    path = tmp_path / "cleaner-offset-checkpoint"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    with pytest.raises(FormatError, match="at most 67108864"):
        read_offset_checkpoint(path)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_more_rows_than_a_cluster_has_partitions_are_refused_at_once(end):
    data = b"0" + end + b"1000001" + end + (b"a 0 1" + end) * (MAX_ROWS + 1)
    start = time.process_time()
    with pytest.raises(CorruptError, match="expected at most 1000000 rows"):
        decode_offset_checkpoint(data)
    assert time.process_time() - start < 1
