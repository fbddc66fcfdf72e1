"""The sections `spark` and `export` of `make bench` run; how fast, no test judges."""

import re

from benchmarks import export
from benchmarks import spark as bench
from benchmarks.files import SegmentFile, SegmentShape
from benchmarks.installed import Measured
from tests.pipelines.segments import write_segment

RECORDS = 2500
SECONDS = r"\d+\.\d\d \(\d+\.\d\d\)"


def test_a_small_run_compares_every_query_and_tells_what_more_costs(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    write_segment(tmp_path / "t-0", 0, RECORDS)
    (log,) = (tmp_path / "t-0").glob("*.log")
    shape = SegmentShape(codec="none", value_size=100, records_per_batch=10)
    one = SegmentFile(shape=shape, path=log, records=RECORDS, size=log.stat().st_size)
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


def test_an_export_is_timed_twice_and_beside_the_start_of_spark(monkeypatch):
    took = iter([10.0, 9.0, 40.0, 12.5, 41.0, 12.0])  # two rounds: start; first and again
    words = []

    def measured(command):
        words.append(command)
        return Measured(seconds=next(took), cpu_seconds=1.0)

    monkeypatch.setattr(export, "measured", measured)
    lines = [*export.table("parquet", rounds=2)]
    assert lines[4:] == [
        "| Spark's start | 9.0 | 1.0 |  |",
        "| first export | 40.0 | 1.0 | **31.0** |",
        "| export with nothing new | 12.0 | 1.0 | **3.0** |",
    ]
    assert words[2] == words[3]  # to the same place
    assert words[4] == words[5] != words[2]
