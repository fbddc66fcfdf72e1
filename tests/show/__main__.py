"""Print one seeded case: `python -m tests.show cleaner 17`."""

import argparse
import shutil
import sys
from collections.abc import Sequence

from tests.kafka_log.compare import scratch
from tests.oracle.client import Oracle
from tests.show.suites import SUITES


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 if both sides are the same, 1 if they differ."""
    arguments = _parser().parse_args(argv)
    if arguments.suite is None:
        for name, suite in SUITES.items():
            print(f"{name:20} {suite.tests}")
        return 0
    with Oracle() as oracle, scratch() as folder:
        shown = SUITES[arguments.suite].show(oracle, arguments.seed, folder)
    width = shutil.get_terminal_size((150, 0)).columns
    print(shown.page(f"{arguments.suite} {arguments.seed}", width=width), end="")
    return 1 if shown.differing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.show",
        description="Print a drawn case, what Kafka left and what we left, side by side.",
    )
    parser.add_argument("suite", nargs="?", choices=SUITES, metavar="SUITE", help="see below")
    parser.add_argument("seed", nargs="?", type=int, default=0, metavar="SEED")
    parser.add_argument("--list", action="store_true", help="list the suites (the default)")
    parser.epilog = "suites: " + ", ".join(SUITES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
