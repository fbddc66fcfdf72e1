"""Decode a record to exactly the text that kafka-dump-log's decoders print.

Each decoder takes the key and value of a record and its offset in the log, and returns the texts
after `key: ` and `payload: `; None where the tool does not print that part.

Mirrors the MessageParsers inside org.apache.kafka.tools.DumpLogSegments 4.3.1, including their
error texts: a record that cannot be read is a text, not an error. The types 9, 18 and 24 and the
metadata record 29 are in our tables but not in 4.3.1: they are reported as unknown.
"""

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from kafka_format import metadata_records, remote_log_metadata
from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.coordinator_records import CONSUMER_PROTOCOL_TYPE, RECORD_TYPES, CoordinatorTopic
from kafka_format.errors import MEMORY, FormatError, Location, MalformedRecordError
from kafka_format.field_codecs import java_string, kafka_text
from kafka_format.java_text import uuid_text
from kafka_format.json_text import quoted
from kafka_format.message import Message, Schema, decode_message
from kafka_format.primitives import Buffer
from kafka_format.remote_log_metadata import RemoteLogSegmentState, RemotePartitionDeleteState
from kafka_format.schemas import group, remote
from kafka_format.schemas.metadata import BY_API_KEY

_UNKNOWN_TO_4_3_1 = frozenset({9, 18, 24})
_UNKNOWN_METADATA_TO_4_3_1 = frozenset({29})
_PREFIX = 2  # bytes of a key's type, or of a value's version


class Decoded(NamedTuple):
    key: str | None
    value: str | None


class _UnreadableError(Exception):
    """The text of an exception inside Kafka."""


# --- __consumer_offsets, __transaction_state, __share_group_state -------------------------------


def offsets_decoder(key: Buffer | None, value: Buffer | None, *, offset: int) -> Decoded:
    """`--offsets-decoder`."""
    return _coordinator_record(CoordinatorTopic.CONSUMER_OFFSETS, key, value, offset)


def transaction_log_decoder(key: Buffer | None, value: Buffer | None, *, offset: int) -> Decoded:
    """`--transaction-log-decoder`."""
    return _coordinator_record(CoordinatorTopic.TRANSACTION_STATE, key, value, offset)


def share_group_state_decoder(key: Buffer | None, value: Buffer | None, *, offset: int) -> Decoded:
    """`--share-group-state-decoder`."""
    return _coordinator_record(CoordinatorTopic.SHARE_GROUP_STATE, key, value, offset)


def _coordinator_record(
    topic: CoordinatorTopic, key: Buffer | None, value: Buffer | None, offset: int
) -> Decoded:
    if key is None:  # kafka-dump-log ends with an exception here
        raise MalformedRecordError(
            Location(MEMORY, 0), f"no key at offset {offset}", f"a key of {topic.value}"
        )
    try:
        return _coordinator_texts(topic, key, value, offset)
    except _UnreadableError as error:
        return Decoded(f"Error at offset {offset}, skipping. {error}", None)


def _coordinator_texts(
    topic: CoordinatorTopic, key: Buffer, value: Buffer | None, offset: int
) -> Decoded:
    type_id = _short(key, "key")
    record_type = RECORD_TYPES[topic].get(type_id)
    if record_type is None or type_id in _UNKNOWN_TO_4_3_1:
        return Decoded(f"Unknown record type {type_id} at offset {offset}, skipping.", None)
    key_node = _part(record_type.key, 0, key, type_id, "key").to_json()
    key_text = _fast_json_text({"type": str(type_id), "data": key_node})
    if value is None:
        return Decoded(key_text, "<DELETE>")
    version, schema = _short(value, "value"), record_type.values[0]
    if not schema.knows(version):
        raise _UnreadableError(f"Found an unknown record version {version} for {type_id} type")
    message = _part(schema, version, value, version, "value")
    value_node = {"version": str(version), "data": coordinator_value_node(message)}
    return Decoded(key_text, _fast_json_text(value_node))


def _short(data: Buffer, part: str) -> int:
    if len(data) < _PREFIX:
        raise _UnreadableError(f"Could not read version from {part}'s buffer.")
    return int.from_bytes(data[:_PREFIX], "big", signed=True)


def _part(schema: Schema, version: int, data: Buffer, shown_version: int, part: str) -> Message:
    try:
        return decode_message(schema, version, data, _PREFIX)
    except FormatError as error:
        raise _UnreadableError(
            f"Could not read record with version {shown_version} from {part}'s buffer "
            f"due to: {kafka_text(error)}."
        ) from None


