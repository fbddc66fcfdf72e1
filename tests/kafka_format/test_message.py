"""The engine, on small tables of its own; what it makes of Kafka's tables is in test_schemas."""

import copy
import pickle
import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_format.errors import CorruptError, FormatError, TruncatedError
from kafka_format.field_codecs import java_string, kafka_text
from kafka_format.message import (
    REGISTRY,
    Message,
    Schema,
    UnknownMessage,
    check_canonical,
    decode_message,
    encode_message,
)
from kafka_format.schemas import group, metadata, raft, streams, transaction
from tests.kafka_format.damage import value_or_error
from tests.kafka_format.message_strategies import EVERY_VERSION, messages

TOPIC_ID = uuid.UUID("cfa2db16-cc1c-444f-ad6b-7432c6840c8f")


def table(text: str, versions: str = "0-1", flexible: str = "1+") -> Schema:
    schema = Schema("Example", versions, flexible, text)
    del REGISTRY["Example"]
    return schema


NAMES = table("name string\nnote string?\n")


def test_plain_version_has_int16_lengths_and_no_tags() -> None:
    message = decode_message(NAMES, 0, bytes.fromhex("0001 61 ffff".replace(" ", "")))
    assert message.name == "a"
    assert message.note is None
    assert encode_message(message).hex() == "000161ffff"


def test_flexible_version_has_uvarint_lengths_and_a_tag_section() -> None:
    message = decode_message(NAMES, 1, bytes.fromhex("02 61 00 00".replace(" ", "")))
    assert message.name == "a"
    assert message.note is None
    assert encode_message(message).hex() == "02610000"


def test_null_and_empty_are_different_values_and_different_bytes() -> None:
    empty, null = NAMES.new(1, note=""), NAMES.new(1, note=None)
    assert empty != null
    assert encode_message(empty).hex() == "010100"
    assert encode_message(null).hex() == "010000"


def test_any_negative_length_is_null_as_in_kafka() -> None:
    assert decode_message(NAMES, 0, bytes.fromhex("00008000")).note is None
    assert decode_message(NAMES, 1, bytes.fromhex("01ffffffff0f00")).note is None


def test_length_that_wraps_round_in_java_is_too_long() -> None:
    with pytest.raises(CorruptError) as caught:
        decode_message(NAMES, 1, bytes.fromhex("8080808008"))
    assert kafka_text(caught.value) == "string field name had invalid length 2147483647"


def test_null_where_none_may_be_is_an_error_at_its_length() -> None:
    with pytest.raises(CorruptError) as caught:
        decode_message(NAMES, 0, bytes.fromhex("ffff"))
    assert str(caught.value) == "<memory>@0: found null for Example.name, expected a value"
    assert kafka_text(caught.value) == "non-nullable field name was serialized as null"


def test_string_of_more_than_32767_bytes_is_refused_both_ways() -> None:
    with pytest.raises(CorruptError, match="a string of 32768 bytes"):
        decode_message(NAMES, 1, b"\x81\x80\x02" + b"a" * 32768)
    with pytest.raises(ValueError, match="a string of 32768 bytes, more than 32767"):
        encode_message(NAMES.new(1, name="a" * 32768))
    assert len(encode_message(NAMES.new(1, name="a" * 32767))) == 32767 + 5


def test_claimed_length_is_checked_before_anything_is_read() -> None:
    blob = table("blob bytes", "0", "none")
    with pytest.raises(TruncatedError, match="found 1 bytes left, expected 2147483647"):
        decode_message(blob, 0, bytes.fromhex("7fffffff00"))


def test_more_elements_than_bytes_are_refused_before_the_first_is_read() -> None:
    many = table("values []int64", "0", "none")
    with pytest.raises(CorruptError) as caught:
        decode_message(many, 0, bytes.fromhex("7fffffff0000"))
    assert kafka_text(caught.value) == (
        "Tried to allocate a collection of size 2147483647, but there are only 2 bytes remaining."
    )


def test_elements_that_do_not_all_fit_are_truncated() -> None:
    with pytest.raises(TruncatedError) as caught:
        decode_message(table("values []int64", "0", "none"), 0, bytes(4 + 8) + b"\0")
        decode_message(table("values []int64", "0", "none"), 0, b"\0\0\0\2" + bytes(12))
    assert caught.value.location.position == 12


def test_known_tag_is_read_whatever_its_size_says_and_the_last_one_wins() -> None:
    tagged = table("value int8 0+ tag3 =-1", "0", "0+")
    message = decode_message(tagged, 0, bytes.fromhex("02 03 63 07 03 01 08".replace(" ", "")))
    assert message.value == 8
    with pytest.raises(CorruptError, match="<memory>@0: found bytes that continue with 02036307"):
        check_canonical(message, bytes.fromhex("02036307030108"), encode_message(message))


