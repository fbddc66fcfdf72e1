"""`.index` and `.timeindex`: their entries, checked against the log beside them.

As in the original, every whole slot of the file is an entry, up to the first one behind slot 0 that
has the base offset: there the zeros of a preallocated file begin. A preallocated index without
entries shows slot 0 all the same; only the original takes that for a mismatch.

An entry is checked by reading the batches it leads to, not the rest of the log.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from kafka_format import offset_index, time_index
from kafka_format.batch import HEADER_SIZE, MAGIC, BatchHeader
from kafka_format.errors import CorruptError, FormatError, Location, TruncatedError
from kafka_format.file_bytes import JAVA_MAX, read_file_bytes
from kafka_format.log_file import LogFile
from kafka_log.dump.output import Output, Report, json_line, printable
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.log_file import AnyBatch
    from kafka_log.directory import FoundFile
    from kafka_log.dump.options import DumpOptions

    Slots = np.ndarray[Any, np.dtype[np.void]]

_NO_OFFSET = -1
_NO_TIMESTAMP = -1


def dump_offset_index(
    file: FoundFile, options: DumpOptions, output: Output, report: Report
) -> None:
    data = read_file_bytes(file.path, limit=JAVA_MAX)
    base_offset = file.name.offset or 0
    slots = offset_index.decode_offset_index_columns(data)
    index = offset_index.decode_offset_index(data, base_offset)
    if not len(slots) and not options.filters and options.format == "text":
        output.text(f"{file.path} is empty.\n")
    if options.index_sanity_check:
        if len(slots):
            offsets = slots["relative_offset"].astype(np.int64) + base_offset
            _sanity_check(file, int(offsets[-1]), base_offset, len(data), 8, output, report)
        return
    _report_tail(file, index, offset_index.ENTRY_SIZE, report)
    has_entries = bool(len(index.entries))
    log = _open_log(file, options, report)
    lines = []
    for relative_offset, position in _shown(slots).tolist():
        offset = base_offset + relative_offset
        if log is not None and (has_entries or position):
            _check_offset_entry(file, log, offset, position, options, report)
        if not options.verify_index_only and options.filters.pass_entry(offsets=(offset, offset)):
            lines.append((offset, position))
    _print_entries(file, "offset_index", ("offset", "position"), lines, options, output)
    if log is not None:
        log.close()


def dump_time_index(file: FoundFile, options: DumpOptions, output: Output, report: Report) -> None:
    data = read_file_bytes(file.path, limit=JAVA_MAX)
    base_offset = file.name.offset or 0
    slots = time_index.decode_time_index_columns(data)
    index = time_index.decode_time_index(data, base_offset)
    if options.index_sanity_check:
        last_offset = base_offset
        if len(slots):
            last_offset += int(slots["relative_offset"][-1])
            first, last = int(slots["timestamp"][0]), int(slots["timestamp"][-1])
            if last < first:
                location = Location(file.path, (len(slots) - 1) * time_index.ENTRY_SIZE)
                report.found(
                    CorruptError(location, f"last timestamp {last}", f"at least the first, {first}")
                )
                return
        _sanity_check(file, last_offset, base_offset, len(data), 12, output, report)
        return
    _report_tail(file, index, time_index.ENTRY_SIZE, report)
    has_entries = bool(len(index.entries))
    log = _open_log(file, options, report)
    positions = _Positions(file, base_offset) if log is not None else None
    previous = _NO_TIMESTAMP
    lines = []
    for timestamp, relative_offset in _shown(slots).tolist():
        offset = base_offset + relative_offset
        if log is not None and positions is not None and (has_entries or timestamp):
            _check_time_entry(file, log, positions, (timestamp, offset), previous, report)
        if not options.verify_index_only and options.filters.pass_entry(
            offsets=(offset, offset), timestamp=timestamp
        ):
            lines.append((timestamp, offset))
        previous = timestamp
    _print_entries(file, "time_index", ("timestamp", "offset"), lines, options, output)
    if log is not None:
        log.close()


def _shown(slots: Slots) -> Slots:
    """Slots up to where the original stops."""
    at_base = np.flatnonzero(slots["relative_offset"][1:] == 0)
    return slots[: int(at_base[0]) + 1] if len(at_base) else slots


def _print_entries(
    file: FoundFile,
    kind: str,
    names: tuple[str, str],
    entries: list[tuple[int, int]],
    options: DumpOptions,
    output: Output,
) -> None:
    if options.format == "text":
        line = f"{names[0]}: %d {names[1]}: %d\n"
        output.text("".join([line % entry for entry in entries]))
        return
    start = json_line({"kind": kind, "path": printable(file.path)})[:-2]
    about = f',"topic":%s,"partition":%s,"{names[0]}":%d,"{names[1]}":%d}}\n'
    topic, partition = json.dumps(file.topic), json.dumps(file.partition)
    output.text("".join([f"{start}{about % (topic, partition, *entry)}" for entry in entries]))


def _sanity_check(
    file: FoundFile,
    last_offset: int,
    base_offset: int,
    size: int,
    entry_size: int,
    output: Output,
    report: Report,
) -> None:
    """What a broker asks of an index at start-up; else it builds the index anew."""
    end = Location(file.path, size - size % entry_size)
    if last_offset < base_offset:
        found = f"last offset {last_offset}"
        report.found(CorruptError(end, found, f"at least the base offset {base_offset}"))
    elif size % entry_size:
        found = f"{size} bytes"
        report.found(CorruptError(end, found, f"a multiple of {entry_size}"))
    else:
        output.text(f"{file.path} passed sanity check.\n")


def _report_tail(file: FoundFile, index: Any, entry_size: int, report: Report) -> None:
    """Bytes that are neither entries nor padding."""
    if not index.trailing:
        return
    location = Location(file.path, index.stop_position + index.padding_bytes)
    size = len(index.trailing)
    error: FormatError
    if size < entry_size:
        error = TruncatedError(location, f"{size} bytes", f"an entry of {entry_size}")
    elif index.padding_bytes:
        error = CorruptError(location, "an entry behind zeros", "zeros")
    else:
        error = CorruptError(location, f"an entry {index.stop.value}", "entries that grow")
    report.found(error)


def _open_log(file: FoundFile, options: DumpOptions, report: Report) -> _Log | None:
    """The log beside an index: of the same offset and the same state."""
    name = str(file.name._replace(kind=FileKind.LOG))
    path = Path(file.path).with_name(name)
    if path.is_file():
        return _Log(path)
    text = f"{file.path}: its entries are not verified: there is no {name} beside it"
    if options.verify_index or options.verify_index_only:
        found, expected = "no log beside it", f"{name}, to verify its entries against"
        report.found(CorruptError(Location(file.path, 0), found, expected))
    else:
        report.say(text)
    return None


class _Log:
    """The log that an index points into."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._file: BinaryIO = path.open("rb")
        self.size = path.stat().st_size

    def close(self) -> None:
        self._file.close()

    def batches_from(self, position: int, *, limit: int | None = None) -> Iterator[AnyBatch]:
        end = None if limit is None else position + limit
        return LogFile(self._file, path=self.path, start=position, end=end).batches()

    def last_offset_at(self, position: int, limit: int) -> int | None:
        """Of the batch that begins there and has at most `limit` bytes; None if there is none."""
        if not 0 <= position <= self.size:
            return None
        head = os.pread(self._file.fileno(), HEADER_SIZE, position)
        if len(head) == HEADER_SIZE:  # the usual case, 20 times as fast as the walk
            header = BatchHeader.unpack(head)
            room = min(limit, self.size - position)
            if header.magic == MAGIC and HEADER_SIZE <= header.size_in_bytes <= room:
                return header.last_offset
        batch = next(self.batches_from(position, limit=limit), None)
        return None if batch is None else batch.header.last_offset

    def is_boundary(self, position: int) -> bool:
        """Whether a walk over the whole log comes to this position. Walks once, then remembers."""
        if self._boundaries is None:
            self._boundaries = {batch.position for batch in self.batches_from(0)}
        return position in self._boundaries

    _boundaries: set[int] | None = None


