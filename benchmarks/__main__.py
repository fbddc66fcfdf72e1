"""make bench: compare our code with Apache Kafka's own classes.

    python -m benchmarks [--megabytes N] [--only TEXT] [--section NAME]… [--on-disk] [--write]

`--write` writes the tables to docs/performance.md, each with machine and commit.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from benchmarks import (
    append,
    audit,
    clean,
    clean_scale,
    clean_spark,
    decode,
    dump,
    export,
    recovery,
    replay,
    spark,
)
from benchmarks.files import SHAPES, SegmentFile, segment
from tests.oracle import jars
from tests.oracle.client import BENCHMARK_FLAGS, Oracle

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SECTIONS = (
    "decode",
    "dump",
    "recovery",
    "replay",
    "append",
    "spark",
    "export",
    "audit",
    "clean",
    "clean_spark",
    "clean_scale",
)
_READ_SEGMENTS = {"decode", "dump", "recovery", "spark"}
MEGABYTES = 256
CLEAN_MEGABYTES = 1024
_SIZES = {
    "clean": CLEAN_MEGABYTES,
    "clean_spark": CLEAN_MEGABYTES,
    "audit": audit.MEGABYTES // audit.PARTITIONS,
}


def main() -> int:
    options = _parse()
    with Oracle(flags=BENCHMARK_FLAGS) as oracle:
        sections = _sections(oracle, options)
        for name in options.section or sections:
            section = sections[name]
            lines = _print_all(
                chain([f"### {section.title}", ""], _with_progress(name, section.table()))
            )
            if options.write:
                size = options.megabytes or _SIZES.get(name, MEGABYTES)
                _write(name, [_setting(size), "", *lines])
    return 0


class Section(NamedTuple):
    title: str
    table: Callable[[], Iterator[str]]


def _sections(oracle: Oracle, options: argparse.Namespace) -> dict[str, Section]:
    """Return all sections by name; those that read segments share them."""
    megabytes = options.megabytes or MEGABYTES
    segments = _segments(oracle, options, megabytes)
    cleaned = (oracle, options.megabytes or CLEAN_MEGABYTES, options.only)
    return {
        "decode": Section(
            "Decode, warm process, checksums checked", lambda: decode.table(oracle, segments)
        ),
        "dump": Section("Dump, whole process, to /dev/null", lambda: dump.table(segments)),
        "recovery": Section(
            "Recovery of an unclean partition, warm process",
            lambda: recovery.table(oracle, segments),
        ),
        "replay": Section(
            "Replay of producers and transactions over headers",
            lambda: replay.table(megabytes * 1024),
        ),
        "append": Section(
            "Append as a leader, every record checked, to disk", lambda: append.table(megabytes)
        ),
        "clean": Section(
            "Clean: one round, warm process, 128 MiB map",
            lambda: clean.table(*cleaned, on_disk=options.on_disk),
        ),
        "clean_spark": Section(
            "Clean: partitions side by side, whole commands",
            lambda: clean_spark.table(*cleaned, on_disk=options.on_disk),
        ),
        "clean_scale": Section(
            "Clean: many partitions, Spark, one partition by many tasks; whole commands",
            lambda: clean_scale.table(megabytes // 16, megabytes * 2, options.only),
        ),
        "spark": Section(
            "Spark on two threads: a directory, Parquet, a live broker",
            lambda: spark.table(segments),
        ),
        "audit": Section(
            f"Audit of a disk with {audit.PARTITIONS} partitions, whole commands",
            lambda: audit.table(oracle, options.megabytes or audit.MEGABYTES, only=options.only),
        ),
        "export": Section("Export of a small directory, whole commands", export.table),
    }


def _segments(oracle: Oracle, options: argparse.Namespace, megabytes: int) -> list[SegmentFile]:
    """Return a segment of each chosen shape, if a chosen section reads segments."""
    if options.section and not _READ_SEGMENTS & set(options.section):
        return []
    segments = []
    for shape in SHAPES:
        if options.only in str(shape):
            _talk(f"file: {shape}")
            segments.append(segment(oracle, shape, raw_bytes=megabytes << 20))
    return segments


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--megabytes",
        type=int,
        help=f"size of each file before compression ({MEGABYTES}; to clean: {CLEAN_MEGABYTES})",
    )
    parser.add_argument("--only", default="", help="only shapes whose name contains this")
    parser.add_argument(
        "--section", action="append", choices=SECTIONS, help="only this section (may be repeated)"
    )
    parser.add_argument("--on-disk", action="store_true", help="clean on the disk, not in memory")
    parser.add_argument("--write", action="store_true", help="write to docs/performance.md")
    return parser.parse_args()


def _with_progress(name: str, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        _talk(f"{name}: {number}")
        yield line


def _print_all(lines: Iterable[str]) -> list[str]:
    kept = []
    for line in lines:
        print(line, flush=True)
        kept.append(line)
    return kept


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(section: str, lines: list[str]) -> None:
    begin, end = f"<!-- bench {section}: begin -->", f"<!-- bench {section}: end -->"
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    body = "\n".join(lines)
    PAGE.write_text(f"{before}{begin}\n{body}\n{end}{after}")


def _setting(megabytes: int) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"Commit {commit}, {os.cpu_count()} cores of {model}, Python {platform.python_version()}, "
        f"Apache Kafka {jars.CURRENT}; files of {megabytes} MiB before compression, page-cached."
    )


if __name__ == "__main__":
    raise SystemExit(main())
