"""`partition.metadata`: the id of the topic that a partition directory belongs to.

    file  = "version: 0" LF "topic_id: " uuid

No line end follows the last line. The id is 22 characters of URL-safe base64 (java_text).

Mirrors PartitionMetadataFile and PartitionMetadataReadBuffer: the words before the colons are
ignored, a version of 0 or more is accepted (so that newer brokers can add lines), an id of all
zeros is not. Brokers ignore what follows the second line; it is kept as `trailing`.
"""

import os
import re
import uuid
from typing import NamedTuple

from kafka_format import java_text
from kafka_format.errors import MEMORY, CorruptError, Location, TruncatedError, UnsupportedError
from kafka_format.file_bytes import read_file_bytes
from kafka_format.java_text import Line, excerpt
from kafka_format.primitives import Buffer

VERSION = 0
MAX_SIZE = 8 * 1024
"""Kafka writes 43 bytes. Java reads 8 KiB at once and would not check UTF-8 beyond that."""

_SEPARATOR = re.compile(r":\s+", re.ASCII)


class PartitionMetadata(NamedTuple):
    topic_id: uuid.UUID
    version: int = VERSION
    trailing: bytes = b""
    """All that follows the topic id, its line end included; nothing in a file that Kafka wrote."""


def decode_partition_metadata(buffer: Buffer, *, path: str = MEMORY) -> PartitionMetadata:
    lines = java_text.iter_lines(buffer, path=path)
    version_line, topic_id_line = next(lines, None), next(lines, None)
    if version_line is None or topic_id_line is None:
        location = Location(path, len(buffer))
        raise TruncatedError(location, "the end of the file", "a version and a topic_id line")
    version = java_text.parse_int(_value(version_line, "version: <integer>", path))
    if version is None:
        raise _malformed(version_line, "version: <integer>", path)
    if version < VERSION:
        location = Location(path, version_line.position)
        raise UnsupportedError(location, f"version {version}", f"at least {VERSION}")
    topic_id = java_text.parse_uuid(_value(topic_id_line, "topic_id: <uuid>", path))
    if topic_id is None or topic_id == java_text.ZERO_UUID:
        raise _malformed(topic_id_line, "topic_id: <uuid other than zero>", path)
    end = topic_id_line.position + len(topic_id_line.text.encode())
    return PartitionMetadata(topic_id, version, bytes(buffer[end:]))


def _value(line: Line, expected: str, path: str) -> str:
    parts = java_text.split(_SEPARATOR, line.text)
    if len(parts) != 2:
        raise _malformed(line, expected, path)
    return parts[1]


def _malformed(line: Line, expected: str, path: str) -> CorruptError:
    return CorruptError(Location(path, line.position), excerpt(line.text), expected)


def encode_partition_metadata(metadata: PartitionMetadata) -> bytes:
    topic_id = java_text.uuid_text(metadata.topic_id)
    return f"version: {metadata.version}\ntopic_id: {topic_id}".encode() + metadata.trailing


def read_partition_metadata(path: str | os.PathLike[str]) -> PartitionMetadata:
    """Read `partition.metadata` of a partition. Raises FormatError."""
    data = read_file_bytes(path, limit=MAX_SIZE)
    return decode_partition_metadata(data, path=os.fspath(path))
