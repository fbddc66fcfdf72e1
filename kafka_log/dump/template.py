"""A line with holes: `offset: <offset> position: <position>` and a newline.

One wording for two ways to fill it: row by row in Python, or a million rows at once by the kernels
(kernels.py), which take the parts as numbers.
"""

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

_HOLE = re.compile(r"<([a-z_]+)>")


class Part(NamedTuple):
    literal: str
    field: str | None
    """The hole behind the literal."""


class Template:
    """Parts of a line, in order."""

    __slots__ = ("_percent", "fields", "parts")

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

    def filler(self, names: Sequence[str]) -> Callable[[tuple[Any, ...]], str]:
        """A function that fills the holes from tuples of values that have these names."""
        percent, places = self._percent, [names.index(name) for name in self.fields]
        if len(places) < 2:  # itemgetter of one place gives no tuple
            return lambda values: percent % tuple(values[place] for place in places)
        chosen = itemgetter(*places)
        return lambda values: percent % chosen(values)
