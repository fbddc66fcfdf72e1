"""Records of __consumer_offsets, __transaction_state and __share_group_state.

    key    int16 record type, then the key's struct at version 0
    value  int16 value version, then the value's struct at that version; null: a tombstone

Mirrors org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde, but knows the types of
all broker versions. A type or a version that is in no table becomes an `UnknownMessage` with its
bytes, where a broker skips the record or stops.
"""

import struct
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from kafka_format.errors import MEMORY, CorruptError, FormatError, Location, TruncatedError
from kafka_format.message import (
    Message,
    Schema,
    UnknownMessage,
    check_canonical,
    decode_message,
    encode_message,
)
from kafka_format.primitives import Buffer
from kafka_format.schemas import group, share, streams, transaction

_PREFIX = struct.Struct(">h")  # a key's type, a value's version

CONSUMER_PROTOCOL_TYPE = "consumer"


class CoordinatorTopic(Enum):
    """The topics that coordinators write."""

    CONSUMER_OFFSETS = "__consumer_offsets"
    TRANSACTION_STATE = "__transaction_state"
    SHARE_GROUP_STATE = "__share_group_state"


class RecordType(NamedTuple):
    """A type of coordinator record.

    The first of `values` that knows its version decodes a value. The others are layouts that other
    brokers wrote under the same number; they are used where the first does not fit the bytes.
    """

    name: str
    key: Schema
    values: tuple[Schema, ...]


def _record_type(key: Schema, *values: Schema) -> RecordType:
    return RecordType(key.name.removesuffix("Key"), key, values)


RECORD_TYPES: dict[CoordinatorTopic, dict[int, RecordType]] = {
    CoordinatorTopic.CONSUMER_OFFSETS: {
        # Brokers before 4.0 had one value schema for the types 0 and 1.
        0: _record_type(
            group.LEGACY_OFFSET_COMMIT_KEY,
            group.LEGACY_OFFSET_COMMIT_VALUE,
            group.OFFSET_COMMIT_VALUE,
        ),
        1: _record_type(group.OFFSET_COMMIT_KEY, group.OFFSET_COMMIT_VALUE),
        2: _record_type(group.GROUP_METADATA_KEY, group.GROUP_METADATA_VALUE),
        3: _record_type(group.CONSUMER_GROUP_METADATA_KEY, group.CONSUMER_GROUP_METADATA_VALUE),
        4: _record_type(
            group.CONSUMER_GROUP_PARTITION_METADATA_KEY,
            group.CONSUMER_GROUP_PARTITION_METADATA_VALUE,
        ),
        5: _record_type(
            group.CONSUMER_GROUP_MEMBER_METADATA_KEY, group.CONSUMER_GROUP_MEMBER_METADATA_VALUE
        ),
        6: _record_type(
            group.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
            group.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
        ),
        7: _record_type(
            group.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
            group.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
        ),
        8: _record_type(
            group.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
            group.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
        ),
        9: _record_type(
            share.SHARE_GROUP_PARTITION_METADATA_KEY, share.SHARE_GROUP_PARTITION_METADATA_VALUE
        ),
        10: _record_type(
            share.SHARE_GROUP_MEMBER_METADATA_KEY, share.SHARE_GROUP_MEMBER_METADATA_VALUE
        ),
        11: _record_type(
            share.SHARE_GROUP_METADATA_KEY,
            share.SHARE_GROUP_METADATA_VALUE,
            share.SHARE_GROUP_METADATA_VALUE_BEFORE_4_1,
        ),
        12: _record_type(
            share.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
            share.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
        ),
        13: _record_type(
            share.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
            share.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
        ),
        14: _record_type(
            share.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
            share.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
        ),
        15: _record_type(
            share.SHARE_GROUP_STATE_PARTITION_METADATA_KEY,
            share.SHARE_GROUP_STATE_PARTITION_METADATA_VALUE,
        ),
        16: _record_type(
            group.CONSUMER_GROUP_REGULAR_EXPRESSION_KEY,
            group.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE,
        ),
        17: _record_type(streams.STREAMS_GROUP_METADATA_KEY, streams.STREAMS_GROUP_METADATA_VALUE),
        18: _record_type(
            streams.STREAMS_GROUP_PARTITION_METADATA_KEY,
            streams.STREAMS_GROUP_PARTITION_METADATA_VALUE,
        ),
        19: _record_type(
            streams.STREAMS_GROUP_MEMBER_METADATA_KEY, streams.STREAMS_GROUP_MEMBER_METADATA_VALUE
        ),
        20: _record_type(
            streams.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY,
            streams.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE,
        ),
        21: _record_type(
            streams.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY,
            streams.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE,
        ),
        22: _record_type(
            streams.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
            streams.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
        ),
        23: _record_type(streams.STREAMS_GROUP_TOPOLOGY_KEY, streams.STREAMS_GROUP_TOPOLOGY_VALUE),
        24: _record_type(
            streams.STREAMS_GROUP_TARGET_ASSIGNMENT_RESOLVED_TOPIC_IDS_KEY,
            streams.STREAMS_GROUP_TARGET_ASSIGNMENT_RESOLVED_TOPIC_IDS_VALUE,
        ),
    },
    CoordinatorTopic.TRANSACTION_STATE: {
        0: _record_type(transaction.TRANSACTION_LOG_KEY, transaction.TRANSACTION_LOG_VALUE),
    },
    CoordinatorTopic.SHARE_GROUP_STATE: {
        0: _record_type(share.SHARE_SNAPSHOT_KEY, share.SHARE_SNAPSHOT_VALUE),
        1: _record_type(share.SHARE_UPDATE_KEY, share.SHARE_UPDATE_VALUE),
    },
}


