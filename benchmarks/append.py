"""Appends as a leader: batches of one megabyte to a log on disk, flushed at the end of a round.

MB are those of the batches that the producer sent. Every record is checked, every batch gets its
offset; writes go to the page cache, as in a broker.
"""

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord
from kafka_log.clock import Scheduler, system_clock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog

START = 1_700_000_000_000
ROUNDS = 3


class Appended(NamedTuple):
    size: int
    seconds: float
    flush_seconds: float

    @property
    def megabytes_per_second(self) -> float:
        return self.size / self.seconds / 1e6


def batch(*, size: int = 1_000_000, value_size: int = 100, codec: Codec = Codec.NONE) -> bytes:
    """Return a producer's batch of about this size before compression."""
    rng = random.Random(1)
    count = max(1, size // (value_size + 20))
    words = [rng.randbytes(8) for _ in range(64)]
    records = [
        SimpleRecord(START + i, b"key-%06d" % i, b"".join(rng.choices(words, k=value_size // 8)))
        for i in range(count)
    ]
    return encode_batch(records, codec=codec)


def append(directory: Path, data: bytes, *, megabytes: int = 512) -> Appended:
    """Append the same batch repeatedly; without a producer id it is not a duplicate."""
    count = max(1, megabytes * 1_000_000 // len(data))
    config = LogConfig(max_message_bytes=2**31 - 1, message_timestamp_after_max_ms=2**63 - 1)
    log = PartitionLog.open(DiskFiles(directory), config, Scheduler(system_clock))
    log.append_as_leader(data, leader_epoch=0)  # the first append compiles kernels
    begin = time.perf_counter()
    for _ in range(count):
        log.append_as_leader(data, leader_epoch=0)
    written = time.perf_counter()
    log.flush()
    flushed = time.perf_counter()
    log.close()
    return Appended(count * len(data), written - begin, flushed - written)


def table(megabytes: int) -> Iterator[str]:
    yield "| batches of 1 MB before compression | MB/s sent | MB/s of records | flush s |"
    yield "|---|---|---|---|"
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        for value_size in (100, 1000, 10_000):
            plain = batch(value_size=value_size)
            data = batch(value_size=value_size, codec=codec)
            with tempfile.TemporaryDirectory() as folder:
                best = max(
                    (_round(Path(folder) / str(n), data, megabytes) for n in range(ROUNDS)),
                    key=lambda done: done.megabytes_per_second,
                )
            records = best.megabytes_per_second * len(plain) / len(data)
            yield (
                f"| {codec.name.lower()}, {value_size} B values "
                f"| **{best.megabytes_per_second:.0f}** | {records:.0f} "
                f"| {best.flush_seconds:.2f} |"
            )


def _round(directory: Path, data: bytes, megabytes: int) -> Appended:
    directory.mkdir()
    done = append(directory, data, megabytes=megabytes)
    shutil.rmtree(directory)
    return done
