"""The side files of a segment, written to as Kafka writes to them.

    OffsetIndex         .index      preallocated, an entry every index.interval.bytes
    TimeIndex           .timeindex  preallocated, beside the other; the last slot is for the roll
    TransactionIndex    .txnindex   there from its first entry on, never preallocated

Kafka maps the first two into memory: an entry is in the file as soon as it is appended, a new file
is extended with zeros to `segment.index.bytes` (rounded down to whole entries), dropped entries
stay behind the last one until something is written over them, and only a trim cuts the file. An
index that exists when it is opened is full of entries to its end, zeros too. All of that shows on
disk after a crash, so all of that is done here.

Mirrors AbstractIndex, OffsetIndex, TimeIndex, TransactionIndex and LazyIndex of
org.apache.kafka.storage.internals.log.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar

from kafka_format.errors import Location, UnsupportedError
from kafka_format.transaction_index import VERSION, AbortedTransaction
from kafka_log.errors import (
    CorruptIndexError,
    IllegalArgumentError,
    IndexFullError,
    IndexOffsetOverflowError,
    InvalidOffsetError,
    LogError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.primitives import Buffer
    from kafka_log.files import File, Files

NO_TIMESTAMP = -1
INT32_MAX = 2**31 - 1
_WARM_BYTES = 8192

_OFFSET_ENTRY = struct.Struct(
    ">i"  # relative_offset
    "i"  # position
)
_TIME_ENTRY = struct.Struct(
    ">q"  # timestamp
    "i"  # relative_offset
)
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")  # as kafka_format.transaction_index tells


class OffsetPosition(NamedTuple):
    """The last offset of a batch, and where in the file that batch begins."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """The largest timestamp so far, and the last offset of the batch that brought it."""

    timestamp: int
    offset: int


class _Index(ABC):
    """What both kinds of preallocated index have in common (AbstractIndex)."""

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, files: Files, name: str, base_offset: int, max_index_size: int = -1) -> None:
        self.name = name
        self.base_offset = base_offset
        self.max_index_size = max_index_size
        self._files = files
        self._copy: bytearray | None = None  # of the entries, from the first lookup on
        is_new = not files.exists(name)
        self._file: File | None = files.open(name, create=True)
        if is_new:
            if max_index_size < self.ENTRY.size:
                raise IllegalArgumentError(
                    f"{self.path}: found max index size {max_index_size}, expected "
                    f"at least {self.ENTRY.size}"
                )
            self._file.truncate(self._whole(max_index_size))
        self.length = self._file.size
        self.max_entries = self.length // self.ENTRY.size
        self.entries = 0 if is_new else self.max_entries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path}, {self.entries} of {self.max_entries} entries)"

    @property
    def path(self) -> str:
        return self._files.path(self.name)

    @property
    def file(self) -> File:
        if self._file is None:
            raise LogError(f"{self.path}: found closed, expected an open index")
        return self._file

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    @property
    def size_in_bytes(self) -> int:
        """Of the entries; the file may be longer."""
        return self.ENTRY.size * self.entries

    def can_append_offset(self, offset: int) -> bool:
        return 0 <= offset - self.base_offset <= INT32_MAX

    def relative_offset(self, offset: int) -> int:
        if not self.can_append_offset(offset):
            raise IndexOffsetOverflowError(
                f"{self.path}: found offset {offset}, expected {self.base_offset} to "
                f"{self.base_offset + INT32_MAX}"
            )
        return offset - self.base_offset

    def resize(self, new_size: int) -> bool:
        """Cut or extend the file to whole entries; whether its size changed."""
        size = self._whole(new_size)
        if self.length == size:
            return False
        self.file.truncate(size)
        self.length = size
        self.max_entries = size // self.ENTRY.size
        if size < self.size_in_bytes:
            self._copy = None
            raise IllegalArgumentError(
                f"{self.path}: found {self.entries} entries, expected at most {self.max_entries}"
            )
        return True

    def trim_to_valid_size(self) -> None:
        if self._file is not None:
            self.resize(self.size_in_bytes)

    def reset(self) -> None:
        """No entries, full size."""
        self.truncate()
        self.resize(self.max_index_size)

    def truncate(self) -> None:
        self._truncate_to_entries(0)

    def flush(self) -> None:
        self.file.sync()

    def close(self) -> None:
        self.trim_to_valid_size()
        self.close_handler()

    def close_handler(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._copy = None

    def rename_to(self, name: str) -> None:
        old, self.name = self.name, name
        self._files.rename(old, name)

    def delete_if_exists(self) -> bool:
        self.close_handler()
        return self._files.delete_if_exists(self.name)

    def read_entries(self) -> bytes:
        """The entries as they lie in the file, without what follows them."""
        return self.file.read_at(0, self.size_in_bytes)

    @abstractmethod
    def sanity_check(self) -> None:
        """CorruptIndexError if the file cannot be an index of this segment."""

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Drop the entries from `offset` on; they stay in the file until written over."""

    @abstractmethod
    def _read_last_entry(self) -> None:
        """Have the last entry again as the file has it."""

    def _truncate_to_entries(self, entries: int) -> None:
        self.entries = entries
        if self._copy is not None:
            del self._copy[self.size_in_bytes :]
        self._read_last_entry()

    def _append(self, entry: bytes) -> None:
        if self.entries >= self.max_entries:
            raise IndexFullError(f"{self.path}: found no room, expected some for an entry")
        self._write(entry)

    def append_packed(self, packed: Buffer) -> None:
        """Many entries in one write; the caller knows that they belong here, and fit."""
        if not packed:
            return
        self._write(packed)
        self._read_last_entry()

    def _write(self, packed: Buffer) -> None:
        self.file.write_at(self.size_in_bytes, packed)
        self.entries += len(packed) // self.ENTRY.size
        if self._copy is not None:
            self._copy += packed

    def _slot(self, slot: int) -> tuple[int, int]:
        position, size = slot * self.ENTRY.size, self.ENTRY.size
        if self._copy is None:
            data: Buffer = self.file.read_at(position, size)
            position = 0
        else:
            data = self._copy
        if len(data) < position + size:  # cut behind our back, or by a resize that was refused
            where = Location(self.path, slot * size)
            raise CorruptIndexError(f"{where}: found the end of the file, expected an entry")
        first, second = self.ENTRY.unpack_from(data, position)
        return first, second

    def _load_copy(self) -> None:
        """A lookup probes a dozen entries: far from each other, and each a call of its own."""
        if self._copy is None:
            self._copy = bytearray(self.read_entries())

    def _largest_lower_bound(self, target: int, key: Callable[[int], int]) -> int:
        """The slot of the largest entry up to `target`, -1 if there is none.

        Slots are probed in Kafka's order, the warm end first: an index that is not sorted gives
        the same answers.
        """
        if self.entries == 0:
            return -1
        self._load_copy()
        first_hot = max(0, self.entries - 1 - _WARM_BYTES // self.ENTRY.size)
        if key(first_hot) < target:
            return self._binary_search(target, key, first_hot, self.entries - 1)[0]
        if key(0) > target:
            return -1
        return self._binary_search(target, key, 0, first_hot)[0]

    def _smallest_upper_bound(self, target: int, key: Callable[[int], int]) -> int:
        """The slot of the smallest entry from `target` on, -1 if there is none."""
        if self.entries == 0:
            return -1
        self._load_copy()
        first_hot = max(0, self.entries - 1 - _WARM_BYTES // self.ENTRY.size)
        if key(first_hot) < target:
            slot, is_exact = self._binary_search(target, key, first_hot, self.entries - 1)
        elif key(0) > target:
            return 0
        else:
            slot, is_exact = self._binary_search(target, key, 0, first_hot)
        if is_exact:
            return slot
        return -1 if slot == self.entries - 1 else slot + 1

    @staticmethod
    def _binary_search(
        target: int, key: Callable[[int], int], low: int, high: int
    ) -> tuple[int, bool]:
        while low < high:
            middle = (low + high + 1) >> 1
            found = key(middle)
            if found == target:
                return middle, True
            if found > target:
                high = middle - 1
            else:
                low = middle
        return low, False

    def _whole(self, size: int) -> int:
        return size // self.ENTRY.size * self.ENTRY.size


class OffsetIndex(_Index):
    """`.index`: from offsets to positions."""

    ENTRY = _OFFSET_ENTRY

    def __init__(self, files: Files, name: str, base_offset: int, max_index_size: int = -1) -> None:
        super().__init__(files, name, base_offset, max_index_size)
        self.last_offset = base_offset
        self._read_last_entry()

    @property
    def last_entry(self) -> OffsetPosition:
        """(base offset, 0) if there is none."""
        return self.entry(self.entries - 1) if self.entries else OffsetPosition(self.base_offset, 0)

    def entry(self, slot: int) -> OffsetPosition:
        if not 0 <= slot < self.entries:
            raise IllegalArgumentError(
                f"{self.path}: found {self.entries} entries, expected slot {slot}"
            )
        relative, position = self._slot(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def lookup(self, target_offset: int) -> OffsetPosition:
        """The entry of the largest offset up to this one; (base offset, 0) if there is none."""
        slot = self._largest_lower_bound(target_offset, self._offset_at)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self.entry(slot)

    def fetch_upper_bound_offset(
        self, fetch_offset: OffsetPosition, fetch_size: int
    ) -> OffsetPosition | None:
        """An entry that lies beyond the bytes fetched, if there is one."""
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


class TimeIndex(_Index):
    """`.timeindex`: from timestamps to offsets."""

    ENTRY = _TIME_ENTRY

    def __init__(self, files: Files, name: str, base_offset: int, max_index_size: int = -1) -> None:
        super().__init__(files, name, base_offset, max_index_size)
        self.last_entry = TimestampOffset(NO_TIMESTAMP, base_offset)
        self._read_last_entry()

    @property
    def is_full(self) -> bool:
        """One slot is kept for the entry of the roll."""
        return self.entries >= self.max_entries - 1

    def entry(self, slot: int) -> TimestampOffset:
        if not 0 <= slot < self.entries:
            raise IllegalArgumentError(
                f"{self.path}: found {self.entries} entries, expected slot {slot}"
            )
        timestamp, relative = self._slot(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The entry of the largest timestamp up to this one; (-1, base offset) if there is none."""
        slot = self._largest_lower_bound(target_timestamp, self._timestamp_at)
        return TimestampOffset(NO_TIMESTAMP, self.base_offset) if slot < 0 else self.entry(slot)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Append if the timestamp is larger than the last one; neither may go back."""
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


class TxnIndexSearchResult(NamedTuple):
    aborted_transactions: list[AbortedTransaction]
    is_complete: bool
    """Whether no later segment can hold more."""


class TransactionIndex:
    """`.txnindex`: the aborted transactions whose markers lie in a segment."""

    ENTRY = _TRANSACTION_ENTRY

    def __init__(self, files: Files, name: str, start_offset: int) -> None:
        self.name = name
        self.start_offset = start_offset
        self._files = files
        self._file: File | None = None
        self._end = 0
        # Of what was appended since the file was opened: Kafka does not look for it in the file.
        self._last_offset: int | None = None
        if files.exists(name):
            self._open()

    def __repr__(self) -> str:
        return f"TransactionIndex({self.path}, {self._end // self.ENTRY.size} entries)"

    @property
    def path(self) -> str:
        return self._files.path(self.name)

    @property
    def is_empty(self) -> bool:
        return self._end < self.ENTRY.size

    def append(self, aborted: AbortedTransaction) -> None:
        if self._last_offset is not None and aborted.last_offset <= self._last_offset:
            raise IllegalArgumentError(
                f"{self.path}: found last offset {aborted.last_offset}, expected more than "
                f"{self._last_offset}"
            )
        self._last_offset = aborted.last_offset
        entry = self.ENTRY.pack(*aborted)
        file = self._file or self._open()
        file.write_at(self._end, entry)
        self._end += len(entry)

    def flush(self) -> None:
        if self._file is not None:
            self._file.sync()

    def reset(self) -> None:
        """No entries; a file that is there stays, empty."""
        if self._file is not None:
            self._cut(0)
        self._last_offset = None

    def truncate_to(self, offset: int) -> None:
        """Drop the first entry that ends at `offset` or later, and all behind it."""
        last_offset = None
        for position, aborted in self._iter():
            if aborted.last_offset >= offset:
                self._cut(position)
                self._last_offset = last_offset
                return
            last_offset = aborted.last_offset

    def all_aborted_txns(self) -> list[AbortedTransaction]:
        return [aborted for _, aborted in self._iter()]

    def collect_aborted_txns(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> TxnIndexSearchResult:
        """Those that overlap with the offsets [fetch_offset, upper_bound_offset)."""
        found = []
        for _, aborted in self._iter():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return TxnIndexSearchResult(found, is_complete=True)
        return TxnIndexSearchResult(found, is_complete=False)

    def sanity_check(self) -> None:
        """CorruptIndexError if an entry ends before the segment begins."""
        for position, aborted in self._iter():
            if aborted.last_offset < self.start_offset:
                raise CorruptIndexError(
                    f"{Location(self.path, position)}: found last offset {aborted.last_offset}, "
                    f"expected at least {self.start_offset}"
                )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._end = 0

    def delete_if_exists(self) -> bool:
        self.close()
        return self._files.delete_if_exists(self.name)

    def rename_to(self, name: str) -> None:
        old, self.name = self.name, name
        if self._files.exists(old):
            self._files.rename(old, name)

    def _open(self) -> File:
        self._file = self._files.open(self.name, create=True)
        self._end = self._file.size
        return self._file

    def _cut(self, size: int) -> None:
        if self._file is not None and size < self._file.size:
            self._file.truncate(size)
        self._end = min(self._end, size)

    def _iter(self) -> Iterator[tuple[int, AbortedTransaction]]:
        """Every whole entry, with its position."""
        if self._file is None:
            return
        data = self._file.read_at(0, self._end)
        for position in range(0, self._end // self.ENTRY.size * self.ENTRY.size, self.ENTRY.size):
            if 0 < data[position] < 0x80:  # Kafka takes the first byte for the whole version
                raise UnsupportedError(
                    Location(self.path, position), f"version byte {data[position]}", str(VERSION)
                )
            yield position, AbortedTransaction._make(self.ENTRY.unpack_from(data, position))


IndexT = TypeVar("IndexT", OffsetIndex, TimeIndex)


class LazyIndex(Generic[IndexT]):
    """An index whose file is opened, and made if need be, when the index is first asked for."""

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
