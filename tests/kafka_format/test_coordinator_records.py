import pytest

from kafka_format.coordinator_records import (
    RECORD_TYPES,
    CoordinatorRecord,
    CoordinatorTopic,
    decode_assignment,
    decode_coordinator_record,
    decode_subscription,
    encode_coordinator_record,
    encode_protocol,
    group_members,
)
from kafka_format.errors import CorruptError, FormatError, TruncatedError
from kafka_format.java_text import parse_uuid
from kafka_format.message import Message, UnknownMessage
from kafka_format.schemas import group, share
from tests.kafka_format.damage import cuts, flips, value_or_error
from tests.oracle.client import Oracle

OFFSETS = CoordinatorTopic.CONSUMER_OFFSETS
TRANSACTIONS = CoordinatorTopic.TRANSACTION_STATE
SHARE = CoordinatorTopic.SHARE_GROUP_STATE
SETS = {OFFSETS: "group", TRANSACTIONS: "transaction", SHARE: "share"}
TOPIC_ID = parse_uuid("z6LbFswcRE-ta3QyxoQMjw")


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


# A 4.3.1 broker wrote these: key, value, and some of what they say.
OFFSET_KEY = "0001 0001 67 0001 74 00000002"
BROKER_VECTORS = [
    (
        OFFSETS,
        OFFSET_KEY,
        "0004 0000000000000005 ffffffff 01 000001a1e2583bde 00",
        {"offset": 5, "leader_epoch": -1, "metadata": "", "commit_timestamp": 1794798795742},
    ),
    (
        OFFSETS,
        OFFSET_KEY,
        (
            "0004 0000000000000003 00000000 01 000001a1e2583e51"
            " 01 00 10 cfa2db16cc1c444fad6b7432c6840c8f"
        ),
        {"offset": 3, "leader_epoch": 0, "topic_id": TOPIC_ID},
    ),
    (
        OFFSETS,
        "0003 0001 67",
        "0000 00000002 01 00 08 045b420cecc7e988",
        {"epoch": 2, "metadata_hash": 0x045B420CECC7E988},
    ),
    (OFFSETS, "0003 0001 67", "0000 00000003 00", {"epoch": 3, "metadata_hash": 0}),
    (
        OFFSETS,
        "0005 0001 67 0001 6d",
        (
            "0000 00 00 10 636f6e73756d65722d672d72652d33 0b 2f3132372e302e302e31 01 04 692e2a"
            " 000493e0 00 01 00 01 00"
        ),
        {
            "instance_id": None,
            "client_id": "consumer-g-re-3",
            "client_host": "/127.0.0.1",
            "subscribed_topic_names": (),
            "subscribed_topic_regex": "i.*",
            "rebalance_timeout_ms": 300000,
            "server_assignor": None,
            "classic_member_metadata": None,
        },
    ),
    (
        OFFSETS,
        "0008 0001 67 0001 6d",
        (
            "0000 00000002 00000000 00 02 cfa2db16cc1c444fad6b7432c6840c8f 02 00000000"
            " 01 00 05 02 00000002 01 00"
        ),
        {"member_epoch": 2, "previous_member_epoch": 0, "state": 0},
    ),
    (
        TRANSACTIONS,
        "0000 0003 747831",
        (
            "0001 0000000000000000 0000 0000ea60 00 00 000001a1e25839f3 ffffffffffffffff"
            " 01 00 08 0000000000000000"
        ),
        {
            "producer_id": 0,
            "transaction_timeout_ms": 60000,
            "transaction_status": 0,
            "transaction_partitions": None,
            "transaction_start_timestamp_ms": -1,
            "previous_producer_id": 0,
            "next_producer_id": -1,
        },
    ),
    (
        TRANSACTIONS,
        "0000 0003 747831",
        (
            "0001 0000000000000000 0001 0000ea60 02 03 02 63 02 00000000 00 02 64 02 00000000 00"
            " 000001a1e2583ad8 000001a1e2583a9b 02 00 08 0000000000000000 02 02 0002"
        ),
        {"producer_epoch": 1, "transaction_status": 2, "client_transaction_version": 2},
    ),
    (
        SHARE,
        "0001 0002 7367 cfa2db16cc1c444fad6b7432c6840c8f 00000000",
        (
            "0000 00000000 00000000 0000000000000000 02 0000000000000000 0000000000000002"
            " 02 0001 00 01 00 04 00000003"
        ),
        {"snapshot_epoch": 0, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 3},
    ),
]


