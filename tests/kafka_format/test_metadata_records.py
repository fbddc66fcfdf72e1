import pytest

from kafka_format.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from kafka_format.field_codecs import kafka_text
from kafka_format.java_text import parse_uuid
from kafka_format.message import UnknownMessage
from kafka_format.metadata_records import (
    MetadataRecord,
    decode_frame,
    decode_metadata_record,
    encode_metadata_record,
)
from kafka_format.schemas.metadata import BY_API_KEY
from tests.kafka_format.damage import cuts, flips, value_or_error
from tests.oracle.client import Oracle


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


# A 4.3.1 broker wrote these.
BROKER_VECTORS = [
    (
        "01 17 00 01 00 12 12 426f6f747374726170207265636f726473",
        "BeginTransactionRecord",
        {"name": "Bootstrap records"},
    ),
    ("01 18 00 00", "EndTransactionRecord", {}),
    ("01 14 00 00", "NoOpRecord", {}),
    (
        "01 0c 00 11 6d657461646174612e76657273696f6e 001e 00",
        "FeatureLevelRecord",
        {"name": "metadata.version", "feature_level": 30},
    ),
    (
        "01 04 00 04 01 14 6d696e2e696e73796e632e7265706c69636173 02 31 00",
        "ConfigRecord",
        {"resource_type": 4, "resource_name": "", "name": "min.insync.replicas", "value": "1"},
    ),
    (
        "01 02 00 02 63 7d60b5f9780f4bc5ab37f8574d3951db 00",
        "TopicRecord",
        {"name": "c", "topic_id": parse_uuid("fWC1-XgPS8WrN_hXTTlR2w")},
    ),
    (
        (
            "01 03 02 00000000 7d60b5f9780f4bc5ab37f8574d3951db 02 00000001 02 00000001 01 01"
            " 00000001 00000000 00000000 02 7625a8d358b4f30b640a92f33b44b34b 00"
        ),
        "PartitionRecord",
        {
            "partition_id": 0,
            "replicas": (1,),
            "isr": (1,),
            "removing_replicas": (),
            "leader": 1,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "directories": (parse_uuid("diWo01i08wtkCpLzO0SzSw"),),
            "eligible_leader_replicas": None,
        },
    ),
    (
        (
            "01 05 02 00000000 858dec01e686450ba0d32b15b85db985 04 00 01 01 01 04 ffffffff"
            " 06 05 02 00000001 07 05 02 00000001"
        ),
        "PartitionChangeRecord",
        {
            "isr": (),
            "leader": -1,
            "eligible_leader_replicas": (1,),
            "last_known_elr": (1,),
            "replicas": None,
        },
    ),
    (
        "01 11 03 00000001 000000000000000d 01 03 01 01",
        "BrokerRegistrationChangeRecord",
        {"broker_id": 1, "broker_epoch": 13, "fenced": 0, "cordoned_log_dirs": ()},
    ),
    (
        "01 11 00 00000001 000000000000000d 01 00 01 ff",
        "BrokerRegistrationChangeRecord",
        {"fenced": -1},
    ),
    (
        "01 0f 00 00000001 000000000000000d 00000000000003e8 00",
        "ProducerIdsRecord",
        {"broker_id": 1, "broker_epoch": 13, "next_producer_id": 1000},
    ),
    (
        "01 1c 00 14 5f5f7472616e73616374696f6e5f7374617465 00",
        "ClearElrRecord",
        {"topic_name": "__transaction_state"},
    ),
]


@pytest.mark.parametrize(("value", "name", "said"), BROKER_VECTORS)
def test_records_of_a_broker_say_what_it_wrote(
    value: str, name: str, said: dict[str, object]
) -> None:
    record = decode_metadata_record(unhex(value), strict=True)
    assert (record.name, record.value.schema_name) == (name, name)
    assert (record.api_key, record.version) == (unhex(value)[1], unhex(value)[2])
    assert {field: getattr(record.value, field) for field in said} == said
    assert encode_metadata_record(record) == unhex(value)


