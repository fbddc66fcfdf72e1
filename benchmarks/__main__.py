"""make bench: ours against Apache Kafka's own classes.

    python -m benchmarks [--megabytes N] [--only TEXT] [--section NAME]… [--on-disk] [--write]

`--write` puts the tables into docs/performance.md, each with machine and commit.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from benchmarks import (
    append,
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
from benchmarks.files import SHAPES, segment
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
    "clean",
    "clean_spark",
    "clean_scale",
)
_CLEANED = {"clean", "clean_spark"}
_READ_SEGMENTS = {"decode", "dump", "recovery", "spark"}
MEGABYTES = 256
CLEAN_MEGABYTES = 1024


def main() -> int:
    options = _parse()
    megabytes = options.megabytes or MEGABYTES
    with Oracle(flags=BENCHMARK_FLAGS) as oracle:
        segments = []
        needs_segments = not options.section or _READ_SEGMENTS & set(options.section)
        for shape in SHAPES if needs_segments else ():
            if options.only in str(shape):
                _talk(f"file: {shape}")
                segments.append(segment(oracle, shape, raw_bytes=megabytes << 20))
        sections: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
            "decode": (
                "Decode, warm process, checksums checked",
                lambda: decode.table(oracle, segments),
            ),
            "dump": ("Dump, whole process, to /dev/null", lambda: dump.table(segments)),
            "recovery": (
                "Recovery of an unclean partition, warm process",
                lambda: recovery.table(oracle, segments),
            ),
            "replay": (
                "Replay of producers and transactions over headers",
                lambda: replay.table(megabytes * 1024),
            ),
            "append": (
                "Append as a leader, every record checked, to disk",
                lambda: append.table(megabytes),
            ),
            "clean": (
                "Clean: one round, warm process, 128 MiB map",
                lambda: clean.table(
                    oracle,
                    options.megabytes or CLEAN_MEGABYTES,
                    options.only,
                    on_disk=options.on_disk,
                ),
            ),
            "clean_spark": (
                "Clean: partitions side by side, whole commands",
                lambda: clean_spark.table(
                    oracle,
                    options.megabytes or CLEAN_MEGABYTES,
                    options.only,
                    on_disk=options.on_disk,
                ),
            ),
            "clean_scale": (
                "Clean: many partitions, Spark, one partition by many tasks; whole commands",
                lambda: clean_scale.table(megabytes // 16, megabytes * 2, options.only),
            ),
            "spark": (
                "Spark on two threads: a directory, Parquet, a live broker",
                lambda: spark.table(segments),
            ),
            "export": ("Export of a small directory, whole commands", export.table),
        }
        for name in options.section or sections:
            title, table = sections[name]
            lines = _shown(chain([f"### {title}", ""], _told(name, table())))
            if options.write:
                size = options.megabytes or (CLEAN_MEGABYTES if name in _CLEANED else MEGABYTES)
                _write(name, [_setting(size), "", *lines])
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--megabytes",
        type=int,
        help=f"of each file, uncompressed ({MEGABYTES}; to be cleaned: {CLEAN_MEGABYTES})",
    )
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    parser.add_argument(
        "--section", action="append", choices=SECTIONS, help="one part (may be repeated)"
    )
    parser.add_argument("--on-disk", action="store_true", help="clean on the disk, not in memory")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    return parser.parse_args()


def _told(name: str, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        _talk(f"{name}: {number}")
        yield line


def _shown(lines: Iterable[str]) -> list[str]:
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
