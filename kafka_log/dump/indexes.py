"""Dump the entries of `.index` and `.timeindex`, checked against the log of the segment.

As in kafka-dump-log, every whole slot of the file is an entry, up to the first slot after slot 0
that has the base offset: there the zeros of a preallocated file begin. Slot 0 of a preallocated
index without entries is printed as well, but only kafka-dump-log reports it as a mismatch.

An entry is checked by reading only the batches that it points to.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from kafka_format import offset_index, time_index
from kafka_format.access import ChangedError, open_evidence
from kafka_format.batch import HEADER_SIZE, MAGIC, BatchHeader
from kafka_format.errors import CorruptError, FormatError, Location, TruncatedError
from kafka_format.log_file import LogFile
from kafka_log.dump.index_slots import IndexSlots
from kafka_log.dump.output import Output, file_fields, json_line
from kafka_log.dump.rows import ensure_within_limit
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.access import EvidenceFile
    from kafka_format.log_file import AnyBatch
    from kafka_log.dump.index_slots import IndexEnd
    from kafka_log.dump.options import DumpOptions
    from kafka_log.dump.report import Report
    from kafka_log.inventory.directory import FoundFile

_NO_OFFSET = -1
_NO_TIMESTAMP = -1


def dump_offset_index(
    file: FoundFile, opened: EvidenceFile, options: DumpOptions, output: Output, report: Report
) -> None:
    base_offset = file.name.offset or 0
    index = _offset_slots(opened)
    if not len(index) and not options.filters and options.format == "text":
        output.line(f"{file.path} is empty.")
    if options.index_sanity_check:
        if len(index):
            last_offset = base_offset + index[-1]["relative_offset"]
            error = _size_or_offset_error(file, index, last_offset)
            _report_sanity(file, error, options, output, report)
        return
    end = index.end()
    _report_tail(file, end, index.slot_size, report)
    write = _entry_writer(file, "offset_index", ("offset", "position"), options, output)
    with _open_log(file, options, report) as log:
        for location, (relative_offset, position) in _located(file, index):
            offset = base_offset + relative_offset
            if log is not None and (end.stop_position or position):
                _check_offset_entry(location, log, offset, position, options, report)
            if not options.verify_index_only and options.filters.pass_entry(
                offsets=(offset, offset)
            ):
                write(offset, position)


def dump_time_index(
    file: FoundFile, opened: EvidenceFile, options: DumpOptions, output: Output, report: Report
) -> None:
    base_offset = file.name.offset or 0
    index = IndexSlots(opened, time_index.DTYPE, time_index.decode_time_index)
    if options.index_sanity_check:
        _report_sanity(file, _time_index_error(file, index), options, output, report)
        return
    end = index.end()
    _report_tail(file, end, index.slot_size, report)
    write = _entry_writer(file, "time_index", ("timestamp", "offset"), options, output)
    previous = _NO_TIMESTAMP
    with _open_log(file, options, report) as log:
        positions = _Positions(file, base_offset) if log is not None else None
        for location, (timestamp, relative_offset) in _located(file, index):
            offset = base_offset + relative_offset
            if log is not None and positions is not None and (end.stop_position or timestamp):
                _check_time_entry(location, log, positions, (timestamp, offset), previous, report)
            if not options.verify_index_only and options.filters.pass_entry(
                offsets=(offset, offset), timestamp=timestamp
            ):
                write(timestamp, offset)
            previous = timestamp


def _offset_slots(file: EvidenceFile) -> IndexSlots:
    return IndexSlots(file, offset_index.DTYPE, offset_index.decode_offset_index)


def _located(file: FoundFile, index: IndexSlots) -> Iterator[tuple[Location, tuple[int, int]]]:
    """Yield the location and the fields of every slot that is printed."""
    for position, slots in index.dumped():
        for number, fields in enumerate(slots.tolist()):
            yield Location(file.path, position + number * index.slot_size), fields


def _entry_writer(
    file: FoundFile, kind: str, names: tuple[str, str], options: DumpOptions, output: Output
) -> Callable[[int, int], None]:
    first, second = names
    if options.format == "text":
        return lambda one, other: output.text(f"{first}: {one} {second}: {other}\n")
    start = json_line({"kind": kind, **file_fields(file)})[:-2]
    return lambda one, other: output.text(f'{start},"{first}":{one},"{second}":{other}}}\n')


def _time_index_error(file: FoundFile, index: IndexSlots) -> CorruptError | None:
    base_offset = file.name.offset or 0
    if not len(index):
        return _size_or_offset_error(file, index, base_offset)
    first, last = index[0]["timestamp"], index[-1]["timestamp"]
    if last < first:
        location = Location(file.path, (len(index) - 1) * index.slot_size)
        return CorruptError(location, f"last timestamp {last}", f"at least the first, {first}")
    return _size_or_offset_error(file, index, base_offset + index[-1]["relative_offset"])


def _size_or_offset_error(
    file: FoundFile, index: IndexSlots, last_offset: int
) -> CorruptError | None:
    """Return the error for which a broker would rebuild the index at startup, if any."""
    end = Location(file.path, len(index) * index.slot_size)
    base_offset = file.name.offset or 0
    if last_offset < base_offset:
        found = f"last offset {last_offset}"
        return CorruptError(end, found, f"at least the base offset {base_offset}")
    if index.size % index.slot_size:
        return CorruptError(end, f"{index.size} bytes", f"a multiple of {index.slot_size}")
    return None


def _report_sanity(
    file: FoundFile,
    error: CorruptError | None,
    options: DumpOptions,
    output: Output,
    report: Report,
) -> None:
    if error is not None:
        report.found(error)
    elif options.format == "json":
        output.text(json_line({"kind": "sanity_check", **file_fields(file), "is_passed": True}))
    else:
        output.line(f"{file.path} passed sanity check.")


def _report_tail(file: FoundFile, end: IndexEnd, entry_size: int, report: Report) -> None:
    """Report bytes that are neither entries nor padding."""
    size = end.trailing_bytes
    if not size:
        return
    location = Location(file.path, end.stop_position + end.padding_bytes)
    error: FormatError
    if size < entry_size:
        error = TruncatedError(location, f"{size} bytes", f"an entry of {entry_size}")
    elif end.padding_bytes:
        error = CorruptError(location, "an entry after zeros", "zeros")
    else:
        error = CorruptError(location, f"an entry {end.stop.value}", "entries that grow")
    report.found(error)


@contextlib.contextmanager
def _open_log(file: FoundFile, options: DumpOptions, report: Report) -> Iterator[_Log | None]:
    """Open the log of an index: the one with the same offset and state."""
    name = str(file.name._replace(kind=FileKind.LOG))
    try:
        opened = open_evidence(_sibling(file, name), limit=largest_size(FileKind.LOG))
    except FormatError as error:  # not a regular file, or too large
        report.found(error)
    except FileNotFoundError:
        if options.verify_index or options.verify_index_only:
            found, expected = "no log beside it", f"{name}, to verify its entries against"
            report.found(CorruptError(Location(file.path, 0), found, expected))
        else:
            report.note(f"{file.path}: its entries are not verified: there is no {name} beside it")
    else:
        with opened:
            yield _Log(opened)
        return
    yield None


def _sibling(file: FoundFile, name: str) -> str:
    return str(Path(file.path).with_name(name))


class _Log:
    """The log that an index points into."""

    def __init__(self, file: EvidenceFile) -> None:
        self.path = file.path
        self._file = file
        self.size = file.size

    def batches_from(self, position: int, *, limit: int | None = None) -> Iterator[AnyBatch]:
        end = self.size if limit is None else min(position + limit, self.size)
        source = cast("BinaryIO", self._file)
        return LogFile(source, path=self.path, start=position, end=end).batches()

    def last_offset_at(self, position: int, limit: int) -> int | None:
        """Return the last offset of a batch of at most `limit` bytes at this position, or None."""
        if not 0 <= position <= self.size:
            return None
        head = self._file.read_at(position, HEADER_SIZE)
        if len(head) == HEADER_SIZE:  # the usual case, 20 times as fast as LogFile
            header = BatchHeader.unpack(head)
            room = min(limit, self.size - position)
            if header.magic == MAGIC and HEADER_SIZE <= header.size_in_bytes <= room:
                return header.last_offset
        batch = next(self.batches_from(position, limit=limit), None)
        return None if batch is None else batch.header.last_offset

    def is_boundary(self, position: int) -> bool:
        """Return whether a batch begins here in a walk over the whole log, which is done once."""
        if self._boundaries is None:
            self._boundaries = {batch.position for batch in self.batches_from(0)}
        return position in self._boundaries

    _boundaries: set[int] | None = None


def _check_offset_entry(
    location: Location,
    log: _Log,
    offset: int,
    position: int,
    options: DumpOptions,
    report: Report,
) -> None:
    last_offset = log.last_offset_at(position, options.max_message_size)
    if last_offset is None:
        found = f"entry {offset} -> {position}"
        expected = f"the position of a batch of at most {options.max_message_size} bytes"
        report.found(CorruptError(location, found, expected))
    elif last_offset != offset:
        report.index_mismatch(location, offset, last_offset)
    elif options.verify_index and not log.is_boundary(position):
        found = f"entry {offset} -> {position}"
        report.found(CorruptError(location, found, "the beginning of a batch"))


class _Positions:
    """Finds where to begin the search for an offset, as OffsetIndex.lookup does."""

    def __init__(self, file: FoundFile, base_offset: int) -> None:
        path = _sibling(file, str(file.name._replace(kind=FileKind.OFFSET_INDEX)))
        entries = np.empty(0, offset_index.DTYPE)
        limit = largest_size(FileKind.OFFSET_INDEX)
        try:
            with open_evidence(path, limit=limit) as opened:
                entries = _offset_slots(opened).entries()
        except ChangedError:
            raise
        except (OSError, FormatError):
            pass  # without it, the search begins at the start of the log
        self._offsets = entries["relative_offset"].astype(np.int64) + base_offset
        self._positions = entries["position"]

    def before(self, offset: int) -> int:
        slot = int(np.searchsorted(self._offsets, offset, side="right")) - 1
        return 0 if slot < 0 else int(self._positions[slot])


def _check_time_entry(
    location: Location,
    log: _Log,
    positions: _Positions,
    entry: tuple[int, int],
    previous: int,
    report: Report,
) -> None:
    timestamp, offset = entry
    batches = log.batches_from(min(positions.before(offset), log.size))
    batch = next((batch for batch in batches if batch.header.last_offset >= offset), None)
    if batch is None:
        report.offset_not_found(location, offset, _NO_OFFSET, is_damage=True)
        return
    largest, timestamp_there = _NO_TIMESTAMP, None
    try:
        ensure_within_limit(batch)
        for record in batch.iter_records():
            largest = max(largest, record.timestamp)
            if record.offset == offset:
                timestamp_there = record.timestamp
    except FormatError as error:
        report.found(error)
        return
    if batch.header.last_offset != offset:
        # Up to 3.x an entry had the record's offset. kafka-dump-log reports these as well.
        is_right = timestamp_there == timestamp
        last_offset = batch.header.last_offset
        report.offset_not_found(location, offset, last_offset, is_damage=not is_right)
        return
    if largest != timestamp:
        report.timestamp_mismatch(location, timestamp, largest)
    if previous >= timestamp:
        report.timestamp_out_of_order(location, timestamp, previous)
