import dataclasses
import io
import pkgutil
import uuid
from importlib import import_module
from typing import Any

import kio.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from kafka_format.control import (
    ControlRecord,
    ControlRecordKey,
    ControlRecordType,
    decode_control_key,
    decode_control_record,
    encode_control_record,
    end_transaction_marker,
)
from kafka_format.errors import CorruptError, FormatError, TruncatedError
from kafka_format.message import REGISTRY, Message, decode_message, encode_message
from tests.kafka_format.damage import cuts, flips, value_or_error
from tests.kafka_format.message_strategies import messages
from tests.oracle.client import Oracle


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


DIRECTORY = "000102030405060708090a0b0c0d0e0f"
# Worked out by hand from the layouts; the oracle test below builds the same with Kafka.
VECTORS = [
    ("0000 0000", "0000 00000007", ControlRecordType.ABORT, {"coordinator_epoch": 7}),
    ("0000 0001", "0000 ffffffff", ControlRecordType.COMMIT, {"coordinator_epoch": -1}),
    (
        "0000 0002",
        "0000 00000001 02 00000001 00 02 00000001 00 00",
        ControlRecordType.LEADER_CHANGE,
        {"version": 0, "leader_id": 1},
    ),
    (
        "0000 0003",
        "0000 000001a1e2583bde 00",
        ControlRecordType.SNAPSHOT_HEADER,
        {"version": 0, "last_contained_log_timestamp": 1794798795742},
    ),
    ("0000 0004", "0000 00", ControlRecordType.SNAPSHOT_FOOTER, {"version": 0}),
    ("0000 0005", "0000 0001 00", ControlRecordType.KRAFT_VERSION, {"k_raft_version": 1}),
    (
        "0000 0006",
        f"0000 02 00000bb8 {DIRECTORY} 02 02 43 02 68 2384 00 0000 0001 00 00 00",
        ControlRecordType.KRAFT_VOTERS,
        {"version": 0},
    ),
]


@pytest.mark.parametrize(("key", "value", "type_", "said"), VECTORS)
def test_control_records_say_what_they_are(
    key: str, value: str, type_: ControlRecordType, said: dict[str, object]
) -> None:
    found = decode_control_record(unhex(key), unhex(value), strict=True)
    assert found.type is type_
    assert {name: getattr(found.value, name) for name in said} == said
    assert encode_control_record(found) == (unhex(key), unhex(value))
    assert found.is_end_transaction_marker is (type_.name in ("ABORT", "COMMIT"))


def test_leaders_and_voters_are_lists_of_voters() -> None:
    leader = decode_control_record(unhex(VECTORS[2][0]), unhex(VECTORS[2][1])).value
    assert [each.voter_id for each in leader.voters] == [1]
    assert [each.voter_id for each in leader.granting_voters] == [1]
    (voter,) = decode_control_record(unhex(VECTORS[6][0]), unhex(VECTORS[6][1])).value.voters
    assert (voter.voter_id, voter.voter_directory_id.hex) == (3000, DIRECTORY)
    (endpoint,) = voter.endpoints
    assert (endpoint.name, endpoint.host, endpoint.port) == ("C", "h", 9092)
    assert voter.k_raft_version_feature.max_supported_version == 1


def test_leader_change_of_version_1_has_directories() -> None:
    value = unhex(f"0001 00000001 02 00000001 {DIRECTORY} 00 01 00")
    found = decode_control_record(unhex("0000 0002"), value, strict=True)
    assert found.value.voters[0].voter_directory_id.hex == DIRECTORY
    assert found.value.schema_version == 1
    assert encode_control_record(found)[1] == value


@pytest.mark.parametrize("version", [0, 1, 500, 32767])
def test_marker_of_any_newer_version_has_its_epoch_and_keeps_what_follows(version: int) -> None:
    value = version.to_bytes(2, "big") + unhex("00000009 ee")
    found = decode_control_record(unhex("0000 0001"), value)
    assert (found.value.coordinator_epoch, found.value.schema_version) == (9, version)
    assert found.value.trailing == b"\xee"
    assert encode_control_record(found) == (unhex("0000 0001"), value)
    with pytest.raises(CorruptError, match="f@6: found 1 bytes after a EndTxnMarker"):
        decode_control_record(unhex("0000 0001"), value, strict=True, path="f")


def test_newer_version_of_a_kraft_record_is_read_as_the_newest_known() -> None:
    found = decode_control_record(unhex("0000 0005"), unhex("0007 0001 00"), strict=True)
    assert (found.value.version, found.value.k_raft_version) == (7, 1)
    assert encode_control_record(found)[1] == unhex("0007 0001 00")


def test_key_of_a_newer_version_keeps_what_follows_the_type() -> None:
    key = decode_control_key(unhex("0005 0001 abcd"))
    assert key == ControlRecordKey(5, ControlRecordType.COMMIT, b"\xab\xcd")
    found = decode_control_record(unhex("0005 0001 abcd"), unhex("0000 00000000"))
    assert encode_control_record(found)[0] == unhex("0005 0001 abcd")


@pytest.mark.parametrize("value", [None, b"", b"\xbe\xef"])
@pytest.mark.parametrize("type_", [7, -1, 32767])
def test_unknown_type_is_kept_as_it_is(type_: int, value: bytes | None) -> None:
    key = b"\0\0" + type_.to_bytes(2, "big", signed=True)
    found = decode_control_record(key, value, strict=True)
    assert found == ControlRecord(ControlRecordKey(0, type_), value)
    assert not found.is_end_transaction_marker
    assert encode_control_record(found) == (key, value)


