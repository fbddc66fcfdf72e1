"""Small log dirs, each with as many kinds of files as fit."""

import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from kafka_format.batch import encode_batch
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.record import SimpleRecord
from kafka_log.appends.origin import AppendOrigin
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog
from tests import golden

NOW = 1_794_820_000_000
BEGIN = 1_700_000_000_000
END = 11
"""Of `orders-0`: nine records, a transaction's one record and its marker."""


def make(directory: Path) -> dict[str, Path]:
    """`plain`, cleanly stopped; `torn`, the same after a crash; `kraft`, with a metadata log."""
    plain = directory / "plain"
    _partition(plain / "orders-0", batches=9, with_transaction=True)
    _partition(plain / "audit-0", batches=2, with_transaction=False)
    (plain / ".kafka_cleanshutdown").write_bytes(b"")
    (plain / ".lock").write_bytes(b"")
    (plain / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name in ("recovery-point", "replication"):
        rows = f"0\n2\norders 0 {END}\naudit 0 2\n"
        (plain / f"{name}-offset-checkpoint").write_text(rows)
    (plain / "log-start-offset-checkpoint").write_text("0\n0\n")
    (plain / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    torn = Path(shutil.copytree(plain, directory / "torn"))
    (torn / ".kafka_cleanshutdown").unlink()
    (torn / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 4\naudit 0 0\n")
    last = max((torn / "orders-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-9])
    (torn / "orders-0" / "00000000000000000004.index").unlink()
    kraft = Path(shutil.copytree(plain, directory / "kraft"))
    (source,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    shutil.copytree(source / "__cluster_metadata-0", kraft / "__cluster_metadata-0")
    return {each.name: each for each in (plain, torn, kraft)}


def _partition(directory: Path, *, batches: int, with_transaction: bool) -> None:
    directory.mkdir(parents=True)
    clock = FixedClock(BEGIN)
    config = LogConfig(segment_index_bytes=4096, transaction_partition_verification_enable=False)
    log = PartitionLog.open(
        DiskFiles(directory), config, Scheduler(clock), topic_id=uuid.UUID(int=7)
    )
    for number in range(batches):
        clock.now_ms = BEGIN + number * 1000
        record = SimpleRecord(clock.now_ms, b"key-%d" % (number % 3), b"value-%d" % number)
        log.append_as_leader(encode_batch([record]), number // 4)
        if number % 2:
            log.roll()
    if with_transaction:
        _abort(log, clock.now_ms)
    log.flush()
    log.close()
    for path in directory.glob("*.log"):
        written_s = BEGIN // 1000 + int(path.stem)
        os.utime(path, (written_s, written_s))


def _abort(log: PartitionLog, now_ms: int) -> None:
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    record = SimpleRecord(now_ms, b"key-0", b"aborted")
    log.append_as_leader(encode_batch([record], base_sequence=0, **producer), 3)
    key, value = encode_control_record(end_transaction_marker(ControlRecordType.ABORT, 1))
    marker = encode_batch([SimpleRecord(now_ms, key, value)], is_control=True, **producer)
    log.append_as_leader(marker, 3, origin=AppendOrigin.COORDINATOR, transaction_version=1)
