"""make demo: a dead broker's disk, decoded.

The directory is one that Apache Kafka itself wrote and was killed over (a golden pack); what is
shown is the output of `kafka-forensics dump`, folded to the width of the terminal. Then Kafka's log
cleaner is run again, on a directory that was stopped in order: in this process, and on Spark.
"""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from jobs import cli
from kafka_log.inventory.directory import find_files
from tests import golden

PACK = "unclean-4.3.1"
CLEANED_PACK = "clean-3.9.1"
SHOWN_LINES = 8
SHOWN_ROWS = 7

ACTS = [
    (
        "Every batch of a partition, with transactions committed, aborted and still open",
        ["transactions-1/00000000000000000000.log", "--deep-iteration"],
    ),
    (
        "What consumer groups and their coordinator left, decoded",
        ["__consumer_offsets-0/00000000000000000000.log", "--offsets-decoder"],
    ),
    (
        "The cluster's own metadata log",
        ["__cluster_metadata-0/00000000000000000000.log", "--cluster-metadata-decoder"],
    ),
    (
        "Null and empty kept apart, as JSON",
        [
            "nulls-and-empties-0/00000000000000000000.log",
            "--print-data-log",
            "--format",
            "json",
            "--start-offset",
            "2",
            "--end-offset",
            "4",
        ],
    ),
]


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        (log_dir,) = golden.log_dirs(golden.unpack(PACK, Path(scratch)))
        about = golden.manifest(PACK).split("\n\n")
        print(f"{about[1]}\n\n{about[2]}\n")
        _show_inventory(log_dir)
        os.chdir(log_dir)  # so that paths are short
        for title, arguments in ACTS:
            print(f"\n== {title}\n$ kafka-forensics dump {' '.join(arguments)}")
            _show(["dump", *arguments])
        _compact(Path(scratch))
    return 0


def _compact(scratch: Path) -> None:
    """Kafka's cleaner, rerun on the disk of a broker that was stopped in order."""
    (log_dir,) = golden.log_dirs(golden.unpack(CLEANED_PACK, scratch))
    os.chdir(log_dir)
    acts = [
        ("What Kafka's cleaner would leave of these topics, byte for byte", ["--topic", "t*"]),
        ("And why, of one key", ["--topic", "transactions", "--explain-key", "k1"]),
        (
            "A compacted copy, ready for a broker, made on Spark in local mode",
            ["--topic", "t*", "--output", "../compacted", "--engine", "spark"],
        ),
    ]
    for title, options in acts:
        arguments = ["compact", ".", *options, "--set", "cleanup.policy=compact"]
        print(f"\n== {title}\n$ kafka-forensics {' '.join(arguments)}")
        _show([*arguments, "--now", "2026-11-16T12:00:00Z"])
    names = sorted(path.name for path in Path("../compacted").iterdir())
    print(f"$ ls ../compacted\n{'  '.join(names)}")


def _show_inventory(log_dir: Path) -> None:
    print("== What is on the disk")
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for file in find_files(log_dir):
        kind = file.name.kind.name.lower()
        count[kind] += 1
        size[kind] += file.size
    for kind, files in count.most_common():
        print(f"  {kind:<31}{files:>3} files {size[kind]:>11,} bytes")


def _show(arguments: list[str]) -> None:
    out, talk = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(talk), _quiet_spark():
        code = cli.main(arguments)
    out.flush()
    lines = out.buffer.getvalue().decode("utf-8", "replace").splitlines()
    width = shutil.get_terminal_size((120, 40)).columns
    for line in lines[:SHOWN_LINES]:
        rows = [line[at : at + width] for at in range(0, len(line), width)]
        print(*rows[:SHOWN_ROWS], *(["…"] if len(rows) > SHOWN_ROWS else []), sep="\n")
    if len(lines) > SHOWN_LINES:
        print(f"… and {len(lines) - SHOWN_LINES} lines more")
    if code:
        print(f"exit code {code}: {talk.getvalue().strip()}")


@contextlib.contextmanager
def _quiet_spark() -> Iterator[None]:
    """Spark's own start-up talk is of another process; what fails is reported by the verb."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main())
