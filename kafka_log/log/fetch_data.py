"""The result of a read, and the position of an offset."""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_format.transaction_index import AbortedTransaction
from kafka_log.segment.file_records import FileSlice

UNKNOWN_OFFSET = -1
UNKNOWN_FILE_POSITION = -1
EMPTY = FileSlice(None, 0, 0)
"""A slice without bytes or a file."""


class LogOffsetMetadata(NamedTuple):
    """An offset, its segment and its position there. The last two may be unknown."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = UNKNOWN_FILE_POSITION

    @property
    def message_offset_only(self) -> bool:
        return (
            self.segment_base_offset == UNKNOWN_OFFSET
            and self.relative_position_in_segment == UNKNOWN_FILE_POSITION
        )

    def on_older_segment(self, that: "LogOffsetMetadata") -> bool:
        if self.message_offset_only or that.message_offset_only:
            return False
        return self.segment_base_offset < that.segment_base_offset

    def on_same_segment(self, that: "LogOffsetMetadata") -> bool:
        if self.message_offset_only or that.message_offset_only:
            return False
        return self.segment_base_offset == that.segment_base_offset


class FetchDataInfo(NamedTuple):
    """Bytes of one segment. They may end within a batch."""

    fetch_offset_metadata: LogOffsetMetadata
    records: FileSlice
    first_entry_incomplete: bool = False
    aborted_transactions: Sequence[AbortedTransaction] | None = None
