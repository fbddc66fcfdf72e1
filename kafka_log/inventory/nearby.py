"""The names next to a path that does not exist, for the error about it."""

import os
from itertools import islice
from pathlib import Path

from kafka_format.shown_text import escaped, name_text

_MOST_NAMES = 10
_MOST_LOOKED_AT = 1000
"""A directory may have a million names; an error needs a few."""
_MAGIC = frozenset("*?[{")


def names_near(path: str) -> str:
    """Return ` (DIRECTORY has a, b and 3 more)`, or nothing if the parent cannot be listed.

    The parent of a glob is what comes before its first special character.
    """
    directory = Path(path).parent
    while _MAGIC & set(str(directory)):
        directory = directory.parent
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, _MOST_LOOKED_AT)]
    except OSError:
        return ""
    names.sort(key=lambda name: (name.startswith("."), name))
    where = escaped(name_text(str(directory)))
    if not names:
        return f" ({where} is empty)"
    listed = ", ".join(escaped(name_text(name)) for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f" ({where} has {listed}{more})"
