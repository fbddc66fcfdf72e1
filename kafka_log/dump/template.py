"""A line with placeholders: `offset: <offset> position: <position>` and a newline.

One template serves two ways to fill it: row by row in Python, or a million rows at once with the
kernels (kernels.py), which take the parts as numbers.
"""

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

_PLACEHOLDER = re.compile(r"<([a-z_]+)>")


class TemplatePart(NamedTuple):
    literal: str
    field: str | None
    """The placeholder after the literal."""


class Template:
    """The parts of a line, in order."""

    __slots__ = ("_percent", "fields", "parts")

    def __init__(self, text: str, *, prefix: str = "") -> None:
        """Parse a text. `prefix` is literal: it has no placeholders."""
        pieces = _PLACEHOLDER.split(text)
        pieces[0] = prefix + pieces[0]
        self.fields = tuple(pieces[1::2])
        self.parts = [
            TemplatePart(literal, name)
            for literal, name in zip(pieces[::2], [*self.fields, None], strict=True)
        ]
        self._percent = "%s".join(literal.replace("%", "%%") for literal in pieces[::2])

    def filler(self, names: Sequence[str]) -> Callable[[tuple[Any, ...]], str]:
        """Return a function that fills the line from tuples of values with these names."""
        percent, indexes = self._percent, [names.index(name) for name in self.fields]
        if len(indexes) < 2:  # itemgetter with one index returns no tuple
            return lambda values: percent % tuple(values[index] for index in indexes)
        select = itemgetter(*indexes)
        return lambda values: percent % select(values)
