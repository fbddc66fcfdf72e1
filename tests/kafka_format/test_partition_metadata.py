import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from kafka_format.partition_metadata import (
    PartitionMetadata,
    decode_partition_metadata,
    encode_partition_metadata,
    read_partition_metadata,
)
from tests.kafka_format import damage

# Of a 4.3.1 broker: partition transactions-0 of the golden pack unclean-4.3.1.
GOLDEN = b"version: 0\ntopic_id: CsoLUxvPT4eqqZoF0nCfGw"
TOPIC_ID = uuid.UUID("0aca0b53-1bcf-4f87-aaa9-9a05d2709f1b")


def test_it_tells_the_topic_id():
    assert decode_partition_metadata(GOLDEN) == PartitionMetadata(TOPIC_ID, version=0)


def test_there_is_no_line_end_behind_the_topic_id():
    assert encode_partition_metadata(PartitionMetadata(TOPIC_ID)) == GOLDEN


@pytest.mark.parametrize("trailing", [b"\n", b"\r\n", b"\nnext: line\n"])
def test_what_follows_the_topic_id_is_kept(trailing):
    metadata = decode_partition_metadata(GOLDEN + trailing)
    assert metadata == PartitionMetadata(TOPIC_ID, trailing=trailing)
    assert encode_partition_metadata(metadata) == GOLDEN + trailing


@pytest.mark.parametrize(
    "data",
    [
        b"version:  0\r\ntopic_id:\tCsoLUxvPT4eqqZoF0nCfGw==",
        b"anything: +0\nany thing: CsoLUxvPT4eqqZoF0nCfGw",
        b": 0\n: CsoLUxvPT4eqqZoF0nCfGw: ",
    ],
)
def test_what_kafka_reads_is_read(data):
    assert decode_partition_metadata(data).topic_id == TOPIC_ID


def test_a_newer_version_is_read_as_kafka_does():
    assert decode_partition_metadata(b"version: 7" + GOLDEN[10:]).version == 7


@pytest.mark.parametrize(
    ("data", "error", "position"),
    [
        (b"", TruncatedError, 0),
        (b"version: 0", TruncatedError, 10),
        (b"version: 0\n", TruncatedError, 11),
        (b"version:0\n" + GOLDEN[11:], CorruptError, 0),
        (b"version: 0: 1\n" + GOLDEN[11:], CorruptError, 0),
        (b"version: x\n" + GOLDEN[11:], CorruptError, 0),
        (b"version: -1\n" + GOLDEN[11:], UnsupportedError, 0),
        (b"version: 0\n\n" + GOLDEN[11:], CorruptError, 11),
        (b"version: 0\ntopic_id: CsoLUxvPT4eqqZoF0nCfG", CorruptError, 11),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", CorruptError, 11),
        (GOLDEN + b"\n\xff", CorruptError, 44),
    ],
)
def test_what_makes_kafka_throw_is_located(data, error, position):
    with pytest.raises(FormatError) as caught:
        decode_partition_metadata(data, path="partition.metadata")
    assert type(caught.value) is error
    assert caught.value.location == ("partition.metadata", position)


@given(st.uuids(), st.integers(0, 2**31 - 1))
def test_any_id_but_zero_comes_back(topic_id, version):
    metadata = PartitionMetadata(topic_id, version)
    data = encode_partition_metadata(metadata)
    if topic_id.int:
        assert decode_partition_metadata(data) == metadata


@given(st.binary())
def test_any_bytes_give_a_value_or_a_format_error(data):
    damage.value_or_error(decode_partition_metadata, data)
    damage.value_or_error(decode_partition_metadata, GOLDEN[:20] + data)


def test_every_cut_is_noticed():
    for data in damage.cuts(GOLDEN):
        assert isinstance(damage.value_or_error(decode_partition_metadata, data), FormatError)


def test_flips_in_the_words_and_in_the_id_go_unnoticed():
    unnoticed = damage.unnoticed(decode_partition_metadata, GOLDEN)
    assert unnoticed >= {*range(7), *range(11, 19), *range(21, 43)}
    assert not unnoticed & {7, 10, 19}  # the colons and the line end


def test_a_file_is_read_and_its_path_is_in_the_error(tmp_path):
    path = tmp_path / "partition.metadata"
    path.write_bytes(GOLDEN)
    assert read_partition_metadata(path).topic_id == TOPIC_ID
    path.write_bytes(b"x\ny")
    with pytest.raises(CorruptError) as caught:
        read_partition_metadata(path)
    assert str(caught.value) == f"{path}@0: found 'x', expected version: <integer>"
