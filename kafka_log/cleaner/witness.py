"""Who wants to see what a cleaner decides, and by what.

A cleaner without a witness pays nothing for it. Every batch that a cleaner filters is told once:
with its piece, or by itself where `piece.by_rows` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record
    from kafka_log.cleaner.pieces import Piece
    from kafka_log.cleaner.verdict import BatchVerdict, Decided
    from kafka_log.segment import LogSegment

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]


class Witness(Protocol):
    """Told what is decided. Arrays and pieces are good only until the call returns."""

    @property
    def is_ordered(self) -> bool:
        """Whether it must be told in the order of the log; else several threads may tell it."""
        ...

    def on_segment(self, segment: LogSegment, group_base_offset: int) -> None:
        """Before a segment is filtered into the cleaned one of that base."""

    def on_piece(
        self,
        piece: Piece,
        decided: Decided,
        is_kept: Uint8s,
        latest_of: Int64s,
        retains_deletes: Uint8s,
    ) -> None:
        """Batches judged by columns: what was decided on each, `is_kept` and `latest_of` a row.

        What `is_kept` says counts where the verdict does not discard the records, and
        `retains_deletes` (a batch each) is whether its tombstones may stay. Batches with
        `piece.by_rows` are among them so that rows can be counted, but told by `on_batch`.
        """

    def on_batch(
        self,
        batch: AnyBatch,
        verdict: BatchVerdict,
        records: Sequence[Record],
        kept: Sequence[Record],
    ) -> None:
        """A batch judged record by record; both are empty if its records were not looked at."""
