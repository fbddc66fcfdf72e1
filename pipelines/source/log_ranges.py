"""A batch-aligned range of a `.log` file: its batches and records, and the damage between them.

Damage does not end a range: it is reported (`on_damage`), and the search for the next batch
continues after it (kafka_log.damage). A torn batch at the end is damage; zeros after the last batch
are not, because they are preallocated. A file that cannot be read is one damage. If a file changes
while it is read, the rows read before are kept.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Generic, NamedTuple, TypeVar

from kafka_format.access import watching
from kafka_format.batch_layout import BATCH
from kafka_format.columnar.headers import BatchColumns, BatchScan, HeaderWalk
from kafka_format.columnar.record_columns import RecordColumns
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_format.shown_text import name_base64, name_text
from kafka_log.damage.findings import NOT_A_BATCH, batch_finding_id, gap_finding_id
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap
from pipelines.source.refusals import refusal_of, shrunk
from pipelines.source.storage import local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.log_file import SegmentEnd
    from kafka_log.damage.walk import Scan
    from pipelines.source.refusals import Refusal
    from pipelines.source.storage import Storage

    OnDamage = Callable[["RangeDamage"], None]
    OpenScan = Callable[[BinaryIO, int, int], Scan["Columns"]]

Columns = TypeVar("Columns", BatchColumns, RecordColumns)

_PIECE_ROWS = 64 * 1024
_OFFSET = BATCH.reader("base_offset")
OFFSET_END = 2**63 - 1
"""As the end of a range: no end."""


_PLAIN_BYTES = 256 * 1024
"""Bytes to decode in plain Python before it pays to load compiled kernels (a second)."""
_plain_bytes_decoded = 0


def kernels_for(size: int) -> bool | None:
    """Return whether to run a scan of `size` bytes compiled: None is yes if possible, as in scans.

    Spark has many short-lived workers, and most files of a first look are small.
    """
    global _plain_bytes_decoded  # noqa: PLW0603  # kernels are loaded per process as well
    if "numba" in sys.modules or _plain_bytes_decoded + size > _PLAIN_BYTES:
        return None
    _plain_bytes_decoded += size
    return False


class Aborted(NamedTuple):
    """A producer's transaction that a read_committed consumer does not see."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its marker."""


class RangeDamage(NamedTuple):
    """A part of a range that gives no rows: the rule of kafka_log.checks, and where it is."""

    rule: str
    error: FormatError
    position: int
    """Where the batch, or what is not a batch, begins."""
    offsets: tuple[int, int] | None = None
    """First and last offset that are lost, where they are known."""
    base_offset: int | None = None
    """The base offset of the batch, from its header."""
    next_offset: int | None = None
    """The first offset of the next range, if nothing else follows in this one."""

    @property
    def is_of_file(self) -> bool:
        """Whether the whole file is damaged, not a part of it."""
        return self.rule.startswith("DIR")

    def __str__(self) -> str:
        """Return the text of the finding."""
        error = self.error
        found, expected = name_text(error.found), name_text(error.expected)
        return f"{name_text(str(error.location))}: {self.rule}: found {found}, expected {expected}"


class LogRange(NamedTuple):
    """A part of a log file, and the offsets in it that are selected. Picklable."""

    path: str
    topic: str
    partition: int | None
    segment: int
    start: int
    """Position at which a batch begins."""
    end: int
    """Position after the last batch, or the end of the file at the time of planning."""
    first_offset: int = 0
    end_offset: int = OFFSET_END
    """After the last selected offset."""
    is_from_start: bool = True
    """Whether the query gives no start."""
    aborted: tuple[Aborted, ...] = ()
    topic_id: str | None = None
    is_segment: bool = True
    """Whether its offsets are at or above the one in its name; those of a snapshot are below."""
    refusal: Refusal | None = None
    """Why the file or its directory cannot be read, if that was known when it was planned."""

    @property
    def size_in_bytes(self) -> int:
        return self.end - self.start

    @property
    def place(self) -> dict[str, str | int | None]:
        """The columns that have the same value in all its rows."""
        return {
            "topic": name_text(self.topic),
            "partition": self.partition,
            "topic_id": self.topic_id,
            "segment": self.segment,
            "path": name_text(self.path),
            "path_base64": name_base64(self.path),
        }

    @property
    def is_whole_log(self) -> bool:
        """Whether every offset is selected that a consumer could read."""
        return self.is_from_start and self.end_offset >= OFFSET_END