def test_unknown_api_key_keeps_its_bytes() -> None:
    value = unhex("01 9601 02 dead")
    record = decode_metadata_record(value, strict=True)
    assert record == MetadataRecord(150, 2, None, UnknownMessage(150, 2, value))
    assert encode_metadata_record(record) == value


def test_unknown_version_of_a_known_record_keeps_its_bytes() -> None:
    value = unhex("01 02 01 0263")
    record = decode_metadata_record(value)
    assert record == MetadataRecord(2, 1, "TopicRecord", UnknownMessage(2, 1, value))


def test_controller_that_unregistered_is_read_though_4_3_1_does_not_know_it() -> None:
    assert decode_metadata_record(unhex("01 1d 00 00000bb8 00")).value.controller_id == 3000


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        (None, TruncatedError, "f@10: found no value"),
        ("", TruncatedError, "f@10: "),
        ("00 02 00", UnsupportedError, "f@10: found frame version 0, expected 1"),
        ("02 02 00", UnsupportedError, "f@10: found frame version 2, expected 1"),
        ("01", TruncatedError, "f@11: "),
        ("01 ffff7f 00", CorruptError, "f@11: found type 2097151"),
        ("01 02", TruncatedError, "f@12: "),
        ("01 02 80808080ff00", CorruptError, "f@12: "),
        ("01 18 00 00 beef", CorruptError, "f@14: found 2 bytes after a EndTransactionRecord"),
        ("01 09 00 00", TruncatedError, "f@13: found 1 bytes left, expected 16 bytes"),
    ],
)
def test_errors_say_where_and_what(
    value: str | None, kind: type[FormatError], problem: str
) -> None:
    data = None if value is None else unhex(value)
    with pytest.raises(kind) as caught:
        decode_metadata_record(data, path="f", position=10)
    assert str(caught.value).startswith(problem)


def test_frame_numbers_that_are_negative_in_java_lose_their_top() -> None:
    # 0xffff0002 is negative as an int and 2 as a short.
    record = decode_metadata_record(unhex("01 8280fcff0f 00 0263") + bytes(16) + b"\0")
    assert (record.api_key, record.value.name) == (2, "c")
    with pytest.raises(CorruptError, match="<memory>@1: found bytes that continue with 8280fcff"):
        decode_metadata_record(unhex("01 8280fcff0f 00 0263") + bytes(17), strict=True)


def test_random_records_of_kafka_are_read_and_written_as_kafka_does(oracle: Oracle) -> None:
    seen = set()
    for example in oracle.random_messages(11, count=4, set="metadata"):
        record = decode_metadata_record(example.stored, strict=True)
        assert (record.api_key, record.name) == (example.api_key, example.name)
        assert record.value.to_json() == example.data
        assert encode_metadata_record(record) == example.stored
        seen.add(record.api_key)
    assert seen == BY_API_KEY.keys() - {29}


@pytest.mark.parametrize(("value", "name", "said"), BROKER_VECTORS)
def test_every_cut_and_flipped_bit_is_a_record_or_a_format_error(
    value: str, name: str, said: dict[str, object]
) -> None:
    for damaged in cuts(unhex(value)):
        assert isinstance(value_or_error(decode_metadata_record, damaged), FormatError)
    for _, damaged in flips(unhex(value)):
        value_or_error(decode_metadata_record, damaged)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "Error while reading frame version"),
        (
            "07",
            (
                "Could not deserialize metadata record due to unknown frame version 7"
                "(only frame version 1 is supported)"
            ),
        ),
        ("01 8280808080", "Error while reading type"),
        ("01 02 808002", "Value for version was too large."),
    ],
)
def test_kafkas_words_for_a_bad_frame_go_with_the_error(value: str, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode_frame(unhex(value))
    assert kafka_text(caught.value) == says
