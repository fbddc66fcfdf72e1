"""Analyze many batches at once, as a follower fetches them: as columns, while nothing is wrong.

Imported only if numba is used. Anything unusual is left to the check batch by batch (info.py),
which finds the first error in Kafka's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.columnar.headers import BatchColumns, BatchScan
from kafka_format.compression import Codec

if TYPE_CHECKING:
    from kafka_format.primitives import Buffer


class ScannedBatches(NamedTuple):
    """A summary of valid batches of magic 2 with increasing offsets."""

    first_offset: int
    last_offset_of_first_batch: int
    last_offset: int
    last_leader_epoch: int
    lowest_leader_epoch: int
    highest_leader_epoch: int
    max_timestamp: int
    largest_size: int
    source_compression: Codec


def scan_batches(records: Buffer) -> ScannedBatches | None:
    """Summarize the batches; None if anything about them is unusual."""
    scan = BatchScan(records, compiled=True)
    found: ScannedBatches | None = None
    for batches in scan:
        if not _are_sound(batches, -1 if found is None else found.last_offset):
            return None
        summary = _summarize(batches)
        found = summary if found is None else _merge(found, summary)
    if scan.end is None or scan.end.reason != "end_of_file":
        return None
    return found


def _are_sound(batches: BatchColumns, offset_before: int) -> bool:
    last_offset = batches.last_offset
    return bool(
        (batches.magic == 2).all()
        and batches.is_valid.all()
        and (batches.codec <= Codec.ZSTD).all()
        and last_offset[0] > offset_before
        and (last_offset[1:] > last_offset[:-1]).all()
    )


def _summarize(batches: BatchColumns) -> ScannedBatches:
    epoch, codec = batches.partition_leader_epoch, batches.codec
    compressed = np.flatnonzero(codec)
    return ScannedBatches(
        first_offset=int(batches.base_offset[0]),
        last_offset_of_first_batch=int(batches.last_offset[0]),
        last_offset=int(batches.last_offset[-1]),
        last_leader_epoch=int(epoch[-1]),
        lowest_leader_epoch=int(epoch.min()),
        highest_leader_epoch=int(epoch.max()),
        max_timestamp=int(batches.max_timestamp.max()),
        largest_size=int(batches.size_in_bytes.max()),
        source_compression=Codec(int(codec[compressed[-1]])) if len(compressed) else Codec.NONE,
    )


def _merge(before: ScannedBatches, after: ScannedBatches) -> ScannedBatches:
    return after._replace(
        first_offset=before.first_offset,
        last_offset_of_first_batch=before.last_offset_of_first_batch,
        lowest_leader_epoch=min(before.lowest_leader_epoch, after.lowest_leader_epoch),
        highest_leader_epoch=max(before.highest_leader_epoch, after.highest_leader_epoch),
        max_timestamp=max(before.max_timestamp, after.max_timestamp),
        largest_size=max(before.largest_size, after.largest_size),
        source_compression=after.source_compression or before.source_compression,
    )
