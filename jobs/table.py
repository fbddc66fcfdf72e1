"""Print rows as an aligned table or as one JSON object per line.

On a terminal a table is fitted to the width: the widest text columns are shortened with an
ellipsis, numbers never are. In a pipe, and with `wide`, no cell is shortened.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

from kafka_format.shown_text import escaped, is_clean, json_escaped, name_base64, name_text
from pipelines.report.text import human_duration, human_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["cell", "human_duration", "human_size", "json_line", "table"]

NOTHING = "-"
"""The text of a null cell."""
_BETWEEN = "  "
_ELLIPSIS = "…"
_LEAST = 10
"""The minimum width of a column, unless its title is wider."""
_NUMBER = re.compile(r"[-+]?[\d.,]+( ?(%|[KMGTP]i?B|B))?|-|")
_WITHOUT_WIDTH = {"Mn", "Me", "Cf"}
"""Unicode categories of combining marks, drawn over the preceding character, and of formats."""
_SOFT_HYPHEN = "\u00ad"
_JAMO_WITHOUT_WIDTH = range(0x1160, 0x1200)
"""Hangul vowels and final consonants, drawn into the preceding syllable."""


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as JSON, with characters that control a terminal escaped.

    In a name that is not UTF-8, U+FFFD replaces each invalid byte, and a field `…_base64` holds the
    bytes, as in `dump`.
    """
    text = json.dumps(row, ensure_ascii=False)
    if is_clean(text):
        return text
    named: dict[str, Any] = {}
    for key, value in row.items():
        coded = name_base64(value) if isinstance(value, str) else None
        if coded is None:
            named[key] = value
        else:
            named |= {key: name_text(value), f"{key}_base64": coded}
    return json_escaped(json.dumps(named, ensure_ascii=False))


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    wide: bool = False,
) -> Iterator[str]:
    """Yield the lines of a table; the columns named in `right` are aligned to the right."""
    texts = [[cell(value) for value in row] for row in rows]
    ends = [name in set(right) for name in header]
    titles = [name.upper() for name in header]
    columns = [*zip(titles, *texts, strict=True)]
    widths = [max(map(_width, column)) for column in columns]
    limit = None if wide else _terminal_width()
    if limit is not None:
        _fit(widths, limit, [_least(*each) for each in zip(columns, ends, strict=True)])
    for line in (titles, *texts):
        padded = [
            _pad(_shortened(text, width), width, right=end)
            for text, width, end in zip(line, widths, ends, strict=True)
        ]
        yield _BETWEEN.join(padded).rstrip()


def cell(value: object) -> str:
    """Return a value as a table shows it, with control characters escaped."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escaped(str(value))


def _terminal_width() -> int | None:
    """Return the width (COLUMNS, if set); None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _least(column: Sequence[str], end: bool) -> int | None:
    """Return the minimum width of a column; None for numbers, which are never shortened."""
    title, *cells = column
    if end or all(_NUMBER.fullmatch(each) for each in cells):
        return None
    return max(_LEAST, _width(title))


def _fit(widths: list[int], limit: int, least: Sequence[int | None]) -> None:
    """Shrink the widest text columns until the table fits or no column can shrink further."""
    excess = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - limit
    while excess > 0:
        shrinkable = {
            number: width
            for number, (width, floor) in enumerate(zip(widths, least, strict=True))
            if floor is not None and width > floor
        }
        if not shrinkable:
            return
        widest = max(shrinkable, key=lambda number: shrinkable[number])
        others = [width for number, width in shrinkable.items() if number != widest]
        # Shrink to the next widest column, then both in turn.
        target = max(least[widest] or 0, min(max(others, default=0), widths[widest] - 1))
        target = max(target, widths[widest] - excess)
        excess -= widths[widest] - target
        widths[widest] = target


def _shortened(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    kept, left = [], width - _width(_ELLIPSIS)
    for each in text:
        left -= _width(each)
        if left < 0:
            break
        kept.append(each)
    return "".join(kept) + _ELLIPSIS


def _width(text: str) -> int:
    """Return how many terminal columns a text occupies."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(each: str) -> int:
    if unicodedata.category(each) in _WITHOUT_WIDTH and each != _SOFT_HYPHEN:
        return 0
    if ord(each) in _JAMO_WITHOUT_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(each) in "WF" else 1


def _pad(text: str, width: int, *, right: bool) -> str:
    spaces = " " * (width - _width(text))
    return spaces + text if right else text + spaces
