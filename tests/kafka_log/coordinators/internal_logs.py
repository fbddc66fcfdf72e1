"""Logs of __consumer_offsets and __remote_log_metadata, record by record."""

import struct
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.metadata_records import MetadataRecord
from kafka_format.record import SimpleRecord
from kafka_format.remote_log_metadata import (
    BY_API_KEY,
    RemoteLogSegmentState,
    encode_remote_log_metadata,
)

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


def commit_value(offset: int, metadata: str = "", topic_id: uuid.UUID | None = None) -> bytes:
    """Version 3, or 4 with a topic id."""
    if topic_id is None:
        head, text, tail = struct.pack(">hqi", 3, offset, 5), _text(metadata), b""
    else:
        head = struct.pack(">hqi", 4, offset, 5)
        text = bytes([len(metadata) + 1]) + metadata.encode()
        tail = b"\x01\x00\x10" + topic_id.bytes
    return head + text + struct.pack(">q", TIME) + tail


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
        return self._append([SimpleRecord(TIME, *each) for each in records], codec, options)

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
