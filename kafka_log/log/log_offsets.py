"""The offsets that a log exposes: log start, high watermark, first unstable offset.

    log start <= last stable <= high watermark <= log end

There is an exception: if the log start or the high watermark is inside a batch, the others fall
back to the first offset of that batch as soon as their position in the files is looked up.

Mirrors the offsets of UnifiedLog: logStartOffset, highWatermarkMetadata,
firstUnstableOffsetMetadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.errors import IllegalArgumentError, OffsetOutOfRangeError
from kafka_log.log.fetch_data import LogOffsetMetadata

if TYPE_CHECKING:
    from kafka_log.log.local_log import LocalLog
    from kafka_log.producers.producer_state import ProducerStateManager


class LogOffsets:
    """The log start, the high watermark and the first unstable offset of a log."""

    def __init__(
        self, local_log: LocalLog, producers: ProducerStateManager, *, log_start_offset: int
    ) -> None:
        self.log_start_offset = log_start_offset
        self._local_log = local_log
        self._producers = producers
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None
        self._transaction_places: dict[int, LogOffsetMetadata] = {}  # those started since the load
        first_base = local_log.segments.first_segment_base_offset() or 0
        self._raise_to(max(log_start_offset, first_base))
        self.log_start_offset = max(log_start_offset, first_base)
        self.maybe_increment_first_unstable_offset()

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.message_offset

    @property
    def first_unstable_offset(self) -> int | None:
        return None if self._first_unstable is None else self._first_unstable.message_offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self.first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return unstable
        return self.high_watermark

    # ------------------------------------------------------------------------------- log start

    def raise_log_start_offset(self, log_start_offset: int) -> None:
        self.log_start_offset = log_start_offset
        self._raise_to(log_start_offset)

    def _raise_to(self, log_start_offset: int) -> None:
        """Raise the high watermark and the recovery point to at least the log start."""
        if self.high_watermark < log_start_offset:
            self.update_high_watermark(log_start_offset)
        local_log = self._local_log
        local_log.recovery_point = max(local_log.recovery_point, log_start_offset)

    # -------------------------------------------------------------------------- high watermark

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, clamped to the log; return it. It may move back."""
        if isinstance(high_watermark, int):
            high_watermark = LogOffsetMetadata(high_watermark)
        end = self._local_log.log_end_offset_metadata
        if high_watermark.message_offset < self.log_start_offset:
            high_watermark = LogOffsetMetadata(self.log_start_offset)
        elif high_watermark.message_offset >= end.message_offset:
            high_watermark = end
        self._set_high_watermark(high_watermark)
        return high_watermark.message_offset

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Advance the high watermark as a leader does; return the old one if it moved."""
        if new.message_offset > self._local_log.log_end_offset:
            raise IllegalArgumentError(
                f"{self._directory}: high watermark {new.message_offset}, expected at most the log"
                f" end {self._local_log.log_end_offset}"
            )
        old = self.fetch_high_watermark()
        is_forward = old.message_offset < new.message_offset
        is_onto_newer = old.message_offset == new.message_offset and old.on_older_segment(new)
        if not is_forward and not is_onto_newer:
            return None
        self._set_high_watermark(new)
        return old

    def update_high_watermark_with_log_end_offset(self) -> None:
        """Move the high watermark to the log end if it is not below.

        This is so without other replicas, and after a truncation below the high watermark.
        """
        if self.high_watermark >= self._local_log.log_end_offset:
            self._set_high_watermark(self._local_log.log_end_offset_metadata)

    def fetch_high_watermark(self) -> LogOffsetMetadata:
        """Return the high watermark with its position; inside a batch, the start of the batch."""
        self._local_log.ensure_open()
        if self._high_watermark.message_offset_only:
            self._set_high_watermark(self._located(self.high_watermark))
        return self._high_watermark

    def _set_high_watermark(self, high_watermark: LogOffsetMetadata) -> None:
        if high_watermark.message_offset < 0:
            raise IllegalArgumentError(
                f"{self._directory}: high watermark {high_watermark.message_offset}, expected 0 or"
                " more"
            )
        self._high_watermark = high_watermark
        self._producers.on_high_watermark_updated(high_watermark.message_offset)
        self.maybe_increment_first_unstable_offset()

    # --------------------------------------------------------------------- first unstable offset

    def note_transaction(self, place: LogOffsetMetadata) -> None:
        """Remember where a transaction starts. For one found by a replay it is looked up."""
        self._transaction_places[place.message_offset] = place

    def forget_transactions(self) -> None:
        """Forget where transactions start: a truncation may have moved or removed them."""
        self._transaction_places.clear()

    def maybe_increment_first_unstable_offset(self) -> None:
        self._local_log.ensure_open()
        offset = self._producers.first_unstable_offset()
        places = self._transaction_places
        if offset is None:
            places.clear()
            self._first_unstable = None
            return
        if len(places) > 1 and min(places) < offset:
            for ended in [first for first in places if first < offset]:
                del places[ended]
        if offset in places and offset >= self.log_start_offset:
            self._first_unstable = places[offset]
        else:
            # If the transaction started before the log start, everything from the log start on is
            # unstable.
            self._first_unstable = self._located(max(offset, self.log_start_offset))

    def fetch_last_stable_offset(self) -> LogOffsetMetadata:
        high_watermark = self.fetch_high_watermark()
        unstable = self._first_unstable
        if unstable is None or unstable.message_offset >= high_watermark.message_offset:
            return high_watermark
        if unstable.message_offset_only:
            self._first_unstable = unstable = self._located(unstable.message_offset)
        return unstable

    def _located(self, offset: int) -> LogOffsetMetadata:
        try:
            return self._local_log.convert_to_offset_metadata(offset)
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)

    @property
    def _directory(self) -> str:
        return self._local_log.files.directory
