"""The segments of a partition as one log: append, read, flush, roll, truncate.

    log end offset   the offset of the next record, and its position in the active segment
    recovery point   everything below it is on disk

The offsets that a broker exposes (log start, high watermark) are in log_offsets.py.

Mirrors org.apache.kafka.storage.internals.log.LocalLog (4.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.file_kinds import SEGMENT_KINDS
from kafka_log.errors import LogError, OffsetOutOfRangeError
from kafka_log.indexes.index_files import OffsetPosition
from kafka_log.log.fetch_data import EMPTY, FetchDataInfo, LogOffsetMetadata
from kafka_log.names import FileState, segment_file_name
from kafka_log.segment.log_segment import LogSegment
from kafka_log.segment.segment_files import delete_segment_files

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from kafka_format.primitives import Buffer
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.clock import Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.segment.log_segments import LogSegments

_DELETED = FileState.DELETED.value


class LocalLog:
    """The segments of one partition directory. There is always at least one: the active one."""

    def __init__(
        self,
        files: Files,
        config: LogConfig,
        segments: LogSegments,
        *,
        recovery_point: int,
        next_offset: LogOffsetMetadata,
        scheduler: Scheduler,
        rng: random.Random | None = None,
    ) -> None:
        self.files = files
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        self.last_flush_time = scheduler.clock()
        self.log_end_offset_metadata = next_offset
        self._scheduler = scheduler
        self._clock = scheduler.clock
        self._rng = rng
        self._is_closed = False

    def __repr__(self) -> str:
        return f"LocalLog({self.files.directory}, {self.segments!r}, end {self.log_end_offset})"

    @property
    def log_end_offset(self) -> int:
        return self.log_end_offset_metadata.message_offset

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def ensure_open(self) -> None:
        """Raise LogError if the log is closed (checkIfMemoryMappedBufferClosed)."""
        if self._is_closed:
            raise LogError(f"{self.files.directory}: the log is closed, expected it open")

    def update_log_end_offset(self, end_offset: int) -> None:
        active = self.segments.active_segment()
        self.log_end_offset_metadata = LogOffsetMetadata(
            end_offset, active.base_offset, active.size
        )
        self.recovery_point = min(self.recovery_point, end_offset)

    # ---------------------------------------------------------------------------- flush, close

    def flush(self, offset: int) -> None:
        """Flush the segments between the recovery point and `offset` to disk."""
        recovery_point = self.recovery_point
        if recovery_point > offset:
            return
        segments = self.segments.values(recovery_point, offset)
        for segment in segments:
            segment.flush()
        # Only segments created since the last flush have directory entries that could be lost.
        if any(segment.base_offset >= recovery_point for segment in segments):
            self.files.sync_directory()

    def mark_flushed(self, offset: int) -> None:
        self.ensure_open()
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flush_time = self._clock()

    def close(self) -> None:
        self.ensure_open()
        self.segments.close()

    def close_handlers(self) -> None:
        """Close the files as they are: indexes keep their preallocated size."""
        self.segments.close_handlers()
        self._is_closed = True

    # --------------------------------------------------------------------------------- changes

    def append(self, last_offset: int, records: Buffer) -> None:
        self.segments.active_segment().append(last_offset, records)
        self.update_log_end_offset(last_offset + 1)

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Start a new active segment at the log end, or at `expected_next_offset` if higher."""
        self.ensure_open()
        base_offset = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active_segment()
        if self.segments.contains(base_offset):
            if active.base_offset != base_offset or active.size:
                raise LogError(
                    f"{self.files.directory}: found a segment at {base_offset}, expected none where"
                    " a new one begins"
                )
            # The active segment is empty: its index was full at once, or the log was rolled twice.
            # It is replaced. Kafka logs the entry counts of its indexes, which creates their files.
            _ = active.time_index.entries, active.offset_index.entries
            segment = self.create_and_delete_segment(base_offset, active)
        elif base_offset < active.base_offset:
            raise LogError(
                f"{self.files.directory}: found {base_offset} for a new segment, expected more than"
                f" {active.base_offset}, where the active one begins"
            )
        else:
            for kind in SEGMENT_KINDS:
                self.files.delete_if_exists(str(segment_file_name(base_offset, kind)))
            active.on_become_inactive_segment()
            segment = self._open_segment(base_offset)
            self.segments.add(segment)
        self.update_log_end_offset(self.log_end_offset)
        return segment

    def truncate_to(self, target_offset: int) -> list[LogSegment]:
        """Remove everything from an offset on; return the segments that were deleted."""
        deletable = self.segments.filter(lambda segment: segment.base_offset > target_offset)
        self.remove_and_delete_segments(deletable)
        self.segments.active_segment().truncate_to(target_offset)
        self.update_log_end_offset(target_offset)
        return deletable

    def truncate_fully_and_start_at(self, new_offset: int) -> None:
        self.ensure_open()
        *older, last = self.segments.values()
        self.remove_and_delete_segments(older)
        self.create_and_delete_segment(new_offset, last)
        self.update_log_end_offset(new_offset)

    def remove_and_delete_segments(
        self, segments: Iterable[LogSegment], *, async_delete: bool = True
    ) -> None:
        chosen = list(segments)
        if not chosen:
            return
        for segment in chosen:
            self.segments.remove(segment.base_offset)
        delete_segment_files(chosen, self.config, self._scheduler, async_delete=async_delete)

    def create_and_delete_segment(self, new_offset: int, old: LogSegment) -> LogSegment:
        """Replace a segment by an empty one, which may have the same file names."""
        if new_offset == old.base_offset:
            old.change_file_suffixes("", _DELETED)
        segment = self._open_segment(new_offset)
        self.segments.add(segment)
        if new_offset != old.base_offset:
            self.segments.remove(old.base_offset)
        delete_segment_files([old], self.config, self._scheduler)
        return segment

    def delete_all_segments(self) -> list[LogSegment]:
        segments = self.segments.values()
        self.remove_and_delete_segments(segments, async_delete=False)
        self._is_closed = True
        return segments

    def _open_segment(self, base_offset: int) -> LogSegment:
        return LogSegment.open(
            self.files,
            base_offset,
            self.config,
            self._clock,
            init_file_size=self.config.init_file_size,
            preallocate=self.config.preallocate,
            rng=self._rng,
        )

    # ----------------------------------------------------------------------------------- reads

    def convert_to_offset_metadata(self, offset: int) -> LogOffsetMetadata:
        """Return the position of the batch that holds an offset, with the batch's first offset."""
        end = self.log_end_offset_metadata
        return self.read(offset, 1, max_offset=end, min_one_message=False).fetch_offset_metadata

    def read(
        self,
        start_offset: int,
        max_length: int,
        *,
        max_offset: LogOffsetMetadata,
        min_one_message: bool,
        include_aborted: bool = False,
    ) -> FetchDataInfo:
        """Read one segment from the batch of `start_offset` on, up to `max_offset`."""
        end = self.log_end_offset_metadata
        segment = self.segments.floor_segment(start_offset)
        if start_offset > end.message_offset or segment is None:
            raise OffsetOutOfRangeError(
                f"{self.files.directory}: offset {start_offset}, expected one of its segments', up"
                f" to {end.message_offset}"
            )
        aborted: list[AbortedTransaction] | None = [] if include_aborted else None
        if start_offset == max_offset.message_offset:
            return FetchDataInfo(max_offset, EMPTY, aborted_transactions=aborted)
        if start_offset > max_offset.message_offset:
            where = self.convert_to_offset_metadata(start_offset)
            return FetchDataInfo(where, EMPTY, aborted_transactions=aborted)
        while segment is not None:
            found = segment.read(
                start_offset,
                max_length,
                max_position=_max_position(segment, max_offset),
                min_one_message=min_one_message,
            )
            if found is not None:
                return (
                    self._with_aborted(start_offset, segment, found) if include_aborted else found
                )
            # Compaction may have left nothing from this offset to the segment's end.
            segment = self.segments.higher_segment(segment.base_offset)
        return FetchDataInfo(end, EMPTY)

    def _with_aborted(
        self, start_offset: int, segment: LogSegment, found: FetchDataInfo
    ) -> FetchDataInfo:
        where = found.fetch_offset_metadata
        upper_bound = segment.fetch_upper_bound_offset(
            OffsetPosition(where.message_offset, where.relative_position_in_segment),
            found.records.size_in_bytes,
        )
        if upper_bound is None:
            following = self.segments.higher_segment(segment.base_offset)
            upper_bound = self.log_end_offset if following is None else following.base_offset
        aborted = self._collect_aborted(start_offset, upper_bound, segment)
        return found._replace(aborted_transactions=aborted)

    def collect_aborted_transactions(
        self, log_start_offset: int, base_offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap a range, in the order of their markers.

        The range is from the log start to the upper bound; the search starts at `base_offset`.
        """
        segment = self.segments.floor_segment(base_offset)
        if segment is None:
            return []
        return self._collect_aborted(log_start_offset, upper_bound_offset, segment)

    def _collect_aborted(
        self, start_offset: int, upper_bound_offset: int, first: LogSegment
    ) -> list[AbortedTransaction]:
        """Search on from a segment: a marker may be some segments after the records it aborts."""
        found: list[AbortedTransaction] = []
        segments: Sequence[LogSegment] = [first, *self.segments.higher_segments(first.base_offset)]
        for segment in segments:
            result = segment.collect_aborted_txns(start_offset, upper_bound_offset)
            found += result.aborted_transactions
            if result.is_complete:
                break
        return found


def _max_position(segment: LogSegment, max_offset: LogOffsetMetadata) -> int | None:
    """Return the position up to which this segment may be read; None if it may not be read."""
    if segment.base_offset < max_offset.segment_base_offset:
        return segment.size
    if segment.base_offset == max_offset.segment_base_offset and not max_offset.message_offset_only:
        return max_offset.relative_position_in_segment
    return None