def test_tagged_field_with_its_default_is_not_written() -> None:
    tagged = table("value int8 0+ tag3 =-1", "0", "0+")
    assert encode_message(tagged.new(value=-1)).hex() == "00"
    assert encode_message(tagged.new(value=0)).hex() == "01030100"
    assert decode_message(tagged, 0, b"\0").value == -1


def test_unknown_tags_are_kept_and_written_among_the_known_ones() -> None:
    tagged = table("value int8 0+ tag3", "0", "0+")
    data = bytes.fromhex("03 00 01 aa 03 01 05 09 00".replace(" ", ""))
    message = decode_message(tagged, 0, data)
    assert message.unknown_tags == ((0, b"\xaa"), (9, b""))
    assert encode_message(message) == data
    assert repr(message) == "Example(v0, value=5, unknown_tags=((0, b'\\xaa'), (9, b'')))"


def test_unknown_tag_of_negative_size_is_refused() -> None:
    with pytest.raises(CorruptError) as caught:
        decode_message(table("", "0", "0+"), 0, bytes.fromhex("0105ffffffff0f"))
    assert kafka_text(caught.value) == "-1"


def test_tag_of_another_version_is_refused_in_this_one() -> None:
    later = table("value int8 1+ tag0", "0-1", "0+")
    data = bytes.fromhex("01000105")
    assert decode_message(later, 1, data).value == 5
    with pytest.raises(CorruptError) as caught:
        decode_message(later, 0, data)
    assert kafka_text(caught.value) == "Tag 0 is not valid for version 0"


def test_unknown_tags_cannot_be_written_where_there_are_none() -> None:
    message = NAMES.new(0)
    message.unknown_tags = ((7, b""),)
    with pytest.raises(ValueError, match="version 0 has no tagged fields"):
        encode_message(message)


def test_varint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        decode_message(NAMES, 1, bytes.fromhex("81808080f000"))
    assert kafka_text(caught.value) == (
        "Varint is too long, the most significant bit in the 5th byte is set, converted value: 1"
    )


def test_read_past_the_end_has_no_text_in_kafka() -> None:
    for data, position in [(b"", 0), (b"\x80", 0), (b"\2a", 2)]:
        with pytest.raises(TruncatedError) as caught:
            decode_message(NAMES, 1, data)
        assert kafka_text(caught.value) == "null"
        assert caught.value.location.position == position


@pytest.mark.parametrize("type_", ["bool", "uuid", "int16", "Inner?"])
def test_fixed_size_field_that_is_cut_off_says_which(type_: str) -> None:
    with pytest.raises(TruncatedError, match=r"Example\.value"):
        decode_message(table(f"value {type_}", "0", "none"), 0, b"")


def test_bool_is_true_for_any_byte_but_zero() -> None:
    flag = table("flag bool", "0", "none")
    assert [decode_message(flag, 0, bytes([byte])).flag for byte in (0, 1, 2, 255)] == [
        False,
        True,
        True,
        True,
    ]
    assert encode_message(flag.new(flag=True)) == b"\1"


def test_nullable_struct_has_a_signed_byte_before_it() -> None:
    optional = table("inner Inner? =null\n    value int8", "0", "none")
    assert encode_message(optional.new()) == b"\xff"
    assert encode_message(optional.new(inner={"value": 7})) == b"\1\7"
    assert decode_message(optional, 0, b"\x80").inner is None
    assert decode_message(optional, 0, b"\0\7").inner.value == 7


def test_nullable_struct_in_a_tag_has_a_uvarint_before_it() -> None:
    optional = table("inner Inner? 0+ tag0\n    value int8", "0", "0+")
    assert encode_message(optional.new()) == b"\0"  # the default: a struct of zeros
    assert encode_message(optional.new(inner=None)).hex() == "01000100"
    assert encode_message(optional.new(inner={"value": 7})).hex() == "010003010700"
    assert decode_message(optional, 0, b"\0").inner == optional.new().inner
    assert decode_message(optional, 0, bytes.fromhex("010005ffffffff0f")).inner is None


def test_float_keeps_every_bit_even_of_a_strange_nan() -> None:
    quota = table("value float64", "0", "none")
    data = bytes.fromhex("7ff8dead00000001")
    assert encode_message(decode_message(quota, 0, data)) == data


def test_bytes_behind_the_message_are_kept_and_written_again() -> None:
    message = decode_message(NAMES, 1, bytes.fromhex("026100 00 beef".replace(" ", "")))
    assert message.trailing == b"\xbe\xef"
    assert encode_message(message).endswith(b"\xbe\xef")
    assert repr(message) == "Example(v1, name='a', note=None, trailing=b'\\xbe\\xef')"