def iter_records(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[RecordColumns]:
    """Yield the records of sound batches; call `on_damage` for others, before what follows them."""
    compiled = kernels_for(source.size_in_bytes)

    def scan(file: BinaryIO, start: int, end: int) -> RecordScan:
        return RecordScan(
            file,
            path=source.path,
            start=start,
            end=end,
            verify=verify,
            piece_rows=_PIECE_ROWS,
            compiled=compiled,
        )

    with _watched(source, on_damage):
        file = _open(source, storage, on_damage)
        if file is None:
            return
        with file:
            for columns in _sound_pieces(file, source, scan, on_damage):
                if not columns.is_continuation:  # a continuation is the same batch
                    for batch, error in columns.damage:
                        on_damage(_batch_damage(columns.batches, batch, error))
                yield columns


def iter_batches(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[BatchColumns]:
    """Yield the headers of all batches, with checksums if they are to be verified."""
    compiled = kernels_for(source.size_in_bytes)

    def scan(file: BinaryIO, start: int, end: int) -> BatchScan | HeaderWalk:
        kind = BatchScan if verify else HeaderWalk
        return kind(file, path=source.path, start=start, end=end, compiled=compiled)

    with _watched(source, on_damage):
        file = _open(source, storage, on_damage)
        if file is None:
            return
        with file:
            yield from _sound_pieces(file, source, scan, on_damage)


def _batch_damage(batches: BatchColumns, batch: int, error: FormatError) -> RangeDamage:
    first, last = int(batches.base_offset[batch]), int(batches.last_offset[batch])
    return RangeDamage(
        batch_finding_id(error),
        error,
        int(batches.position[batch]),
        (first, last),
        first,
    )


def _sound_pieces(
    file: BinaryIO, source: LogRange, scan: OpenScan[Columns], on_damage: OnDamage
) -> Iterator[Columns]:
    """Yield the pieces of a range; call `on_damage` for what is between them."""
    base = source.segment if source.is_segment else None
    search = BatchSearch(file, source.start, source.end, base_offset=base)
    is_cut = source.end < file.seek(0, io.SEEK_END)

    def scan_from(start: int) -> _RangeScan[Columns]:
        return _RangeScan(file, source, partial(scan, file), start=start, is_cut=is_cut)

    walk: BatchWalk[Columns] = BatchWalk(scan_from, search.resume, start=source.start)
    for part in walk:
        if not isinstance(part, Gap):
            yield part
        elif not part.is_zeros and not part.is_reported:
            following = None
            if part.resumes_at is None and is_cut:
                following = _offset_at(file, source.end)
            is_at_end = part.resumes_at is None and not is_cut and not search.has_given_up
            finding_id = gap_finding_id(part, is_at_end=is_at_end)
            on_damage(RangeDamage(finding_id, part.error, part.position, next_offset=following))
    if (unread := search.unread(source.path)) is not None:
        on_damage(RangeDamage(NOT_A_BATCH, unread, unread.location.position))


class _RangeScan(Generic[Columns]):
    """A scan of a part of a file that looks beyond the part to judge its end.

    The reports so do not depend on where ranges are cut: a batch that extends beyond the range
    belongs to it, and zeros up to the end of the range may not be at the end of the log.
    """

    def __init__(
        self,
        file: BinaryIO,
        source: LogRange,
        scan: Callable[[int, int], Scan[Columns]],
        *,
        start: int,
        is_cut: bool,
    ) -> None:
        self._file = file
        self._path, self._limit = source.path, source.end
        self._scan: Callable[[int, int], Scan[Columns]] = scan
        self._start = start
        self._is_cut = is_cut
        self.end: SegmentEnd | None = None

    def __iter__(self) -> Iterator[Columns]:
        part: tuple[int, int] | None = (self._start, self._limit)
        while part is not None:
            scan = self._scan(*part)
            yield from scan
            part = self._beyond_limit(scan.end)

    def _beyond_limit(self, end: SegmentEnd | None) -> tuple[int, int] | None:
        """Return the bounds of a batch that extends beyond the range, if there is one."""
        self.end = end
        is_in_order = end is None or (end.error is None and end.position <= self._limit)
        if end is None or is_in_order or not self._is_cut:
            return None
        log = LogFile(self._file, path=self._path, start=end.position)
        batch = next(log.batches(), None)
        self.end = log.end
        if batch is None or end.position >= self._limit:
            return None
        return end.position, end.position + len(batch.raw)


def _offset_at(file: BinaryIO, position: int) -> int | None:
    """Return the offset with which the next range begins: a range ends where a batch begins."""
    file.seek(position)
    first = file.read(_OFFSET.size)
    return _OFFSET.unpack(first)[0] if len(first) == _OFFSET.size else None


def _open(source: LogRange, storage: Storage, on_damage: OnDamage) -> BinaryIO | None:
    """Open the file; report it and return None if it cannot be opened."""
    if source.refusal is not None:
        on_damage(RangeDamage(source.refusal.rule, source.refusal.error(source.path), 0))
        return None
    try:
        file = storage.open(source.path)
    except (OSError, FormatError) as error:
        refusal = refusal_of(error, source.path)
        if refusal is None:
            raise
        on_damage(RangeDamage(refusal.rule, refusal.error(source.path, source.start), source.start))
        return None
    size = file.seek(0, io.SEEK_END)
    if size < source.end:
        changed = shrunk(source.end, size)
        on_damage(RangeDamage(changed.rule, changed.error(source.path, size), size))
    return file


@contextmanager
def _watched(source: LogRange, on_damage: OnDamage) -> Iterator[None]:
    """Report what happens to the file while it is read."""
    with watching() as watch:
        try:
            yield
        except OSError as error:
            refusal = refusal_of(error, source.path)
            if refusal is None:
                raise
            on_damage(
                RangeDamage(refusal.rule, refusal.error(source.path, source.start), source.start)
            )
        for change in watch.changes():
            refusal = refusal_of(change, source.path)
            if refusal is not None and change.filename == local_path(source.path):
                changed = refusal.error(source.path, source.start)
                on_damage(RangeDamage(refusal.rule, changed, source.start))
