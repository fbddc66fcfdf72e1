"""Finds damaged batches before a cleaner reads them, and leaves them out on request.

Kafka's cleaner does not check checksums. Damage that does not decode stops it, and the partition is
uncleanable from then on; damage that does decode is copied into the cleaned segment, under a new,
correct checksum. So everything that will be read is checked here.

    find_damage(log, end)       the first damaged batch of the segments below an offset, as an error
    leave_out_damage(files)     every live .log of a directory without its damaged batches

Offsets come from the sound batches around damage: a damaged header is not trusted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.columnar.headers import BatchColumns, BatchScan
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import CrcMismatchError, FormatError, Location
from kafka_format.file_kinds import SEGMENT_INDEX_KINDS
from kafka_log.damage.findings import NOT_A_BATCH, batch_finding_id
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap
from kafka_log.disk.files import opened
from kafka_log.names import FileKind, FileState, live_base_offsets, segment_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.disk.files import File, Files
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.log_segment import LogSegment

_CHUNK = 4 * 1024 * 1024


class DamagedRange(NamedTuple):
    """Bytes of a `.log` that are not a sound batch."""

    rule: str
    """The id of a finding (docs/findings)."""
    error: FormatError
    position: int
    size: int
    first_offset: int
    """The first offset that may be missing."""
    next_offset: int | None
    """That of the sound batch that follows, if one does."""
    is_tail: bool = False
    """Whether it is a torn write or zeros at the end of the file."""


def find_damage(
    log: PartitionLog, end: int, *, is_deep: bool = False, cores: int = 1
) -> FormatError | None:
    """Return the first damage in segments that begin below `end`; `is_deep` decodes records."""
    segments = log.segments.values(0, end) if end > 0 else []
    look = partial(_first_damage, is_deep=is_deep)
    if cores == 1 or len(segments) == 1:
        return next(filter(None, map(look, segments)), None)
    with ThreadPoolExecutor(cores, "kafka-damage") as pool:
        try:
            return next(filter(None, pool.map(look, segments)), None)
        finally:
            pool.shutdown(cancel_futures=True)


def _first_damage(segment: LogSegment, *, is_deep: bool) -> FormatError | None:
    reader = cast("BinaryIO", segment.log.reader())
    where = segment.log.path, segment.size, segment.base_offset
    for damage in _iter_damage(reader, *where, is_deep=is_deep):
        error = damage.error
        if isinstance(error, CrcMismatchError):  # where the batch begins, not its field
            here = Location(segment.log.path, damage.position)
            return CrcMismatchError(here, error.found, error.expected)
        return error
    return None


def leave_out_damage(files: Files, *, keeps_tail: bool = True) -> Iterator[DamagedRange]:
    """Rewrite each damaged log without the damage; delete its indexes, which a load rebuilds.

    With `keeps_tail` a torn or zeroed end of the last segment stays: a load after an unclean stop
    cuts it off.
    """
    bases = live_base_offsets(files.names())
    for base in bases:
        name = str(segment_file_name(base, FileKind.LOG))
        with opened(files, name) as file:
            reader = cast("BinaryIO", file.reader())
            found = list(_iter_damage(reader, files.path(name), file.size, base, is_deep=True))
        if found and keeps_tail and base == bases[-1] and found[-1].is_tail:
            found.pop()
        if found:
            _without(files, base, found)
            for kind in SEGMENT_INDEX_KINDS:
                files.delete_if_exists(str(segment_file_name(base, kind)))
            yield from found


def _without(files: Files, base_offset: int, damages: list[DamagedRange]) -> None:
    name = str(segment_file_name(base_offset, FileKind.LOG))
    new = str(segment_file_name(base_offset, FileKind.LOG, FileState.SWAP))
    files.delete_if_exists(new)
    modified_ms = files.modified_ms(name)
    with opened(files, name) as source:
        target = files.open(new, create=True)
        try:
            position = 0
            for each in damages:
                _copy(source, position, each.position, target)
                position = each.position + each.size
            _copy(source, position, source.size, target)
        finally:
            target.close()
    files.rename(new, name)
    files.set_modified_ms(name, modified_ms)


def _copy(source: File, start: int, end: int, target: File) -> None:
    for position in range(start, end, _CHUNK):
        target.append(source.read_at(position, min(_CHUNK, end - position)))


# ------------------------------------------------------------------------------------ a walk


class _Offsets:
    """The offsets around damage, as far as the walk over one log has come."""

    def __init__(self, base_offset: int) -> None:
        self.next_offset = base_offset
        self.pending: tuple[str, FormatError, int] | None = None
        """Damage that has not ended yet: its finding, its error, where it begins."""

    def sound(self, position: int, base_offset: int, last_offset: int) -> DamagedRange | None:
        """Note a sound batch; return the damage before it, if there is any."""
        ended = self.ended(position, base_offset)
        self.next_offset = last_offset + 1
        return ended

    def damaged(self, rule: str, error: FormatError, position: int) -> None:
        if self.pending is None:
            self.pending = rule, error, position

    def ended(self, position: int, next_offset: int | None) -> DamagedRange | None:
        if self.pending is None:
            return None
        rule, error, start = self.pending
        self.pending = None
        return DamagedRange(rule, error, start, position - start, self.next_offset, next_offset)


def _iter_damage(
    reader: BinaryIO, path: str, size: int, base_offset: int, *, is_deep: bool
) -> Iterator[DamagedRange]:
    offsets = _Offsets(base_offset)
    search = BatchSearch(reader, 0, size, base_offset=base_offset)

    def scan_from(start: int) -> BatchScan | RecordScan:
        kind = RecordScan if is_deep else BatchScan
        return kind(reader, path=path, start=start, end=size)

    is_tail = False
    walk: BatchWalk[BatchColumns | RecordColumns] = BatchWalk(scan_from, search.resume)
    for part in walk:
        if isinstance(part, Gap):
            is_torn = offsets.pending is None and part.reason != "corrupt_batch"
            is_tail = is_torn and part.resumes_at is None
            offsets.damaged(NOT_A_BATCH, part.error, part.position)
        elif isinstance(part, BatchColumns):
            yield from _of_batches(offsets, part, _wrong_checksums(part))
        elif not part.is_continuation:  # else it is the same batch again
            damage = {each.batch: each.error for each in part.damage}
            yield from _of_batches(offsets, part.batches, damage)
    if (last := offsets.ended(size, None)) is not None:
        yield last._replace(is_tail=is_tail)


def _wrong_checksums(batches: BatchColumns) -> dict[int, FormatError]:
    found: dict[int, FormatError] = {}
    for i in np.flatnonzero(~batches.is_valid).tolist():
        where = Location(batches.path, int(batches.position[i]))
        computed = -1 if batches.computed_crc is None else int(batches.computed_crc[i])
        found[i] = CrcMismatchError(
            where, f"stored crc {int(batches.crc[i]):#010x}", f"computed crc {computed:#010x}"
        )
    return found


def _of_batches(
    offsets: _Offsets, batches: BatchColumns, damage: Mapping[int, FormatError]
) -> Iterator[DamagedRange]:
    if not damage and offsets.pending is None:
        if len(batches):
            offsets.next_offset = int(batches.last_offset[-1]) + 1
        return
    for i in range(len(batches)):
        position = int(batches.position[i])
        if i in damage:
            ended = offsets.ended(position, None)
            offsets.damaged(batch_finding_id(damage[i]), damage[i], position)
        else:
            # In a legacy wrapper this is its last offset: the first is in its records.
            first, last = int(batches.base_offset[i]), int(batches.last_offset[i])
            ended = offsets.sound(position, first, last)
        if ended is not None:
            yield ended