@pytest.mark.parametrize(
    ("key", "value", "kind", "problem"),
    [
        (None, None, TruncatedError, "f@10: found no key, expected at least 4 bytes"),
        ("0000 00", None, TruncatedError, "f@10: found a key of 3 bytes, expected at least 4"),
        ("ffff 0001", None, CorruptError, "f@10: found control record key version -1, expected 0"),
        ("0000 0001", None, TruncatedError, "f@20: found no value, expected the version of a End"),
        ("0000 0001", "00", TruncatedError, "f@20: found a value of 1 bytes, expected the version"),
        ("0000 0001", "ffff 00000000", CorruptError, "f@20: found end transaction marker version"),
        ("0000 0001", "0000 0000", TruncatedError, "f@22: found 2 bytes left, expected 4 bytes"),
        ("0000 0004", "0000", TruncatedError, "f@22: "),
    ],
)
def test_errors_say_where_and_what(
    key: str | None, value: str | None, kind: type[FormatError], problem: str
) -> None:
    with pytest.raises(kind) as caught:
        decode_control_record(
            None if key is None else unhex(key),
            None if value is None else unhex(value),
            path="f",
            key_position=10,
            value_position=20,
        )
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize("type_", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_kafka_reads_our_markers(oracle: Oracle, type_: ControlRecordType) -> None:
    key, value = encode_control_record(end_transaction_marker(type_, 41))
    assert (key, value) == (bytes([0, 0, 0, type_]), unhex("0000 00000029"))
    reported = oracle.decode_message("EndTxnMarker", 0, value[2:])
    assert reported == {"coordinatorEpoch": 41}
    assert oracle.decode_message("ControlRecordTypeSchema", 0, key[2:]) == {"type": int(type_)}


@pytest.mark.parametrize(("key", "value", "type_", "said"), VECTORS)
def test_every_cut_and_flipped_bit_is_a_record_or_a_format_error(
    key: str, value: str, type_: ControlRecordType, said: dict[str, object]
) -> None:
    def of_value(damaged: bytes) -> ControlRecord:
        return decode_control_record(unhex(key), damaged)

    for decode, raw in ((decode_control_key, unhex(key)), (of_value, unhex(value))):
        for damaged in cuts(raw):
            assert isinstance(value_or_error(decode, damaged), FormatError)
        for _, damaged in flips(raw):
            value_or_error(decode, damaged)


# --- kio, a generated reader of the same schemas, as a witness ---

WITNESSED = {
    "LeaderChangeMessage": "leader_change_message",
    "SnapshotHeaderRecord": "snapshot_header_record",
    "SnapshotFooterRecord": "snapshot_footer_record",
    "KRaftVersionRecord": "k_raft_version_record",
    "VotersRecord": "voters_record",
    "EndTxnMarker": "end_txn_marker",
    "ControlRecordTypeSchema": "control_record_type_schema",
    "ConsumerProtocolSubscription": "consumer_protocol_subscription",
    "ConsumerProtocolAssignment": "consumer_protocol_assignment",
}
VERSIONS = [
    (name, version)
    for name in WITNESSED
    for version in range(REGISTRY[name].lowest, REGISTRY[name].highest + 1)
]


@settings(max_examples=15, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_kio_reads_and_writes_the_same(name: str, version: int, data: st.DataObject) -> None:
    message = data.draw(messages(REGISTRY[name], version))
    for each in _all(message):
        each.unknown_tags = ()  # kio knows no tag that is not in its schema
    if not _is_utf_8(message):
        return
    entity = getattr(import_module(f"kio.schema.{WITNESSED[name]}.v{version}.data"), name)
    written = encode_message(message)
    reported, size = entity_reader(entity)(memoryview(written), 0)
    assert size == len(written)
    assert _kio_fields(reported) == _our_fields(message)
    stream = io.BytesIO()
    entity_writer(entity)(stream, reported)
    assert decode_message(REGISTRY[name], version, stream.getvalue()) == message


def _all(message: Message) -> list[Message]:
    inner = [value for value in message.fields.values() if isinstance(value, Message)]
    for value in message.fields.values():
        if isinstance(value, tuple):
            inner += [each for each in value if isinstance(each, Message)]
    return [message] + [deep for each in inner for deep in _all(each)]


def _is_utf_8(message: Message) -> bool:
    return "\\udc" not in repr(message)


def _our_fields(value: Any) -> Any:
    if isinstance(value, Message):
        return {name: _our_fields(each) for name, each in value.fields.items()}
    if isinstance(value, tuple):
        return [_our_fields(each) for each in value]
    return value


def _kio_fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            each.name.rstrip("_"): _kio_fields(_zero_for_none(each, getattr(value, each.name)))
            for each in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [_kio_fields(each) for each in value]
    return value


def _zero_for_none(field: dataclasses.Field[Any], value: Any) -> Any:
    """kio has no zero uuid."""
    is_uuid = field.metadata.get("kafka_type") == "uuid"
    return uuid.UUID(int=0) if is_uuid and value is None else value


def test_kio_has_all_that_it_witnesses() -> None:
    found = {module.name for module in pkgutil.iter_modules(kio.schema.__path__)}
    assert set(WITNESSED.values()) <= found
