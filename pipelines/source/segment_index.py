"""Where the batches of a segment begin, and which times it reaches, without reading it.

By its offset index if that is sound, else by the headers of its batches. A position of an index is
used if the batch that begins there ends at the offset of the entry. A time index is believed if it
is that of a segment that is not written to any more, whole, and the batches behind its last entry
bear it out: cut between two entries it looks as sound as any.
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
from kafka_log.checks.time_indexes import first_later
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from kafka_format.time_index import TimeIndexFile
    from kafka_log.checks.time_indexes import Later
    from kafka_log.inventory.inventory import Segment
    from pipelines.source.storage import Storage

    Int64s = npt.NDArray[np.int64]

_OFFSETS = BATCH.reader("base_offset", "magic", "last_offset_delta")
"""Of a legacy message the last is part of something else, and the smallest has room for it."""
_MOST_TAIL = 16 * 1024 * 1024
"""What lies behind the last entry of a time index is looked at if it is less: a plan must be quick,
and whoever reads the segment finds out anyway."""


class Entries(NamedTuple):
    """Batches of a segment that are known without reading it."""

    first_offsets: Int64s
    """Or a lower bound."""
    last_offsets: Int64s
    positions: Int64s


def index_entries(segment: Segment, size: int, storage: Storage) -> Entries | None:
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
    # Batches between two entries are known by neither: the later may begin behind the earlier.
    firsts = np.concatenate([[segment.base_offset], index.offsets[:-1] + 1])
    return Entries(firsts, index.offsets, positions) if positions[-1] < size else None


def are_batches(
    segment: Segment, entries: Entries, positions: Iterable[int], storage: Storage
) -> bool:
    """Whether a batch begins at each of them, and ends at the offset that the index says."""
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


def walked_entries(segment: Segment, storage: Storage) -> Entries:
    """Every batch, as far as headers follow each other; what lies behind damage may be anything."""
    found = [np.empty((3, 0), np.int64)]
    with storage.open(_log(segment)) as file:
        walk = HeaderWalk(file, path=_log(segment))
        for batches in walk:
            is_wrapper = batches.is_legacy & (batches.codec != 0)  # which tells its last offset
            first = np.where(is_wrapper, segment.base_offset, batches.base_offset)
            found.append(np.stack([first, batches.last_offset, batches.position]))
    entries = Entries(*np.concatenate(found, axis=1))
    is_damaged = walk.end is not None and walk.end.reason in ("corrupt_batch", "truncated_batch")
    if is_damaged and len(entries.positions):
        entries.first_offsets[-1] = segment.base_offset  # so that the rest of the file is read
    return entries


def _log(segment: Segment) -> str:
    return segment.files[FileKind.LOG].path


# ------------------------------------------------------------------------------- times


def may_reach(segment: Segment, timestamp: int, storage: Storage) -> bool:
    """Whether a segment that is full may have a record of this time, or of a later one."""
    try:
        index = _time_index(segment, storage)
        if index is None or not len(index.entries) or segment.log is None:
            return True
        if int(index.entries["timestamp"][-1]) >= timestamp:
            return True
        start = _behind_entry(segment, index, storage)
        if segment.log.size_in_bytes - start > _MOST_TAIL:
            return True
        with storage.open(_log(segment)) as file:
            return first_later(file, index, path=_log(segment), start=start) is not None
    except (OSError, FormatError):
        return True


def later_than_its_index(segment: Segment, storage: Storage) -> tuple[TimeIndexFile, Later] | None:
    """The time index of a segment that is full, and what it should have told and does not."""
    index = _time_index(segment, storage)
    if index is None or segment.log is None:
        return None
    start = _behind_entry(segment, index, storage)
    with storage.open(_log(segment)) as file:
        later = first_later(file, index, path=_log(segment), start=start)
    return None if later is None or later.is_damage else (index, later)


def _time_index(segment: Segment, storage: Storage) -> TimeIndexFile | None:
    """None if there is none, or one that does not end as that of a full segment does."""
    file = segment.files.get(FileKind.TIME_INDEX)
    if file is None:
        return None
    index = decode_time_index(storage.read(file.path, limit=JAVA_MAX), segment.base_offset)
    return index if index.stop is Stop.END_OF_FILE else None


def _behind_entry(segment: Segment, index: TimeIndexFile, storage: Storage) -> int:
    """Where a batch begins, with nothing before it that the last entry does not cover."""
    if segment.log is None or not len(index.entries):
        return 0
    offset = segment.base_offset + int(index.entries["relative_offset"][-1])
    entries = index_entries(segment, segment.log.size_in_bytes, storage)
    if entries is None:
        return 0
    before = int(np.searchsorted(entries.last_offsets, offset, side="right")) - 1
    position = int(entries.positions[before]) if before >= 0 else 0
    return position if not position or are_batches(segment, entries, [position], storage) else 0
