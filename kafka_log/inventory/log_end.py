"""Find the end of a log by the headers of its last segment.

    read_log_end    from the last index entry on: a few headers, as at a start after a clean stop
    walk_log_end    from the first batch on: stops at damage, and finds the largest timestamp

Checksums are not checked: a restart after a crash may cut off more (loading/). An open log knows
its own end (LogSegment.read_next_offset).
"""

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeAlias, cast

from kafka_format.access import open_evidence
from kafka_format.errors import FormatError
from kafka_format.index_layout import OFFSET_INDEX_ENTRY
from kafka_format.log_file import LogFile

if TYPE_CHECKING:
    from kafka_log.disk.files import File

OpenFile: TypeAlias = Callable[[str], BinaryIO]


class _IndexEntry(NamedTuple):
    relative_offset: int
    position: int


class LogEnd(NamedTuple):
    """The end of a log, and how it ends."""

    offset: int
    """The offset after the last record."""
    position: int
    """The position after the last complete batch."""
    reason: str
    """As in SegmentEnd: end_of_file, zeroed_tail, truncated_batch, corrupt_batch."""


class WalkedEnd(NamedTuple):
    """The end of a log, and the largest timestamp of its batches."""

    offset: int
    """The offset after the last record."""
    position: int
    """The position after the last complete batch."""
    largest_timestamp: int
    """The largest of all batches; -1 if none has one."""


def open_unbuffered(path: str) -> BinaryIO:
    return cast("BinaryIO", open_evidence(path))


def read_log_end(
    log: str | os.PathLike[str],
    base_offset: int,
    *,
    index: str | os.PathLike[str] | None = None,
    open_file: OpenFile = open_unbuffered,
) -> LogEnd:
    """Return the end of a segment. Raises OSError if the log cannot be read."""
    path = os.fspath(log)
    with open_file(path) as file:
        entry = None if index is None else _last_entry(os.fspath(index), open_file)
        if entry is not None:
            indexed = LogFile(file, path=path, start=entry.position)
            offset = _next_offset(indexed, base_offset + entry.relative_offset)
            if offset is not None and indexed.end is not None:
                return LogEnd(offset, indexed.end.position, indexed.end.reason)
        # The index is missing, empty or wrong: read the whole segment.
        whole = LogFile(file, path=path)
        offset = _next_offset(whole, None)
        if whole.end is None:
            raise AssertionError("a log file that was read has an end")
        at = base_offset if offset is None else offset
        return LogEnd(at, whole.end.position, whole.end.reason)


def walk_log_end(file: "File", base_offset: int) -> WalkedEnd:
    """Read the headers of all batches of a segment, up to damage or its end."""
    from kafka_format.columnar.headers import HeaderWalk

    end = WalkedEnd(base_offset, 0, -1)
    for batches in HeaderWalk(cast("BinaryIO", file.reader()), path=file.path):
        end = WalkedEnd(
            int(batches.last_offset[-1]) + 1,
            int(batches.position[-1] + batches.size_in_bytes[-1]),
            max(end.largest_timestamp, int(batches.max_timestamp.max())),
        )
    return end


def _next_offset(log: LogFile, first_ends_in: int | None) -> int | None:
    """Return the offset after the last batch; None without batches or if the first is wrong."""
    offset = None
    for batch in log.batches():
        if offset is None and first_ends_in not in (None, batch.header.last_offset):
            return None
        offset = batch.header.next_offset
    return offset


def _last_entry(index: str, open_file: OpenFile) -> _IndexEntry | None:
    """Return the last entry of an index; after a crash zeros follow it."""
    try:
        file = open_file(index)
    except (FormatError, OSError):
        return None
    with file:
        low, high = 0, file.seek(0, io.SEEK_END) // OFFSET_INDEX_ENTRY.size
        found = None
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * OFFSET_INDEX_ENTRY.size)
            data = file.read(OFFSET_INDEX_ENTRY.size) or b""
            entry = _IndexEntry(
                *OFFSET_INDEX_ENTRY.unpack(data.ljust(OFFSET_INDEX_ENTRY.size, b"\0"))
            )
            if entry.position > 0 and entry.relative_offset >= 0:
                found, low = entry, middle + 1
            else:
                high = middle
        return found
