"""The section `spark` of `make bench` runs and checks its counts; how fast, no test judges."""

import re

from benchmarks import spark as bench
from benchmarks.files import Segment, Shape
from tests.pipelines.segments import write_segment

RECORDS = 2500
SECONDS = r"\d+\.\d\d \(\d+\.\d\d\)"


def test_a_small_run_compares_every_query_and_tells_what_more_costs(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    write_segment(tmp_path / "t-0", 0, RECORDS)
    (log,) = (tmp_path / "t-0").glob("*.log")
    shape = Shape(codec="none", value_size=100, records_per_batch=10)
    one = Segment(shape=shape, path=log, records=RECORDS, size=log.stat().st_size)
    lines = [*bench.comparison(spark, [one], live=False)][2:]
    names = ["scan", "count", "aggregate by topic", "keys by offset range"]
    assert [line.split("|")[2].strip() for line in lines] == names
    assert all(
        re.search(rf"\| {SECONDS} \| {SECONDS} \| \*\*{SECONDS}\*\* \|", line) for line in lines
    )
    grown = [*bench.growth(spark, one, much=2 * one.size, splits=3, counts=(1, 2))][2:]
    assert [line.split("|")[1].partition(":")[0].strip() for line in grown] == [
        "batches, checksums",
        "batches, headers alone",
        "1 split, and 3",
        "1 segments of 1 MiB",
        "2 segments of 1 MiB",
    ]
    assert log.stat().st_nlink == 1  # links are gone, the file is not
