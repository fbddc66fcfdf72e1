"""Records of __remote_log_metadata, the topic of tiered storage. Key null; value framed:

    uvarint frame version 1, uvarint api key, uvarint record version, the record's struct

Mirrors org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde.
The same frames, of api key 3, are in the snapshot files of the topic-based metadata manager.
"""

from enum import IntEnum
from typing import Final

from kafka_format.errors import MEMORY
from kafka_format.message import Schema
from kafka_format.metadata_records import MetadataRecord, decode_framed, encode_metadata_record
from kafka_format.primitives import Buffer
from kafka_format.schemas import remote

BY_API_KEY: Final[dict[int, Schema]] = {
    0: remote.REMOTE_LOG_SEGMENT_METADATA_RECORD,
    1: remote.REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD,
    2: remote.REMOTE_PARTITION_DELETE_METADATA_RECORD,
    3: remote.REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD,
}


class RemoteLogSegmentState(IntEnum):
    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


def decode_remote_log_metadata(
    value: Buffer | None, *, path: str = MEMORY, position: int = 0, strict: bool = False
) -> MetadataRecord:
    """Decode a record. With `strict`, bytes that a broker reads but never writes are errors."""
    return decode_framed(BY_API_KEY, value, path=path, position=position, strict=strict)


def encode_remote_log_metadata(record: MetadataRecord) -> bytes:
    """Return the value's bytes; an unknown message is returned unchanged."""
    return encode_metadata_record(record)
