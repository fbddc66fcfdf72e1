"""Control records: the records that brokers themselves write into a log, in control batches.

    key    int16 version, int16 type; newer versions may have more
    value  ABORT, COMMIT    int16 version, int32 coordinator epoch; newer versions may have more
           the KRaft types  a flexible struct whose first field, int16, is its own version
           others           unknown: kept as bytes

Mirrors org.apache.kafka.common.record.internal.ControlRecordType, EndTransactionMarker and
ControlRecordUtils. As in Kafka, versions newer than the tables are read as the newest in them, and
a negative version of a key or a marker is an error. One difference: 4.3.1 wrongly reads a
LEADER_CHANGE of version 1 as version 0; here it is read as version 1.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from kafka_format.errors import MEMORY, CorruptError, FormatError, Location, TruncatedError
from kafka_format.message import Message, Schema, check_canonical, decode_message, encode_message
from kafka_format.primitives import Buffer
from kafka_format.schemas import raft

_KEY = struct.Struct(
    ">h"  # version
    "h"  # type
)
_VERSION = struct.Struct(">h")


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_SCHEMAS: dict[int, Schema] = {
    ControlRecordType.ABORT: raft.END_TXN_MARKER,
    ControlRecordType.COMMIT: raft.END_TXN_MARKER,
    ControlRecordType.LEADER_CHANGE: raft.LEADER_CHANGE_MESSAGE,
    ControlRecordType.SNAPSHOT_HEADER: raft.SNAPSHOT_HEADER_RECORD,
    ControlRecordType.SNAPSHOT_FOOTER: raft.SNAPSHOT_FOOTER_RECORD,
    ControlRecordType.KRAFT_VERSION: raft.K_RAFT_VERSION_RECORD,
    ControlRecordType.KRAFT_VOTERS: raft.VOTERS_RECORD,
}


class ControlRecordKey(NamedTuple):
    version: int
    type: ControlRecordType | int
    trailing: bytes = b""  # fields of a newer version


class ControlRecord(NamedTuple):
    """A control record. `value` is a message where the type is known, else the original bytes."""

    key: ControlRecordKey
    value: Message | bytes | None

    @property
    def type(self) -> ControlRecordType | int:
        return self.key.type

    @property
    def is_end_transaction_marker(self) -> bool:
        return self.key.type in (ControlRecordType.ABORT, ControlRecordType.COMMIT)


def end_transaction_marker(type_: ControlRecordType, coordinator_epoch: int) -> ControlRecord:
    """Return the marker that ends a transaction."""
    value = raft.END_TXN_MARKER.new(0, coordinator_epoch=coordinator_epoch)
    return ControlRecord(ControlRecordKey(0, type_), value)


def decode_control_key(key: Buffer | None) -> ControlRecordKey:
    """Decode only the key: it holds the type of a control batch."""
    if key is None or len(key) < _KEY.size:
        found = "no key" if key is None else f"a key of {len(key)} bytes"
        raise TruncatedError(Location(MEMORY, 0), found, f"at least {_KEY.size} bytes")
    version, type_ = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptError(
            Location(MEMORY, 0), f"control record key version {version}", "0 or more"
        )
    known = ControlRecordType(type_) if type_ in _SCHEMAS else type_
    return ControlRecordKey(version, known, bytes(key[_KEY.size :]))


def decode_control_record(
    key: Buffer | None,
    value: Buffer | None,
    *,
    path: str = MEMORY,
    key_position: int = 0,
    value_position: int = 0,
    strict: bool = False,
) -> ControlRecord:
    """Decode a control record.

    Bytes after the value are kept in `Message.trailing`, since a broker ignores them. With
    `strict` they, and anything else that a broker would not have written, are errors.
    """
    try:
        decoded_key = decode_control_key(key)
    except FormatError as error:
        raise error.moved(path, key_position) from None
    try:
        record = ControlRecord(decoded_key, _decode_value(decoded_key.type, value))
        if strict and isinstance(record.value, Message):
            check_canonical(record.value, value or b"", encode_control_record(record)[1] or b"")
    except FormatError as error:
        raise error.moved(path, value_position) from None
    return record


def encode_control_record(record: ControlRecord) -> tuple[bytes, bytes | None]:
    """Return key and value as bytes."""
    key = _KEY.pack(record.key.version, record.key.type) + record.key.trailing
    value = record.value
    if not isinstance(value, Message):
        return key, value
    if record.is_end_transaction_marker:
        return key, _VERSION.pack(value.schema_version) + encode_message(value)
    return key, encode_message(value)


def _decode_value(type_: int, value: Buffer | None) -> Message | bytes | None:
    schema = _SCHEMAS.get(type_)
    if schema is None:
        return None if value is None else bytes(value)
    if value is None or len(value) < _VERSION.size:
        found = "no value" if value is None else f"a value of {len(value)} bytes"
        raise TruncatedError(Location(MEMORY, 0), found, f"the version of a {schema.name}")
    version: int = _VERSION.unpack_from(value)[0]
    if schema is not raft.END_TXN_MARKER:
        return decode_message(schema, version, value)
    if version < 0:
        raise CorruptError(
            Location(MEMORY, 0), f"end transaction marker version {version}", "0 or more"
        )
    return decode_message(schema, version, value, _VERSION.size)