def test_version_beyond_the_table_is_read_as_the_nearest_and_keeps_its_number() -> None:
    message = decode_message(NAMES, 9, bytes.fromhex("02610000"))
    assert message.schema_version == 9
    assert message.name == "a"
    assert decode_message(NAMES, -3, bytes.fromhex("000161ffff")).name == "a"


def test_string_that_is_not_utf_8_comes_back_as_the_same_bytes() -> None:
    message = decode_message(NAMES, 0, b"\0\2\xff\xfe\0\0")
    assert encode_message(message) == b"\0\2\xff\xfe\0\0"
    assert message.to_json() == {"name": "��", "note": ""}


@pytest.mark.parametrize(
    ("raw", "java"),
    [
        (b"\xed\xa0\x80", "�"),  # an encoded surrogate is one piece in Java, three in Python
        (b"\xed\xa0", "�"),
        (b"\xed\xa0A", "�A"),
        (b"\xe2\x82", "�"),
        (b"\xe2\x82A", "�A"),
        (b"\xf0\x9f\x98", "�"),
        (b"\xc0\x80", "��"),
        (b"\xf5\x80", "��"),
        ("€\U0001f600".encode(), "€\U0001f600"),
    ],
)
def test_malformed_text_is_replaced_as_java_does(raw: bytes, java: str) -> None:
    assert java_string(raw.decode("utf-8", "surrogateescape")) == java


def test_field_of_another_version_reads_as_its_default() -> None:
    message = group.OFFSET_COMMIT_VALUE.new(2, offset=5)
    assert message.leader_epoch == -1
    assert message.topic_id == uuid.UUID(int=0)
    assert list(message.fields) == ["offset", "metadata", "commit_timestamp"]


def test_defaults_are_those_of_kafka() -> None:
    change = metadata.PARTITION_CHANGE_RECORD.new(2)
    assert (change.leader, change.leader_recovery_state, change.isr) == (-2, -1, None)
    broker = metadata.REGISTER_BROKER_RECORD.new(4)
    assert (broker.fenced, broker.is_migrating_zk_broker, broker.rack) == (True, False, "")
    assert (broker.log_dirs, broker.cordoned_log_dirs) == ((), None)
    assert streams.STREAMS_GROUP_MEMBER_METADATA_VALUE.new().user_endpoint is None


def test_name_that_is_no_field_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="OffsetCommitValue has no field expire"):
        _ = group.OFFSET_COMMIT_VALUE.new().expire
    with pytest.raises(AttributeError):
        _ = group.OFFSET_COMMIT_VALUE.new()._private


def test_message_says_its_version_and_fields() -> None:
    message = group.OFFSET_COMMIT_VALUE.new(4, offset=5, topic_id=TOPIC_ID)
    assert repr(message) == (
        "OffsetCommitValue(v4, offset=5, leader_epoch=-1, metadata='', commit_timestamp=0, "
        "topic_id=z6LbFswcRE-ta3QyxoQMjw)"
    )
    assignment = group.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE.new(
        topic_partitions=[{"topic_id": TOPIC_ID, "partitions": [1, 2]}]
    )
    assert repr(assignment) == (
        "ConsumerGroupTargetAssignmentMemberValue(v0, topic_partitions=["
        "TopicPartition(topic_id=z6LbFswcRE-ta3QyxoQMjw, partitions=[1, 2])])"
    )


def test_fields_called_name_and_version_are_kafkas() -> None:
    topic = metadata.TOPIC_RECORD.new(name="orders", topic_id=TOPIC_ID)
    assert topic.name == "orders"
    assert topic.schema_name == "TopicRecord"
    footer = raft.SNAPSHOT_FOOTER_RECORD.new(version=3)
    assert footer.version == 3
    assert footer.schema_version == 0


def test_messages_are_equal_by_what_they_say() -> None:
    one, same = (
        group.OFFSET_COMMIT_VALUE.new(4, offset=5),
        group.OFFSET_COMMIT_VALUE.new(4, offset=5),
    )
    assert one == same
    assert hash(one) == hash(same)
    assert one != group.OFFSET_COMMIT_VALUE.new(3, offset=5)
    assert one != one.replace(offset=6)
    assert one != "OffsetCommitValue"
    fence, unfence = metadata.FENCE_BROKER_RECORD.new(), metadata.UNFENCE_BROKER_RECORD.new()
    assert fence != unfence


def test_replace_keeps_what_it_does_not_change() -> None:
    message = decode_message(NAMES, 1, bytes.fromhex("0261000105017708"))
    changed = message.replace(name="b")
    assert encode_message(changed) == bytes.fromhex("0262000105017708")
    assert message.name == "a"


def test_messages_survive_pickle_and_copy() -> None:
    message = transaction.TRANSACTION_LOG_VALUE.new(
        1, transaction_partitions=[{"topic": "t", "partition_ids": [3]}]
    )
    message.unknown_tags = ((9, b"x"),)
    assert pickle.loads(pickle.dumps(message)) == message
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message.transaction_partitions[0])).topic == "t"


