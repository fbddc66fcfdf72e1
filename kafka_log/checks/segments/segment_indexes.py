"""The offset and the time index of one segment, checked while its log is read.

    indexes = SegmentIndexes(audited, segment, files, log_size=..., is_closed=...)
    indexes.form_findings()     what is wrong with the entries themselves
    indexes.checks()            what has to see every piece of the log
    indexes.finish(is_full=...) what only the whole log shows

A segment is closed if it was rolled or its broker stopped cleanly. The indexes of any other segment
are preallocated: zeros follow the entries, and before them may be entries of batches that were
truncated, which stay in the file until they are overwritten or the segment is closed. The next
start rebuilds such an index, so its entries are not judged.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format import offset_index, time_index
from kafka_format.batch_layout import LENGTH_END, SMALLEST_LENGTHS
from kafka_format.errors import FormatError
from kafka_format.time_index import TimeIndexFile
from kafka_log.checks.finding import Finding
from kafka_log.checks.segments.index_entries import OffsetEntries, TimeEntries
from kafka_log.checks.segments.side_files import check_offset_index, check_time_index
from kafka_log.checks.segments.time_indexes import uncovered_finding
from kafka_log.disk.files import opened
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_log.checks.facts import AuditedPartition
    from kafka_log.checks.finding import About
    from kafka_log.checks.segments.side_files import Slots
    from kafka_log.disk.files import File, Files
    from kafka_log.inventory.inventory import Segment

    IndexCheck = Callable[[bytes, int, About], Slots]

_CHUNK = 1024 * 1024
_ENOUGH = 16 * 1024 * 1024
"""Kafka's default size of an index is 10 MiB. More is read only if the log can have the entries."""
_SMALLEST_BATCH = LENGTH_END + SMALLEST_LENGTHS[0]
_OUT_OF_ORDER = ("IDX001", "TIX001")


class _Index(NamedTuple):
    """An index as it was read: its entries, and what is wrong with their form."""

    slots: Slots
    beyond: Finding | None
    """Data where no entry can be."""
    about: About
    is_open: bool
    """Whether it is preallocated, and its segment is not closed."""

    @property
    def is_sound(self) -> bool:
        return not self.slots.findings and self.beyond is None

    def form_findings(self) -> Iterator[Finding]:
        for each in self.slots.findings:
            if not (self.is_open and each.id in _OUT_OF_ORDER):
                yield each
        if self.beyond is not None:
            yield self.beyond


class SegmentIndexes:
    """The indexes of one segment, read as far as its log can have entries."""

    def __init__(
        self,
        audited: AuditedPartition,
        segment: Segment,
        files: Files,
        *,
        log_size: int,
        is_closed: bool,
    ) -> None:
        self.error: OSError | FormatError | None = None
        """Why an index could not be read."""
        self._audited, self._segment, self._files = audited, segment, files
        self._log_size = log_size
        self._is_closed = is_closed
        self._offsets = self._read(FileKind.OFFSET_INDEX)
        self._times = self._read(FileKind.TIME_INDEX)
        self._offset_entries = self._offset_entries_of(self._offsets)
        self._time_entries = None
        if self._times is not None and not self._times.is_open:
            entries = self._times.slots.entries
            self._time_entries = TimeEntries(entries, segment.base_offset, self._times.about)

    def form_findings(self) -> Iterator[Finding]:
        for each in (self._offsets, self._times):
            if each is not None:
                yield from each.form_findings()

    def checks(self) -> Iterator[OffsetEntries | TimeEntries]:
        """Yield what has to see every piece of the log."""
        if self._offset_entries is not None:
            yield self._offset_entries
        if self._time_entries is not None:
            yield self._time_entries

    def finish(self, *, is_full: bool) -> Iterator[Finding]:
        """Yield what only the whole log shows. The time index of a full segment covers it."""
        if self._offset_entries is not None:
            yield from self._offset_entries.finish(self._log_size)
        if self._time_entries is None or self._times is None:
            return
        yield from self._time_entries.finish(self._log_size)
        uncovered = self._time_entries.uncovered
        if is_full and uncovered is not None and self._times.is_sound:
            index = TimeIndexFile(self._segment.base_offset, self._times.slots.entries)
            yield uncovered_finding(index, uncovered, self._times.about)

    def _offset_entries_of(self, index: _Index | None) -> OffsetEntries | None:
        if index is None or index.is_open:
            return None
        config, entries = self._audited.config, index.slots.entries
        is_known = self._audited.knows_settings and index.is_sound
        interval = config.index_interval_bytes if is_known else None
        base_offset = self._segment.base_offset
        return OffsetEntries(entries, base_offset, index.about, interval=interval)

    def _read(self, kind: FileKind) -> _Index | None:
        found = self._segment.files.get(kind)
        if found is None:
            return None
        check, entry_size, data_after_zeros = _KINDS[kind]
        about = self._audited.about(found.path)
        limit = max(_ENOUGH, (self._log_size // _SMALLEST_BATCH + 2) * entry_size)
        limit -= limit % entry_size
        try:
            with opened(self._files, Path(found.path).name) as file:
                slots = check(file.read_at(0, limit), self._segment.base_offset, about)
                at = None if slots.findings else _first_data(file, limit)
                is_open = not self._is_closed and _is_preallocated(file, entry_size)
        except (OSError, FormatError) as error:
            self.error = self.error or error
            return None
        beyond = None
        if at is not None:
            what, zeros = f"data at position {at}", f"zeros from position {limit} on"
            beyond = Finding.of(data_after_zeros, about, what, zeros, position=at)
        return _Index(slots, beyond, about, is_open)


_KINDS: dict[FileKind, tuple[IndexCheck, int, str]] = {
    FileKind.OFFSET_INDEX: (check_offset_index, offset_index.ENTRY_SIZE, "IDX003"),
    FileKind.TIME_INDEX: (check_time_index, time_index.ENTRY_SIZE, "TIX003"),
}
"""The check of the form, the size of an entry, and the rule for data after zeros."""


def _first_data(file: File, start: int) -> int | None:
    """Return where from `start` on the first byte is that is not zero; None if there is none."""
    for position in range(start, file.size, _CHUNK):
        data = file.read_at(position, _CHUNK)
        if rest := data.lstrip(b"\0"):
            return position + len(data) - len(rest)
    return None


def _is_preallocated(file: File, entry_size: int) -> bool:
    """Return whether the last slot is empty. A broker removes empty slots at the close."""
    return file.size >= entry_size and not any(file.read_at(file.size - entry_size, entry_size))
