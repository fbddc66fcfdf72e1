"""Damaged batches where a cleaner would read, found before it does, and left out where asked for.

Kafka's cleaner does not look at checksums. Damage that does not decode stops it, and the partition
is uncleanable from then on; damage that does decode goes on into the cleaned segment, under a new
checksum that is right. So checksums are looked at here, of all that will be read.

    find_damage(log, end)       the first damaged batch of the segments below an offset, as an error
    leave_out_damage(files)     every live .log of a directory without its damaged batches

Offsets are those of the batches around: a damaged header's own word counts for nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.columnar.headers import BatchScan
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import CrcMismatchError, FormatError, Location, MalformedRecordError
from kafka_format.file_kinds import SEGMENT_INDEX_KINDS
from kafka_log.disk.files import opened
from kafka_log.names import FileKind, FileState, live_base_offsets, segment_file_name
from kafka_log.resync import BatchSearch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.disk.files import File, Files
    from kafka_log.log import PartitionLog
    from kafka_log.segment import LogSegment

_CHUNK = 4 * 1024 * 1024


class Damage(NamedTuple):
    """Bytes of a `.log` that are no sound batch."""

    error: FormatError
    position: int
    size: int
    first_offset: int
    """The first that may be missing."""
    next_offset: int | None
    """Of the sound batch behind, if that is what follows."""
    is_tail: bool = False
    """A write that was torn, or zeros, with nothing behind."""

    @property
    def rule(self) -> str:
        """Of docs/findings."""
        if isinstance(self.error, CrcMismatchError):
            return "LOG001"
        return "LOG003" if isinstance(self.error, MalformedRecordError) else "LOG002"


def find_damage(
    log: PartitionLog, end: int, *, is_deep: bool = False, cores: int = 1
) -> FormatError | None:
    """The first of the segments that begin below `end`; a deep look decodes every record."""
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
        if isinstance(error, CrcMismatchError):  # of the batch, not of a field in it
            here = Location(segment.log.path, damage.position)
            return CrcMismatchError(here, error.found, error.expected)
        return error
    return None


def leave_out_damage(files: Files, *, keeps_tail: bool = True) -> Iterator[Damage]:
    """Write each log that has damage anew, without it; its indexes go, for a load to rebuild.

    `keeps_tail`: what is torn or zero at the end of the last segment stays, for a load that knows
    what to do about that, as one after an unclean stop does.
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


def _without(files: Files, base_offset: int, damages: list[Damage]) -> None:
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


class _Walk:
    """What is known of offsets while the bytes of one log are gone through."""

    def __init__(self, base_offset: int) -> None:
        self.next_offset = base_offset
        self.pending: tuple[FormatError, int] | None = None

    def sound(self, position: int, base_offset: int, last_offset: int) -> Damage | None:
        """A good batch; what lay before it, if that was damaged."""
        ended = self.ended(position, base_offset)
        self.next_offset = last_offset + 1
        return ended

    def damaged(self, error: FormatError, position: int) -> None:
        if self.pending is None:
            self.pending = error, position

    def ended(self, position: int, next_offset: int | None) -> Damage | None:
        if self.pending is None:
            return None
        error, start = self.pending
        self.pending = None
        return Damage(error, start, position - start, self.next_offset, next_offset)


def _iter_damage(
    reader: BinaryIO, path: str, size: int, base_offset: int, *, is_deep: bool
) -> Iterator[Damage]:
    walk = _Walk(base_offset)
    search = BatchSearch(reader, 0, size, base_offset=base_offset)
    is_tail = False
    start: int | None = 0
    while start is not None:
        scan: BatchScan | RecordScan
        if is_deep:
            scan = RecordScan(reader, path=path, start=start, end=size)
            for columns in scan:
                if not columns.is_continuation:  # the same batch again
                    damage = {each.batch: each.error for each in columns.damage}
                    yield from _of_batches(walk, columns.batches, damage)
        else:
            scan = BatchScan(reader, path=path, start=start, end=size)
            for batches in scan:
                yield from _of_batches(walk, batches, _wrong_checksums(batches))
        end = scan.end
        if end is None or end.error is None:
            break
        is_tail = walk.pending is None and end.reason != "corrupt_batch"
        walk.damaged(end.error, end.position)
        behind = end.position if walk.pending is None else walk.pending[1]
        start = None if end.reason == "zeroed_tail" else search.find(behind + 1)
    if (last := walk.ended(size, None)) is not None:
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
    walk: _Walk, batches: BatchColumns, damage: Mapping[int, FormatError]
) -> Iterator[Damage]:
    if not damage and walk.pending is None:
        if len(batches):
            walk.next_offset = int(batches.last_offset[-1]) + 1
        return
    for i in range(len(batches)):
        position = int(batches.position[i])
        if i in damage:
            told = walk.ended(position, None)
            walk.damaged(damage[i], position)
        else:
            # Of a legacy wrapper this is its last offset: the first is in its records.
            told = walk.sound(position, int(batches.base_offset[i]), int(batches.last_offset[i]))
        if told is not None:
            yield told
