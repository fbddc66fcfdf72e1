"""See the package's own words: `python -m tests.faults --help`."""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tests.faults
from tests.faults import directories, sweep
from tests.faults.calls import Call, Fault

_MEMORY = "/dev/shm"  # a disk in memory syncs at once
_SEED = 13
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=tests.faults.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", action="append", choices=[each.name for each in sweep.CASES])
    parser.add_argument("--fault", action="append", choices=sorted({*sweep.WRITING}))
    parser.add_argument("--call", type=int, help="this call only, shown in full")
    parser.add_argument("--every", type=int, default=1, help="one of so many runs, by a fixed seed")
    parser.add_argument("--killed", type=Path, help="keep what kills in place leave, here")
    parser.add_argument("--json", action="store_true", help="the totals as JSON")
    arguments = parser.parse_args(argv)
    memory = _MEMORY if Path(_MEMORY).is_dir() else None
    with tempfile.TemporaryDirectory(prefix="faults-", dir=memory) as base:
        return _sweep(arguments, Path(base))


def _sweep(arguments: argparse.Namespace, base: Path) -> int:
    sources = directories.make(base / "sources")
    sweep.warm_up(sources["plain"], base)
    chosen = random.Random(_SEED)
    totals: list[Row] = []
    wrong: list[Row] = []
    for case in sweep.CASES:
        if arguments.case and case.name not in arguments.case:
            continue
        started = time.monotonic()
        swept = sweep.Sweep(case, sources[case.directory], base)
        outcomes: Counter[str] = Counter()
        for fault, call in swept.faults(arguments.fault):
            if arguments.call not in (None, fault.number) or chosen.randrange(arguments.every):
                continue
            word, found = _one(swept, fault, call, arguments)
            outcomes[f"{fault.kind}: {word}"] += 1
            wrong += found
            if not arguments.json:
                for each in found:
                    print(json.dumps(each), flush=True)
        totals.append(
            {
                "case": case.name,
                "calls": len(swept.undisturbed.calls),
                "runs": outcomes.total(),
                "outcomes": dict(sorted(outcomes.items())),
                "seconds": round(time.monotonic() - started, 1),
            }
        )
        if not arguments.json:
            print(json.dumps(totals[-1]), flush=True)
    if arguments.json:
        print(json.dumps({"cases": totals, "wrong": wrong}))
    else:
        print(f"{sum(row['runs'] for row in totals)} runs, {len(wrong)} wrong")
    return 1 if wrong else 0


def _one(
    swept: sweep.Sweep, fault: Fault, call: Call, arguments: argparse.Namespace
) -> tuple[str, list[Row]]:
    """One run: how it ended, and what is wrong about it."""
    outcome = swept.run(fault)
    is_kept = fault.kind in ("kill", "torn") or arguments.call is not None
    if arguments.killed and swept.case.is_in_place and is_kept:
        name = f"{fault.kind}-{fault.number}"
        shutil.copytree(swept.data, arguments.killed / swept.case.verb / name)
    word, problems = swept.judge(fault, outcome)
    if arguments.call is not None:
        print(fault, outcome.fired, outcome.code, outcome.out, outcome.err, sep="\n")
    place = outcome.fired or call
    wrong = [
        {
            "case": swept.case.name,
            "fault": fault.kind,
            "call": fault.number,
            "problem": problem,
            "function": place.name,
            "path": place.path.removeprefix(str(swept.run_directory)),
            "place": place.place,
            "code": outcome.code,
            "err": outcome.err[-300:],
        }
        for problem in problems
    ]
    return word, wrong


if __name__ == "__main__":
    sys.exit(main())