def coordinator_value_node(message: Message) -> dict[str, Any]:
    node = message.to_json()
    is_classic_group = message.schema is group.GROUP_METADATA_VALUE
    if is_classic_group and node["protocolType"] == CONSUMER_PROTOCOL_TYPE:
        for member, shown in zip(message.members, node["members"], strict=True):
            _decode_embedded(shown, "subscription", group.CONSUMER_PROTOCOL_SUBSCRIPTION, member)
            _decode_embedded(shown, "assignment", group.CONSUMER_PROTOCOL_ASSIGNMENT, member)
    return node


def _decode_embedded(node: dict[str, Any], name: str, schema: Schema, member: Message) -> None:
    """Decode bytes inside a message in place; leave them as they are if they cannot be read."""
    data: bytes = getattr(member, name)
    try:
        version = _short(data, name)
        message = decode_message(schema, version, data, _PREFIX)
        _check_version(schema, version, message)
    except (FormatError, _UnreadableError):
        return
    node[name] = message.to_json()


def _check_version(schema: Schema, version: int, message: Message) -> None:
    """Raise as Kafka's readers do: they accept a version that is too new unless it has structs."""
    if version > schema.highest and any(True for _ in _structs(message)):
        raise _UnreadableError(f"Can't read version {version} of {schema.name}")


def _structs(message: Message) -> Iterator[Message]:
    for value in message.fields.values():
        values = value if isinstance(value, tuple) else (value,)
        yield from (value for value in values if isinstance(value, Message))


# --- __cluster_metadata, __remote_log_metadata --------------------------------------------------


def cluster_metadata_decoder(_key: Buffer | None, value: Buffer | None, *, offset: int) -> Decoded:
    """`--cluster-metadata-decoder`."""
    try:
        version, message = _framed(BY_API_KEY, _UNKNOWN_METADATA_TO_4_3_1, value or b"")
    except _UnreadableError as error:
        return Decoded(None, f"Error at {offset}, skipping. {error}")
    node = {
        "type": _constant_name(message.schema_name),
        "version": version,
        "data": message.to_json(),
    }
    return Decoded(None, json_text(node))


def remote_log_metadata_decoder(
    _key: Buffer | None, value: Buffer | None, *, offset: int
) -> Decoded:
    """`--remote-log-metadata-decoder`."""
    if value is None:
        return Decoded(
            None,
            f"Error at offset {offset}, skipping. "
            'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
            '"org.apache.kafka.common.record.internal.Record.value()" is null',
        )
    try:
        _, message = _framed(remote_log_metadata.BY_API_KEY, frozenset(), value)
        return Decoded(None, _REMOTE_TEXTS[message.schema](message))
    except _UnreadableError as error:
        return Decoded(None, f"Error at offset {offset}, skipping. {error}")


def _framed(
    schemas: dict[int, Schema], unknown: frozenset[int], value: Buffer
) -> tuple[int, Message]:
    data = bytes(value)
    try:
        api_key, version, body = metadata_records.decode_frame(data)
    except FormatError as error:
        raise _UnreadableError(kafka_text(error)) from None
    schema = schemas.get(api_key)
    if schema is None or api_key in unknown:
        raise _UnreadableError(
            "org.apache.kafka.common.errors.UnsupportedVersionException: "
            f"Unknown metadata id {api_key}"
        )
    try:
        message = decode_message(schema, version, data, body)
        _check_version(schema, version, message)
    except (FormatError, _UnreadableError):
        raise _UnreadableError(f"Failed to deserialize record with type {api_key}") from None
    if message.trailing:
        raise _UnreadableError(f"Found {len(message.trailing)} byte(s) of garbage after {api_key}")
    return version, message


def _constant_name(name: str) -> str:
    """Return the enum constant of a record: REGISTER_BROKER_RECORD for RegisterBrokerRecord."""
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in name)[1:].upper()


def _segment_text(record: Message) -> str:
    if record.start_offset < 0:
        raise _UnreadableError(
            f"Unexpected start offset = {record.start_offset}. "
            "StartOffset for a remote segment cannot be negative"
        )
    if record.end_offset < record.start_offset:
        raise _UnreadableError(
            f"Unexpected end offset = {record.end_offset}. EndOffset for a remote segment cannot "
            f"be less than startOffset = {record.start_offset}"
        )
    epochs = _leader_epochs(record)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(record)}, "
        f"startOffset={record.start_offset}, endOffset={record.end_offset}, "
        f"brokerId={record.broker_id}, maxTimestampMs={record.max_timestamp_ms}, "
        f"eventTimestampMs={record.event_timestamp_ms}, segmentLeaderEpochs={epochs}, "
        f"segmentSizeInBytes={record.segment_size_in_bytes}, "
        f"customMetadata={_custom_metadata(record)}, state={_segment_state(record)}, "
        f"txnIdxEmpty={_boolean(record.txn_index_empty)}}}"
    )


