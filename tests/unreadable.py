"""Files that this process may not read, whoever it runs as."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unreadable(*paths: Path) -> Iterator[None]:
    """Without any permission; root, who needs none, is nobody meanwhile.

    All that is imported should be loaded before: nobody may not read that either.
    """
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def open_the_way(base: Path, path: Path) -> None:
    """pytest's directories are its user's alone: let nobody go from `base` to `path`."""
    for each in (base.parent, base, path.parent, path):
        each.chmod(0o755)
