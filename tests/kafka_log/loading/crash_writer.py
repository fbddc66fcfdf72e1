"""A process that writes logs and is killed: `python -m tests.kafka_log.loading.crash_writer`.

It loads Python once and forks a writer for each line on its stdin, a JSON value: `directory`,
`seed`, `recovery_point`. On stdout: `pid N` of a writer, `opened`, then at each step `flushed N`
with the offset up to which it had the log flushed, `ended` when the writer is gone. What a record
holds depends on its offset alone: whoever finds it later knows whether it is the one written.
"""

import json
import os
import random
import signal
import sys
import tempfile

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog

START_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=300, segment_index_bytes=480)
# The same for Kafka.
SETTINGS = {"segment.bytes": 6000, "index.interval.bytes": 300, "segment.index.bytes": 480}
CODECS = (Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD, Codec.GZIP)


def record_at(offset: int) -> SimpleRecord:
    value = None if offset % 13 == 0 else b"%d " % offset + b"v" * (offset * 31 % 200)
    return SimpleRecord(START_MS + offset, b"%d" % (offset % 17), value)


def open_log(directory: str, recovery_point: int = 0) -> PartitionLog:
    clock = FixedClock(START_MS)
    return PartitionLog.open(
        DiskFiles(directory),
        CONFIG,
        Scheduler(clock),
        LastRun(clean_shutdown=False, recovery_point=recovery_point),
    )


def warm_up() -> None:
    """Load here what a writer needs, compiled code above all: a fork has it at once."""
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            log = open_log(directory)
            log.append_as_leader(encode_batch([record_at(0)]), leader_epoch=0)
            log.close_handlers()


def write(directory: str, seed: int, recovery_point: int) -> None:
    """Append, roll and flush up to 300 times, and wait to be killed."""
    rng = random.Random(seed)
    log = open_log(directory, recovery_point)
    flushed = 0
    os.write(1, b"opened\n")
    for step in range(300):
        first = log.log_end_offset
        records = [record_at(first + n) for n in range(rng.randint(1, 8))]
        log.append_as_leader(encode_batch(records, codec=rng.choice(CODECS)), leader_epoch=seed)
        if rng.random() < 0.05:
            log.roll()
        if rng.random() < 0.06 or step == 0:
            log.flush()
            flushed = log.log_end_offset
        os.write(1, b"flushed %d\n" % flushed)
    signal.pause()


def main() -> None:
    warm_up()
    for line in sys.stdin:
        arguments = json.loads(line)
        pid = os.fork()
        if not pid:
            write(**arguments)
            os._exit(0)
        os.write(1, b"pid %d\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    main()
