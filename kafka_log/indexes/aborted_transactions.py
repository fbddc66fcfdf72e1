"""`.txnindex` of a segment, written as Kafka writes it (TransactionIndex).

The file is created with its first entry and never preallocated. Every query reads it from the
start, with a bounded number of entries in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.errors import Location, UnsupportedError
from kafka_format.index_layout import TRANSACTION_INDEX_ENTRY
from kafka_format.transaction_index import DTYPE, VERSION, AbortedTransaction
from kafka_log.errors import CorruptIndexError, IllegalArgumentError
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kafka_log.disk.files import File, Files

_PIECE_ENTRIES = 32 * 1024
_LARGEST = largest_size(FileKind.TRANSACTION_INDEX)


class TxnIndexSearchResult(NamedTuple):
    aborted_transactions: list[AbortedTransaction]
    is_complete: bool
    """Whether no later segment can have more."""


class TransactionIndex:
    """`.txnindex`: the aborted transactions whose markers are in a segment."""

    ENTRY = TRANSACTION_INDEX_ENTRY

    def __init__(self, files: Files, name: str, start_offset: int) -> None:
        self.name = name
        self.start_offset = start_offset
        self._files = files
        self._file: File | None = None
        self._end = 0
        # Only of entries appended since the file was opened: Kafka does not read it from the file.
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
        """Remove all entries; an existing file is kept, empty."""
        if self._file is not None:
            self._cut(0)
        self._last_offset = None

    def truncate_to(self, offset: int) -> None:
        """Remove the first entry that ends at `offset` or later, and all after it."""
        last_offset = None
        for position, entries in self._pieces():
            found = np.flatnonzero(entries["last_offset"] >= offset)
            if len(found):
                first = int(found[0])
                self._cut(position + first * self.ENTRY.size)
                self._last_offset = int(entries["last_offset"][first - 1]) if first else last_offset
                return
            last_offset = int(entries["last_offset"][-1])

    def all_aborted_txns(self) -> list[AbortedTransaction]:
        return [aborted for _, entries in self._pieces() for aborted in _transactions(entries)]

    def collect_aborted_txns(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> TxnIndexSearchResult:
        """Return the transactions that overlap the offsets [fetch_offset, upper_bound_offset)."""
        found: list[AbortedTransaction] = []
        for _, entries in self._pieces():
            ends = np.flatnonzero(entries["last_stable_offset"] >= upper_bound_offset)
            searched = entries[: ends[0] + 1] if len(ends) else entries
            overlaps = (searched["last_offset"] >= fetch_offset) & (
                searched["first_offset"] < upper_bound_offset
            )
            found += _transactions(searched[overlaps])
            if len(ends):
                return TxnIndexSearchResult(found, is_complete=True)
        return TxnIndexSearchResult(found, is_complete=False)

    def sanity_check(self) -> None:
        """Raise CorruptIndexError if an entry ends before the segment begins."""
        if self._end > _LARGEST:
            raise CorruptIndexError(
                f"{self.path}: found {self._end} bytes, expected at most {_LARGEST}"
            )
        for position, entries in self._pieces():
            early = np.flatnonzero(entries["last_offset"] < self.start_offset)
            if len(early):
                first = int(early[0])
                raise CorruptIndexError(
                    f"{Location(self.path, position + first * self.ENTRY.size)}: found last offset "
                    f"{entries['last_offset'][first]}, expected at least {self.start_offset}"
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

    def _pieces(self) -> Iterator[tuple[int, NDArray[np.void]]]:
        """Yield non-empty pieces of whole entries, each with the position of its first entry.

        Entries before one of another version are yielded before the error is raised.
        """
        if self._file is None:
            return
        size = self.ENTRY.size
        for position in range(0, self._end // size * size, _PIECE_ENTRIES * size):
            count = min(_PIECE_ENTRIES, (self._end - position) // size)
            data = self._file.read_at(position, count * size)
            entries = np.frombuffer(data, DTYPE, count=len(data) // size)
            # Kafka reads only the first byte of the version.
            unsupported = np.flatnonzero(entries["version"] >= 1 << 8)
            supported = entries[: unsupported[0]] if len(unsupported) else entries
            if len(supported):
                yield position, supported
            if len(unsupported):
                at = int(unsupported[0]) * size
                raise UnsupportedError(
                    Location(self.path, position + at), f"version byte {data[at]}", str(VERSION)
                )


def _transactions(entries: NDArray[np.void]) -> list[AbortedTransaction]:
    return list(map(AbortedTransaction._make, entries.tolist()))
