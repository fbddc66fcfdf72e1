"""Records of Kafka's own topics: whether what they hold can be decoded, and is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_format.control import decode_control_record
from kafka_format.coordinator_records import CoordinatorTopic, decode_coordinator_record
from kafka_format.errors import FormatError
from kafka_format.message import UnknownMessage
from kafka_format.metadata_records import decode_metadata_record
from kafka_log.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_format.primitives import Buffer

    Judge = Callable[[Buffer | None, Buffer | None, bool], "Complaint | None"]

_TOPICS = {topic.value: topic for topic in CoordinatorTopic}


class Complaint(NamedTuple):
    rule: str
    found: str
    expected: str


def judge_of(topic: str | None) -> Judge | None:
    """What looks at the records of a topic (key, value, is_control); None for those of clients."""
    if topic == CLUSTER_METADATA_TOPIC:
        return _judge_metadata
    coordinator = _TOPICS.get(topic or "")
    if coordinator is None:
        return None
    return lambda key, value, is_control: (
        None if is_control else _judge_coordinator(coordinator, key, value)
    )


def _judge_coordinator(
    topic: CoordinatorTopic, key: Buffer | None, value: Buffer | None
) -> Complaint | None:
    try:
        record = decode_coordinator_record(topic, key, value)
    except FormatError as error:
        return Complaint("REC001", error.found, error.expected)
    if record.name is None:
        return Complaint("REC002", f"type {record.type_id}", "a known type")
    if isinstance(record.value, UnknownMessage):
        found = f"version {record.value.version} of {record.name}"
        return Complaint("REC002", found, "a known version")
    return None


def _judge_metadata(key: Buffer | None, value: Buffer | None, is_control: bool) -> Complaint | None:
    try:
        if is_control:
            decode_control_record(key, value)
            return None
        record = decode_metadata_record(value)
    except FormatError as error:
        return Complaint("REC003", error.found, error.expected)
    if record.name is None:
        return Complaint("REC004", f"api key {record.api_key}", "a known api key")
    if isinstance(record.value, UnknownMessage):
        found = f"version {record.version} of {record.name}"
        return Complaint("REC004", found, "a known version")
    return None
