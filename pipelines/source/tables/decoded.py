"""Coordinator and metadata records as columns: the fields of key and value, under Kafka's names.

A record that cannot be decoded has its bytes, and the reason in `damage`. A record of an unknown
type or version has its bytes and no damage, because newer brokers write such records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.coordinator_records import CoordinatorTopic, decode_coordinator_record
from kafka_format.errors import FormatError
from kafka_format.java_text import uuid_text
from kafka_format.message import Message, UnknownMessage
from kafka_format.metadata_records import decode_metadata_record
from kafka_log.dump.decoders import coordinator_value_node, json_text
from kafka_log.producers.transactional_ids import status_name

if TYPE_CHECKING:
    import uuid

    from kafka_format.coordinator_records import CoordinatorRecord
    from kafka_format.metadata_records import MetadataRecord

Row = dict[str, Any]

_OFFSET_COMMITS = frozenset({0, 1})
_CONFIG_OF_TOPIC = 2
_NO_CHANGE = -2
"""The leader in a PartitionChangeRecord that leaves it as it was."""


def _decode(
    topic: CoordinatorTopic, key: bytes | None, value: bytes | None
) -> tuple[CoordinatorRecord | None, Row]:
    """Return the record, and the columns that all these tables share."""
    row: Row = {"is_tombstone": value is None, "type_id": _type_id(key)}
    try:
        record = decode_coordinator_record(topic, key, value)
    except FormatError as error:
        return None, row | {"damage": f"found {error.found}, expected {error.expected}"}
    row |= {"record_type": record.name, "value_version": _version(record.value)}
    return record, row


def _type_id(key: bytes | None) -> int | None:
    return None if key is None or len(key) < 2 else int.from_bytes(key[:2], "big", signed=True)


def _version(value: Message | UnknownMessage | None) -> int | None:
    if value is None:
        return None
    return value.schema_version if isinstance(value, Message) else value.version


def _fields(message: Message | UnknownMessage | None) -> Row:
    return message.fields if isinstance(message, Message) else {}


def _none_if(number: int | None, none: int = -1) -> int | None:
    return None if number == none else number


def _id(value: uuid.UUID | None) -> str | None:
    return None if value is None or not value.int else uuid_text(value)


# --- __consumer_offsets -------------------------------------------------------------------------


def consumer_offset(key: bytes | None, value: bytes | None) -> Row | None:
    """Return the row of a commit or of its tombstone; None for another type of record."""
    if _type_id(key) not in _OFFSET_COMMITS:
        return None
    record, row = _decode(CoordinatorTopic.CONSUMER_OFFSETS, key, value)
    if record is None:
        return row
    about, commit = _fields(record.key), _fields(record.value)
    return row | {
        "group_id": about.get("group"),
        "topic": about.get("topic"),
        "partition": about.get("partition"),
        "offset": commit.get("offset"),
        "leader_epoch": _none_if(commit.get("leader_epoch")),
        "metadata": commit.get("metadata"),
        "commit_timestamp_ms": commit.get("commit_timestamp"),
        "expire_timestamp_ms": _none_if(commit.get("expire_timestamp")),
        "topic_id": _id(commit.get("topic_id")),
    }


def group_metadata(key: bytes | None, value: bytes | None) -> Row | None:
    """Return the row of any record that is not a commit, including records of unknown types."""
    if _type_id(key) in _OFFSET_COMMITS:
        return None
    record, row = _decode(CoordinatorTopic.CONSUMER_OFFSETS, key, value)
    if record is None:
        return row
    about, fields = _fields(record.key), _fields(record.value)
    epochs = ("generation", "epoch", "assignment_epoch", "member_epoch")
    return row | {
        "group_id": about.get("group_id", about.get("group")),
        "member_id": about.get("member_id"),
        "epoch": next((fields[name] for name in epochs if name in fields), None),
        "protocol_type": fields.get("protocol_type"),
        "protocol": fields.get("protocol"),
        "leader": fields.get("leader"),
        "key_json": json_text(record.key.to_json()) if isinstance(record.key, Message) else None,
        "value_json": _value_json(record.value),
    }


def _value_json(value: Message | UnknownMessage | None) -> str | None:
    return json_text(coordinator_value_node(value)) if isinstance(value, Message) else None


# --- __transaction_state, __share_group_state ---------------------------------------------------


def transaction_state(key: bytes | None, value: bytes | None) -> Row:
    record, row = _decode(CoordinatorTopic.TRANSACTION_STATE, key, value)
    if record is None:
        return row
    about, state = _fields(record.key), _fields(record.value)
    status = state.get("transaction_status")
    return row | {
        "transactional_id": about.get("transactional_id"),
        "producer_id": state.get("producer_id"),
        "producer_epoch": state.get("producer_epoch"),
        "status": None if status is None else status_name(status),
        "transaction_timeout_ms": state.get("transaction_timeout_ms"),
        "partitions": _partitions(state),
        "last_update_timestamp_ms": state.get("transaction_last_update_timestamp_ms"),
        "start_timestamp_ms": state.get("transaction_start_timestamp_ms"),
        "previous_producer_id": _none_if(state.get("previous_producer_id")),
        "next_producer_id": _none_if(state.get("next_producer_id")),
        "next_producer_epoch": _none_if(state.get("next_producer_epoch")),
        "client_transaction_version": state.get("client_transaction_version"),
    }


def _partitions(state: Row) -> list[Row] | None:
    entries = state.get("transaction_partitions")
    if entries is None:
        return None
    return [
        {"topic": entry.topic, "partition": number}
        for entry in entries
        for number in entry.partition_ids
    ]


def share_group_state(key: bytes | None, value: bytes | None) -> Row:
    record, row = _decode(CoordinatorTopic.SHARE_GROUP_STATE, key, value)
    if record is None:
        return row
    about, state = _fields(record.key), _fields(record.value)
    batches = state.get("state_batches")
    return row | {
        "group_id": about.get("group_id"),
        "topic_id": _id(about.get("topic_id")),
        "partition": about.get("partition"),
        "snapshot_epoch": state.get("snapshot_epoch"),
        "state_epoch": state.get("state_epoch"),
        "leader_epoch": state.get("leader_epoch"),
        "start_offset": state.get("start_offset"),
        "delivery_complete_count": _none_if(state.get("delivery_complete_count")),
        "create_timestamp_ms": state.get("create_timestamp"),
        "write_timestamp_ms": state.get("write_timestamp"),
        "state_batches": None if batches is None else [dict(each.fields) for each in batches],
    }


# --- __cluster_metadata -------------------------------------------------------------------------


def metadata_record(value: bytes | None) -> Row:
    try:
        record = decode_metadata_record(value)
    except FormatError as error:
        return {"damage": f"found {error.found}, expected {error.expected}"}
    row: Row = {
        "record_type": record.name,
        "api_key": record.api_key,
        "version": record.version,
    }
    if not isinstance(record.value, Message):
        return row
    return row | _metadata_columns(record) | {"value_json": json_text(record.value.to_json())}


def _metadata_columns(record: MetadataRecord) -> Row:
    """Return the fields that several types share, under one name each."""
    fields = _fields(record.value)
    return {
        "topic": _topic(record.name, fields),
        "topic_id": _id(fields.get("topic_id")),
        "partition": fields.get("partition_id"),
        "leader": _none_if(fields.get("leader"), _NO_CHANGE),
        "leader_epoch": fields.get("leader_epoch"),
        "partition_epoch": fields.get("partition_epoch"),
        "replicas": _numbers(fields.get("replicas")),
        "isr": _numbers(fields.get("isr")),
        "broker_id": _broker(record.name, fields, "broker_id", "id"),
        "broker_epoch": _broker(record.name, fields, "broker_epoch", "epoch"),
    }


def _topic(name: str | None, fields: Row) -> str | None:
    if name == "TopicRecord":
        return str(fields["name"])
    if name == "ConfigRecord" and fields["resource_type"] == _CONFIG_OF_TOPIC:
        return str(fields["resource_name"])
    return fields.get("topic_name")


def _broker(name: str | None, fields: Row, field: str, short: str) -> int | None:
    is_short = name in ("FenceBrokerRecord", "UnfenceBrokerRecord")
    number: int | None = fields.get(short if is_short else field)
    return number


def _numbers(values: tuple[int, ...] | None) -> list[int] | None:
    return None if values is None else list(values)


def control_record(key: bytes | None, value: bytes | None) -> Row:
    """Return the row of a control record: of the quorum, or of a snapshot's header and footer."""
    try:
        record = decode_control_record(key, value)
    except FormatError as error:
        return {"damage": f"found {error.found}, expected {error.expected}"}
    type_ = record.type
    name = type_.name if isinstance(type_, ControlRecordType) else f"UNKNOWN({type_})"
    row: Row = {"control_type": name}
    if not isinstance(record.value, Message):
        return row
    return row | {
        "version": record.value.schema_version,
        "value_json": json_text(record.value.to_json()),
    }
