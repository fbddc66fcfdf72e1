"""What a read of a log gives, and where an offset lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.file_records import FileSlice

UNKNOWN_OFFSET = -1
UNKNOWN_FILE_POSITION = -1


class LogOffsetMetadata(NamedTuple):
    """An offset, the segment it lies in and its position there; the last two may be unknown."""

    message_offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    relative_position_in_segment: int = UNKNOWN_FILE_POSITION

    @property
    def message_offset_only(self) -> bool:
        return (
            self.segment_base_offset == UNKNOWN_OFFSET
            and self.relative_position_in_segment == UNKNOWN_FILE_POSITION
        )

    def on_older_segment(self, that: LogOffsetMetadata) -> bool:
        if self.message_offset_only or that.message_offset_only:
            return False
        return self.segment_base_offset < that.segment_base_offset

    def on_same_segment(self, that: LogOffsetMetadata) -> bool:
        if self.message_offset_only or that.message_offset_only:
            return False
        return self.segment_base_offset == that.segment_base_offset


@dataclass(frozen=True, slots=True)
class FetchDataInfo:
    """Bytes of one segment, which may end within a batch; `records` is None where none are."""

    fetch_offset_metadata: LogOffsetMetadata
    records: FileSlice | None
    first_entry_incomplete: bool = False
    aborted_transactions: Sequence[AbortedTransaction] | None = None

    @property
    def size_in_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_in_bytes

    def read(self) -> bytes:
        return b"" if self.records is None else self.records.read()
