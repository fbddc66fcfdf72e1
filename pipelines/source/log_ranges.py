"""A range of a `.log` file, batch-aligned, and its batches and records, whatever lies between.

Damage does not end a range: it is told (`on_damage`), and the next batch is looked for behind it
(kafka_log.damage). A torn batch at the end is damage too; zeros behind the last batch are not, for
they are preallocated. A file that the disk does not give us is damage as a whole; of one that
changes while it is read, what was read before is given.
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
from kafka_format.columnar.records import RecordColumns, RecordScan
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

    OnDamage = Callable[["Damage"], None]
    OpenScan = Callable[[BinaryIO, int, int], Scan["Columns"]]

Columns = TypeVar("Columns", BatchColumns, RecordColumns)

_PIECE_ROWS = 64 * 1024
_OFFSET = BATCH.reader("base_offset")
OFFSET_END = 2**63 - 1
"""As the end of a range: there is none."""


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


class Damage(NamedTuple):
    """Something that is not rows as it should be: by which rule of kafka_log.checks, and where."""

    rule: str
    error: FormatError
    position: int
    """Of the batch, or of what is none."""
    offsets: tuple[int, int] | None = None
    """First and last of what is lost, where they are known."""
    base_offset: int | None = None
    """Of the batch, as its header says."""
    next_offset: int | None = None
    """At which the next range begins, if nothing else of this one follows."""

    @property
    def is_of_file(self) -> bool:
        """Whether it is about the file, not about a part of it."""
        return self.rule.startswith("DIR")

    def __str__(self) -> str:
        """As a finding says it."""
        error = self.error
        found, expected = name_text(error.found), name_text(error.expected)
        return f"{name_text(str(error.location))}: {self.rule}: found {found}, expected {expected}"


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
    is_from_start: bool = True
    """Whether nobody asked where to begin."""
    aborted: tuple[Aborted, ...] = ()
    topic_id: str | None = None
    is_segment: bool = True
    """Whether all its offsets are above the one in its name: those of a snapshot are below."""
    refusal: Refusal | None = None
    """Why the file, or the directory around it, cannot be read, if that was known in planning."""

    @property
    def size_in_bytes(self) -> int:
        return self.end - self.start

    @property
    def place(self) -> dict[str, str | int | None]:
        """The columns that are the same of all its rows."""
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
        """Whether all offsets are wanted that a consumer could ask for."""
        return self.is_from_start and self.end_offset >= OFFSET_END


def iter_records(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[RecordColumns]:
    """Records of sound batches; `on_damage` is told of the others before what follows them."""
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

    with _told(source, on_damage):
        file = _opened(source, storage, on_damage)
        if file is None:
            return
        with file:
            for columns in _sound_pieces(file, source, scan, on_damage):
                if not columns.is_continuation:  # else the same batch again
                    for batch, error in columns.damage:
                        on_damage(_of_batch(columns.batches, batch, error))
                yield columns


def iter_batches(
    source: LogRange, storage: Storage, *, verify: bool, on_damage: OnDamage
) -> Iterator[BatchColumns]:
    """Headers of all batches, with checksums if they are to be verified."""
    compiled = kernels_for(source.size_in_bytes)

    def scan(file: BinaryIO, start: int, end: int) -> BatchScan | HeaderWalk:
        kind = BatchScan if verify else HeaderWalk
        return kind(file, path=source.path, start=start, end=end, compiled=compiled)

    with _told(source, on_damage):
        file = _opened(source, storage, on_damage)
        if file is None:
            return
        with file:
            yield from _sound_pieces(file, source, scan, on_damage)


def _of_batch(batches: BatchColumns, batch: int, error: FormatError) -> Damage:
    first, last = int(batches.base_offset[batch]), int(batches.last_offset[batch])
    return Damage(
        batch_finding_id(error),
        error,
        int(batches.position[batch]),
        (first, last),
        first,
    )


def _sound_pieces(
    file: BinaryIO, source: LogRange, scan: OpenScan[Columns], on_damage: OnDamage
) -> Iterator[Columns]:
    """The pieces of a range; `on_damage` gets what lies between them."""
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
            on_damage(Damage(finding_id, part.error, part.position, next_offset=following))
    if (unread := search.unread(source.path)) is not None:
        on_damage(Damage(NOT_A_BATCH, unread, unread.location.position))


class _RangeScan(Generic[Columns]):
    """A scan of part of a file, whose end is judged by the whole file.

    So what is reported does not depend on where ranges are cut: a batch that reaches beyond the
    range is one of it, and zeros up to the end of the range need not be those at the end of a log.
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
            part = self._judged(scan.end)

    def _judged(self, end: SegmentEnd | None) -> tuple[int, int] | None:
        """Return the part that a batch takes which reaches beyond the range, if there is one."""
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
    """The offset with which the next range begins: ranges are cut where batches do."""
    file.seek(position)
    first = file.read(_OFFSET.size)
    return _OFFSET.unpack(first)[0] if len(first) == _OFFSET.size else None


def _opened(source: LogRange, storage: Storage, on_damage: OnDamage) -> BinaryIO | None:
    """None if the file is not given to us, which is told."""
    if source.refusal is not None:
        on_damage(Damage(source.refusal.rule, source.refusal.error(source.path), 0))
        return None
    try:
        file = storage.open(source.path)
    except (OSError, FormatError) as error:
        refusal = refusal_of(error, source.path)
        if refusal is None:
            raise
        on_damage(Damage(refusal.rule, refusal.error(source.path, source.start), source.start))
        return None
    size = file.seek(0, io.SEEK_END)
    if size < source.end:
        changed = shrunk(source.end, size)
        on_damage(Damage(changed.rule, changed.error(source.path, size), size))
    return file


@contextmanager
def _told(source: LogRange, on_damage: OnDamage) -> Iterator[None]:
    """What happens to the file while it is read."""
    with watching() as watch:
        try:
            yield
        except OSError as error:
            refusal = refusal_of(error, source.path)
            if refusal is None:
                raise
            on_damage(Damage(refusal.rule, refusal.error(source.path, source.start), source.start))
        for change in watch.changes():
            refusal = refusal_of(change, source.path)
            if refusal is not None and change.filename == local_path(source.path):
                error_of = refusal.error(source.path, source.start)
                on_damage(Damage(refusal.rule, error_of, source.start))
