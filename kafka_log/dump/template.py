"""A line with holes: `offset: <offset> position: <position>` and a newline.

One wording for two ways to fill it: row by row in Python, or a million rows at once by the kernels
(kernels.py), which take the parts as numbers.
"""

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

_HOLE = re.compile(r"<([a-z_]+)>")


class Part(NamedTuple):
    literal: str
    field: str | None
    """The hole behind the literal."""


class Template:
    """Parts of a line, in order."""

    __slots__ = ("_percent", "_values", "fields", "parts")

    def __init__(self, text: str, *, prefix: str = "") -> None:
        """`prefix` is taken literally, whatever stands in it."""
        pieces = _HOLE.split(text)
        pieces[0] = prefix + pieces[0]
        self.fields = tuple(pieces[1::2])
        self.parts = [
            Part(literal, name)
            for literal, name in zip(pieces[::2], [*self.fields, None], strict=True)
        ]
        self._percent = "%s".join(literal.replace("%", "%%") for literal in pieces[::2])
        self._values = itemgetter(*self.fields) if len(self.fields) > 1 else None

    def fill(self, values: Mapping[str, object]) -> str:
        if self._values is None:
            return str(self._percent % tuple(values[name] for name in self.fields))
        return str(self._percent % self._values(values))
