"""One round of cleaning: Kafka's Cleaner in a warm JVM and ours, in turn, on the same partition.

The partition is in memory (tmpfs) if possible: both flush what they write, and a shared disk would
dominate the measurement (`--on-disk` uses it).

MB are those of the log that the round filtered (it is read twice: for the map, and to filter it).
Both have the 128 MiB map of a broker; a full map ends the round. Memory is the peak of a process
that does only this round. The whole command is `compact --output` with its start-up; Kafka's
seconds are its round without start-up.
"""

import contextlib
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import installed
from kafka_log.checkpoints import LastRun
from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.clock import Scheduler, system_clock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog
from tests.oracle import jars
from tests.oracle.client import Oracle

NOW = 1_800_000_000_000
SEGMENT_BYTES = 256 * 1024 * 1024
BATCH_BYTES = 16 * 1024  # batch.size of a producer
ROUNDS = 3
MEMORY = Path("/dev/shm")  # on Linux, half of the machine's memory
CORES = (1, 2)
"""How many cores work on the partition. Kafka's cleaner has one thread, plus those of the JVM."""
_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES}
_PER_RECORD = 28  # about: the key and all fields except the value


@dataclass(frozen=True, slots=True, kw_only=True)
class LogShape:
    codec: str
    value_size: int
    duplicates: float

    def __str__(self) -> str:
        return f"{self.codec}, {self.value_size} B, {self.duplicates:.0%} duplicates"


SHAPES = [
    LogShape(codec=codec, value_size=value_size, duplicates=duplicates)
    for codec in ("none", "lz4", "zstd")
    for value_size, duplicates in ((100, 0.2), (100, 0.9), (1024, 0.2), (1024, 0.9), (200, 0.8))
]
"""The last one of a codec is like a typical compacted topic: small values, few keys."""


class RoundTime(NamedTuple):
    """The bytes that a round filtered, and its time."""

    size: int
    clock: float
    cpu: float

    @property
    def rate(self) -> str:
        return f"{self.size / self.clock / 1e6:.0f} ({self.size / self.cpu / 1e6:.0f})"


def partition(oracle: Oracle, shape: LogShape, *, raw_bytes: int) -> Path:
    """Return segments with indexes, the last one empty; Kafka writes them once."""
    name = f"clean-{shape.codec}-{shape.value_size}-{shape.duplicates}-{raw_bytes}"
    directory = jars.cache_root() / "benchmarks" / name
    if directory.exists():
        return directory / "orders-0"
    record = shape.value_size + _PER_RECORD
    records = raw_bytes // record
    scratch = directory.with_suffix(".part") / "orders-0"
    shutil.rmtree(scratch.parent, ignore_errors=True)
    scratch.mkdir(parents=True)
    parts = max(1, raw_bytes // SEGMENT_BYTES)
    batch_records = max(1, BATCH_BYTES // record)
    segment_records = records // parts // batch_records * batch_records
    for i in range(parts):
        oracle.build_segment(
            scratch / f"{i * segment_records:020}.log",
            records=segment_records,
            records_per_batch=batch_records,
            value_size=shape.value_size,
            codec=shape.codec,
            keys=_keys(segment_records * parts, shape.duplicates),
            base_offset=i * segment_records,
            seed=i,
        )
    (scratch / f"{parts * segment_records:020}.log").touch()
    logs = [{"path": scratch, "config": _SETTINGS, "clean_shutdown": False}]
    oracle.call("open_logs", logs=logs, timeout=600)
    mark_clean_shutdown(scratch.parent, log_end_offset=parts * segment_records)
    scratch.parent.rename(directory)
    return directory / "orders-0"


def mark_clean_shutdown(log_dir: Path, *, log_end_offset: int, partitions: int = 1) -> None:
    """Write what a broker leaves after a clean shutdown: nothing needs recovery."""
    rows = "".join(f"orders {number} {log_end_offset}\n" for number in range(partitions))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log_dir / name).write_text(f"0\n{partitions}\n{rows}")
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def _keys(records: int, duplicates: float) -> int:
    """Return how many keys to draw from so that this share of the records is superseded."""
    low, high = 1e-6, 1e3  # records per key
    for _ in range(100):
        middle = (low + high) / 2
        if (1 - math.exp(-middle)) / middle > 1 - duplicates:
            low = middle
        else:
            high = middle
    return round(records / low)


def copy(source: Path, target: Path) -> Path:
    """Copy a partition: a file with two links is not opened to write."""
    target.mkdir()
    for path in source.iterdir():
        shutil.copy2(path, target / path.name)
    return target


def kafka(oracle: Oracle, directory: Path) -> RoundTime:
    one = {"time": NOW, "dedupe_buffer_size": 128 * 1024 * 1024, "is_timed": True}
    run = {"path": directory, "config": _SETTINGS, "passes": [one], "close": "crash"}
    run["recovery_point"] = 2**62
    ((answer,),) = [each["passes"] for each in oracle.call("clean_logs", runs=[run], timeout=600)]
    return RoundTime(answer["stats"]["bytes_read"], answer["seconds"], answer["cpu_seconds"])


def ours(directory: Path, *, cores: int) -> RoundTime:
    config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=frozenset({"compact"}))
    scheduler = Scheduler(system_clock)
    last_run = LastRun(recovery_point=2**62)
    log = PartitionLog.open(DiskFiles(directory), config, scheduler, last_run)
    log.update_high_watermark(log.log_end_offset)
    cleaner = Cleaner(log.config, lambda: NOW, CleanerSettings(cores=cores))
    clock, cpu = time.perf_counter(), time.process_time()
    cleaned = cleaner.clean(log, None)
    took = time.perf_counter() - clock, time.process_time() - cpu
    log.close_handlers()
    return RoundTime(cleaned.stats.bytes_read, *took)


