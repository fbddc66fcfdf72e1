"""`export` of a small directory: the first run, a run with nothing new, and Spark's start.

All are whole commands, each with its own JVM, because a user waits for these; the export itself
takes what remains after Spark's start.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.installed import Measured, command, measured
from tests import golden

PACK = "unclean-4.3.1"
ROUNDS = 3
_START = "from jobs.export import spark_session; spark_session({!r})"


def table(form: str = "delta", rounds: int = ROUNDS) -> Iterator[str]:
    (directory,) = golden.log_dirs(golden.shared(PACK))
    files = [path for path in directory.rglob("*") if path.is_file()]
    size = sum(path.stat().st_blocks * 512 for path in files)
    yield f"{PACK}: {len(files)} files, {size >> 10} KiB on disk, all tables, to {form}."
    yield ""
    yield "| work | s | CPU s | s after Spark's start |"
    yield "|---|---|---|---|"
    start = _best([measured([sys.executable, "-c", _START.format(form)]) for _ in range(rounds)])
    yield _line("Spark's start", start, None)
    first, again = [], []
    for _ in range(rounds):
        scratch = Path(tempfile.mkdtemp(prefix="bench-export-"))
        try:
            words = ["export", directory, "--output", scratch / "lake", "--format", form, "--quiet"]
            first.append(measured(command(*words)))
            again.append(measured(command(*words)))
        finally:
            shutil.rmtree(scratch)
    yield _line("first export", _best(first), start)
    yield _line("export with nothing new", _best(again), start)


def _best(rounds: list[Measured]) -> Measured:
    return min(rounds, key=lambda each: each.seconds)


def _line(name: str, found: Measured, start: Measured | None) -> str:
    after = "" if start is None else f"**{found.seconds - start.seconds:.1f}**"
    return f"| {name} | {found.seconds:.1f} | {found.cpu_seconds:.1f} | {after} |"
