"""A restart after a crash: every batch of a partition is read and checked, its indexes are rebuilt.

Kafka's loader (UnifiedLog.create, in a warm JVM) and ours run in turn on the same directory: one
segment with its indexes, no clean shutdown, recovery point 0. `plan` is ours without writing. The
CPU time of one thread is shown beside the clock, because machines are shared.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.files import SegmentFile
from benchmarks.timing import Seconds
from kafka_log.checkpoints import LastRun
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.loading.log_dir_recovery import load_partition
from tests.oracle.client import Oracle


def compare(oracle: Oracle, one: SegmentFile, *, rounds: int = 5) -> dict[str, Seconds]:
    """Return the best round of each."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch) / "orders-0"
        directory.mkdir()
        shutil.copyfile(one.path, directory / one.path.name)
        runs: dict[str, Callable[[Path], Seconds]] = {
            "kafka": lambda path: _kafka(oracle, path),
            "ours": lambda path: _ours(DiskFiles(path)),
            "plan": lambda path: _ours(OverlayFiles(path)),
        }
        runs["kafka"](directory)  # writes the indexes
        took: dict[str, list[Seconds]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                for snapshot in directory.glob("*.snapshot"):
                    snapshot.unlink()
                took[name].append(run(directory))
    return {name: min(found, key=lambda seconds: seconds.cpu) for name, found in took.items()}


def _kafka(oracle: Oracle, directory: Path) -> Seconds:
    logs = [{"path": directory, "config": {}, "clean_shutdown": False}]
    (answer,) = oracle.call("open_logs", logs=logs, timeout=600)
    return Seconds(answer["seconds"], answer["cpu_seconds"])


def _ours(files: Files) -> Seconds:
    clock, cpu = time.perf_counter(), time.process_time()
    loaded = load_partition(files, LogConfig(), LastRun(clean_shutdown=False))
    took = Seconds(time.perf_counter() - clock, time.process_time() - cpu)
    loaded.close_handlers()
    return took


def table(oracle: Oracle, segments: Iterable[SegmentFile]) -> Iterator[str]:
    yield "| file | Kafka MB/s (CPU) | ours MB/s (CPU) | ratio (CPU) | plan MB/s (CPU) |"
    yield "|---|---|---|---|---|"
    for one in segments:
        yield _line(one, compare(oracle, one))


def _line(one: SegmentFile, best: dict[str, Seconds]) -> str:
    def rate(name: str) -> str:
        return f"{one.size / best[name].clock / 1e6:.0f} ({one.size / best[name].cpu / 1e6:.0f})"

    kafka, ours = best["kafka"], best["ours"]
    ratio = f"{kafka.clock / ours.clock:.1f} ({kafka.cpu / ours.cpu:.1f})"
    return f"| {one.shape} | {rate('kafka')} | {rate('ours')} | **{ratio}** | {rate('plan')} |"
