"""Add up the batches of a `.log` to its SegmentSummary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_format.attributes import DELETE_HORIZON
from kafka_log.checks.facts import SegmentSummary
from kafka_log.damage.findings import END_IDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from kafka_log.checks.finding import Finding
    from kafka_log.checks.segments.log_pieces import LogPiece

_NONE = -1


class SegmentTotals:
    """What the batches with a correct checksum add up to."""

    def __init__(self, path: str, base_offset: int) -> None:
        self._path = path
        self._base_offset = base_offset
        self._next_offset = base_offset
        self._first_offset: int | None = None
        self._epochs: tuple[int, int] | None = None
        self._timestamps: tuple[int, int] = (_NONE, _NONE)
        self._last_position: int | None = None
        self._valid_bytes = 0
        self._has_gaps = False
        self._counts = {"batches": 0, "records": 0, "null_keys": 0, "tombstones": 0}
        self._largest_batch = 0

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        """Add a piece. There are no findings."""
        rows = np.flatnonzero(piece.is_sound)
        if len(rows):
            self._add_records(piece)
            if not piece.is_continuation:
                self._add_batches(piece, rows)
        yield from ()

    def summary(self, *, size_in_bytes: int, damage: AbstractSet[str]) -> SegmentSummary:
        """Return the sums; `damage` are the rules of what could not be read."""
        first_epoch, last_epoch = self._epochs or (None, None)
        return SegmentSummary(
            path=self._path,
            base_offset=self._base_offset,
            next_offset=self._next_offset,
            first_offset=self._first_offset,
            size_in_bytes=size_in_bytes,
            valid_bytes=self._valid_bytes,
            last_position=self._last_position,
            largest_batch=self._largest_batch,
            min_timestamp=self._timestamps[0],
            max_timestamp=self._timestamps[1],
            first_leader_epoch=first_epoch,
            last_leader_epoch=last_epoch,
            has_gaps=self._has_gaps,
            is_damaged=bool(damage),
            has_damage_before_end=bool(damage - END_IDS),
            **self._counts,
        )

    def _add_batches(
        self, piece: LogPiece, rows: np.ndarray[tuple[int], np.dtype[np.intp]]
    ) -> None:
        batches = piece.batches
        self._add_gaps(piece)
        if self._first_offset is None:
            self._first_offset = int(self._first_of(piece)[rows[0]])
        self._counts["batches"] += len(rows)
        self._next_offset = max(self._next_offset, int(batches.last_offset[rows].max()) + 1)
        self._last_position = int(batches.position[rows[-1]])
        self._valid_bytes = int(piece.ends[rows[-1]])
        self._largest_batch = max(self._largest_batch, int(batches.size_in_bytes[rows].max()))
        largest = int(batches.max_timestamp[rows].max())
        self._timestamps = self._timestamps[0], max(self._timestamps[1], largest)
        epochs = batches.partition_leader_epoch[rows]
        epochs = epochs[epochs >= 0]
        if len(epochs):
            first = int(epochs[0]) if self._epochs is None else self._epochs[0]
            self._epochs = first, int(epochs[-1])

    def _add_gaps(self, piece: LogPiece) -> None:
        """Note missing offsets: between two batches that follow each other, or inside one."""
        batches = piece.batches
        between = piece.follows & piece.is_sound & (piece.first_offset > piece.previous_last + 1)
        if self._first_offset is None:
            between[0] = False  # nothing is known of the offsets before the first batch
        count = batches.record_count
        inside = (batches.magic >= 2) & (count >= 0) & (count <= batches.last_offset_delta)
        self._has_gaps |= bool((between | inside & piece.is_sound).any())

    def _add_records(self, piece: LogPiece) -> None:
        batches, records = piece.batches, piece.records
        if records is None:
            counts = np.where(batches.is_legacy, 1, np.maximum(batches.record_count, 0))
            self._counts["records"] += int(counts.sum())
            # With a delete horizon, the base timestamp is not that of a record.
            known = (batches.attributes & DELETE_HORIZON == 0) | batches.is_legacy
            self._add_min(np.minimum(batches.base_timestamp, batches.max_timestamp)[known])
            return
        self._counts["records"] += len(records)
        self._add_min(records.timestamp)
        is_control = piece.is_control
        without_key, without_value = records.key_length < 0, records.value_length < 0
        if is_control.any():
            is_data = ~is_control[records.batch]
            without_key, without_value = without_key & is_data, without_value & is_data
        self._counts["null_keys"] += int(np.count_nonzero(without_key))
        self._counts["tombstones"] += int(np.count_nonzero(without_value))

    def _add_min(self, timestamps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        real = timestamps[timestamps >= 0]
        if len(real):
            smallest, largest = int(real.min()), self._timestamps[1]
            before = self._timestamps[0]
            self._timestamps = smallest if before < 0 else min(before, smallest), largest

    def _first_of(self, piece: LogPiece) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return the first offset of each batch; that of a wrapper is in its records only."""
        first = piece.first_offset.copy()
        if piece.records is not None and len(piece.records):
            start = np.cumsum(piece.records.counts) - piece.records.counts
            has_rows = piece.is_wrapper & (piece.records.counts > 0)
            first[has_rows] = piece.records.offset[start[has_rows]]
        return first
