"""Compare two trees of this project: the same rows and bytes for every golden pack?

    python -m tests.golden.before_and_after OTHER_TREE

Each verb runs on each pack with the code of OTHER_TREE and with ours. Rows of `--format json` are
compared field by field and outputs byte by byte. Fields that only one tree has, and texts that are
written for people, are counted but are no difference.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests import golden

ROOT = Path(__file__).parents[2]
NOW = "2026-11-16T00:00:00Z"
TEXTS = frozenset(
    {"note", "message", "reason", "error", "damage", "why", "found", "expected", "what", "stray"}
)
"""Fields that hold sentences."""
MEASURED = frozenset(
    {
        "seconds",
        "estimated_seconds",
        "elapsed_seconds",
        "elapsed_index_seconds",
        "elapsed_total_seconds",
    }
)

Row = dict[str, Any]


class Call(NamedTuple):
    verb: str
    options: tuple[str, ...] = ()
    is_written: bool = False

    def __str__(self) -> str:
        return " ".join(("kafka-forensics", self.verb, *self.options))


CALLS = (
    Call("list"),
    Call("list", ("--files",)),
    Call("dump", ("--deep-iteration", "--print-data-log")),
    Call("offsets"),
    Call("offsets", ("--replay",)),
    Call("retain", ("--now", NOW)),
    Call("retain", ("--now", NOW), is_written=True),
    Call("recover", ("--now", NOW)),
    Call("recover", ("--now", NOW), is_written=True),
    Call("compact", ("--now", NOW, "--set", "cleanup.policy=compact")),
    Call("compact", ("--now", NOW, "--set", "cleanup.policy=compact"), is_written=True),
    Call("compact", ("--now", NOW, "--set", "cleanup.policy=compact,delete"), is_written=True),
)


class Result(NamedTuple):
    code: int
    rows: list[Row]
    files: dict[str, bytes]


def run(tree: Path, call: Call, data: Path, scratch: Path) -> Result:
    output = scratch / "out"
    shutil.rmtree(output, ignore_errors=True)
    written = ("--output", str(output)) if call.is_written else ()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "jobs.cli", call.verb, str(data)),
            *(*call.options, *written, "--format", "json"),
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    files = {
        str(path.relative_to(output)): path.read_bytes()
        for path in sorted(output.rglob("*"))
        if path.is_file() and not path.name.startswith("_manifest")
    }
    return Result(done.returncode, rows, files)


def differences(before: Result, after: Result, aside: Counter[str]) -> Iterator[str]:
    """Yield what differs; count in `aside` what may."""
    if before.code != after.code:
        yield f"exit code {before.code}, now {after.code}"
    if len(before.rows) != len(after.rows):
        yield f"{len(before.rows)} rows, now {len(after.rows)}"
    for one, other in zip(before.rows, after.rows, strict=False):
        for name in sorted({*one, *other}):
            if name not in one or name not in other:
                aside[f"only {'before' if name in one else 'after'}: {name}"] += 1
            elif one[name] != other[name]:
                if name in TEXTS:
                    aside[f"text: {name}"] += 1
                elif name not in MEASURED:
                    yield f"{name}: {one[name]!r}, now {other[name]!r}"
    for name in sorted({*before.files, *after.files}):
        if before.files.get(name) != after.files.get(name):
            yield f"{name}: other bytes"


def main(other: Path) -> int:
    wrong = compared = rows = files = 0
    aside: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for pack in golden.names():
            data = golden.shared(pack)
            for call in CALLS:
                before = run(other, call, data, Path(scratch))
                after = run(ROOT, call, data, Path(scratch))
                compared += 1
                rows += len(after.rows)
                files += len(after.files)
                found = list(differences(before, after, aside))
                wrong += bool(found)
                for text, count in Counter(found).most_common(5):
                    print(f"{pack}: {call}: {text}" + (f" ({count} times)" if count > 1 else ""))
    print(f"{compared} calls, {rows} rows and {files} files compared: {wrong} calls differ")
    for text, count in sorted(aside.items()):
        print(f"  not compared: {text}: {count} rows")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]).resolve()))
