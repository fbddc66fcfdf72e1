"""`kafka-forensics` as it runs where it is installed to be used, for who times whole processes.

There its byte code is compiled, as pip does it; and numba imports coverage and yaml wherever they
are, but they come with our developers' tools alone.
"""

import os
import sys

_PROGRAM = (
    "import sys; sys.modules.update(coverage=None, yaml=None); "
    "from jobs.cli import program; sys.exit(program())"
)


def command(*words: object) -> list[str]:
    return [sys.executable, "-c", _PROGRAM, *map(str, words)]


def environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
