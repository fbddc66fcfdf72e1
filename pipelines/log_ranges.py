"""A range of a `.log` file, batch-aligned, and its batches and records, whatever lies between.

Damage does not end a range: it is told (`on_damage`), and the next batch is looked for behind it
(kafka_log.resync). A torn batch at the end is damage too; zeros behind the last batch are not, for
they are preallocated. A file that the disk does not give us is damage as a whole.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from kafka_format.columnar.headers import BatchScan, HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError, Location
from kafka_log.resync import find_batch
from pipelines.storage import is_refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.records import RecordColumns
    from kafka_format.log_file import SegmentEnd
    from pipelines.storage import Storage

    OnDamage = Callable[[FormatError, int | None], None]

_PIECE_ROWS = 64 * 1024
_MOST_DECOMPRESSED = 2**31 - 1
"""Arrow's offsets end there, and so do Java's arrays: no broker ever held such a batch."""
OFFSET_END = 2**63 - 1


_PLAIN_BYTES = 256 * 1024
"""So much is decoded by plain Python before it pays to load compiled kernels (a second)."""
_decoded_plainly = 0


def kernels_for(size: int) -> bool | None:
    """Whether a scan of so many bytes is to run compiled: None is if it can be, as scans take it.

    Workers of Spark are many and short-lived, and most files of a first look are small.
    """
    global _decoded_plainly  # noqa: PLW0603  # of this process, as loaded kernels are
    if "numba" in sys.modules or _decoded_plainly + size > _PLAIN_BYTES:
        return None
    _decoded_plainly += size
    return False


class Aborted(NamedTuple):
    """A producer's transaction that a read_committed consumer does not see."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""


class LogRange(NamedTuple):
    """Where rows come from, and which of them are wanted. Picklable."""

    path: str
    topic: str
    partition: int | None
    segment: int
    start: int
    """Position at which a batch begins."""
    end: int
    """Position behind the last batch, or the end of the file as it was planned."""
    first_offset: int = 0
    end_offset: int = OFFSET_END
    """Behind the last wanted offset."""
    aborted: tuple[Aborted, ...] = ()

    @property
    def size_in_bytes(self) -> int:
        return self.end - self.start

    @property
    def place(self) -> dict[str, str | int | None]:
        """The columns that are the same of all its rows."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "segment": self.segment,
            "path": self.path,
        }


def iter_records(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[RecordColumns]:
    """Records of sound batches. `on_damage` is told the error, and an offset where one is known."""
    compiled = kernels_for(source.size_in_bytes)
    with _refusal_told(source, on_damage), storage.open(source.path) as file:
        start: int | None = source.start
        while start is not None:
            scan = RecordScan(
                file,
                path=source.path,
                start=start,
                end=source.end,
                verify=verify,
                piece_rows=_PIECE_ROWS,
                decompressed_limit=_MOST_DECOMPRESSED,
                compiled=compiled,
            )
            suspect = None
            for columns in scan:
                suspect = _suspect(columns.batches, {each.batch for each in columns.damage})
                for batch, error in columns.damage:
                    on_damage(error, int(columns.batches.base_offset[batch]))
                yield columns
            start = _resume(file, scan.end, suspect, source.end, on_damage)


def iter_batches(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[BatchColumns]:
    """Headers of all batches, with checksums if they are to be verified."""
    compiled = kernels_for(source.size_in_bytes)
    with _refusal_told(source, on_damage), storage.open(source.path) as file:
        start: int | None = source.start
        while start is not None:
            scan: BatchScan | HeaderWalk
            if verify:
                scan = BatchScan(
                    file, path=source.path, start=start, end=source.end, compiled=compiled
                )
            else:
                scan = HeaderWalk(
                    file, path=source.path, start=start, end=source.end, compiled=compiled
                )
            suspect = None
            for batches in scan:
                invalid = np.flatnonzero(~batches.is_valid).tolist() if verify else ()
                suspect = _suspect(batches, set(invalid))
                yield batches
            start = _resume(file, scan.end, suspect, source.end, on_damage)


@contextmanager
def _refusal_told(source: LogRange, on_damage: OnDamage) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_refused(error, source.path):
            raise
        said = error.strerror or str(error)
        place = Location(source.path, source.start)
        on_damage(FormatError(place, said, "a file that can be read"), None)


def _suspect(batches: BatchColumns, damaged: set[int]) -> int | None:
    """The position of the last batch, if it is damaged: so may its length be."""
    last = len(batches) - 1
    return int(batches.position[last]) if last in damaged else None


def _resume(
    file: BinaryIO,
    end: SegmentEnd | None,
    suspect: int | None,
    limit: int,
    on_damage: OnDamage,
) -> int | None:
    """Where the next batch begins, behind what ended a scan; None if nothing more is to come."""
    if end is None or end.error is None or end.reason == "zeroed_tail":
        return None
    on_damage(end.error, None)
    return find_batch(file, (end.position if suspect is None else suspect) + 1, limit)
