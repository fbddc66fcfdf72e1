import pytest

from kafka_format.errors import CorruptError, FormatError, TruncatedError
from kafka_format.message import UnknownMessage
from kafka_format.remote_log_metadata import (
    BY_API_KEY,
    RemoteLogSegmentState,
    decode_remote_log_metadata,
    encode_remote_log_metadata,
)
from tests.kafka_format.damage import cuts, flips, value_or_error
from tests.oracle.client import Oracle

TOPIC = "000102030405060708090a0b0c0d0e0f"
SEGMENT = "101112131415161718191a1b1c1d1e1f"
# Worked out by hand from the layout.
FINISHED = bytes.fromhex(
    (
        f"01 00 00 02 74 {TOPIC} 00000003 00 {SEGMENT} 00"  # the segment's id
        " 0000000000000064 00000000000000c7 00000001 00000000000003e8 00000000000003e9"
        " 02 00000005 0000000000000064 00"  # leader epoch 5 from offset 100
        " 00001000 03 abcd 01"  # size, custom metadata, state
        " 01 00 01 01"  # the transaction index is empty
    ).replace(" ", "")
)


def test_segment_metadata_says_where_and_in_which_state_a_segment_is() -> None:
    record = decode_remote_log_metadata(FINISHED, strict=True)
    assert (record.api_key, record.name) == (0, "RemoteLogSegmentMetadataRecord")
    value = record.value
    assert value.remote_log_segment_id.topic_id_partition.name == "t"
    assert value.remote_log_segment_id.topic_id_partition.partition == 3
    assert value.remote_log_segment_id.id.hex == SEGMENT
    assert (value.start_offset, value.end_offset, value.segment_size_in_bytes) == (100, 199, 4096)
    assert [(each.leader_epoch, each.offset) for each in value.segment_leader_epochs] == [(5, 100)]
    assert value.custom_metadata == b"\xab\xcd"
    assert value.remote_log_segment_state == RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    assert value.txn_index_empty is True
    assert encode_remote_log_metadata(record) == FINISHED


def test_unknown_record_keeps_its_bytes_and_none_is_an_error() -> None:
    record = decode_remote_log_metadata(b"\1\7\0\0")
    assert record.value == UnknownMessage(7, 0, b"\1\7\0\0")
    assert encode_remote_log_metadata(record) == b"\1\7\0\0"
    with pytest.raises(TruncatedError, match="f@5: found no value"):
        decode_remote_log_metadata(None, path="f", position=5)


def test_bytes_behind_a_record_are_an_error() -> None:
    with pytest.raises(CorruptError, match="found 1 bytes after a RemoteLogSegmentMetadataRecord"):
        decode_remote_log_metadata(FINISHED + b"\0")


def test_random_records_of_kafka_are_read_and_written_as_kafka_does(oracle: Oracle) -> None:
    seen = set()
    for example in oracle.random_messages(13, count=6, set="remote"):
        record = decode_remote_log_metadata(example.stored, strict=True)
        assert (record.api_key, record.name) == (example.api_key, example.name)
        assert record.value.to_json() == example.data
        assert encode_remote_log_metadata(record) == example.stored
        seen.add(record.api_key)
    assert seen == BY_API_KEY.keys()


def test_every_cut_and_flipped_bit_is_a_record_or_a_format_error() -> None:
    for damaged in cuts(FINISHED):
        assert isinstance(value_or_error(decode_remote_log_metadata, damaged), FormatError)
    for _, damaged in flips(FINISHED):
        value_or_error(decode_remote_log_metadata, damaged)
