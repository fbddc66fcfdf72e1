"""Spark queries over the same data: our source on a directory, Parquet, Spark's Kafka source.

The segments are copied into two topics of a live Apache Kafka on this machine, which builds their
indexes. Spark's Kafka source reads from the broker, ours reads the directory of the broker, and the
Parquet files (uncompressed, two) contain what ours read. Two threads each, one warm session.

CPU time is that of this process and its descendants: Spark's JVM, its Python workers, the broker.
On a shared machine it says more than the clock.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.files import SegmentFile
from benchmarks.timing import Seconds
from tests.golden.make.broker import Broker
from tests.oracle import jars
from tests.oracle.client import BENCHMARK_FLAGS, java_command

ROUNDS = 4
SHAPES = ("none, 100 B, 100 a", "none, 1024 B, 100 a", "lz4, 100 B, 100 a")
"""The shapes to read: the others differ only in decoding, which has its own table."""
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
TOPICS = ("left", "right")
LOOKUP = 1000
"""The number of offsets of a lookup, from the middle of the log."""
MUCH = 10_000_000_000
SPLITS = 200
SEGMENTS = (1, 10, 100, 1000)

Query = Callable[[Any], Any]


def measured(work: Callable[[], Any]) -> Seconds:
    clock, cpu = time.perf_counter(), tree_cpu_seconds()
    work()
    return Seconds(time.perf_counter() - clock, tree_cpu_seconds() - cpu)


def tree_cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants, ended ones included."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:  # the process has ended
            continue
        process = int(stat.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = sum(map(int, fields[11:15]))
    total, found = 0, {os.getpid()}
    while found:
        total += sum(ticks[process] for process in found)
        found = {process for process, parent in parents.items() if parent in found}
    return total / os.sysconf("SC_CLK_TCK")


def best(works: Mapping[str, Callable[[], Any]], rounds: int | None = None) -> dict[str, Seconds]:
    """Return the best clock and CPU time of interleaved rounds: a disturbance hits all alike."""
    taken: dict[str, list[Seconds]] = {name: [] for name in works}
    for _ in range(rounds or ROUNDS):
        for name, work in works.items():
            taken[name].append(measured(work))
    return {
        name: Seconds(min(each.clock for each in times), min(each.cpu for each in times))
        for name, times in taken.items()
    }


# ------------------------------------------------------------------------------- queries


def _scan(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame.groupBy("topic").agg(F.count("*"), F.max("offset"), F.sum(F.length("value"))).collect()


def _lookup(first: int) -> Query:
    from pyspark.sql import functions as F  # noqa: N812

    def run(frame: Any) -> None:
        wanted = F.col("offset").between(first, first + LOOKUP - 1) & (F.col("topic") == TOPICS[0])
        found = frame.where(wanted).select("key").collect()
        if len(found) != LOOKUP:
            raise AssertionError(f"{len(found)} keys, expected {LOOKUP}")

    return run


def queries(records: int) -> dict[str, Query]:
    return {
        "scan": _scan,
        "count": lambda frame: frame.count(),
        "aggregate by topic": _aggregate,
        "keys by offset range": _lookup(records // 2),
    }


# ------------------------------------------------------------------ the same data, three times


def frames(
    spark: Any, directory: Path, parquet: Path, bootstrap: str | None
) -> dict[str, Callable[[], Any]]:
    """Return functions that make each frame again for every round: planning is measured too."""

    def ours() -> Any:
        reader = spark.read.format("kafka_files").option("topics", ",".join(TOPICS))
        return reader.option("columns", ",".join(COLUMNS)).load(str(directory))

    def kafka() -> Any:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        return reader.option("subscribe", ",".join(TOPICS)).option("includeHeaders", "true").load()

    if not parquet.exists():
        ours().write.option("compression", "none").parquet(str(parquet))
    found = {"ours": ours, "parquet": lambda: spark.read.parquet(str(parquet))}
    return found | ({"kafka": kafka} if bootstrap else {})


def serve(home: Path, segment: SegmentFile) -> Broker:
    """Start a broker with this segment in each topic. Its recovery builds the indexes."""
    from confluent_kafka.admin import AdminClient, NewTopic

    broker = Broker(jars.CURRENT, home, {"log.index.size.max.bytes": 10 << 20})
    broker.__enter__()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values():
        created.result(60)
    del admin  # else it logs that the broker is gone
    broker.stop()
    for name in TOPICS:
        place(segment, broker.file(f"{name}-0"))
    broker.file(".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()
    return broker


def place(segment: SegmentFile, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for index in directory.glob("*index"):
        index.unlink()
    shutil.copyfile(segment.path, directory / segment.path.name)


def dump_seconds(segment: SegmentFile) -> Seconds:
    """Time DumpLogSegments, the whole process, on the same bytes, one file after the other."""
    command = java_command("org.apache.kafka.tools.DumpLogSegments", flags=BENCHMARK_FLAGS)
    command += ["--print-data-log", "--files", ",".join([str(segment.path)] * len(TOPICS))]
    return measured(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))


# -------------------------------------------------------------------------------- tables


def table(segments: Sequence[SegmentFile]) -> Iterator[str]:
    from pipelines.session import session

    sources = sorted(jars.libs(jars.SPARK_SOURCES).glob("*.jar"))
    settings = {"spark.master": "local[2]", "spark.jars": ",".join(map(str, sources))}
    made = session("benchmarks", more=settings | {"spark.driver.memory": "2g"})
    chosen = [one for one in segments if any(text in str(one.shape) for text in SHAPES)]
    chosen = chosen or [*segments[:1]]
    yield from comparison(made, chosen)
    yield ""
    yield from growth(made, chosen[0])
    made.stop()


def comparison(spark: Any, segments: Iterable[SegmentFile], *, live: bool = True) -> Iterator[str]:
    yield (
        "| file, twice | query | ours s (CPU) | Parquet s (CPU) | ours:Parquet, speed (CPU) "
        "| Spark's Kafka source s (CPU) | ours:it, speed (CPU) | DumpLogSegments s (CPU) |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in segments:
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-spark-")))
            if live:
                broker = serve(home, one)
                stack.callback(broker.kill)
                directory, bootstrap = home / broker.log_dirs[0], broker.bootstrap
            else:
                directory, bootstrap = home / "data", None
                for name in TOPICS:
                    place(one, directory / f"{name}-0")
            sources = frames(spark, directory, home / "parquet", bootstrap)
            _check_counts(sources, one)
            dumped = dump_seconds(one) if live else None
            for name, query in queries(one.records).items():
                works = {key: lambda q=query, f=frame: q(f()) for key, frame in sources.items()}
                yield _line(one, name, best(works), dumped if name == "scan" else None)


def _check_counts(sources: Mapping[str, Callable[[], Any]], one: SegmentFile) -> None:
    for name, frame in sources.items():
        found = frame().count()
        if found != one.records * len(TOPICS):
            raise AssertionError(f"{name}: {found} rows, expected {one.records * len(TOPICS)}")


def _line(one: SegmentFile, name: str, times: dict[str, Seconds], dumped: Seconds | None) -> str:
    ours, kafka = times["ours"], times.get("kafka")
    return (
        f"| {one.shape} | {name} | {ours} | {times['parquet']} "
        f"| **{_ratio(times['parquet'], ours)}** | {kafka or '-'} "
        f"| {f'**{_ratio(kafka, ours)}**' if kafka else '-'} | {dumped or '-'} |"
    )


def _ratio(other: Seconds, ours: Seconds) -> str:
    return f"{other.clock / ours.clock:.2f} ({other.cpu / max(ours.cpu, 0.01):.2f})"


def growth(
    spark: Any,
    segment: SegmentFile,
    *,
    much: int = MUCH,
    splits: int = SPLITS,
    counts: Iterable[int] = SEGMENTS,
) -> Iterator[str]:
    """Measure the cost of more bytes, splits and segments. All files are links to one."""
    yield "| work | s (CPU) | |"
    yield "|---|---|---|"
    with tempfile.TemporaryDirectory(prefix="bench-spark-", dir=segment.path.parent) as scratch:
        root = Path(scratch)
        many = linked(root / "much", segment.path, -(-much // segment.size))
        batches = many * segment.records // segment.shape.records_per_batch
        for name, options in (
            ("batches, checksums", {}),
            ("batches, headers alone", {"verifyChecksums": "false"}),
        ):
            frame = _batches(spark, root / "much", **options)
            took = best({name: lambda f=frame: _scan(f())}, 2)[name]
            size = many * segment.size
            rate = f"{size / took.clock / 1e9:.2f} GB/s, {batches / took.clock / 1e6:.2f} Mbatch/s"
            yield f"| {name}: {size / 1e9:.1f} GB in {many} segments | {took} | {rate} |"
        small = _head_of(segment, root)
        yield from _split_cost(spark, small, root, splits)
        yield from _segment_growth(spark, small, root, counts)


def _head_of(segment: SegmentFile, root: Path) -> Path:
    """Write its first batches, about a megabyte, to a file."""
    from kafka_format.columnar.headers import HeaderWalk

    small = root / segment.path.name
    with segment.path.open("rb") as file:
        (batches, *_) = HeaderWalk(file, path=segment.path.name)
        ends = batches.position + batches.size_in_bytes
        end = int(ends[ends <= 1 << 20].max(initial=ends[0]))
        file.seek(0)
        small.write_bytes(file.read(end))
    return small


def linked(root: Path, log: Path, count: int) -> int:
    for number in range(count):
        directory = root / f"linked-{number}"
        directory.mkdir(parents=True)
        os.link(log, directory / log.name)
    return count


def _batches(spark: Any, root: Path, **options: str) -> Callable[[], Any]:
    reader = spark.read.format("kafka_files").options(table="batches", **options)
    return lambda: reader.load(str(root))


def _split_cost(spark: Any, small: Path, root: Path, splits: int) -> Iterator[str]:
    for count in (1, splits):
        linked(root / f"splits-{count}", small, count)
    frames_by_count = {
        str(count): _batches(spark, root / f"splits-{count}", maxSplitBytes="1m")
        for count in (1, splits)
    }
    times = best({name: lambda f=frame: _scan(f()) for name, frame in frames_by_count.items()})
    one, several = times["1"], times[str(splits)]
    each = (several.clock - one.clock) / (splits - 1) * 1000
    cpu = (several.cpu - one.cpu) / (splits - 1) * 1000
    yield f"| 1 split, and {splits} | {one}, {several} | {each:.1f} ms ({cpu:.1f}) a split more |"


def _segment_growth(spark: Any, small: Path, root: Path, counts: Iterable[int]) -> Iterator[str]:
    for count in counts:
        linked(root / f"segments-{count}", small, count)
        frame = _batches(spark, root / f"segments-{count}")
        took = best({"it": lambda f=frame: _scan(f())}, 3)["it"]
        yield f"| {count} segments of 1 MiB | {took} | {took.clock / count * 1000:.2f} ms each |"
