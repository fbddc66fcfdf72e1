"""Where the batches of a segment begin, and which times it reaches, without reading it whole.

The offset index is used if it is sound, else the headers of the batches. A position of an index is
used if the batch that begins there ends at the offset of the entry. A time index is used if it is
whole, its segment is no longer written to, and the batches after its last entry agree with it: an
index that is cut between two entries looks sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.batch_layout import BATCH
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.errors import FormatError
from kafka_format.file_bytes import JAVA_MAX
from kafka_format.index_end import Stop
from kafka_format.offset_index import decode_offset_index
from kafka_format.time_index import decode_time_index
from kafka_log.checks.segments.time_indexes import first_uncovered
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kafka_format.time_index import TimeIndexFile
    from kafka_log.checks.segments.time_indexes import UncoveredBatch
    from kafka_log.inventory.inventory import Segment
    from pipelines.source.storage import Storage

    Int64s = npt.NDArray[np.int64]

_OFFSETS = BATCH.reader("base_offset", "magic", "last_offset_delta")
"""In a legacy message the last field is part of something else; the smallest is long enough."""
_MAX_TAIL_BYTES = 16 * 1024 * 1024
"""The most bytes after the last entry of a time index to check: a plan must be quick, and a reader
of the segment finds out anyway."""


class BatchEntries(NamedTuple):
    """Batches of a segment that are known without reading it."""

    first_offsets: Int64s
    """Or a lower bound."""
    last_offsets: Int64s
    positions: Int64s


def index_entries(segment: Segment, size: int, storage: Storage) -> BatchEntries | None:
    file = segment.files.get(FileKind.OFFSET_INDEX)
    if file is None:
        return None
    try:
        index = decode_offset_index(storage.read(file.path, limit=JAVA_MAX), segment.base_offset)
    except (OSError, FormatError):
        return None
    if index.stop not in (Stop.END_OF_FILE, Stop.ZERO_PADDING) or not len(index.entries):
        return None
    positions = index.entries["position"].astype(np.int64)
    # An entry does not say where the batches between it and the one before begin.
    firsts = np.concatenate([[segment.base_offset], index.offsets[:-1] + 1])
    return BatchEntries(firsts, index.offsets, positions) if positions[-1] < size else None


def are_batches(
    segment: Segment, entries: BatchEntries, positions: Iterable[int], storage: Storage
) -> bool:
    """Return whether a batch begins at each position and ends at the offset in the index."""
    with storage.open(_log(segment)) as file:
        for position in positions:
            file.seek(position)
            header = file.read(_OFFSETS.size)
            if len(header) < _OFFSETS.size:
                return False
            offset, magic, last_offset_delta = _OFFSETS.unpack(header)
            if magic >= 2:
                offset += last_offset_delta
            if offset != entries.last_offsets[np.searchsorted(entries.positions, position)]:
                return False
    return True


def walked_entries(segment: Segment, storage: Storage) -> BatchEntries:
    """Return every batch as far as headers follow each other; anything may follow damage."""
    found = [np.empty((3, 0), np.int64)]
    with storage.open(_log(segment)) as file:
        walk = HeaderWalk(file, path=_log(segment))
        for batches in walk:
            is_wrapper = batches.is_legacy & (batches.codec != 0)  # gives only its last offset
            first = np.where(is_wrapper, segment.base_offset, batches.base_offset)
            found.append(np.stack([first, batches.last_offset, batches.position]))
    entries = BatchEntries(*np.concatenate(found, axis=1))
    is_damaged = walk.end is not None and walk.end.reason in ("corrupt_batch", "truncated_batch")
    if is_damaged and len(entries.positions):
        entries.first_offsets[-1] = segment.base_offset  # so that the rest of the file is read
    return entries


def _log(segment: Segment) -> str:
    return segment.files[FileKind.LOG].path


# ------------------------------------------------------------------------------- times


def may_reach(segment: Segment, timestamp: int, storage: Storage) -> bool:
    """Return whether a full segment may have a record of this time or later."""
    try:
        index = _time_index(segment, storage)
        if index is None or not len(index.entries) or segment.log is None:
            return True
        if int(index.entries["timestamp"][-1]) >= timestamp:
            return True
        start = _after_last_entry(segment, index, storage)
        if segment.log.size_in_bytes - start > _MAX_TAIL_BYTES:
            return True
        with storage.open(_log(segment)) as file:
            return first_uncovered(file, index, path=_log(segment), start=start) is not None
    except (OSError, FormatError):
        return True


def end_missing_in_index(
    segment: Segment, storage: Storage
) -> tuple[TimeIndexFile, UncoveredBatch] | None:
    """Return the time index of a full segment, and the first batch that it does not cover."""
    index = _time_index(segment, storage)
    if index is None or segment.log is None:
        return None
    start = _after_last_entry(segment, index, storage)
    with storage.open(_log(segment)) as file:
        later = first_uncovered(file, index, path=_log(segment), start=start)
    return None if later is None or later.is_damage else (index, later)


def _time_index(segment: Segment, storage: Storage) -> TimeIndexFile | None:
    """Return the time index; None if there is none, or if it does not end as a full one does."""
    file = segment.files.get(FileKind.TIME_INDEX)
    if file is None:
        return None
    index = decode_time_index(storage.read(file.path, limit=JAVA_MAX), segment.base_offset)
    return index if index.stop is Stop.END_OF_FILE else None


def _after_last_entry(segment: Segment, index: TimeIndexFile, storage: Storage) -> int:
    """Return a position at which a batch begins; the last entry covers everything before it."""
    if segment.log is None or not len(index.entries):
        return 0
    offset = segment.base_offset + int(index.entries["relative_offset"][-1])
    entries = index_entries(segment, segment.log.size_in_bytes, storage)
    if entries is None:
        return 0
    before = int(np.searchsorted(entries.last_offsets, offset, side="right")) - 1
    position = int(entries.positions[before]) if before >= 0 else 0
    return position if not position or are_batches(segment, entries, [position], storage) else 0
