"""A piece of a `.log` as the checks see it: consecutive batches, with what came before them.

LogPieces    turns the pieces of a scan into LogPiece, and remembers where the last one ended
LogPiece     headers, records if they are decoded, and which of the batches can be trusted
PieceCheck   what is called with every piece of a log, in file order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_format.columnar.headers import BatchColumns
from kafka_format.errors import CrcMismatchError
from kafka_log.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.checks.finding import About

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Consecutive batches of a log."""

    batches: BatchColumns
    records: RecordColumns | None
    """Their records; None if only headers are read."""
    is_sound: Bools
    """Whether the checksum of a batch is correct, or was not verified."""
    follows: Bools
    """Whether a sound batch ends where this one begins, or the file begins there."""
    previous_last: Int64s
    """The last offset of the batch before; means something only where `follows`."""

    @property
    def is_continuation(self) -> bool:
        """Whether this is another part of the last batch, which every check has already seen."""
        return self.records is not None and self.records.is_continuation

    @property
    def ends(self) -> Int64s:
        """The position after each batch."""
        return self.batches.position + self.batches.size_in_bytes

    @property
    def is_wrapper(self) -> Bools:
        """Whether only the last offset of a batch is in its header: a legacy compressed one."""
        is_wrapper: Bools = self.batches.is_legacy & (self.batches.codec != 0)
        return is_wrapper

    @property
    def is_control(self) -> Bools:
        is_control: Bools = (self.batches.attributes & CONTROL != 0) & (self.batches.magic >= 2)
        return is_control

    @property
    def first_offset(self) -> Int64s:
        """The first offset of each batch; for a legacy wrapper, the lowest that is possible."""
        lowest = np.where(self.follows, self.previous_last + 1, self.batches.last_offset)
        first: Int64s = np.where(self.is_wrapper, lowest, self.batches.base_offset)
        return first

    def finding(self, rule: str, about: About, batch: int, found: str, expected: str) -> Finding:
        """Return a finding about a batch."""
        position = int(self.batches.position[batch])
        offset = int(self.batches.base_offset[batch])
        return Finding.of(rule, about, found, expected, position=position, offset=offset)


class PieceCheck(Protocol):
    """A check that sees a log piece by piece."""

    def findings(self, piece: LogPiece) -> Iterator[Finding]: ...


class LogPieces:
    """Builds the pieces of one log, in file order."""

    def __init__(self, base_offset: int | None) -> None:
        self._end = 0
        """Where the last sound batch ended; -1 after one that is not."""
        self._last = -1 if base_offset is None else base_offset - 1

    def piece(self, part: RecordColumns | BatchColumns) -> LogPiece:
        records = None if isinstance(part, BatchColumns) else part
        batches = part if isinstance(part, BatchColumns) else part.batches
        is_sound = np.ones(len(batches), np.bool_)
        if records is not None:
            is_sound[
                [at for at, error in records.damage if isinstance(error, CrcMismatchError)]
            ] = False
        follows, previous = np.ones(len(batches), np.bool_), batches.last_offset.copy()
        if len(batches):
            follows[1:] = is_sound[:-1]
            follows[0] = int(batches.position[0]) == self._end
            previous[1:] = previous[:-1]
            previous[0] = self._last
        piece = LogPiece(batches, records, is_sound, follows, previous)
        if len(batches) and not piece.is_continuation:
            self._end = int(piece.ends[-1]) if is_sound[-1] else -1
            self._last = int(batches.last_offset[-1])
        return piece
