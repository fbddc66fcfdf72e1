"""No split needs more memory than a few times the largest batch, however long its segment is."""

import subprocess
import sys
from pathlib import Path

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord

ROOT = Path(__file__).parents[3]
BATCH = 256 * 1024
MIB = 1024 * 1024
READ = """
import resource, sys
from tests.pipelines.readers import splits
from pipelines.source.options import parse_options
from pipelines.source.tables import reader_of

for table in ("records", "batches", "findings"):
    options = parse_options({"path": sys.argv[1], "table": table, "maxSplitBytes": "4g"})
    rows = sum(
        batch.num_rows
        for split in splits(sys.argv[1], table, maxSplitBytes="4g")
        for batch in reader_of(table).read(split, options)
    )
    print(rows)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def write_log(directory: Path, batches: int) -> None:
    """Ten records a batch, every other one compressed; the length of one batch lies."""
    partition = directory / "t-0"
    partition.mkdir(parents=True)
    records = [SimpleRecord(1, b"k", b"v" * (BATCH // 10), ())] * 10
    with (partition / f"{0:020d}.log").open("wb") as file:
        for number in range(batches):
            codec = (Codec.NONE, Codec.ZSTD)[number % 2]
            batch = bytearray(encode_batch(records, base_offset=10 * number, codec=codec))
            if number == batches // 2:
                batch[8] = 0x7F
            file.write(batch)


def rows_and_peak(directory: Path) -> tuple[list[int], int]:
    done = subprocess.run(
        [sys.executable, "-c", READ, str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    *rows, peak = map(int, done.stdout.split())
    return rows, peak


def test_the_peak_of_a_split_does_not_grow_with_its_segment(tmp_path):
    peaks = []
    for batches in (128, 896):  # 16 and 112 MiB, one split each
        directory = tmp_path / str(batches)
        write_log(directory, batches)
        rows, peak = rows_and_peak(directory)
        # One batch is damaged: a row of its own.
        assert rows == [10 * (batches - 1) + 1, batches, 1]
        peaks.append(peak)
    # A process of the same work takes some buffers of 8 MiB more or less.
    assert peaks[1] - peaks[0] < 48 * MIB, [peak // MIB for peak in peaks]
