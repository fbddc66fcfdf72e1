"""The table `batches`: one row per batch header.

Damage is marked in the column `damage`: a batch with a wrong checksum in its own row, bytes that
are not a batch in a row with a position and no header. DROPMALFORMED leaves both out. The records
inside a batch are not decoded here; `findings` does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafka_format.batch_layout import CRC_AT, MESSAGE_CRC_AT
from kafka_format.columnar.headers import BatchColumns
from kafka_format.errors import CrcMismatchError, Location
from kafka_format.shown_text import name_text
from pipelines.source.arrow import batches_to_arrow, merged, rows_to_arrow
from pipelines.source.log_ranges import OFFSET_END, RangeDamage, iter_batches
from pipelines.source.options import ReadMode
from pipelines.source.splits import plan_splits
from pipelines.source.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipelines.source.log_ranges import LogRange
    from pipelines.source.options import Options
    from pipelines.source.splits import Split

_ROWS_PER_BATCH = 10_000


class _Batches:
    def plan(self, options: Options, storage: Storage) -> list[Split]:
        return plan_splits(options, storage, as_consumer=False)

    def read(self, split: Split, options: Options) -> Iterator[pa.RecordBatch]:
        return merged(read_batches(split, options, Storage(options.paths)))


READER = _Batches()


def read_batches(split: Split, options: Options, storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, in the order of the files."""
    for source in split:
        yield from _range_batches(source, options, storage)


def _range_batches(
    source: LogRange, options: Options, storage: Storage
) -> Iterator[pa.RecordBatch]:
    damage_rows: list[dict[str, Any]] = []

    def on_damage(damage: RangeDamage) -> None:
        if options.mode is ReadMode.FAILFAST:
            raise damage.error
        error = damage.error
        damage_rows.append(
            {**source.place, "position": error.location.position, "damage": str(error)}
        )

    found = iter_batches(source, storage, verify=options.verify_checksums, on_damage=on_damage)
    pending: list[BatchColumns] = []
    for batches in found:
        if damage_rows or sum(map(len, pending)) >= _ROWS_PER_BATCH:
            yield from _rows(pending, source, options)
            yield from _take_damage_rows(damage_rows, options)
            pending = []
        pending.append(batches)
    yield from _rows(pending, source, options)
    yield from _take_damage_rows(damage_rows, options)


def _take_damage_rows(
    damage_rows: list[dict[str, Any]], options: Options
) -> Iterator[pa.RecordBatch]:
    if damage_rows and options.mode is not ReadMode.DROPMALFORMED:
        yield rows_to_arrow("batches", damage_rows, options.columns)
    damage_rows.clear()


def _in_range(batches: BatchColumns, source: LogRange) -> BatchColumns | None:
    """Return the batches that may hold a selected offset; a legacy wrapper gives only its last."""
    if source.first_offset <= 0 and source.end_offset >= OFFSET_END:
        return batches
    starts_below = (batches.base_offset < source.end_offset) | batches.is_legacy
    if source.end_offset >= OFFSET_END:
        starts_below[:] = True
    selected = np.flatnonzero(starts_below & (batches.last_offset >= source.first_offset))
    if not len(selected):
        return None
    return batches[slice(int(selected[0]), int(selected[-1]) + 1)]


def _rows(
    found: Sequence[BatchColumns], source: LogRange, options: Options
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of many batches at once: an Arrow column has a high fixed cost."""
    batches = _in_range(_concatenate(found), source) if found else None
    if batches is None:
        return
    damage: list[str | None] = [None] * len(batches)
    if options.verify_checksums and not batches.is_valid.all():
        for batch in np.flatnonzero(~batches.is_valid).tolist():
            error = _mismatch(batches, batch, source.path)
            if options.mode is ReadMode.FAILFAST:
                raise error
            damage[batch] = name_text(str(error))
    rows = batches_to_arrow(batches, options.columns, source.place, damage)
    if options.mode is ReadMode.DROPMALFORMED and any(damage):
        rows = rows.filter(pa.array([each is None for each in damage]))
    yield rows


def _concatenate(found: Sequence[BatchColumns]) -> BatchColumns:
    checksums = [each.computed_crc for each in found if each.computed_crc is not None]
    return BatchColumns(
        np.concatenate([each.table for each in found], axis=1),
        path=found[0].path,
        computed_crc=np.concatenate(checksums) if checksums else None,
    )


def _mismatch(batches: BatchColumns, batch: int, path: str) -> CrcMismatchError:
    """Return the error, worded as the row decoder words it."""
    place = MESSAGE_CRC_AT if batches.is_legacy[batch] else CRC_AT
    computed = 0 if batches.computed_crc is None else int(batches.computed_crc[batch])
    return CrcMismatchError(
        Location(path, int(batches.position[batch]) + place),
        f"stored crc {int(batches.crc[batch]):#010x}",
        f"computed crc {computed:#010x}",
    )
