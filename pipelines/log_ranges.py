"""A range of a `.log` file, batch-aligned, and its batches and records, whatever lies between.

Damage does not end a range: it is told (`on_damage`), and the next batch is looked for behind it
(kafka_log.resync). A torn batch at the end is damage too; zeros behind the last batch are not, for
they are preallocated. A file that the disk does not give us is damage as a whole.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from kafka_format.columnar.headers import BatchScan, HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError, Location
from kafka_format.log_file import LogFile
from kafka_log.resync import BatchSearch, is_batch
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
    topic_id: str | None = None
    is_segment: bool = True
    """Whether all its offsets are above the one in its name: those of a snapshot are below."""

    @property
    def size_in_bytes(self) -> int:
        return self.end - self.start

    @property
    def place(self) -> dict[str, str | int | None]:
        """The columns that are the same of all its rows."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "topic_id": self.topic_id,
            "segment": self.segment,
            "path": self.path,
        }


def iter_records(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[RecordColumns]:
    """Records of sound batches. `on_damage` is told the error, and an offset where one is known."""
    compiled = kernels_for(source.size_in_bytes)

    def scan(file: BinaryIO, start: int, end: int) -> RecordScan:
        return RecordScan(
            file,
            path=source.path,
            start=start,
            end=end,
            verify=verify,
            piece_rows=_PIECE_ROWS,
            decompressed_limit=_MOST_DECOMPRESSED,
            compiled=compiled,
        )

    with _refusal_told(source, on_damage), storage.open(source.path) as file:
        walk = _Walk(file, source, on_damage)
        for start, end in walk:
            pieces = scan(file, start, end)
            for columns in pieces:
                walk.passed(columns.batches)
                for batch, error in columns.damage:
                    on_damage(error, int(columns.batches.base_offset[batch]))
                yield columns
            walk.ended(pieces.end)


def iter_batches(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[BatchColumns]:
    """Headers of all batches, with checksums if they are to be verified."""
    compiled = kernels_for(source.size_in_bytes)

    def scan(file: BinaryIO, start: int, end: int) -> BatchScan | HeaderWalk:
        kind = BatchScan if verify else HeaderWalk
        return kind(file, path=source.path, start=start, end=end, compiled=compiled)

    with _refusal_told(source, on_damage), storage.open(source.path) as file:
        walk = _Walk(file, source, on_damage)
        for start, end in walk:
            pieces = scan(file, start, end)
            for batches in pieces:
                walk.passed(batches)
                yield batches
            walk.ended(pieces.end)


class _Walk:
    """Which parts of a range are to be scanned, one after the other, as each scan ends.

    What is told of damage does not depend on where ranges are cut: a length that leads out of the
    range, and zeros up to its end, are judged by the whole file.
    """

    def __init__(self, file: BinaryIO, source: LogRange, on_damage: OnDamage) -> None:
        self._file = file
        self._path, self._limit = source.path, source.end
        self._is_cut = source.end < file.seek(0, io.SEEK_END)
        self._on_damage = on_damage
        base = source.segment if source.is_segment else None
        self._search = BatchSearch(file, source.start, source.end, base_offset=base)
        self._next: tuple[int, int] | None = (source.start, source.end)
        self._last: int | None = None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while self._next is not None:
            part, self._next, self._last = self._next, None, None
            yield part
        if (unread := self._search.unread(self._path)) is not None:
            self._on_damage(unread, None)

    def passed(self, batches: BatchColumns) -> None:
        if len(batches):
            self._last = int(batches.position[-1])

    def ended(self, end: SegmentEnd | None) -> None:
        """How the scan of the last part did."""
        if end is None or (end.error is None and end.position <= self._limit):
            return
        if self._is_cut:
            log = LogFile(self._file, path=self._path, start=end.position)
            batch = next(log.batches(), None)
            if batch is not None:
                if end.position < self._limit:  # it reaches beyond the range, and is one of it
                    self._next = end.position, end.position + len(batch.raw)
                return
            end = log.end
        if end is None or end.error is None or end.reason == "zeroed_tail":
            return
        self._on_damage(end.error, None)
        start = self._search.find(self._lost_from(end.position) + 1)
        self._next = None if start is None else (start, self._limit)

    def _lost_from(self, position: int) -> int:
        """Where the last batch begins, if it is damaged: its length may be what led astray."""
        if self._last is None or is_batch(self._file, self._last, position):
            return position
        return self._last


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