@pytest.mark.parametrize(("topic", "key", "value", "said"), BROKER_VECTORS)
def test_records_of_a_broker_say_what_it_wrote(
    topic: CoordinatorTopic, key: str, value: str, said: dict[str, object]
) -> None:
    record = decode_coordinator_record(topic, unhex(key), unhex(value), strict=True)
    assert isinstance(record.value, Message)
    assert {name: getattr(record.value, name) for name in said} == said
    assert encode_coordinator_record(record) == (unhex(key), unhex(value))


def test_nested_structs_of_the_broker_vectors() -> None:
    key, value = unhex(BROKER_VECTORS[5][1]), unhex(BROKER_VECTORS[5][2])
    (assigned,) = decode_coordinator_record(OFFSETS, key, value).value.assigned_partitions
    assert (assigned.topic_id, assigned.partitions, assigned.assignment_epochs) == (
        TOPIC_ID,
        (0,),
        (2,),
    )
    key, value = unhex(BROKER_VECTORS[7][1]), unhex(BROKER_VECTORS[7][2])
    record = decode_coordinator_record(TRANSACTIONS, key, value)
    assert record.key.transactional_id == "tx1"
    assert [(each.topic, each.partition_ids) for each in record.value.transaction_partitions] == [
        ("c", (0,)),
        ("d", (0,)),
    ]
    key, value = unhex(BROKER_VECTORS[8][1]), unhex(BROKER_VECTORS[8][2])
    (batch,) = decode_coordinator_record(SHARE, key, value).value.state_batches
    assert tuple(batch.fields.values()) == (0, 2, 2, 1)


def test_no_tag_for_the_classic_member_means_an_empty_struct_not_null() -> None:
    absent = unhex("0000 00 00 01 01 01 00 000493e0 00 00")
    record = decode_coordinator_record(OFFSETS, unhex("0005 0001 67 0001 6d"), absent)
    classic = record.value.classic_member_metadata
    assert (classic.session_timeout_ms, classic.supported_protocols) == (0, ())
    assert encode_coordinator_record(record)[1] == absent


def test_null_value_is_a_tombstone_and_an_empty_one_is_not() -> None:
    record = decode_coordinator_record(OFFSETS, unhex(OFFSET_KEY), None, strict=True)
    assert (record.name, record.value) == ("OffsetCommit", None)
    assert (record.key.group, record.key.topic, record.key.partition) == ("g", "t", 2)
    assert encode_coordinator_record(record) == (unhex(OFFSET_KEY), None)
    with pytest.raises(TruncatedError, match="expected 2: the version of a value"):
        decode_coordinator_record(OFFSETS, unhex(OFFSET_KEY), b"")


def test_record_without_a_key_is_an_error() -> None:
    with pytest.raises(TruncatedError, match=r"f@7: found no key, expected .* __consumer_offsets"):
        decode_coordinator_record(OFFSETS, None, None, path="f", key_position=7)


def test_unknown_type_keeps_its_bytes() -> None:
    key, value = unhex("0063 dead"), unhex("0005 beef")
    record = decode_coordinator_record(OFFSETS, key, value, strict=True)
    assert record == CoordinatorRecord(
        99, None, UnknownMessage(99, None, key), UnknownMessage(99, 5, value)
    )
    assert encode_coordinator_record(record) == (key, value)


