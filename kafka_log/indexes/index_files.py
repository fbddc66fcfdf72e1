"""`.index` and `.timeindex` of a segment, written as Kafka writes them.

    OffsetIndex     an entry every index.interval.bytes
    TimeIndex       an entry at the same batches; the last slot is reserved for the roll
    LazyIndex       either, opened or created on first access

Mirrors OffsetIndex, TimeIndex and LazyIndex of org.apache.kafka.storage.internals.log; mapped_index
is their common base, aborted_transactions has `.txnindex`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kafka_format.index_layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafka_log.errors import (
    CorruptIndexError,
    IllegalArgumentError,
    IndexFullError,
    InvalidOffsetError,
    LogError,
)
from kafka_log.indexes.mapped_index import MappedIndex

if TYPE_CHECKING:
    from kafka_log.disk.files import Files

NO_TIMESTAMP = -1


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and its position in the file."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """The largest timestamp so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class OffsetIndex(MappedIndex):
    """`.index`: maps offsets to positions."""

    ENTRY = OFFSET_INDEX_ENTRY

    def __init__(self, files: Files, name: str, base_offset: int, max_index_size: int = -1) -> None:
        super().__init__(files, name, base_offset, max_index_size)
        self.last_offset = base_offset
        self._read_last_entry()

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry; (base offset, 0) if there is none."""
        return self.entry(self.entries - 1) if self.entries else OffsetPosition(self.base_offset, 0)

    def entry(self, slot: int) -> OffsetPosition:
        if not 0 <= slot < self.entries:
            raise IllegalArgumentError(
                f"{self.path}: found {self.entries} entries, expected slot {slot}"
            )
        relative, position = self._slot(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def lookup(self, target_offset: int) -> OffsetPosition:
        """Return the entry of the largest offset up to this one, or (base offset, 0) if none."""
        slot = self._largest_lower_bound(target_offset, self._offset_at)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self.entry(slot)

    def fetch_upper_bound_offset(
        self, fetch_offset: OffsetPosition, fetch_size: int
    ) -> OffsetPosition | None:
        """Return the first entry after the fetched bytes, if there is one."""
        slot = self._smallest_upper_bound(fetch_offset.position + fetch_size, self._position_at)
        return None if slot < 0 else self.entry(slot)

    def append(self, offset: int, position: int) -> None:
        if self.is_full:
            raise IndexFullError(f"{self.path}: found {self.entries} entries, expected room")
        if self.entries and offset <= self.last_offset:
            raise InvalidOffsetError(
                f"{self.path}: found offset {offset} for slot {self.entries}, expected more than "
                f"{self.last_offset}"
            )
        self._append(self.ENTRY.pack(self.relative_offset(offset), position))
        self.last_offset = offset
        self._ensure_consistent()

    def truncate_to(self, offset: int) -> None:
        slot = self._largest_lower_bound(offset, self._offset_at)
        is_exact = slot >= 0 and self._offset_at(slot) == offset
        self._truncate_to_entries(slot if is_exact else slot + 1)

    def sanity_check(self) -> None:
        if self.entries and self.last_offset < self.base_offset:
            raise CorruptIndexError(
                f"{self.path}: found last offset {self.last_offset}, expected at least "
                f"{self.base_offset}"
            )
        if self.length % self.ENTRY.size:
            raise CorruptIndexError(
                f"{self.path}: found {self.length} bytes, expected a multiple of {self.ENTRY.size}"
            )

    def _read_last_entry(self) -> None:
        self.last_offset = self.last_entry.offset

    def _offset_at(self, slot: int) -> int:
        return self.base_offset + self._slot(slot)[0]

    def _position_at(self, slot: int) -> int:
        return self._slot(slot)[1]


class TimeIndex(MappedIndex):
    """`.timeindex`: maps timestamps to offsets."""

    ENTRY = TIME_INDEX_ENTRY

    def __init__(self, files: Files, name: str, base_offset: int, max_index_size: int = -1) -> None:
        super().__init__(files, name, base_offset, max_index_size)
        self.last_entry = TimestampOffset(NO_TIMESTAMP, base_offset)
        self._read_last_entry()

    @property
    def is_full(self) -> bool:
        """Whether only the slot that is reserved for the roll is left."""
        return self.entries >= self.max_entries - 1

    def entry(self, slot: int) -> TimestampOffset:
        if not 0 <= slot < self.entries:
            raise IllegalArgumentError(
                f"{self.path}: found {self.entries} entries, expected slot {slot}"
            )
        timestamp, relative = self._slot(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """Return the entry of the largest timestamp up to this one; (-1, base offset) if none."""
        slot = self._largest_lower_bound(target_timestamp, self._timestamp_at)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if slot < 0 else self.entry(slot)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Append if the timestamp is larger than the last; it and the offset must not decrease."""
        if not skip_full_check and self.is_full:
            raise IndexFullError(f"{self.path}: found {self.entries} entries, expected room")
        last = self.last_entry
        if self.entries and offset < last.offset:
            raise InvalidOffsetError(
                f"{self.path}: found offset {offset} for slot {self.entries}, expected at least "
                f"{last.offset}"
            )
        if self.entries and timestamp < last.timestamp:
            raise LogError(
                f"{self.path}: found timestamp {timestamp} for slot {self.entries}, expected at "
                f"least {last.timestamp}"
            )
        if timestamp > last.timestamp:
            self._append(self.ENTRY.pack(timestamp, self.relative_offset(offset)))
            self.last_entry = TimestampOffset(timestamp, offset)
            self._ensure_consistent()

    def truncate_to(self, offset: int) -> None:
        slot = self._largest_lower_bound(offset, self._offset_at)
        is_exact = slot >= 0 and self._offset_at(slot) == offset
        self._truncate_to_entries(slot if is_exact else slot + 1)

    def resize(self, new_size: int) -> bool:
        is_resized = super().resize(new_size)
        if is_resized:
            self._read_last_entry()
        return is_resized

    def sanity_check(self) -> None:
        last = self.last_entry
        if self.entries and last.timestamp < self._timestamp_at(0):
            raise CorruptIndexError(
                f"{self.path}: found last timestamp {last.timestamp}, expected at least "
                f"{self._timestamp_at(0)}"
            )
        if self.entries and last.offset < self.base_offset:
            raise CorruptIndexError(
                f"{self.path}: found last offset {last.offset}, expected at least "
                f"{self.base_offset}"
            )
        if self.length % self.ENTRY.size:
            raise CorruptIndexError(
                f"{self.path}: found {self.length} bytes, expected a multiple of {self.ENTRY.size}"
            )

    def _read_last_entry(self) -> None:
        self.last_entry = (
            self.entry(self.entries - 1)
            if self.entries
            else TimestampOffset(NO_TIMESTAMP, self.base_offset)
        )

    def _timestamp_at(self, slot: int) -> int:
        return self._slot(slot)[0]

    def _offset_at(self, slot: int) -> int:
        return self.base_offset + self._slot(slot)[1]


IndexT = TypeVar("IndexT", OffsetIndex, TimeIndex)


class LazyIndex(Generic[IndexT]):
    """An index whose file is opened, or created, on first access."""

    def __init__(
        self,
        kind: type[IndexT],
        files: Files,
        name: str,
        base_offset: int,
        max_index_size: int,
    ) -> None:
        self._kind: type[IndexT] = kind
        self._files = files
        self._name = name
        self._base_offset = base_offset
        self._max_index_size = max_index_size
        self._index: IndexT | None = None

    @property
    def name(self) -> str:
        return self._name if self._index is None else self._index.name

    def get(self) -> IndexT:
        if self._index is None:
            self._index = self._kind(
                self._files, self._name, self._base_offset, self._max_index_size
            )
        return self._index

    def rename_to(self, name: str) -> None:
        if self._index is not None:
            self._index.rename_to(name)
            return
        old, self._name = self._name, name
        if self._files.exists(old):
            self._files.rename(old, name)

    def delete_if_exists(self) -> bool:
        if self._index is not None:
            return self._index.delete_if_exists()
        return self._files.delete_if_exists(self._name)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    def close_handler(self) -> None:
        if self._index is not None:
            self._index.close_handler()
