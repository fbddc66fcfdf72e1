"""Find offsets by timestamp, as for a ListOffsets request.

The result is the first record at or after a time, found by the time indexes. Negative timestamps
have special meanings; two of them are about tiered storage, and find nothing without it.

Mirrors UnifiedLog.fetchOffsetByTimestamp and ListOffsetsRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.errors import FormatError
from kafka_log.segment.file_records import TimestampAndOffset
from kafka_log.segment.record_search import exactly_at, search_batch

if TYPE_CHECKING:
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.file_records import FileBatch
    from kafka_log.segment.log_segment import LogSegment

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

_NO_TIMESTAMP = -1
_NOTHING_TIERED = TimestampAndOffset(_NO_TIMESTAMP, -1, -1)


def fetch_offset_by_timestamp(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """Find the first record at or after a time, or what a negative timestamp stands for."""
    epochs = log.leader_epoch_cache
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        first = epochs.earliest_entry
        is_known = first is not None and first.start_offset <= log.log_start_offset
        epoch = first.epoch if first is not None and is_known else None
        return TimestampAndOffset(_NO_TIMESTAMP, log.log_start_offset, epoch)
    if timestamp == LATEST_TIMESTAMP:
        return TimestampAndOffset(_NO_TIMESTAMP, log.log_end_offset, epochs.latest_epoch)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return _NOTHING_TIERED
    if timestamp == MAX_TIMESTAMP:
        return _fetch_max_timestamp(log.log_segments)
    for segment in log.log_segments:
        if segment.largest_timestamp() >= timestamp:
            return segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
    return None


def _fetch_max_timestamp(segments: list[LogSegment]) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp in the first segment that has it."""
    segment = segments[0]
    for other in segments[1:]:
        if other.max_timestamp_so_far() > segment.max_timestamp_so_far():
            segment = other
    timestamp = segment.max_timestamp_so_far()
    position = segment.offset_index.lookup(segment.offset_of_max_timestamp_so_far()).position
    for batch in segment.log.batches_from(position):
        if batch.max_timestamp == timestamp:
            offset = _offset_of_timestamp(segment, batch, timestamp)
            if offset is None:
                return None
            epoch = batch.partition_leader_epoch
            return TimestampAndOffset(timestamp, offset, epoch if epoch >= 0 else None)
    return None


def _offset_of_timestamp(segment: LogSegment, batch: FileBatch, timestamp: int) -> int | None:
    """Return the offset of the first record with exactly this timestamp; magic 0 has none."""
    if batch.magic == 0:
        return None
    raw = segment.log.read_exactly(batch.position, batch.size_in_bytes)
    try:
        found = search_batch(raw, exactly_at(timestamp), streams=True)
    except FormatError as error:
        raise error.moved(segment.log.path, batch.position) from None
    return None if found is None else found.offset