def _update_text(record: Message) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(record)}, "
        f"customMetadata={_custom_metadata(record)}, state={_segment_state(record)}, "
        f"eventTimestampMs={record.event_timestamp_ms}, brokerId={record.broker_id}}}"
    )


def _delete_text(record: Message) -> str:
    try:
        state = RemotePartitionDeleteState(record.remote_partition_delete_state).name
    except ValueError:
        raise _UnreadableError("null") from None
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(record)}, "
        f"state={state}, eventTimestampMs={record.event_timestamp_ms}, "
        f"brokerId={record.broker_id}}}"
    )


def _snapshot_text(record: Message) -> str:
    state = _segment_state(record)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={uuid_text(record.segment_id)}, "
        f"startOffset={record.start_offset}, endOffset={record.end_offset}, "
        f"maxTimestampMs={record.max_timestamp_ms}, segmentLeaderEpochs={_leader_epochs(record)}, "
        f"segmentSizeInBytes={record.segment_size_in_bytes}, "
        f"customMetadata={_custom_metadata(record)}, state={state}, "
        f"txnIdxEmpty={_boolean(record.txn_index_empty)}}}"
    )


_REMOTE_TEXTS = {
    remote.REMOTE_LOG_SEGMENT_METADATA_RECORD: _segment_text,
    remote.REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD: _update_text,
    remote.REMOTE_PARTITION_DELETE_METADATA_RECORD: _delete_text,
    remote.REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD: _snapshot_text,
}


def _segment_id(record: Message) -> str:
    entry = record.remote_log_segment_id
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry)}, id={uuid_text(entry.id)}}}"


def _partition(owner: Message) -> str:
    entry = owner.topic_id_partition
    return f"{uuid_text(entry.id)}:{java_string(entry.name)}-{entry.partition}"


def _segment_state(record: Message) -> str:
    try:
        return RemoteLogSegmentState(record.remote_log_segment_state).name
    except ValueError:
        raise _UnreadableError("state can not be null") from None


def _leader_epochs(record: Message) -> str:
    if not record.segment_leader_epochs:
        raise _UnreadableError("segmentLeaderEpochs can not be null or empty")
    epochs = {entry.leader_epoch: entry.offset for entry in record.segment_leader_epochs}
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _custom_metadata(record: Message) -> str:
    if record.custom_metadata is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(record.custom_metadata)} bytes}}]"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


# --- control records ----------------------------------------------------------------------------

_CONTROL_LABELS = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange:",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters",
}


def control_record_text(key: Buffer | None, value: Buffer | None) -> str:
    """Return the end of a control record's line. Raises FormatError where the tool would crash."""
    record = decode_control_record(key, value)
    type_, message = record.type, record.value
    if not isinstance(type_, ControlRecordType) or not isinstance(message, Message):
        return f"controlType: UNKNOWN({int(type_)})"
    if record.is_end_transaction_marker:
        return f"endTxnMarker: {type_.name} coordinatorEpoch: {message.coordinator_epoch}"
    return f"{_CONTROL_LABELS[type_]} {json_text(message.to_json())}"


# --- JSON ---------------------------------------------------------------------------------------


def json_text(node: Any) -> str:
    """Format JSON as Jackson's JsonNode.toString does: no spaces, numbers as Java prints them."""
    if isinstance(node, str):
        return quoted(node)
    if isinstance(node, dict):
        return "{" + ",".join(f"{quoted(key)}:{json_text(node[key])}" for key in node) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(json_text, node)) + "]"
    if node is None:
        return "null"
    if isinstance(node, bool):
        return _boolean(node)
    if isinstance(node, float):
        return java_double(node) if math.isfinite(node) else quoted(java_double(node))
    return str(node)


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _fast_json_text(node: Any) -> str:
    """Format JSON without floats: Python differs only in the hex digits of control characters."""
    text = _ENCODE(node)
    return json_text(node) if "\\u" in text else text


def java_double(value: float) -> str:
    """Format as Double.toString: the shortest decimal for this double, with at least two digits.

    As since Java 19; earlier releases print too many digits for some (2e23: 1.9999999999999998E23).
    """
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(repr(abs(value)))
    if len(digits) == 1:  # use the nearest with two digits: 4.9E-324 instead of 5.0E-324
        digits, exponent = _digits(f"{abs(value):.1e}")
    point = len(digits) + exponent  # digits before the decimal point
    if not 1e-3 <= abs(value) < 1e7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    whole = digits[: max(point, 0)].ljust(point, "0") or "0"
    fraction = "0" * -point + digits[max(point, 0) :]
    return f"{sign}{whole}.{fraction or '0'}"


def _digits(text: str) -> tuple[str, int]:
    """Return the significant digits, without zeros at either end, and their power of ten."""
    _, digits, exponent = Decimal(text).normalize().as_tuple()
    return "".join(map(str, digits)), int(exponent)
