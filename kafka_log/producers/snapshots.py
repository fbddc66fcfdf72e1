"""List, read, write and delete the `<offset>.snapshot` files of a partition.

A snapshot contains every producer as it was when the log ended at the offset in the name: only the
last batch, and the first offset of an open transaction.

Mirrors SnapshotFile and the part of ProducerStateManager that handles files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

from kafka_format import java_text
from kafka_format.file_bytes import JAVA_MAX
from kafka_format.producer_snapshot import (
    HEADER_SIZE,
    ProducerSnapshotEntry,
    ProducerSnapshotFile,
    decode_producer_snapshot,
    encode_producer_snapshot,
    iter_producer_snapshot,
    require_header,
)
from kafka_log.errors import LogLoadError
from kafka_log.names import FileKind, FileState, segment_file_name
from kafka_log.producers.entry import BatchMetadata, ProducerStateEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from kafka_log.disk.files import Files


class SnapshotFile(NamedTuple):
    """The name of a snapshot; `offset` is the exclusive end of its state."""

    offset: int
    name: str


class ProducerSnapshots:
    """The snapshots of a directory when it was listed, with the changes since."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._names: dict[int, str] = {}
        self._offsets: list[int] = []
        self._is_plain = True
        self.load()

    def __iter__(self) -> Iterator[SnapshotFile]:
        """Iterate by offset. Snapshots may be removed meanwhile."""
        return iter([SnapshotFile(offset, self._names[offset]) for offset in self._offsets])

    @property
    def is_current(self) -> bool:
        """Whether a new listing would be the same, if only this object changes the directory.

        This is not certain if a name has too few digits: there may be two for the same offset.
        """
        return self._is_plain

    @property
    def latest(self) -> SnapshotFile | None:
        if not self._offsets:
            return None
        return SnapshotFile(self._offsets[-1], self._names[self._offsets[-1]])

    @property
    def latest_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    @property
    def oldest_offset(self) -> int | None:
        return self._offsets[0] if self._offsets else None

    def name_of(self, offset: int) -> str | None:
        return self._names.get(offset)

    def outside(self, low: int, high: int) -> list[SnapshotFile]:
        """Return those with offsets up to `low`, and above `high`."""
        first, last = bisect_right(self._offsets, low), bisect_right(self._offsets, high)
        offsets = self._offsets[:first] + self._offsets[max(first, last) :]
        return [SnapshotFile(offset, self._names[offset]) for offset in offsets]

    def load(self) -> None:
        """List the directory. Like Kafka, accept names with fewer digits, and fail without any."""
        names: dict[int, str] = {}
        ending = FileKind.PRODUCER_SNAPSHOT.ending
        found = [each for each in self.files.names() if each.endswith(ending)]
        for name in found:
            offset = java_text.parse_long(name.partition(".")[0])
            if offset is None:
                raise LogLoadError(
                    f"{self.files.path(name)}: found no offset before the first dot, "
                    "expected one in the name of a producer snapshot"
                )
            names[offset] = name
        self._names, self._offsets = names, sorted(names)
        self._is_plain = found == [_name(offset) for offset in self._offsets if offset >= 0]

    def write(self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool) -> str:
        """Write a snapshot. An older file is not truncated first: a longer one keeps its end."""
        name = _name(offset)
        snapshot = ProducerSnapshotFile.of(map(snapshot_entry, entries))
        file = self.files.open(name, create=True)
        try:
            file.write_at(0, encode_producer_snapshot(snapshot))
            if sync:
                file.sync()
        finally:
            file.close()
        if offset not in self._names:
            insort(self._offsets, offset)
        self._names[offset] = name
        return name

    def delete(self, offset: int) -> None:
        name = self._forget(offset)
        if name is not None:
            self.files.delete_if_exists(name)

    def mark_for_deletion(self, offset: int) -> SnapshotFile | None:
        """Rename a snapshot to `.deleted` for the caller to unlink; None if it does not exist."""
        name = self._forget(offset)
        if name is None:
            return None
        renamed = f"{name}{FileState.DELETED.value}"
        try:
            self.files.rename(name, renamed)
        except FileNotFoundError:
            return None
        return SnapshotFile(offset, renamed)

    def remove_strays(self, segment_base_offsets: Collection[int]) -> None:
        """List again, and delete the snapshots at which no segment starts.

        The last one is kept if it is above all base offsets: a clean shutdown leaves it.
        """
        self.load()
        strays = sorted(set(self._names) - set(segment_base_offsets))
        if strays and strays[-1] >= max(segment_base_offsets, default=strays[-1]):
            strays.pop()
        for offset in strays:
            self.delete(offset)

    def _forget(self, offset: int) -> str | None:
        name = self._names.pop(offset, None)
        if name is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
        return name


def _name(offset: int) -> str:
    return str(segment_file_name(offset, FileKind.PRODUCER_SNAPSHOT))


def read_snapshot(files: Files, name: str) -> list[ProducerStateEntry]:
    """Read the producers of a snapshot in file order. Raises FormatError if it is corrupt."""
    path = files.path(name)
    file = files.open(name, write=False)
    try:  # the header first: a file that cannot be a snapshot is not read, however large it is
        require_header(file.read_at(0, HEADER_SIZE), file.size, path)
    finally:
        file.close()
    snapshot = decode_producer_snapshot(files.read(name, limit=JAVA_MAX), path=path)
    return [state_entry(row) for row in iter_producer_snapshot(snapshot)]


def state_entry(row: ProducerSnapshotEntry) -> ProducerStateEntry:
    """Return the producer that a load makes of an entry."""
    first_offset = row.current_txn_first_offset
    entry = ProducerStateEntry(
        row.producer_id,
        row.producer_epoch,
        row.coordinator_epoch,
        row.timestamp,
        first_offset if first_offset >= 0 else None,
    )
    if row.last_offset >= 0:
        entry.batch_metadata.append(
            BatchMetadata(row.last_sequence, row.last_offset, row.offset_delta, row.timestamp)
        )
    return entry


def snapshot_entry(entry: ProducerStateEntry) -> ProducerSnapshotEntry:
    """Return what a snapshot has of a producer."""
    first_offset = entry.current_txn_first_offset
    return ProducerSnapshotEntry(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_seq,
        last_offset=entry.last_data_offset,
        offset_delta=entry.last_offset_delta,
        timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=-1 if first_offset is None else first_offset,
    )