def test_values_that_do_not_fit_are_value_errors_with_the_fields_name() -> None:
    def refuse(schema: Schema, **fields: object) -> str:
        with pytest.raises(ValueError, match=f"{schema.name}") as caught:
            encode_message(schema.new(**fields))
        return str(caught.value)

    assert "is not of type int64" in refuse(group.OFFSET_COMMIT_VALUE, offset=2**63)
    assert "is not of type int64" in refuse(group.OFFSET_COMMIT_VALUE, offset="5")
    assert "cannot be null" in refuse(group.OFFSET_COMMIT_VALUE, metadata=None)
    assert "a uuid.UUID" in refuse(metadata.TOPIC_RECORD, topic_id="x")
    assert "has no field isr" in refuse(metadata.TOPIC_RECORD, isr=())
    assert "is not such a struct" in refuse(
        transaction.TRANSACTION_LOG_VALUE, transaction_partitions=[5]
    )


def test_unknown_version_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="OffsetCommitValue has no version 5"):
        group.OFFSET_COMMIT_VALUE.new(5)
    assert repr(group.OFFSET_COMMIT_VALUE) == "Schema(OffsetCommitValue, versions 0 to 4)"


def test_line_that_is_no_field_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError, match="not a line of a schema table: 'name'"):
        table("name")


@pytest.mark.parametrize(
    ("schema", "node", "problem"),
    [
        ("name string", [], "expected a JSON object"),
        ("name string", {}, "no field name"),
        ("name string", {"name": None}, "expected a string"),
        ("value int8", {"value": "7"}, "expected a number"),
        ("value int8", {"value": True}, "expected a number"),
        ("value float64", {"value": None}, "expected a number"),
        ("value bool", {"value": 1}, "expected true or false"),
        ("value uuid", {"value": 1}, "expected a uuid"),
        ("value uuid", {"value": "short"}, "expected a uuid"),
        ("value bytes", {"value": "?"}, "expected base64"),
        ("value bytes", {"value": None}, "expected base64"),
        ("value []int8", {"value": None}, "expected a JSON array"),
    ],
)
def test_json_of_another_shape_is_refused(schema: str, node: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        table(schema, "0", "none").from_json(node, 0)


def test_json_null_and_integral_float_are_read() -> None:
    every = table("a string?\nb bytes?\nc []int8?\nd Inner?\n    x int8\ne float64", "0", "none")
    message = every.from_json({"a": None, "b": None, "c": None, "d": None, "e": 2}, 0)
    assert (message.a, message.b, message.c, message.d, message.e) == (None, None, None, None, 2.0)
    assert every.new(c=None).c is None
    assert every.new(d=None).to_json()["d"] is None


def test_unknown_message_says_what_it_is() -> None:
    assert repr(UnknownMessage(99, 7, b"\0\1")) == (
        "UnknownMessage(type 99, version 7, 2 bytes b'\\x00\\x01')"
    )
    assert repr(UnknownMessage(99, None, b"")) == "UnknownMessage(type 99, 0 bytes b'')"


def test_canonical_bytes_pass_and_the_first_other_byte_is_named() -> None:
    message = NAMES.new(0)
    check_canonical(message, b"abc", b"abc")
    with pytest.raises(CorruptError, match=r"f@12: found bytes that continue with 63, expected"):
        check_canonical(message, b"abc", b"ab", path="f", position=10)
    message.trailing = b"c"
    with pytest.raises(CorruptError, match=r"f@12: found 1 bytes after a Example, expected none"):
        check_canonical(message, b"abc", b"abc", path="f", position=10)


@settings(max_examples=8, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(
    ("schema", "version"), EVERY_VERSION, ids=[f"{s.name}-{v}" for s, v in EVERY_VERSION]
)
def test_every_value_comes_back_from_its_bytes_and_its_json(
    schema: Schema, version: int, data: st.DataObject
) -> None:
    message: Message = data.draw(messages(schema, version))
    written = encode_message(message)
    found = decode_message(schema, version, written)
    assert found == message
    assert encode_message(found) == written
    back = schema.from_json(found.to_json(), version)
    assert back.to_json() == found.to_json()


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=120), choice=st.sampled_from(EVERY_VERSION))
def test_any_bytes_are_a_message_or_a_format_error(raw: bytes, choice: tuple[Schema, int]) -> None:
    schema, version = choice
    found = value_or_error(lambda data: decode_message(schema, version, data), raw)
    if isinstance(found, Message):
        encode_message(found)


def test_number_of_elements_is_read_at_once_where_they_are_numbers() -> None:
    numbers = table("values []int32", "0", "none")
    data = struct.pack(">i3i", 3, 1, -2, 3)
    assert decode_message(numbers, 0, data).values == (1, -2, 3)
