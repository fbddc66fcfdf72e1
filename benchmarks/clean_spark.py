"""Partitions of 1 GB by Kafka's Cleaner, by processes and on Spark in local mode: one, and eight.

Kafka's rounds run one after another in a warm JVM, as in its one cleaner thread. Ours are whole
commands: `compact --output`, once with `--engine local` and once with `--engine spark` on one
thread per core. Spark's start, the same command on an empty log, is shown separately.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import clean, installed
from tests.oracle.client import Oracle

SHAPES = [
    clean.LogShape(codec=codec, value_size=value_size, duplicates=duplicates)
    for codec in ("none", "lz4", "zstd")
    for value_size, duplicates in ((100, 0.2), (1024, 0.9))
]
"""The most work per byte, and the least."""
PARTITIONS = (1, 8)
"""One partition: the best of some rounds. Eight partitions: one round."""
ENGINES = ("local", "spark")


def table(
    oracle: Oracle, megabytes: int, only: str = "", *, on_disk: bool = False
) -> Iterator[str]:
    yield (
        "| partitions | Kafka's rounds s | processes s (CPU) | ratio | Spark s (CPU) | ratio "
        "| without its start | ratio | peak MB, processes | peak MB, Spark |"
    )
    yield f"|{'---|' * 10}"
    shapes = [shape for shape in SHAPES if only in str(shape)]
    start = _start_of_spark() if shapes else 0.0
    for shape in shapes:
        source = clean.partition(oracle, shape, raw_bytes=megabytes << 20)
        with clean.placed(source, on_disk=on_disk) as log:
            _kafka(oracle, log)  # warms the JVM; and the first use of memory is slow
            for count in PARTITIONS:
                yield _line(oracle, shape, log, count, start)


def _line(oracle: Oracle, shape: clean.LogShape, log: Path, count: int, start: float) -> str:
    rounds = range(clean.ROUNDS if count == 1 else 1)
    theirs = min(sum(_kafka(oracle, log) for _ in range(count)) for _ in rounds)
    with clean.scratch_beside(log) as scratch:
        log_dir = _log_dir(log, scratch / "data", count)
        local, spark = (_best([_ours(log_dir, name) for _ in rounds]) for name in ENGINES)
    without_start = spark.seconds - start
    cells = [f"{count} of {shape}", f"{theirs:.1f}"]
    for found in (local, spark):
        ratio = theirs / found.seconds
        cells += [f"{found.seconds:.1f} ({found.cpu_seconds:.1f})", f"**{ratio:.1f}**"]
    cells += [f"{without_start:.1f}", f"**{theirs / without_start:.1f}**"]
    cells += [f"{found.peak_rss / 1e6:.0f}" for found in (local, spark)]
    return f"| {' | '.join(cells)} |"


def _kafka(oracle: Oracle, log: Path) -> float:
    with clean.scratch_beside(log) as scratch:
        return clean.kafka(oracle, clean.copy(log, scratch / "orders-0")).clock


def _log_dir(log: Path, target: Path, count: int) -> Path:
    """Make `count` equal partitions, as a broker leaves them after a clean shutdown."""
    target.mkdir()
    for number in range(count):
        clean.copy(log, target / f"orders-{number}")
    end = max(int(path.stem) for path in log.glob("*.log"))
    clean.mark_clean_shutdown(target, log_end_offset=end, partitions=count)
    return target


def _ours(log_dir: Path, engine: str) -> installed.Measured:
    output = log_dir.with_name("output")
    found = installed.measured([*clean.command(log_dir, output), "--engine", engine])
    shutil.rmtree(output)
    return found


def _best(runs: list[installed.Measured]) -> installed.Measured:
    return min(runs, key=lambda found: found.seconds)


def _start_of_spark() -> float:
    """Return the seconds of the shorter of two runs."""
    with tempfile.TemporaryDirectory() as folder:
        log_dir = Path(folder) / "data"
        (log_dir / "orders-0").mkdir(parents=True)
        (log_dir / "orders-0" / f"{0:020}.log").touch()
        clean.mark_clean_shutdown(log_dir, log_end_offset=0)
        return _best([_ours(log_dir, "spark") for _ in range(2)]).seconds
