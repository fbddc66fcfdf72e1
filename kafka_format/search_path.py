"""Keep the current directory off Python's search path, here and in the processes we start.

An examiner works inside the evidence: `cd evidence && kafka-forensics offsets .`. Python puts the
current directory first on `sys.path` for `-c` and `-m`, which is how multiprocessing and Spark
start their processes; a relative or empty entry of PYTHONPATH has the same effect. A file
`pyspark.py` in the evidence would then run.

This module runs before the path is clean, so it imports only what Python has loaded itself.
"""

import os
import sys

SAFE_PATH = "PYTHONSAFEPATH"
"""Since Python 3.11: `-c` and `-m` do not add the current directory, a script not its own."""
PYTHON_PATH = "PYTHONPATH"

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Where our packages are: a site-packages directory, a zip file or a source tree."""


def current_directory_entries() -> "list[str]":
    """Return the entries of `sys.path` that depend on the current directory.

    HOME and the directories of this Python stay, wherever the process was started.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed: no import can come from it
        return [entry for entry in sys.path if not os.path.isabs(entry)]
    relative = [
        os.path.join(here, entry)
        for entry in os.environ.get(PYTHON_PATH, "").split(os.pathsep)
        if not os.path.isabs(entry)
    ]
    unwanted = {os.path.realpath(entry) for entry in (here, *relative)}
    return [
        entry
        for entry in sys.path
        if (not os.path.isabs(entry) or os.path.realpath(entry) in unwanted)
        and os.path.realpath(entry) not in _own_directories()
    ]


def drop_current_directory() -> None:
    """Remove those entries from `sys.path`. For programs only, which import nothing from there."""
    unwanted = current_directory_entries()
    sys.path[:] = [entry for entry in sys.path if entry not in unwanted]


def safe_environment(python_path: "str | None") -> "dict[str, str | None]":
    """Return the variables that keep a new Python process off its current directory.

    `python_path` is its PYTHONPATH. None means that the variable must not be set.
    """
    entries = [
        HOME if entry and os.path.realpath(entry) == os.path.realpath(HOME) else entry
        for entry in (python_path or "").split(os.pathsep)
    ]
    kept = [entry for entry in entries if os.path.isabs(entry)]
    return {SAFE_PATH: "1", PYTHON_PATH: os.pathsep.join(kept) or None}


class CleanStart:
    """Keep the current directory from processes that are started in the block.

    `os.environ` and `sys.path` are restored at its end: a library must not change them.
    """

    def __init__(self, **variables: str) -> None:
        """Set `variables` as well, for as long as the block runs."""
        self._variables = variables
        self._environment: dict[str, str | None] = {}
        self._path: list[str] = []

    def __enter__(self) -> None:
        self._path = sys.path[:]
        drop_current_directory()  # multiprocessing sends sys.path to its children
        changes = safe_environment(os.environ.get(PYTHON_PATH)) | self._variables
        self._environment = {name: os.environ.get(name) for name in changes}
        _set(changes)

    def __exit__(self, *_: object) -> None:
        sys.path[:] = self._path
        _set(self._environment)


def _set(variables: "dict[str, str | None]") -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _own_directories() -> "set[str]":
    """Return HOME, and the directories of the standard library and of installed packages."""
    standard = os.path.dirname(os.path.abspath(os.__file__))
    installed = [entry for entry in sys.path if entry.startswith((sys.prefix, sys.base_prefix))]
    own = [HOME, standard]
    names = ("site-packages", "dist-packages")
    own += [entry for entry in installed if os.path.basename(entry) in names]
    return {os.path.realpath(entry) for entry in own}
