"""How cleaning scales: partitions side by side, Spark, and one partition by many tasks.

    python -m benchmarks.clean_scale [--megabytes 64] [--large-megabytes 512] [--only TEXT]

Every line is one `compact --output`, start-up included. It has the time, the processor time of all
processes (a shared machine stretches only the first) and their peak memory together, JVM included.
"""

import argparse
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import installed
from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.names import FileKind, segment_file_name

NOW = 1_794_820_000_000
WRITTEN = NOW - 10**6
INDEX_INTERVAL = 4096
VALUE_SIZE = 1024
RECORDS_PER_BATCH = 15
TEMPLATES = 16
"""The number of segments with different keys; fewer in a small log, so that keys repeat."""
SEGMENT_MB = 64


# ------------------------------------------------------------------------------------ the data


def template(number: int, megabytes: int) -> list[bytes]:
    """Return the batches of a segment, at offset 0: distinct keys, incompressible values."""
    noise = os.urandom(VALUE_SIZE * 64)
    batches, key = [], 0
    for _ in range(megabytes * 1024 * 1024 // (RECORDS_PER_BATCH * (VALUE_SIZE + 30) + 61)):
        records = []
        for _ in range(RECORDS_PER_BATCH):
            at = key * 37 % (len(noise) - VALUE_SIZE)
            records.append(
                SimpleRecord(
                    timestamp=WRITTEN,
                    key=b"key-%02d-%08d" % (number, key),
                    value=noise[at : at + VALUE_SIZE],
                )
            )
            key += 1
        batches.append(encode_batch(records, base_offset=0))
    return batches


def write_partition(directory: Path, megabytes: int, templates: list[list[bytes]]) -> int:
    """Write templates in turn; return the log end offset.

    The checksum does not cover the base offset, so only that is changed.
    """
    directory.mkdir(parents=True)
    offset = 0
    for number in range(max(1, megabytes // SEGMENT_MB) + 1):
        batches = templates[number % len(templates)]
        if number == max(1, megabytes // SEGMENT_MB):
            batches = batches[:1]  # the active segment
        offset = _write_segment(directory, offset, batches)
    return offset


def _write_segment(directory: Path, base_offset: int, batches: list[bytes]) -> int:
    path = directory / str(segment_file_name(base_offset, FileKind.LOG))
    offset, position, unindexed, index = base_offset, 0, 0, bytearray()
    with path.open("wb", buffering=1 << 20) as file:
        for batch in batches:
            file.write(offset.to_bytes(8, "big"))
            file.write(memoryview(batch)[8:])
            if unindexed > INDEX_INTERVAL:
                index += struct.pack(">ii", offset + RECORDS_PER_BATCH - 1 - base_offset, position)
                unindexed = 0
            offset += RECORDS_PER_BATCH
            position += len(batch)
            unindexed += len(batch)
    path.with_suffix(".index").write_bytes(index)
    last = struct.pack(">qi", WRITTEN, RECORDS_PER_BATCH - 1)
    path.with_suffix(".timeindex").write_bytes(last)
    os.utime(path, (WRITTEN / 1000, WRITTEN / 1000))
    return offset


def write_log_dir(
    directory: Path, count: int, megabytes: int, templates: list[list[bytes]]
) -> None:
    """Write a log dir as after a clean shutdown: nothing needs recovery."""
    rows = [
        f"t {number} {write_partition(directory / f't-{number}', megabytes, templates)}\n"
        for number in range(count)
    ]
    checkpoint = f"0\n{count}\n{''.join(rows)}"
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (directory / name).write_text(checkpoint)
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


# ---------------------------------------------------------------------------------- measuring


def compact(source: Path, *options: str) -> tuple[installed.Measured, int]:
    output = source.parent / "output"
    shutil.rmtree(output, ignore_errors=True)
    arguments = [str(source), "--output", str(output), "--set", "cleanup.policy=compact"]
    arguments += ["--now", str(NOW), "--quiet", "--set", "segment.bytes=1073741824", *options]
    found = installed.measured(installed.command("compact", *arguments))
    written = sum(path.stat().st_size for path in output.rglob("*.log"))
    shutil.rmtree(output)
    return found, written


# -------------------------------------------------------------------------------------- tables


def table(megabytes: int, large_megabytes: int, only: str = "") -> Iterator[str]:
    yield "| what | MB in | MB out | seconds | processor seconds | MB/s a core | peak RSS, MB |"
    yield "|---|---|---|---|---|---|---|"
    for name, count, size, options in cases(megabytes, large_megabytes):
        if only not in name:
            continue
        with tempfile.TemporaryDirectory(prefix="clean-scale-") as folder:
            source = Path(folder) / "data"
            segments = max(1, size // SEGMENT_MB)
            kinds = max(1, min(TEMPLATES, segments // 4))
            templates = [template(number, min(SEGMENT_MB, size)) for number in range(kinds)]
            write_log_dir(source, count, size, templates)
            read = sum(path.stat().st_size for path in source.rglob("*.log"))
            found, written = compact(source, *options)
        yield (
            f"| {name} | {read / 1e6:.0f} | {written / 1e6:.0f} | {found.seconds:.1f} | "
            f"{found.cpu_seconds:.1f} | {read / 1e6 / found.cpu_seconds:.0f} | "
            f"{found.peak_rss / 1e6:.0f} |"
        )


def cases(megabytes: int, large: int) -> Iterator[tuple[str, int, int, tuple[str, ...]]]:
    for count in (1, 8, 64):
        yield f"{count} partitions, processes", count, megabytes, ("--engine", "local")
    for count in (1, 8):
        yield f"{count} partitions, Spark", count, megabytes, ("--engine", "spark")
    by_many = ("--parallel-above", "0", "--task-memory", str(512 << 20))
    yield "one large, one task", 1, large, ("--engine", "local")
    yield "one large, many tasks, processes", 1, large, ("--engine", "local", *by_many)
    yield "one large, many tasks, Spark", 1, large, ("--engine", "spark", *by_many)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clean_scale", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=64, help="size of each of many partitions")
    parser.add_argument("--large-megabytes", type=int, default=512, help="size of the large one")
    parser.add_argument("--only", default="", help="only lines whose name contains this")
    options = parser.parse_args()
    for line in table(options.megabytes, options.large_megabytes, options.only):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
