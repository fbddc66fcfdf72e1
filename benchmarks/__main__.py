"""make bench: ours against Apache Kafka's own classes.

    python -m benchmarks [--megabytes 256] [--only TEXT] [--skip-dump] [--write]

`--write` puts the tables into docs/performance.md, with machine and commit.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks import decode, dump
from benchmarks.files import SHAPES, Segment, segment
from tests.oracle import jars
from tests.oracle.client import BENCHMARK_FLAGS, Oracle

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def main() -> int:
    options = _parse()
    lines: list[str] = []
    with Oracle(flags=BENCHMARK_FLAGS) as oracle:
        shapes = [shape for shape in SHAPES if options.only in str(shape)]
        segments = []
        for shape in shapes:
            _talk(f"file: {shape}")
            segments.append(segment(oracle, shape, raw_bytes=options.megabytes << 20))
        lines += _shown(_decode_table(oracle, segments))
    if not options.skip_dump:
        lines += _shown(_dump_table(segments))
    if options.write:
        _write(lines, options.megabytes)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="of each file, uncompressed")
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    parser.add_argument("--skip-dump", action="store_true")
    parser.add_argument("--write", action="store_true", help="into docs/performance.md")
    return parser.parse_args()


def _decode_table(oracle: Oracle, segments: Iterable[Segment]) -> Iterator[str]:
    yield "### Decode, warm process, checksums checked\n"
    yield (
        "| file | Java loop Mrec/s (MB/s) | columnar Mrec/s (MB/s) | ratio "
        "| header walk Mbatch/s (GB/s) | rows Mrec/s |"
    )
    yield "|---|---|---|---|---|---|"
    for one in segments:
        _talk(f"decode: {one.shape}")
        best = decode.compare(oracle, one)
        batches = one.records / one.shape.records_per_batch
        yield (
            f"| {one.shape} | {_rate(one, best['java'])} | {_rate(one, best['columnar'])} "
            f"| **{best['java'] / best['columnar']:.1f}** "
            f"| {batches / best['walk'] / 1e6:.2f} ({one.size / best['walk'] / 1e9:.1f}) "
            f"| {best['rows'] / 1e6:.2f} |"
        )


def _dump_table(segments: Iterable[Segment]) -> Iterator[str]:
    yield "\n### Dump, whole process, to /dev/null\n"
    yield (
        "| file | mode | DumpLogSegments MB/s (Mrec/s) | ours, text | ratio | ours, JSON | ratio |"
    )
    yield "|---|---|---|---|---|---|---|"
    for one in segments:
        for mode in dump.MODES:
            _talk(f"dump {mode}: {one.shape}")
            best = dump.compare(one, mode)
            theirs, text, json = best["original"], best["text"], best["json"]
            yield (
                f"| {one.shape} | {mode} | {_megabytes(one, theirs)} "
                f"| {_megabytes(one, text)} | **{theirs / text:.1f}** "
                f"| {_megabytes(one, json)} | **{theirs / json:.1f}** |"
            )


def _rate(one: Segment, seconds: float) -> str:
    return f"{one.records / seconds / 1e6:.1f} ({one.size / seconds / 1e6:.0f})"


def _megabytes(one: Segment, seconds: float) -> str:
    return f"{one.size / seconds / 1e6:.0f} ({one.records / seconds / 1e6:.2f})"


def _shown(lines: Iterable[str]) -> list[str]:
    kept = []
    for line in lines:
        print(line, flush=True)
        kept.append(line)
    return kept


def _talk(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write(lines: list[str], megabytes: int) -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    body = "\n".join([_setting(megabytes), "", *lines])
    PAGE.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}")


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