class CoordinatorRecord(NamedTuple):
    """A key and a value; `value` None is a tombstone, `name` None a type that no table has."""

    type_id: int
    name: str | None
    key: Message | UnknownMessage
    value: Message | UnknownMessage | None


def decode_coordinator_record(
    topic: CoordinatorTopic,
    key: Buffer | None,
    value: Buffer | None,
    *,
    path: str = MEMORY,
    key_position: int = 0,
    value_position: int = 0,
    strict: bool = False,
) -> CoordinatorRecord:
    """Decode a record of a coordinator's topic.

    Bytes after a struct are kept in `Message.trailing`, since a broker ignores them. With
    `strict` they, and anything else that a broker would not have written, are errors.
    """
    if key is None:
        raise TruncatedError(
            Location(path, key_position), "no key", f"the key of a record of {topic.value}"
        )
    try:
        type_id, decoded_key = _decode_key(topic, key)
    except FormatError as error:
        raise error.moved(path, key_position) from None
    record_type = RECORD_TYPES[topic].get(type_id)
    try:
        decoded_value = None if value is None else _decode_value(record_type, type_id, value)
    except FormatError as error:
        raise error.moved(path, value_position) from None
    name = None if record_type is None else record_type.name
    record = CoordinatorRecord(type_id, name, decoded_key, decoded_value)
    if strict:
        _check_canonical(record, key, value, path, (key_position, value_position))
    return record


def _check_canonical(
    record: CoordinatorRecord,
    key: Buffer,
    value: Buffer | None,
    path: str,
    positions: tuple[int, int],
) -> None:
    written_key, written_value = encode_coordinator_record(record)
    if isinstance(record.key, Message):
        check_canonical(record.key, key, written_key, path=path, position=positions[0])
    if isinstance(record.value, Message):
        found, written = value or b"", written_value or b""
        check_canonical(record.value, found, written, path=path, position=positions[1])


def encode_coordinator_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as bytes; unknown ones are returned unchanged."""
    key, value = record.key, record.value
    written_key = key.data if isinstance(key, UnknownMessage) else _prefixed(record.type_id, key)
    if value is None or isinstance(value, UnknownMessage):
        return written_key, None if value is None else value.data
    return written_key, _prefixed(value.schema_version, value)


def _prefixed(prefix: int, message: Message) -> bytes:
    return _PREFIX.pack(prefix) + encode_message(message)


def _decode_key(topic: CoordinatorTopic, key: Buffer) -> tuple[int, Message | UnknownMessage]:
    type_id = _read_prefix(key, "the type of a record")
    record_type = RECORD_TYPES[topic].get(type_id)
    if record_type is None:
        return type_id, UnknownMessage(type_id, None, bytes(key))
    return type_id, decode_message(record_type.key, 0, key, _PREFIX.size)


def _decode_value(
    record_type: RecordType | None, type_id: int, value: Buffer
) -> Message | UnknownMessage:
    version = _read_prefix(value, "the version of a value")
    schemas = () if record_type is None else record_type.values
    known = [schema for schema in schemas if schema.knows(version)]
    if not known:
        return UnknownMessage(type_id, version, bytes(value))
    try:
        return decode_message(known[0], version, value, _PREFIX.size)
    except FormatError:
        for other in known[1:]:
            if message := _decode_exactly(other, version, value):
                return message
        raise


def _decode_exactly(schema: Schema, version: int, value: Buffer) -> Message | None:
    try:
        message = decode_message(schema, version, value, _PREFIX.size)
    except FormatError:
        return None
    return None if message.trailing else message


def _read_prefix(data: Buffer, what: str) -> int:
    if len(data) < _PREFIX.size:
        raise TruncatedError(Location(MEMORY, 0), f"{len(data)} bytes", f"{_PREFIX.size}: {what}")
    prefix: int = _PREFIX.unpack_from(data)[0]
    return prefix


class GroupMember(NamedTuple):
    """A member of a classic group with what its client wrote, where that can be read.

    `subscription` and `assignment` are None where the bytes are not of the consumer protocol; the
    bytes themselves are in `member`.
    """

    member: Message
    subscription: Message | None
    assignment: Message | None


def group_members(value: Message) -> tuple[GroupMember, ...]:
    """Return the members in a GroupMetadataValue, decoded if the group's protocol is `consumer`."""
    if value.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return tuple(GroupMember(member, None, None) for member in value.members)
    return tuple(
        GroupMember(
            member,
            _readable(decode_subscription, member.subscription),
            _readable(decode_assignment, member.assignment),
        )
        for member in value.members
    )


def _readable(decode: Callable[[Buffer], Message], data: bytes) -> Message | None:
    try:
        return decode(data)
    except FormatError:
        return None


def decode_subscription(data: Buffer) -> Message:
    """Decode a consumer's subscription. Like ConsumerProtocol, read a version above 3 as 3."""
    return _decode_protocol(group.CONSUMER_PROTOCOL_SUBSCRIPTION, data)


def decode_assignment(data: Buffer) -> Message:
    """Decode a consumer's assignment. Like ConsumerProtocol, read a version above 3 as 3."""
    return _decode_protocol(group.CONSUMER_PROTOCOL_ASSIGNMENT, data)


def encode_protocol(message: Message) -> bytes:
    """Encode a subscription or an assignment, with its version first."""
    return _prefixed(message.schema_version, message)


def _decode_protocol(schema: Schema, data: Buffer) -> Message:
    version = _read_prefix(data, f"the version of a {schema.name}")
    if version < 0:
        raise CorruptError(Location(MEMORY, 0), f"{schema.name} version {version}", "0 or more")
    return decode_message(schema, version, data, _PREFIX.size)