@contextlib.contextmanager
def placed(source: Path, *, on_disk: bool) -> Iterator[Path]:
    """Yield the partition to clean: in memory, if there is room for it and its output."""
    size = sum(path.stat().st_size for path in source.iterdir())
    if on_disk or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < 3 * size:
        yield source
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        target = Path(folder) / "log"
        shutil.copytree(source.parent, target)
        yield target / source.name


def compare(oracle: Oracle, source: Path) -> dict[str, RoundTime]:
    """Return the best round of each by the clock; they take turns, the first round is a warm-up."""
    works = {"kafka": partial(kafka, oracle)} | {
        f"{cores} cores": partial(ours, cores=cores) for cores in CORES
    }
    took: dict[str, list[RoundTime]] = {name: [] for name in works}
    for number in range(ROUNDS + 1):
        for name, work in works.items():
            with scratch_beside(source) as scratch:
                one = work(copy(source, scratch / "orders-0"))
            if number:
                took[name].append(one)
    return {name: min(found, key=lambda one: one.clock) for name, found in took.items()}


def whole_command(source: Path) -> float:
    """Return the seconds of a whole `compact --output`: Python, numba and all checks."""
    took = []
    for _ in range(ROUNDS):
        with scratch_beside(source) as scratch:
            words = [*command(source.parent, scratch / "out"), "--engine", "local"]
            begin = time.perf_counter()
            subprocess.run(
                words, stdout=subprocess.DEVNULL, check=True, env=installed.environment()
            )
            took.append(time.perf_counter() - begin)
    return min(took)


def command(log_dir: Path, output: Path) -> list[str]:
    words = installed.command("compact", log_dir, "--quiet", "--now", NOW, "--output", output)
    for name, value in _SETTINGS.items():
        words += ["--set", f"{name}={value}"]
    return words


@contextlib.contextmanager
def scratch_beside(source: Path) -> Iterator[Path]:
    """Yield a directory on the same disk."""
    with tempfile.TemporaryDirectory(dir=source.parents[1]) as scratch:
        yield Path(scratch)


def peak_memory(source: Path) -> int:
    """Return the peak bytes of a process that only cleans this partition."""
    command = [sys.executable, "-m", "benchmarks.clean", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def table(
    oracle: Oracle, megabytes: int, only: str = "", *, on_disk: bool = False
) -> Iterator[str]:
    heads = " | ".join(f"{cores} core{'s' * (cores > 1)} | ratio (CPU)" for cores in CORES)
    yield f"| partition | Kafka MB/s (CPU) | {heads} | peak MB | command s | Kafka's round s |"
    yield f"|---|---|{'---|---|' * len(CORES)}---|---|---|"
    for shape in SHAPES:
        if only in str(shape):
            source = partition(oracle, shape, raw_bytes=megabytes << 20)
            with placed(source, on_disk=on_disk) as log:
                yield _line(shape, compare(oracle, log), peak_memory(log), whole_command(log))


def _line(shape: LogShape, best: dict[str, RoundTime], memory: int, command: float) -> str:
    if len({took.size for took in best.values()}) > 1:
        raise AssertionError(f"{shape}: not all read the same bytes: {best}")
    theirs = best.pop("kafka")
    cells = [str(shape), theirs.rate]
    for own in best.values():
        ratio = f"{theirs.clock / own.clock:.1f} ({theirs.cpu / own.cpu:.1f})"
        cells += [own.rate, f"**{ratio}**"]
    cells += [f"{memory / 1e6:.0f}", f"{command:.2f}", f"{theirs.clock:.2f}"]
    return f"| {' | '.join(cells)} |"


def _clean_once(source: Path) -> None:
    """Clean in this process, and print its peak memory."""
    with scratch_beside(source) as scratch:
        ours(copy(source, scratch / "orders-0"), cores=max(CORES))
    # Not ru_maxrss: it starts with that of the parent process.
    status = Path("/proc/self/status").read_text()
    print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)


if __name__ == "__main__":
    _clean_once(Path(sys.argv[1]))