@pytest.mark.parametrize("version", [5, 999, -1])
def test_unknown_version_of_a_value_keeps_its_bytes(version: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + b"\xbe\xef"
    record = decode_coordinator_record(OFFSETS, unhex(OFFSET_KEY), value)
    assert record.value == UnknownMessage(1, version, value)
    assert encode_coordinator_record(record) == (unhex(OFFSET_KEY), value)


def test_key_of_type_0_has_values_of_both_schemas() -> None:
    key = unhex("0000 0001 67 0001 74 00000002")
    legacy = unhex("0000 0000000000000005 0000 000001a1e2583bde")
    record = decode_coordinator_record(OFFSETS, key, legacy, strict=True)
    assert (record.value.schema_name, record.value.offset) == ("LegacyOffsetCommitValue", 5)
    later = unhex("0003 0000000000000005 00000009 0001 6d 000001a1e2583bde")
    record = decode_coordinator_record(OFFSETS, key, later, strict=True)
    assert (record.value.schema_name, record.value.leader_epoch) == ("OffsetCommitValue", 9)
    assert encode_coordinator_record(record) == (key, later)


def test_share_group_metadata_of_the_preview_has_no_hash() -> None:
    key, preview = unhex("000b 0001 67"), unhex("0000 00000007 00")
    record = decode_coordinator_record(OFFSETS, key, preview, strict=True)
    assert record.value.schema is share.SHARE_GROUP_METADATA_VALUE_BEFORE_4_1
    assert record.value.epoch == 7
    today = unhex("0000 00000007 0000000000000001 00")
    assert decode_coordinator_record(OFFSETS, key, today).value.metadata_hash == 1


def test_cut_share_group_metadata_is_truncated_not_a_preview() -> None:
    with pytest.raises(TruncatedError, match=r"ShareGroupMetadataValue\.metadataHash"):
        decode_coordinator_record(OFFSETS, unhex("000b 0001 67"), unhex("0000 00000007 0000"))
    with pytest.raises(TruncatedError, match=r"ShareGroupMetadataValue\.epoch"):
        decode_coordinator_record(OFFSETS, unhex("000b 0001 67"), unhex("0000 0000"))


def test_bytes_behind_are_kept_or_with_strict_an_error() -> None:
    key, value = unhex(OFFSET_KEY) + b"k", unhex(BROKER_VECTORS[0][2]) + b"v"
    record = decode_coordinator_record(OFFSETS, key, value)
    assert (record.key.trailing, record.value.trailing) == (b"k", b"v")
    assert encode_coordinator_record(record) == (key, value)
    with pytest.raises(CorruptError, match=r"f@12: found 1 bytes after .*, expected none"):
        decode_coordinator_record(OFFSETS, key, value, strict=True, path="f")
    with pytest.raises(CorruptError, match=r"f@124: found 1 bytes after .*, expected none"):
        decode_coordinator_record(
            OFFSETS, key[:-1], value, strict=True, path="f", value_position=100
        )


def test_strict_refuses_what_a_broker_reads_but_does_not_write() -> None:
    overlong = unhex("0000 00000003 8000")
    assert decode_coordinator_record(OFFSETS, unhex("0003 0001 67"), overlong).value.epoch == 3
    with pytest.raises(CorruptError, match=r"<memory>@6: found bytes that continue with 8000"):
        decode_coordinator_record(OFFSETS, unhex("0003 0001 67"), overlong, strict=True)


def test_errors_are_positions_in_the_file_that_the_caller_names() -> None:
    with pytest.raises(TruncatedError, match=r"f@105: found 0 bytes left, expected 4 bytes"):
        decode_coordinator_record(OFFSETS, unhex("0001 0000 0000"), None, path="f", key_position=99)
    with pytest.raises(TruncatedError, match=r"f@202: found 3 bytes left, expected 8 bytes"):
        decode_coordinator_record(
            OFFSETS, unhex(OFFSET_KEY), unhex("0004 000000"), path="f", value_position=200
        )
    with pytest.raises(TruncatedError, match=r"f@3: found 1 bytes"):
        decode_coordinator_record(OFFSETS, b"\0", None, path="f", key_position=3)


@pytest.mark.parametrize("topic", list(CoordinatorTopic))
def test_random_records_of_kafka_are_read_and_written_as_kafka_does(
    oracle: Oracle, topic: CoordinatorTopic
) -> None:
    examples = oracle.random_messages(7, count=3, set=SETS[topic])
    keys = {each.api_key: each for each in examples if each.part == "key"}
    seen = set()
    for example in examples:
        if example.part == "key":
            continue
        key = keys[example.api_key]
        record = decode_coordinator_record(topic, key.stored, example.stored, strict=True)
        assert (record.type_id, record.name) == (
            example.api_key,
            example.name.removesuffix("Value"),
        )
        assert (record.key.to_json(), record.value.to_json()) == (key.data, example.data)
        assert encode_coordinator_record(record) == (key.stored, example.stored)
        reported = oracle.decode_coordinator(SETS[topic], *encode_coordinator_record(record))
        assert (reported["api_key"], reported["version"]) == (record.type_id, example.version)
        assert (reported["key"], reported["value"]) == (
            record.key.to_json(),
            record.value.to_json(),
        )
        seen.add(example.api_key)
    only_ours = {9, 18, 24} if topic is OFFSETS else set()
    assert seen == RECORD_TYPES[topic].keys() - only_ours


@pytest.mark.parametrize(("topic", "key", "value", "said"), BROKER_VECTORS)
def test_every_cut_and_flipped_bit_is_a_record_or_a_format_error(
    topic: CoordinatorTopic, key: str, value: str, said: dict[str, object]
) -> None:
    raw_key, raw_value = unhex(key), unhex(value)

    def of_key(damaged: bytes) -> CoordinatorRecord:
        return decode_coordinator_record(topic, damaged, None)

    def of_value(damaged: bytes) -> CoordinatorRecord:
        return decode_coordinator_record(topic, raw_key, damaged)

    for decode, raw in ((of_key, raw_key), (of_value, raw_value)):
        for damaged in cuts(raw):
            assert isinstance(value_or_error(decode, damaged), FormatError)
        for _, damaged in flips(raw):
            value_or_error(decode, damaged)


# --- the consumer protocol inside a classic group ---

SUBSCRIPTION_3 = (
    "0003 00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000000 00000005 0001 72"
)
ASSIGNMENT_0 = "0000 00000001 0001 74 00000002 00000000 00000001 00000000"


def classic_group(
    subscription: bytes, assignment: bytes, protocol_type: str = "consumer"
) -> Message:
    member = {"member_id": "m", "subscription": subscription, "assignment": assignment}
    return group.GROUP_METADATA_VALUE.new(3, protocol_type=protocol_type, members=[member])


def test_members_have_their_subscription_and_assignment_decoded() -> None:
    value = classic_group(unhex(SUBSCRIPTION_3), unhex(ASSIGNMENT_0))
    (found,) = group_members(value)
    assert found.member.member_id == "m"
    assert found.subscription.topics == ("t",)
    assert found.subscription.user_data is None
    assert found.subscription.owned_partitions[0].partitions == (0,)
    assert (found.subscription.generation_id, found.subscription.rack_id) == (5, "r")
    assert found.assignment.assigned_partitions[0].partitions == (0, 1)
    assert found.assignment.user_data == b""
    assert encode_protocol(found.subscription) == unhex(SUBSCRIPTION_3)
    assert encode_protocol(found.assignment) == unhex(ASSIGNMENT_0)


def test_members_of_other_protocols_and_unreadable_bytes_stay_bytes() -> None:
    connect = classic_group(unhex(SUBSCRIPTION_3), unhex(ASSIGNMENT_0), "connect")
    assert group_members(connect)[0][1:] == (None, None)
    (broken,) = group_members(classic_group(b"\0\3\0", b""))
    assert broken[1:] == (None, None)
    assert broken.member.subscription == b"\0\3\0"


def test_newer_consumer_protocol_is_read_as_version_3_and_keeps_its_number() -> None:
    newer = unhex(SUBSCRIPTION_3.replace("0003", "0007", 1)) + b"new"
    subscription = decode_subscription(newer)
    assert (subscription.rack_id, subscription.schema_version) == ("r", 7)
    assert subscription.trailing == b"new"
    assert encode_protocol(subscription) == newer


def test_negative_version_of_the_consumer_protocol_is_an_error() -> None:
    with pytest.raises(CorruptError, match="ConsumerProtocolAssignment version -1, expected 0 or"):
        decode_assignment(b"\xff\xff")
