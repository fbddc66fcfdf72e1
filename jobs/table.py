"""Rows for people and for programs: an aligned table, or a JSON object a line."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

from pipelines.report.text import human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["cell", "human_size", "json_line", "table"]

NOTHING = "-"
"""What a table shows for null."""


def json_line(row: Mapping[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a file's name that is no UTF-8: its odd bytes stay as \\udcXX
        return json.dumps(row)
    return text


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> Iterator[str]:
    """Lines of a table; columns named in `right` are numbers, and end under each other."""
    texts = [[cell(value) for value in row] for row in rows]
    ends = [name in set(right) for name in header]
    titles = [name.upper() for name in header]
    widths = [max(map(_width, column)) for column in zip(titles, *texts, strict=True)]
    for line in (titles, *texts):
        padded = [
            _pad(text, width, right=end)
            for text, width, end in zip(line, widths, ends, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def cell(value: object) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    # A name from a disk may hold anything: no control character reaches the terminal.
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(value))


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _pad(text: str, width: int, *, right: bool) -> str:
    spaces = " " * (width - _width(text))
    return spaces + text if right else text + spaces
