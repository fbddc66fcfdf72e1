"""Every message that real brokers left in the golden directories."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_format.control import (
    ControlRecordType,
    decode_control_record,
    encode_control_record,
)
from kafka_format.coordinator_records import (
    CONSUMER_PROTOCOL_TYPE,
    CoordinatorTopic,
    decode_coordinator_record,
    encode_coordinator_record,
    group_members,
)
from kafka_format.log_file import iter_batches
from kafka_format.message import Message
from kafka_format.metadata_records import decode_metadata_record, encode_metadata_record
from tests import golden

METADATA = "__cluster_metadata"


def files(name: str, topic: str) -> list[Path]:
    suffixes = (".log", ".checkpoint")
    return sorted(
        path
        for path in golden.shared(name).rglob(f"{topic}-*/*")
        if path.suffix in suffixes and path.stat().st_size
    )


def stored(path: Path) -> Iterator[tuple[bool, bytes | None, bytes | None]]:
    """(whether a control record, key, value) of a file's records."""
    for batch in iter_batches(path.read_bytes()):
        is_control = batch.magic == 2 and batch.header.is_control
        for record in batch.records():
            yield is_control, record.key, record.value


@pytest.mark.parametrize("topic", CoordinatorTopic)
@pytest.mark.parametrize("name", golden.names())
def test_coordinator_records_are_all_known_and_come_back_as_their_bytes(
    name: str, topic: CoordinatorTopic
) -> None:
    for path in files(name, topic.value):
        for is_control, key, value in stored(path):
            if is_control:
                continue
            record = decode_coordinator_record(topic, key, value, strict=True)
            assert isinstance(record.key, Message)
            assert record.value is None or isinstance(record.value, Message)
            assert encode_coordinator_record(record) == (key, value)


@pytest.mark.parametrize("name", golden.names())
def test_metadata_records_are_all_known_and_come_back_as_their_bytes(name: str) -> None:
    found = 0
    paths = files(name, METADATA)
    for path in paths:
        for is_control, key, value in stored(path):
            if is_control:
                continue
            assert key is None
            record = decode_metadata_record(value, strict=True)
            assert isinstance(record.value, Message)
            assert encode_metadata_record(record) == value
            found += 1
    assert found or not paths  # brokers of the ZooKeeper days have no such log


@pytest.mark.parametrize("name", golden.names())
def test_control_records_are_all_known_and_come_back_as_their_bytes(name: str) -> None:
    found: Counter[str] = Counter()
    for path in files(name, "*"):
        for is_control, key, value in stored(path):
            if is_control:
                record = decode_control_record(key, value, strict=True)
                assert isinstance(record.type, ControlRecordType)
                found[record.type.name] += 1
                assert encode_control_record(record) == (key, value)
    is_older_than_transactions = "-0.10" in name
    assert is_older_than_transactions or {"COMMIT", "ABORT"} <= set(found)


def test_golden_groups_are_of_every_kind() -> None:
    kinds: Counter[str] = Counter()
    for path in files("groups-4.3.1", CoordinatorTopic.CONSUMER_OFFSETS.value):
        for is_control, key, value in stored(path):
            if not is_control:
                record = decode_coordinator_record(CoordinatorTopic.CONSUMER_OFFSETS, key, value)
                kinds[record.name] += 1
    assert {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata"} <= set(
        kinds
    )


def test_members_of_golden_classic_groups_are_readable() -> None:
    assert sum(map(_readable_members, golden.names())) > 5


def _readable_members(name: str) -> int:
    count = 0
    for path in files(name, CoordinatorTopic.CONSUMER_OFFSETS.value):
        for is_control, key, value in stored(path):
            if is_control:
                continue
            topic = CoordinatorTopic.CONSUMER_OFFSETS
            found: Any = decode_coordinator_record(topic, key, value).value
            if found is None or found.schema_name != "GroupMetadataValue":
                continue
            for member in group_members(found):
                assert found.protocol_type == CONSUMER_PROTOCOL_TYPE
                assert member.subscription.topics
                count += 1
    return count
