"""A batch that keeps its bytes, with offset, leader epoch and timestamps of the log it goes into.

The checksum covers neither offset nor epoch, so it is computed anew only if the timestamp type or
the largest timestamp changes; and then unknown attribute bits are lost, as Kafka writes the whole
field from what it knows.

Mirrors DefaultRecordBatch.setLastOffset, setMaxTimestamp, setPartitionLeaderEpoch, and those of
ByteBufferLegacyRecordBatch.
"""

import struct

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble, attributes_of
from kafka_format.checksum import crc32
from kafka_format.record import TimestampType, wrap_int64
from kafka_log.appends.batches import DefaultBatch, LegacyBatch

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_CRC = struct.Struct(">I")
_ATTRIBUTES_AND_TIMESTAMP = struct.Struct(">Bq")
_CRC_AT, _MAGIC_AT, _ATTRIBUTES_AT = 12, 16, 17


def stamp_batch(
    batch: DefaultBatch,
    *,
    last_offset: int,
    partition_leader_epoch: int | None,
    timestamp_type: TimestampType,
    max_timestamp: int,
) -> bytes:
    """The batch as bytes; without a leader epoch it keeps its own."""
    header = batch.header
    head, payload = bytearray(batch.raw[:HEADER_SIZE]), batch.raw[HEADER_SIZE:]
    _OFFSET.pack_into(head, 0, wrap_int64(last_offset - header.last_offset_delta))
    if partition_leader_epoch is not None:
        _EPOCH.pack_into(head, _EPOCH_AT, partition_leader_epoch)
    if header.timestamp_type is timestamp_type and header.max_timestamp == max_timestamp:
        return b"".join((head, payload))
    attributes = attributes_of(
        batch.codec,
        timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        has_delete_horizon=header.has_delete_horizon,
    )
    stamped = BatchHeader.unpack(head)
    return assemble(stamped._replace(attributes=attributes, max_timestamp=max_timestamp), payload)


def stamp_message(
    batch: LegacyBatch, *, last_offset: int, timestamp_type: TimestampType, max_timestamp: int
) -> bytes:
    """Magic 0 has no timestamp to be changed."""
    out = bytearray(batch.raw)
    _OFFSET.pack_into(out, 0, last_offset)
    record = batch.record
    is_same = record.timestamp_type is timestamp_type and record.timestamp == max_timestamp
    if batch.magic > 0 and not is_same:
        attributes = int(batch.codec) | (timestamp_type << 3)
        _ATTRIBUTES_AND_TIMESTAMP.pack_into(out, _ATTRIBUTES_AT, attributes, max_timestamp)
        _CRC.pack_into(out, _CRC_AT, crc32(memoryview(out)[_MAGIC_AT:]))
    return bytes(out)
