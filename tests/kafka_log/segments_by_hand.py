"""Segments written byte by byte, for tests of what is known of them without a load."""

import os
from pathlib import Path

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord

MODIFIED = 7_000
"""When each `.log` was last modified, epoch milliseconds."""


def batch(offset: int, timestamp: int) -> bytes:
    return encode_batch([SimpleRecord(timestamp, b"k", b"v" * 20)], base_offset=offset)


def entry(timestamp: int, relative_offset: int) -> bytes:
    """An entry of a time index."""
    return timestamp.to_bytes(8, "big", signed=True) + relative_offset.to_bytes(4, "big")


def write_segment(
    directory: Path, base: int, *timestamps: int, time_index: bytes | None = None
) -> Path:
    """Write batches of one record each; without `time_index` there is no such file."""
    log = directory / f"{base:020d}.log"
    log.write_bytes(b"".join(batch(base + i, time) for i, time in enumerate(timestamps)))
    log.with_suffix(".index").write_bytes(b"")
    if time_index is not None:
        log.with_suffix(".timeindex").write_bytes(time_index)
    os.utime(log, ns=(MODIFIED * 1_000_000,) * 2)
    return log
