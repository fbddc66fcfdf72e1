"""Rows of an explanation, as columns: one per record, and one per batch that needs its own."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_format.attributes import CONTROL, DELETE_HORIZON
from kafka_format.batch import RecordBatch
from kafka_log.cleaner.reasons import IS_KEPT, Reason

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_format.log_file import AnyBatch
    from kafka_format.record import Record

    Bools = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

NONE = -1


class Unreached(NamedTuple):
    """Why no round reached a part of the log."""

    reason: Reason
    until_ms: int = NONE
    """When that ends; -1 if no clock ends it."""
    producer_id: int = NONE
    """The producer of the open transaction."""


class RowPlace(NamedTuple):
    """Where rows come from."""

    round_number: int
    segment: int
    unreached: Unreached | None = None


@dataclass(frozen=True, slots=True)
class ReasonRows:
    """Rows of one segment, one array per column, valid until the sink returns. -1 is null."""

    round_number: int
    """From 1 on."""
    segment: int
    """The base offset of the segment that was read."""
    unreached: Unreached | None
    """Why no round reached these rows; None if one did."""
    reason: Uint8s
    """Reason codes."""
    offset: Int64s
    """-1 in a batch's row."""
    base_offset: Int64s
    last_offset: Int64s
    """Both are those of the batch."""
    position: Int64s
    timestamp: Int64s
    producer_id: Int64s
    record_count: Int64s
    """How many records a batch's row stands for; -1 in a record's row."""
    is_tombstone: Bools
    superseded_by: Int64s
    delete_horizon: Int64s
    """For tombstones and markers: as stored, or as this round sets it."""
    marker_offset: Int64s
    key_position: Int64s
    key_length: npt.NDArray[np.int32]
    data: Uint8s
    """The bytes that contain the keys."""

    def __len__(self) -> int:
        return len(self.reason)

    @property
    def is_kept(self) -> Bools:
        kept: Bools = IS_KEPT[self.reason]
        return kept

    @property
    def is_record(self) -> Bools:
        return self.record_count < 0  # the offset of a damaged batch may be any

    def key(self, row: int) -> bytes | None:
        start, length = int(self.key_position[row]), int(self.key_length[row])
        return None if length < 0 else self.data[start : start + length].tobytes()

    def chosen(self, which: npt.NDArray[np.intp]) -> ReasonRows:
        """Return only those rows; `data` is shared."""
        fixed = {"round_number", "segment", "unreached", "data"}
        columns = [each.name for each in fields(self) if each.name not in fixed]
        values: Any = {name: getattr(self, name)[which] for name in columns}
        return replace(self, **values)


class RowBuilder:
    """Collects decisions by rows, until there are enough for columns."""

    def __init__(self) -> None:
        self._numbers: list[tuple[int, ...]] = []
        self._keys = bytearray()

    def __len__(self) -> int:
        return len(self._numbers)

    def add(
        self,
        reason: Reason,
        batch: AnyBatch,
        record: Record | None,
        *,
        record_count: int = NONE,
        superseded_by: int = NONE,
        delete_horizon: int | None = None,
        marker_offset: int = NONE,
    ) -> None:
        header = batch.header
        modern = batch.header if isinstance(batch, RecordBatch) else None
        key = None if record is None else record.key
        self._numbers.append(
            (
                reason.code,
                NONE if record is None else record.offset,
                header.last_offset if modern is None else modern.base_offset,
                header.last_offset,
                batch.position,
                header.max_timestamp if record is None else record.timestamp,
                NONE if modern is None else modern.producer_id,
                record_count,
                int(record is not None and record.value is None),
                superseded_by,
                NONE if delete_horizon is None else delete_horizon,
                marker_offset,
                len(self._keys),
                NONE if key is None else len(key),
            )
        )
        self._keys += key or b""

    def take(self, place: RowPlace) -> ReasonRows:
        """Return what was added since the last call."""
        columns = np.array(self._numbers, np.int64).T
        data = np.frombuffer(bytes(self._keys), np.uint8)
        self._numbers, self._keys = [], bytearray()
        rest = (columns[0].astype(np.uint8), *columns[1:8], columns[8].astype(np.bool_))
        keys = (columns[12], columns[13].astype(np.int32), data)
        return ReasonRows(*(*place, *rest, *columns[9:12], *keys))


def record_rows(
    place: RowPlace,
    records: RecordColumns,
    reasons: Uint8s,
    *,
    first_position: int,
    superseded_by: Int64s | None = None,
    delete_horizon: Int64s,
    marker_offset: Int64s | None = None,
) -> ReasonRows:
    """Return one row per record.

    `first_position` is the position of the first batch: columns may count from a chunk's start.
    """
    batches, batch = records.batches, records.batch
    shift = first_position - int(batches.position[0]) if len(batches) else 0
    is_control = (batches.attributes & CONTROL != 0) & ~batches.is_legacy
    none = np.full(len(reasons), NONE, np.int64)
    return ReasonRows(
        *place,
        reasons,
        records.offset,
        batches.base_offset[batch],
        batches.last_offset[batch],
        batches.position[batch] + shift,
        records.timestamp,
        np.where(batches.is_legacy, NONE, batches.producer_id)[batch],
        none,
        (records.value_length < 0) & ~is_control[batch],
        none if superseded_by is None else superseded_by,
        delete_horizon,
        none if marker_offset is None else marker_offset,
        records.key_position,
        records.key_length,
        records.data,
    )


def batch_rows(
    place: RowPlace, batches: BatchColumns, which: npt.NDArray[np.intp], reason: Reason
) -> ReasonRows:
    """Return one row per batch without records, all for one reason."""
    none = np.full(len(which), NONE, np.int64)
    return ReasonRows(
        *place,
        np.full(len(which), reason.code, np.uint8),
        none,
        batches.base_offset[which],
        batches.last_offset[which],
        batches.position[which],
        batches.max_timestamp[which],
        batches.producer_id[which],
        np.maximum(batches.record_count[which], 0),
        np.zeros(len(which), np.bool_),
        none,
        none,
        none,
        none,
        none.astype(np.int32),
        np.empty(0, np.uint8),
    )


def stored_horizons(batches: BatchColumns) -> Int64s:
    """Return the delete horizon of each batch; -1 if it has none."""
    has_horizon = (batches.attributes & DELETE_HORIZON != 0) & ~batches.is_legacy
    return np.where(has_horizon, batches.base_timestamp, NONE)
