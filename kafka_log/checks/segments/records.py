"""Check whether the records of Kafka's internal topics can be decoded, and are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_format.control import decode_control_record
from kafka_format.coordinator_records import CoordinatorTopic, decode_coordinator_record
from kafka_format.errors import FormatError
from kafka_format.message import UnknownMessage
from kafka_format.metadata_records import decode_metadata_record
from kafka_format.remote_log_metadata import decode_remote_log_metadata
from kafka_log.coordinators.remote_segments import REMOTE_LOG_METADATA_TOPIC
from kafka_log.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_format.metadata_records import MetadataRecord
    from kafka_format.primitives import Buffer

    RecordCheck = Callable[[Buffer | None, Buffer | None, bool], "Complaint | None"]

_TOPICS = {topic.value: topic for topic in CoordinatorTopic}


class Complaint(NamedTuple):
    """What is wrong with a record."""

    rule: str
    found: str
    expected: str


def record_check(topic: str | None) -> RecordCheck | None:
    """Return the check of a topic's records (key, value, is_control); None for user topics."""
    if topic == CLUSTER_METADATA_TOPIC:
        return _check_metadata
    if topic == REMOTE_LOG_METADATA_TOPIC:
        return _check_remote
    coordinator = _TOPICS.get(topic or "")
    if coordinator is None:
        return None
    return lambda key, value, is_control: (
        None if is_control else _check_coordinator(coordinator, key, value)
    )


def _check_coordinator(
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


def _check_metadata(key: Buffer | None, value: Buffer | None, is_control: bool) -> Complaint | None:
    try:
        if is_control:
            decode_control_record(key, value)
            return None
        record = decode_metadata_record(value)
    except FormatError as error:
        return Complaint("REC003", error.found, error.expected)
    return _unknown("REC004", record)


def _check_remote(key: Buffer | None, value: Buffer | None, is_control: bool) -> Complaint | None:
    del key
    if is_control:
        return None
    try:
        record = decode_remote_log_metadata(value)
    except FormatError as error:
        return Complaint("REC005", error.found, error.expected)
    return _unknown("REC006", record)


def _unknown(rule: str, record: MetadataRecord) -> Complaint | None:
    """Return what is wrong with a framed record that no table has."""
    if record.name is None:
        return Complaint(rule, f"api key {record.api_key}", "a known api key")
    if isinstance(record.value, UnknownMessage):
        found = f"version {record.version} of {record.name}"
        return Complaint(rule, found, "a known version")
    return None
