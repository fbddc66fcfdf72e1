"""Partition directories of known records: a batch each `per_batch` records, indexes by hand."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord


class Written(NamedTuple):
    position: int
    size: int
    first_offset: int
    last_offset: int


def record(offset: int, size: int) -> SimpleRecord:
    """Its time is its offset, in seconds after a thousand."""
    return SimpleRecord(1_000_000 + 1000 * offset, b"k%d" % offset, b"v" * size, ())


def write_segment(
    directory: Path,
    base_offset: int,
    count: int,
    *,
    per_batch: int = 10,
    size: int = 100,
    indexed_every: int = 1,
    encode: Callable[..., bytes] = encode_batch,
) -> list[Written]:
    """`count` records from `base_offset` on; an index entry for some batches, not for the first."""
    directory.mkdir(parents=True, exist_ok=True)
    stem = directory / f"{base_offset:020d}"
    log, offsets, times, written = b"", b"", b"", []
    for number, first in enumerate(range(base_offset, base_offset + count, per_batch)):
        last = min(first + per_batch, base_offset + count) - 1
        records = [record(offset, size) for offset in range(first, last + 1)]
        batch = encode(records, base_offset=first)
        if number and number % indexed_every == 0:
            offsets += struct.pack(">ii", last - base_offset, len(log))
            times += struct.pack(">qi", records[-1].timestamp, last - base_offset)
        written.append(Written(len(log), len(batch), first, last))
        log += batch
    last_time = struct.pack(">qi", record(last, 0).timestamp, last - base_offset)
    if not times.endswith(last_time):  # a segment that is full has the largest time at its end
        times += last_time
    stem.with_suffix(".log").write_bytes(log)
    stem.with_suffix(".index").write_bytes(offsets)
    stem.with_suffix(".timeindex").write_bytes(times)
    return written