def _check_offset_entry(
    file: FoundFile, log: _Log, offset: int, position: int, options: DumpOptions, report: Report
) -> None:
    last_offset = log.last_offset_at(position, options.max_message_size)
    if last_offset is None:
        found = f"entry {offset} -> {position}"
        expected = f"the position of a batch of at most {options.max_message_size} bytes"
        report.found(CorruptError(Location(file.path, 0), found, expected))
    elif last_offset != offset:
        report.index_mismatch(file.path, offset, last_offset)
    elif options.verify_index and not log.is_boundary(position):
        found = f"entry {offset} -> {position}"
        report.found(CorruptError(Location(file.path, 0), found, "the beginning of a batch"))


class _Positions:
    """OffsetIndex.lookup: where to begin to look for an offset."""

    def __init__(self, file: FoundFile, base_offset: int) -> None:
        path = Path(file.path).with_name(str(file.name._replace(kind=FileKind.OFFSET_INDEX)))
        try:
            index = offset_index.read_offset_index(path, base_offset)
        except (OSError, FormatError):
            index = offset_index.OffsetIndexFile.of(base_offset, [])
        self._offsets = index.offsets
        self._positions = index.entries["position"]

    def before(self, offset: int) -> int:
        slot = int(np.searchsorted(self._offsets, offset, side="right")) - 1
        return 0 if slot < 0 else int(self._positions[slot])


def _check_time_entry(
    file: FoundFile,
    log: _Log,
    positions: _Positions,
    entry: tuple[int, int],
    previous: int,
    report: Report,
) -> None:
    timestamp, offset = entry
    batches = log.batches_from(min(positions.before(offset), log.size))
    batch = next((each for each in batches if each.header.last_offset >= offset), None)
    if batch is None:
        report.offset_not_found(file.path, offset, _NO_OFFSET, is_damage=True)
        return
    largest, timestamp_there = _NO_TIMESTAMP, None
    try:
        for record in batch.iter_records():
            largest = max(largest, record.timestamp)
            if record.offset == offset:
                timestamp_there = record.timestamp
    except FormatError as error:
        report.found(error)
        return
    if batch.header.last_offset != offset:
        # Up to 3.x an entry named the record itself. The original complains of those, too.
        is_right = timestamp_there == timestamp
        last_offset = batch.header.last_offset
        report.offset_not_found(file.path, offset, last_offset, is_damage=not is_right)
        return
    if largest != timestamp:
        report.timestamp_mismatch(file.path, timestamp, largest)
    if previous >= timestamp:
        report.timestamp_out_of_order(file.path, timestamp, previous)
