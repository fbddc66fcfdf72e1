"""`make bench` runs and compares what it says; how fast anything is, no test judges."""

import re
import sys

import benchmarks.__main__ as bench
from tests.oracle import jars


def test_a_small_run_prints_every_table_and_checks_the_record_counts(
    monkeypatch, tmp_path, capsys, oracle
):
    monkeypatch.setattr(jars, "cache_root", _cache_with_jars_but_own_files(tmp_path))
    arguments = ["--megabytes", "1", "--only", "none, 100 B, 10 "]
    for section in bench.SECTIONS:
        if section not in ("spark", "export"):  # tests/pipelines/test_benchmarks.py
            arguments += ["--section", section]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    assert bench.main() == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("| none, 100 B, 10 per batch")]
    assert len(rows) == 5  # decode, three modes of dump, recovery
    assert all(re.search(r"\*\*\d+\.\d", row) for row in rows)
    assert len([line for line in lines if "idempotent" in line or "a marker" in line]) == 8
    assert len([line for line in lines if "B values" in line]) == 9


def _cache_with_jars_but_own_files(scratch):
    real = jars.cache_root()
    (scratch / "benchmarks").mkdir()
    for folder in real.iterdir():
        if folder.name != "benchmarks":
            (scratch / folder.name).symlink_to(folder)
    return lambda: scratch
