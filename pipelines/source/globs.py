"""Expands alternatives in a path, as Hadoop does: `data-{1,2}`, also nested.

Spark accepts `{a,b}` in every path that it reads and shells expand it; Python's own globs do not.
Each alternative becomes a path, in the order in which they are written.
"""

from __future__ import annotations

import itertools

_MOST = 10_000
"""The most paths that one path may stand for: a typo must not exhaust the machine."""
_LONGEST = 10_000
"""Characters in a path with braces; Linux opens no path above 4096."""
_DEEPEST = 32


def alternatives(path: str) -> list[str]:
    """Return the paths that a path with braces stands for.

    Braces that do not close, or hold no comma, are plain characters. Raises ValueError, before
    anything is built, if the alternatives are too many, too long or nested too deep.
    """
    if "{" not in path:
        return [path]
    if len(path) > _LONGEST:
        raise ValueError(f"found braces in {len(path)} characters, expected {_LONGEST} at most")
    pieces = _pieces(path, 0, len(path), _closing_braces(path))
    if (count := _count(pieces)) > _MOST:
        raise ValueError(f"found {count} alternatives or more, expected {_MOST} at most")
    return list(dict.fromkeys(_built(pieces)))


_Pieces = list["str | list[_Pieces]"]
"""Plain text, and groups of choices."""


def _pieces(path: str, start: int, end: int, closing: dict[int, int], depth: int = 0) -> _Pieces:
    if depth > _DEEPEST:
        raise ValueError(f"found braces nested more than {_DEEPEST} deep")
    pieces: _Pieces = []
    literal = at = start
    while at < end:
        bounds = _choices(path, at, closing) if at in closing else []
        if len(bounds) < 2:
            at += 1
            continue
        pieces.append(path[literal:at])
        pieces.append([_pieces(path, *each, closing, depth + 1) for each in bounds])
        literal = at = closing[at] + 1
    pieces.append(path[literal:end])
    return pieces


def _closing_braces(path: str) -> dict[int, int]:
    """Return the position of the closing brace, by that of the opening one."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for at, each in enumerate(path):
        if each == "{":
            opened.append(at)
        elif each == "}" and opened:
            closing[opened.pop()] = at
    return closing


def _choices(path: str, start: int, closing: dict[int, int]) -> list[tuple[int, int]]:
    """Return the bounds of the choices between the commas of the braces that open here."""
    bounds, end = [], closing[start]
    first = at = start + 1
    while at < end:
        if path[at] == ",":
            bounds.append((first, at))
            first = at + 1
        at = closing.get(at, at) + 1
    return [*bounds, (first, end)]


def _count(pieces: _Pieces) -> int:
    """Return the number of alternatives, or as many as are too many."""
    count = 1
    for piece in pieces:
        if not isinstance(piece, str):
            count *= sum(map(_count, piece))
        if count > _MOST:
            break
    return count


def _built(pieces: _Pieces) -> list[str]:
    choices = [
        [piece] if isinstance(piece, str) else [text for each in piece for text in _built(each)]
        for piece in pieces
    ]
    return ["".join(each) for each in itertools.product(*choices)]


def split_outside(text: str, separator: str = ",") -> list[str]:
    """Return the parts between the separators that are outside of braces."""
    parts, depth, first = [], 0, 0
    for at, each in enumerate(text):
        depth = max(0, depth + (each == "{") - (each == "}"))
        if each == separator and not depth:
            parts.append(text[first:at])
            first = at + 1
    return [*parts, text[first:]] if not depth else text.split(separator)
