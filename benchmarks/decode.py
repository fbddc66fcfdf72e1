"""Decoding in a warm process: every record of a segment, with checksums."""

import os
import time
from collections.abc import Callable, Iterable, Iterator

from benchmarks.files import SegmentFile
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.log_file import LogFile
from tests.oracle.client import Oracle

ROUNDS = 9
THREADS = min(2, os.cpu_count() or 1)
ROW_BYTES = 8 * 1024 * 1024  # the row decoder is slow: a part is enough to time it


def java_records(oracle: Oracle, segment: SegmentFile) -> Callable[[], float]:
    """Return a timed loop over FileRecords; the first rounds warm the JVM."""
    oracle.bench_records(segment.path, rounds=4)
    return lambda: min(oracle.bench_records(segment.path, rounds=1)["seconds"])


def columnar_records(segment: SegmentFile, *, threads: int = 1) -> float:
    with segment.path.open("rb", buffering=0) as file:
        begin = time.perf_counter()
        scan = RecordScan(file, path=segment.path.name, threads=threads)
        records = sum(len(columns) for columns in scan)
        seconds = time.perf_counter() - begin
    if records != segment.records:
        raise AssertionError(f"{segment.path}: {records} records, expected {segment.records}")
    return seconds


def header_walk(segment: SegmentFile) -> float:
    with segment.path.open("rb", buffering=0) as file:
        begin = time.perf_counter()
        batches = sum(len(columns) for columns in HeaderWalk(file, path=segment.path.name))
        seconds = time.perf_counter() - begin
    expected = segment.records // segment.shape.records_per_batch
    if batches != expected:
        raise AssertionError(f"{segment.path}: {batches} batches, expected {expected}")
    return seconds


def row_records_per_second(segment: SegmentFile) -> float:
    """Measure by processor time: it is one thread, and other work would stretch the clock."""
    with segment.path.open("rb") as file:
        log = LogFile(file, path=segment.path.name, end=ROW_BYTES)
        begin = time.process_time()
        records = 0
        for batch in log.batches():
            batch.ensure_valid()
            records += len(batch.records())
        return records / (time.process_time() - begin)


def compare(oracle: Oracle, segment: SegmentFile) -> dict[str, float]:
    """Return the best of interleaved rounds: a disturbance hits both sides alike."""
    java = java_records(oracle, segment)
    columnar_records(segment), header_walk(segment)
    times: dict[str, list[float]] = {"java": [], "columnar": [], "threads": [], "walk": []}
    for _ in range(ROUNDS):
        times["java"].append(java())
        times["columnar"].append(columnar_records(segment))
        times["threads"].append(columnar_records(segment, threads=THREADS))
        times["walk"].append(header_walk(segment))
    rows = max(row_records_per_second(segment) for _ in range(ROUNDS))
    return {name: min(seconds) for name, seconds in times.items()} | {"rows": rows}


def table(oracle: Oracle, segments: Iterable[SegmentFile]) -> Iterator[str]:
    yield (
        "| file | Java loop Mrec/s (MB/s) | columnar Mrec/s (MB/s) | ratio "
        f"| by {THREADS} threads | ratio | header walk Mbatch/s (GB/s) | rows Mrec/s |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in segments:
        best = compare(oracle, one)
        batches = one.records / one.shape.records_per_batch
        yield (
            f"| {one.shape} | {_rate(one, best['java'])} | {_rate(one, best['columnar'])} "
            f"| **{best['java'] / best['columnar']:.1f}** | {_rate(one, best['threads'])} "
            f"| **{best['java'] / best['threads']:.1f}** "
            f"| {batches / best['walk'] / 1e6:.2f} ({one.size / best['walk'] / 1e9:.1f}) "
            f"| {best['rows'] / 1e6:.2f} |"
        )


def _rate(one: SegmentFile, seconds: float) -> str:
    return f"{one.records / seconds / 1e6:.1f} ({one.size / seconds / 1e6:.0f})"
