"""Decode records of the KRaft metadata log and its snapshots, and frames of remote log metadata.

    value  uvarint frame version, always 1
           uvarint api key
           uvarint record version
           the record's struct, flexible from version 0
    key    null

Mirrors org.apache.kafka.server.common.serialization.AbstractApiMessageSerde. Bytes after the record
are an error, as they are for a broker. An api key or a version that is in no table becomes an
`UnknownMessage`, where a broker stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_format.errors import (
    MEMORY,
    CorruptError,
    FormatError,
    Location,
    TruncatedError,
    UnsupportedError,
)
from kafka_format.field_codecs import with_kafka_text
from kafka_format.message import (
    Message,
    Schema,
    UnknownMessage,
    check_canonical,
    decode_message,
    encode_message,
)
from kafka_format.primitives import Buffer, read_unsigned_varint, write_unsigned_varint
from kafka_format.schemas.metadata import BY_API_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

FRAME_VERSION = 1

_SHORT_MAX = 0x7FFF
_INT_MAX = 0x7FFF_FFFF


class MetadataRecord(NamedTuple):
    """A record; `name` is None if no table has its api key."""

    api_key: int
    version: int
    name: str | None
    value: Message | UnknownMessage


def decode_metadata_record(
    value: Buffer | None, *, path: str = MEMORY, position: int = 0, strict: bool = False
) -> MetadataRecord:
    """Decode a record. With `strict`, bytes that a broker reads but never writes are errors."""
    return decode_framed(BY_API_KEY, value, path=path, position=position, strict=strict)


def encode_metadata_record(record: MetadataRecord) -> bytes:
    """Return the value's bytes; an unknown message is returned unchanged."""
    if isinstance(record.value, UnknownMessage):
        return record.value.data
    out = bytearray()
    write_unsigned_varint(out, FRAME_VERSION)
    write_unsigned_varint(out, record.api_key)
    write_unsigned_varint(out, record.version)
    return bytes(out) + encode_message(record.value)


def decode_framed(
    schemas: Mapping[int, Schema],
    value: Buffer | None,
    *,
    path: str = MEMORY,
    position: int = 0,
    strict: bool = False,
) -> MetadataRecord:
    """Decode a framed record of any set of api keys."""
    if value is None:
        raise TruncatedError(Location(path, position), "no value", "a framed record")
    data = bytes(value)
    try:
        record = _decode(schemas, data)
        if strict and isinstance(record.value, Message):
            check_canonical(record.value, data, encode_metadata_record(record))
    except FormatError as error:
        raise error.moved(path, position) from None
    return record


class Frame(NamedTuple):
    api_key: int
    version: int
    body: int  # position of the record's struct


def decode_frame(data: bytes) -> Frame:
    """Decode what precedes the struct. Errors carry Kafka's texts, as in `field_codecs`."""
    frame_version, at = _read_short(data, 0, "frame version")
    if frame_version != FRAME_VERSION:
        raise with_kafka_text(
            UnsupportedError(
                Location(MEMORY, 0), f"frame version {frame_version}", str(FRAME_VERSION)
            ),
            "Could not deserialize metadata record "
            + (
                f"due to unknown frame version {frame_version}(only frame version "
                f"{FRAME_VERSION} is supported)"
                if frame_version
                else "with frame version 0. Note that upgrades from the preview release of KRaft "
                "in 2.8 to newer versions are not supported."
            ),
        )
    api_key, at = _read_short(data, at, "type")
    version, at = _read_short(data, at, "version")
    return Frame(api_key, version, at)


def _decode(schemas: Mapping[int, Schema], data: bytes) -> MetadataRecord:
    api_key, version, body = decode_frame(data)
    schema = schemas.get(api_key)
    if schema is None or not schema.knows(version):
        name = None if schema is None else schema.name
        return MetadataRecord(api_key, version, name, UnknownMessage(api_key, version, data))
    message = decode_message(schema, version, data, body)
    if message.trailing:
        raise CorruptError(
            Location(MEMORY, len(data) - len(message.trailing)),
            f"{len(message.trailing)} bytes after a {schema.name}",
            "none",
        )
    return MetadataRecord(api_key, version, schema.name, message)


def _read_short(data: bytes, position: int, what: str) -> tuple[int, int]:
    """Cast an unsigned varint to a short as Kafka does: a negative int loses its upper bits."""
    try:
        value, end = read_unsigned_varint(data, position)
    except FormatError as error:
        raise with_kafka_text(error, f"Error while reading {what}") from None
    if _SHORT_MAX < value <= _INT_MAX:
        raise with_kafka_text(
            CorruptError(
                Location(MEMORY, position), f"{what} {value}", f"a number up to {_SHORT_MAX}"
            ),
            f"Value for {what} was too large.",
        )
    return ((value + 0x8000) & 0xFFFF) - 0x8000, end
