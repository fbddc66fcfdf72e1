"""`python -m tests.hostile [PREFIX…]`: run every verb over every case, and print what became of it.

Markdown for docs/reliability.md: a row for each class, then a row for each case. The exit code is
1 if anything is not as documented.
"""

import sys
from itertools import chain

from tests.hostile.attempts import problems, side_by_side
from tests.hostile.corpus import CASES
from tests.hostile.report import details, summary


def main(prefixes: list[str]) -> int:
    names = [name for name in CASES if not prefixes or name.startswith(tuple(prefixes))]
    print(f"{len(names)} cases", file=sys.stderr)
    done = []
    for attempt in side_by_side(names):
        done.append(attempt)
        for problem in problems(attempt):
            print(f"{attempt['case']}: {attempt['verb']}: {problem}", file=sys.stderr, flush=True)
    done.sort(key=lambda each: names.index(each["case"]))
    print("\n".join(chain(summary(done), [""], details(done))))
    return int(any(map(problems, done)))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
