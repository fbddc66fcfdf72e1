"""The verb as its tests call it, and small logs to give it."""

import os
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jobs import compact
from kafka_format.batch import encode_batch
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog
from tests.jobs.verbs import rows_of_verb, run_verb

Row = dict[str, Any]
NOW = 1_794_820_000_000
BEGIN = 1_700_000_000_000
COMPACT = "--set=cleanup.policy=compact"
CHECKPOINTS = {
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


run = partial(run_verb, compact.main)
rows = partial(rows_of_verb, compact.main)


def of_kind(found: list[Row], kind: str) -> list[Row]:
    return [row for row in found if row["kind"] == kind]


def one(found: list[Row], kind: str = "partition") -> Row:
    (row,) = of_kind(found, kind)
    return row


def write_log(
    directory: Path,
    batches: int,
    *,
    roll_each: int = 2,
    keys: Sequence[bytes | None] | None = None,
    value_size: int = 0,
    epochs: Sequence[int] | None = None,
) -> Path:
    """A log dir with one partition `orders-0`: batches of one record, a second apart."""
    partition = directory / "orders-0"
    partition.mkdir(parents=True)
    clock = FixedClock(BEGIN)
    config = LogConfig(segment_index_bytes=4096)
    log = PartitionLog.open(
        DiskFiles(partition), config, Scheduler(clock), topic_id=uuid.UUID(int=7)
    )
    for number in range(batches):
        clock.now_ms = BEGIN + number * 1000
        key = f"key-{number % 3}".encode() if keys is None else keys[number]
        value = f"value-{number}".encode().ljust(value_size, b".")
        record = SimpleRecord(clock.now_ms, key, value)
        log.append_as_leader(encode_batch([record]), 0 if epochs is None else epochs[number])
        if number % roll_each == roll_each - 1:
            log.roll()
    log.flush()
    log.close()
    for path in partition.glob("*.log"):
        written_s = BEGIN // 1000 + min(int(path.stem) + roll_each, batches) - 1
        os.utime(path, (written_s, written_s))
    (directory / ".kafka_cleanshutdown").write_bytes(b"")
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name in ("recovery-point", "replication"):
        (directory / f"{name}-offset-checkpoint").write_text(f"0\n1\norders 0 {batches}\n")
    return directory


def values(directory: Path) -> list[tuple[int, bytes | None]]:
    """Offsets and values of all records, in order."""
    return [
        (record.offset, None if record.value is None else bytes(record.value))
        for path in sorted(directory.glob("*.log"))
        for batch in LogFile(path.read_bytes()).batches()
        for record in batch.records()
    ]


def damage(path: Path, position: int) -> None:
    """A bit of a value, where nothing but the checksum can know."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def batch_positions(path: Path) -> list[int]:
    return [batch.position for batch in LogFile(path.read_bytes()).batches()]
