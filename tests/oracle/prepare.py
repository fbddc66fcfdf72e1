"""Have the oracle's jars and classes ready before several test runs want them at once.

    python -m tests.oracle.prepare

What cannot be had is left to the tests: they skip, or fail in CI, and say why.
"""

import contextlib

from tests.oracle import jars
from tests.oracle.client import classes


def main() -> None:
    for version in (jars.CURRENT, jars.OLDER):
        with contextlib.suppress(jars.JarsUnavailableError):
            classes(version)


if __name__ == "__main__":
    main()
