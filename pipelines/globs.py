"""Alternatives in a glob, as Hadoop's paths have them: `data-{1,2}`, nested too.

Spark takes `{a,b}` in every path that it reads, shells expand it, Python's own globs do not know
it. Each alternative becomes a path, in the order in which it stands there.
"""

from __future__ import annotations

_MOST = 10_000
"""So many paths one may stand for: a typo must not take the machine down."""


def alternatives(path: str) -> list[str]:
    """The paths that one with braces stands for; itself, if they do not close or hold no comma.

    Raises ValueError if they are too many.
    """
    found = [""]
    at = 0
    while at < len(path):
        group = _group(path, at) if path[at] == "{" else None
        if group is None:
            found = [each + path[at] for each in found]
            at += 1
            continue
        choices, at = group
        inner = [each for choice in choices for each in alternatives(choice)]
        found = [each + choice for each in found for choice in inner]
        if len(found) > _MOST:
            raise ValueError(f"found {len(found)} alternatives or more, expected {_MOST} at most")
    return list(dict.fromkeys(found))


def split_outside(text: str, separator: str = ",") -> list[str]:
    """Parts between separators that stand in no braces."""
    parts, depth = [""], 0
    for each in text:
        depth = max(0, depth + (each == "{") - (each == "}"))
        if each == separator and not depth:
            parts.append("")
        else:
            parts[-1] += each
    return parts if not depth else text.split(separator)


def _group(path: str, start: int) -> tuple[list[str], int] | None:
    """The choices of the braces that open here, and where they end."""
    depth = 0
    for at in range(start, len(path)):
        depth += (path[at] == "{") - (path[at] == "}")
        if not depth:
            choices = split_outside(path[start + 1 : at])
            return (choices, at + 1) if len(choices) > 1 else None
    return None
