"""Walk over a file of batches that may be damaged: pieces of batches, and gaps.

A scan yields pieces (columns of records or of headers, or single batches) up to bytes that cannot
be a batch. The walk then yields a `Gap`, and starts the next scan where batches continue. There are
two ways to find that position:

    kafka_log.damage.resync.BatchSearch.resume    the next batch with a correct checksum
    resume_by_length                              where the length field says, as Kafka's own dump

Zeros up to the end of the file are also a gap, with nothing after them.

This module does not import numpy, so that a small dump starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Generic, Literal, NamedTuple, Protocol, TypeVar

from kafka_format.batch_layout import BATCH, LENGTH_END, SMALLEST_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.errors import FormatError
    from kafka_format.log_file import SegmentEnd

P = TypeVar("P")
_P_co = TypeVar("_P_co", covariant=True)

_LENGTH = BATCH.reader("batch_length")


class Scan(Protocol[_P_co]):
    """Pieces of consecutive batches; `end` is known after the last one."""

    def __iter__(self) -> Iterator[_P_co]: ...

    @property
    def end(self) -> SegmentEnd | None: ...


class Gap(NamedTuple):
    """Bytes that cannot be a batch."""

    position: int
    reason: Literal["end_of_file", "zeroed_tail", "truncated_batch", "corrupt_batch"]
    """As in SegmentEnd; never the first."""
    error: FormatError
    resumes_at: int | None
    """Where the next batch begins; None if there is none."""
    follows_damage: bool
    """Whether the batch before it is among the damage of its piece."""

    @property
    def is_reported(self) -> bool:
        """Whether the damaged batch before it is already reported: its length led here."""
        return self.follows_damage and self.resumes_at is not None

    @property
    def is_zeros(self) -> bool:
        """Whether these are preallocated bytes, or the zeros that a crash left."""
        return self.reason == "zeroed_tail"


class BatchWalk(Generic[P]):
    """Pieces of batches in file order, and a `Gap` for everything else.

    >>> walk = BatchWalk(lambda start: RecordScan(file, start=start), search.resume)
    >>> for part in walk:
    ...     if isinstance(part, Gap): ...
    """

    def __init__(
        self,
        scan_from: Callable[[int], Scan[P]],
        resume: Callable[[SegmentEnd, P | None], int | None],
        *,
        start: int = 0,
    ) -> None:
        """Set up a walk. `resume` takes a scan's end and last piece, and returns the next start."""
        self._scan_from = scan_from
        self._resume = resume
        self._start = start
        self.end: SegmentEnd | None = None
        """How the last scan ended."""

    def __iter__(self) -> Iterator[P | Gap]:
        position: int | None = self._start
        while position is not None:
            scan = self._scan_from(position)
            piece: P | None = None
            for piece in scan:
                yield piece
            end = self.end = scan.end
            if end is None or end.error is None:
                return
            position = self._resume(end, piece)
            yield Gap(end.position, end.reason, end.error, position, _ends_damaged(piece))


def _ends_damaged(piece: object) -> bool:
    """Return whether the last batch of a piece is damaged. Only record columns know."""
    batches = getattr(piece, "batches", ())
    return any(batch == len(batches) - 1 for batch, _ in getattr(piece, "damage", ()))


def stop_at_damage(end: SegmentEnd, last: object) -> int | None:  # noqa: ARG001
    """Return None: the first gap ends the walk."""
    return None


def resume_by_length(log: BinaryIO, limit: int) -> Callable[[SegmentEnd, object], int | None]:
    """Resume after a batch that cannot be read, if its length makes sense and ends by `limit`.

    Kafka's own dump does the same. A wrong length is followed.
    """

    def resume(end: SegmentEnd, last: object) -> int | None:  # noqa: ARG001
        if end.reason != "corrupt_batch":
            return None
        log.seek(end.position)
        (length,) = _LENGTH.unpack(log.read(LENGTH_END))
        fits = SMALLEST_LENGTHS[0] <= length <= limit - end.position - LENGTH_END
        return end.position + LENGTH_END + length if fits else None

    return resume
