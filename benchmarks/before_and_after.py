"""Compare the ratios of two trees of this project, measured in turn on one machine.

    python -m benchmarks.before_and_after OTHER_TREE [--section NAME]... [--rounds N] [--only TEXT]

OTHER_TREE has its own .venv. Each round runs the benchmarks of both trees, one after the other, and
the best round of each ratio counts. A ratio is a figure in bold in a table of `make bench`.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTIONS = ("clean", "decode", "dump", "recovery")
_RATIO = re.compile(r"\*\*(\d+\.\d+)[^*]*\*\*")
_FALL = 0.95
"""Below this part of the ratio before, the ratio counts as fallen."""

Ratios = dict[tuple[str, str, int], float]


def main() -> int:
    options = _parse()
    trees = {"before": Path(options.tree).absolute(), "now": ROOT}
    best: dict[str, Ratios] = {name: {} for name in trees}
    for number in range(options.rounds):
        for section in options.section or SECTIONS:
            for name, tree in trees.items():
                print(f"round {number + 1}, {section}, {name}", file=sys.stderr, flush=True)
                for key, ratio in _measure(tree, section, options).items():
                    best[name][key] = max(ratio, best[name].get(key, 0.0))
    fallen = _print_table(best["before"], best["now"])
    return 1 if fallen else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", help="the other tree")
    parser.add_argument("--section", action="append", choices=SECTIONS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--only", default="", help="only shapes whose name contains this")
    return parser.parse_args()


def _measure(tree: Path, section: str, options: argparse.Namespace) -> Ratios:
    command = [str(tree / ".venv/bin/python"), "-m", "benchmarks", "--section", section]
    command += ["--megabytes", str(options.megabytes), "--only", options.only]
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return {
        (section, label, number): ratio
        for line in run.stdout.splitlines()
        for label, ratios in [_row(line)]
        for number, ratio in enumerate(ratios, start=1)
    }


def _row(line: str) -> tuple[str, list[float]]:
    """Return the words that name a row, and its ratios."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    words = [cell for cell in cells[:2] if not cell[:1].isdigit() and "**" not in cell]
    label = ", ".join(words).replace(" a batch", " per batch")
    return label, [float(found) for found in _RATIO.findall(line)]


def _print_table(before: Ratios, now: Ratios) -> int:
    fallen = 0
    print("| section | row | ratio | before | now | now/before |")
    print("|---|---|---|---|---|---|")
    for key, old in before.items():
        if key not in now:
            continue
        change = now[key] / old if old else 1.0
        fallen += change < _FALL
        print("| " + " | ".join(map(str, key)) + f" | {old} | {now[key]} | {change:.2f} |")
    print(f"\n{len(before.keys() & now.keys())} ratios, {fallen} fell by more than 5 %")
    return fallen


if __name__ == "__main__":
    raise SystemExit(main())
