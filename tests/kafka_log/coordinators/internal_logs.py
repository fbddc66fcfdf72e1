"""Logs of __consumer_offsets and __remote_log_metadata, record by record."""

import struct
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.coordinator_records import (
    RECORD_TYPES,
    CoordinatorRecord,
    CoordinatorTopic,
    encode_coordinator_record,
    encode_protocol,
)
from kafka_format.metadata_records import MetadataRecord
from kafka_format.record import SimpleRecord
from kafka_format.remote_log_metadata import (
    BY_API_KEY,
    RemoteLogSegmentState,
    encode_remote_log_metadata,
)
from kafka_format.schemas.group import CONSUMER_PROTOCOL_SUBSCRIPTION

TIME = 1_700_000_000_000
SEGMENT = f"{0:020d}.log"
STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
TOPIC_ID = uuid.UUID(int=77)


# Bytes by hand, as coordinator_records.md has them.
def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def commit_key(group: str, topic: str, partition: int, *, type_id: int = 1) -> bytes:
    return struct.pack(">h", type_id) + _text(group) + _text(topic) + struct.pack(">i", partition)


def commit_value(
    offset: int, metadata: str = "", topic_id: uuid.UUID | None = None, *, time: int = TIME
) -> bytes:
    """Version 3, or 4 with a topic id."""
    if topic_id is None:
        head, text, tail = struct.pack(">hqi", 3, offset, 5), _text(metadata), b""
    else:
        head = struct.pack(">hqi", 4, offset, 5)
        text = bytes([len(metadata) + 1]) + metadata.encode()
        tail = b"\x01\x00\x10" + topic_id.bytes
    return head + text + struct.pack(">q", time) + tail


def group_record(
    type_id: int, group: str, values: dict[str, Any] | None, *, version: int = 0, **key: Any
) -> tuple[bytes, bytes | None]:
    """Return a record of a group: its type, further fields of its key, and its value."""
    kind = RECORD_TYPES[CoordinatorTopic.CONSUMER_OFFSETS][type_id]
    field = "group" if type_id <= 2 else "group_id"
    record = CoordinatorRecord(
        type_id,
        kind.name,
        kind.key.new(0, **{field: group}, **key),
        None if values is None else kind.values[0].new(version, **values),
    )
    return encode_coordinator_record(record)


def classic_group(
    group: str, generation: int, *members: dict[str, Any], **values: Any
) -> tuple[bytes, bytes | None]:
    """Return a GroupMetadata record, of a consumer's protocol if nothing else is said."""
    fields = {
        "protocol_type": "consumer",
        "generation": generation,
        "protocol": "range" if members else None,
        "current_state_timestamp": TIME,
        "members": [*members],
    }
    return group_record(2, group, fields | values, version=3)


def classic_member(member_id: str, *topics: str) -> dict[str, Any]:
    """Return a member of a classic group that subscribes to topics."""
    subscription = CONSUMER_PROTOCOL_SUBSCRIPTION.new(3, topics=[*topics])
    return {
        "member_id": member_id,
        "client_id": f"client-{member_id}",
        "client_host": "/127.0.0.1",
        "rebalance_timeout": 1,
        "session_timeout": 1,
        "subscription": encode_protocol(subscription),
        "assignment": b"",
    }


class LogWriter:
    """The bytes of a log, batch after batch."""

    def __init__(self) -> None:
        self.data = b""
        self.next_offset = 0

    def add(
        self,
        *records: tuple[bytes | None, bytes | None],
        producer: int | None = None,
        codec: Codec = Codec.NONE,
        time: int = TIME,
    ) -> "LogWriter":
        """Append a batch with these records, in a transaction if there is a producer."""
        options: dict[str, Any] = {}
        if producer is not None:
            options = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": 0,
                "is_transactional": True,
            }
        return self._append([SimpleRecord(time, *each) for each in records], codec, options)

    def end(self, producer: int, type_: ControlRecordType) -> "LogWriter":
        """Append the marker that ends a transaction."""
        marker = SimpleRecord(TIME, *encode_control_record(end_transaction_marker(type_, 0)))
        options = {"producer_id": producer, "producer_epoch": 0}
        options |= {"is_transactional": True, "is_control": True}
        return self._append([marker], Codec.NONE, options)

    def _append(
        self, records: list[SimpleRecord], codec: Codec, options: dict[str, Any]
    ) -> "LogWriter":
        self.data += encode_batch(records, base_offset=self.next_offset, codec=codec, **options)
        self.next_offset += len(records)
        return self

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / SEGMENT).write_bytes(self.data)
        return directory


def copy_started(number: int, start: int, end: int, **fields: Any) -> bytes:
    """Return the first event of segment `number`; `epochs` maps epochs to offsets."""
    epochs = fields.pop("epochs", {0: start})
    values = {
        "remote_log_segment_id": _segment_id(number, fields.pop("partition", 0)),
        "start_offset": start,
        "end_offset": end,
        "broker_id": 1,
        "max_timestamp_ms": TIME,
        "event_timestamp_ms": TIME + number,
        "segment_leader_epochs": [
            {"leader_epoch": epoch, "offset": offset} for epoch, offset in epochs.items()
        ],
        "segment_size_in_bytes": 1000,
        "remote_log_segment_state": STARTED,
    }
    return _frame(0, values | fields)


def updated(number: int, state: int, **fields: Any) -> bytes:
    """Return a later event of segment `number`."""
    values = {
        "remote_log_segment_id": _segment_id(number, fields.pop("partition", 0)),
        "broker_id": 1,
        "event_timestamp_ms": TIME + number,
        "remote_log_segment_state": state,
    }
    return _frame(1, values | fields)


def partition_deleted(state: int, partition: int = 0) -> bytes:
    values = {
        "topic_id_partition": _partition(partition),
        "broker_id": 1,
        "event_timestamp_ms": TIME,
        "remote_partition_delete_state": state,
    }
    return _frame(2, values)


def remote_log(events: Iterable[bytes]) -> LogWriter:
    writer = LogWriter()
    for event in events:
        writer.add((None, event))
    return writer


def segment_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=1000 + number)


def _segment_id(number: int, partition: int) -> dict[str, Any]:
    return {"topic_id_partition": _partition(partition), "id": segment_id(number)}


def _partition(partition: int) -> dict[str, Any]:
    return {"name": "tiered", "id": TOPIC_ID, "partition": partition}


def _frame(api_key: int, values: dict[str, Any]) -> bytes:
    message = BY_API_KEY[api_key].new(0, **values)
    record = MetadataRecord(api_key, 0, BY_API_KEY[api_key].name, message)
    return encode_remote_log_metadata(record)
