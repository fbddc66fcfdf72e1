"""`.txnindex` of a segment, written to as Kafka writes to it (TransactionIndex).

There from its first entry on, never preallocated, read from its start for every answer, some
entries in memory at a time.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.errors import Location, UnsupportedError
from kafka_format.transaction_index import DTYPE, VERSION, AbortedTransaction
from kafka_log.errors import CorruptIndexError, IllegalArgumentError
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kafka_log.disk.files import File, Files

_TRANSACTION_ENTRY = struct.Struct(">hqqqq")  # as kafka_format.transaction_index tells
_PIECE_ENTRIES = 32 * 1024
_LARGEST = largest_size(FileKind.TRANSACTION_INDEX)


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
        """Those that overlap with the offsets [fetch_offset, upper_bound_offset)."""
        found: list[AbortedTransaction] = []
        for _, entries in self._pieces():
            ends = np.flatnonzero(entries["last_stable_offset"] >= upper_bound_offset)
            looked_at = entries[: ends[0] + 1] if len(ends) else entries
            overlaps = (looked_at["last_offset"] >= fetch_offset) & (
                looked_at["first_offset"] < upper_bound_offset
            )
            found += _transactions(looked_at[overlaps])
            if len(ends):
                return TxnIndexSearchResult(found, is_complete=True)
        return TxnIndexSearchResult(found, is_complete=False)

    def sanity_check(self) -> None:
        """CorruptIndexError if an entry ends before the segment begins."""
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
        """Whole entries, some at a time and never none, with the position of the first.

        Those before an entry of another version come before the error that says so.
        """
        if self._file is None:
            return
        size = self.ENTRY.size
        for position in range(0, self._end // size * size, _PIECE_ENTRIES * size):
            wanted = min(_PIECE_ENTRIES, (self._end - position) // size)
            data = self._file.read_at(position, wanted * size)
            entries = np.frombuffer(data, DTYPE, count=len(data) // size)
            # Kafka takes the first byte for the whole version.
            refused = np.flatnonzero(entries["version"] >= 1 << 8)
            good = entries[: refused[0]] if len(refused) else entries
            if len(good):
                yield position, good
            if len(refused):
                at = int(refused[0]) * size
                raise UnsupportedError(
                    Location(self.path, position + at), f"version byte {data[at]}", str(VERSION)
                )


def _transactions(entries: NDArray[np.void]) -> list[AbortedTransaction]:
    return list(map(AbortedTransaction._make, entries.tolist()))
