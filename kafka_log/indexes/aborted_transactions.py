"""`.txnindex` of a segment, written to as Kafka writes to it (TransactionIndex).

There from its first entry on, never preallocated, read whole for every answer.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.errors import Location, UnsupportedError
from kafka_format.transaction_index import VERSION, AbortedTransaction
from kafka_log.errors import CorruptIndexError, IllegalArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.disk.files import File, Files

_TRANSACTION_ENTRY = struct.Struct(">hqqqq")  # as kafka_format.transaction_index tells


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
