"""Set offset, leader epoch and timestamps in the header of a batch that keeps its bytes.

The checksum covers neither offset nor epoch, so it is computed again only if the timestamp type or
the largest timestamp changes. Unknown attribute bits are then lost, because Kafka writes the whole
field from the bits it knows.

Mirrors DefaultRecordBatch.setLastOffset, setMaxTimestamp, setPartitionLeaderEpoch, and those of
ByteBufferLegacyRecordBatch.
"""

from kafka_format.attributes import TIMESTAMP_TYPE_SHIFT
from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble, attributes_of
from kafka_format.batch_layout import (
    BATCH,
    MAGIC_AT,
    MESSAGE_1,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    MESSAGE_TIMESTAMP_AT,
    PARTITION_LEADER_EPOCH_AT,
)
from kafka_format.checksum import crc32
from kafka_format.record import TimestampType, wrap_int64
from kafka_log.appends.batches import AppendedLegacyBatch, DefaultBatch

_OFFSET = BATCH.field("base_offset").struct
_EPOCH = BATCH.field("partition_leader_epoch").struct
_CRC = MESSAGE_1.field("crc").struct
_TIMESTAMP = MESSAGE_1.field("timestamp").struct


def stamp_batch(
    batch: DefaultBatch,
    *,
    last_offset: int,
    partition_leader_epoch: int | None,
    timestamp_type: TimestampType,
    max_timestamp: int,
) -> bytes:
    """Return the stamped batch. Without a leader epoch it keeps its own."""
    header = batch.header
    head, payload = bytearray(batch.raw[:HEADER_SIZE]), batch.raw[HEADER_SIZE:]
    _OFFSET.pack_into(head, 0, wrap_int64(last_offset - header.last_offset_delta))
    if partition_leader_epoch is not None:
        _EPOCH.pack_into(head, PARTITION_LEADER_EPOCH_AT, partition_leader_epoch)
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
    batch: AppendedLegacyBatch,
    *,
    last_offset: int,
    timestamp_type: TimestampType,
    max_timestamp: int,
) -> bytes:
    """Return the stamped message. Magic 0 has no timestamp to change."""
    out = bytearray(batch.raw)
    _OFFSET.pack_into(out, 0, last_offset)
    record = batch.record
    is_same = record.timestamp_type is timestamp_type and record.timestamp == max_timestamp
    if batch.magic > 0 and not is_same:
        out[MESSAGE_ATTRIBUTES_AT] = int(batch.codec) | (timestamp_type << TIMESTAMP_TYPE_SHIFT)
        _TIMESTAMP.pack_into(out, MESSAGE_TIMESTAMP_AT, max_timestamp)
        _CRC.pack_into(out, MESSAGE_CRC_AT, crc32(memoryview(out)[MAGIC_AT:]))
    return bytes(out)
