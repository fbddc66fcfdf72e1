"""The common base of both preallocated indexes of a segment (AbstractIndex).

Kafka maps them into memory: an entry is in the file as soon as it is appended, a new file is
extended with zeros to `segment.index.bytes` (rounded down to whole entries), removed entries stay
after the last one until they are overwritten, and only a trim truncates the file. An index that
exists when it is opened counts as full to its end, zeros included. All of this is visible on disk
after a crash, so this module does the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from kafka_format.errors import Location
from kafka_log.errors import (
    CorruptIndexError,
    IllegalArgumentError,
    IndexFullError,
    IndexOffsetOverflowError,
    LogError,
)

if TYPE_CHECKING:
    import struct
    from collections.abc import Callable

    from kafka_format.primitives import Buffer
    from kafka_log.disk.files import File, Files

INT32_MAX = 2**31 - 1
_WARM_BYTES = 8192
_LARGEST_COPY = 64 * 1024 * 1024


class MappedIndex(ABC):
    """A file of entries, with room for more after them."""

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, files: Files, name: str, base_offset: int, max_index_size: int = -1) -> None:
        self.name = name
        self.base_offset = base_offset
        self.max_index_size = max_index_size
        self._files = files
        self._copy: bytearray | None = None  # of the entries, made by the first lookup
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
        self._position = self.size_in_bytes  # of the next entry

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
        """The size of the entries; the file may be larger."""
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
        """Truncate or extend the file to whole entries; return whether its size changed."""
        size = self._whole(new_size)
        if self.length == size:
            return False
        self.file.truncate(size)
        self.length = size
        self.max_entries = size // self.ENTRY.size
        self._copy = None
        if size < self._position:
            # Kafka has remapped the file by then, and continues at its beginning.
            self._position = 0
            raise IllegalArgumentError(
                f"{self.path}: found {self.entries} entries, expected at most {self.max_entries}"
            )
        return True

    def trim_to_valid_size(self) -> None:
        if self._file is not None:
            self.resize(self.size_in_bytes)

    def reset(self) -> None:
        """Remove all entries and extend the file to its full size."""
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
        """Return the bytes of the entries, without what follows them."""
        return self.file.read_at(0, self.size_in_bytes)

    @abstractmethod
    def sanity_check(self) -> None:
        """Raise CorruptIndexError if the file cannot be an index of this segment."""

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Remove the entries from `offset` on; they stay in the file until they are overwritten."""

    @abstractmethod
    def _read_last_entry(self) -> None:
        """Set the last entry from the file."""

    def _truncate_to_entries(self, entries: int) -> None:
        self.entries = entries
        if self.size_in_bytes > self.length:
            raise IllegalArgumentError(
                f"{self.path}: found {self.length} bytes, expected {entries} entries"
            )
        self._position = self.size_in_bytes
        if self._copy is not None:
            del self._copy[self.size_in_bytes :]
        self._read_last_entry()

    def _append(self, entry: bytes) -> None:
        if self._position >= self.length:
            raise IndexFullError(f"{self.path}: found no room, expected some for an entry")
        self._write(entry)

    def _ensure_consistent(self) -> None:
        """Raise LogError where Kafka does: entries overwrite others after a failed resize."""
        if self._position != self.size_in_bytes:
            raise LogError(
                f"{self.path}: found position {self._position} after {self.entries} entries, "
                f"expected {self.size_in_bytes}"
            )

    def append_packed(self, packed: Buffer) -> None:
        """Append many entries in one write. The caller ensures that they are valid and fit."""
        if not packed:
            return
        self._write(packed)
        self._read_last_entry()

    def _write(self, packed: Buffer) -> None:
        if self._position != self.size_in_bytes:
            self._copy = None
        self.file.write_at(self._position, packed)
        self._position += len(packed)
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
        if len(data) < position + size:  # truncated by another process, or by a failed resize
            where = Location(self.path, slot * size)
            raise CorruptIndexError(f"{where}: found the end of the file, expected an entry")
        first, second = self.ENTRY.unpack_from(data, position)
        return first, second

    def _load_copy(self) -> None:
        """Read all entries: a lookup probes a dozen of them, and each read would be a call."""
        if self._copy is None and self.size_in_bytes <= _LARGEST_COPY:
            self._copy = bytearray(self.read_entries())

    def _largest_lower_bound(self, target: int, key: Callable[[int], int]) -> int:
        """Return the slot of the largest entry up to `target`, -1 if there is none.

        Slots are probed in Kafka's order, the warm end first, so that an unsorted index gives the
        same results.
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
        """Return the slot of the smallest entry from `target` on, -1 if there is none."""
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
