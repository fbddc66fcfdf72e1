"""Rows of two sides, and the page they are printed as.

A row is a label, Kafka's value and ours. Rows that differ begin with `!`; where both sides are the
same, ours is `=`. Mappings and lists that differ are taken apart, down to the values that do.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOTHING = "(nothing)"
_SHORT = 300
"""Longer values are cut where both sides are the same."""


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    kafka: Any
    ours: Any
    is_same: bool


def row(label: str, kafka: Any, ours: Any, *, is_same: bool | None = None) -> Row:
    """`is_same`: where equality is not what a suite asks for, such as the class of an error."""
    return Row(label, kafka, ours, kafka == ours if is_same is None else is_same)


def rows_of(label: str, kafka: Any, ours: Any) -> list[Row]:
    """Return one row if both are the same, else one for each part that differs."""
    return [row(label, kafka, ours)] if kafka == ours else list(_differing(label, kafka, ours))


def _differing(label: str, kafka: Any, ours: Any) -> Iterator[Row]:
    if kafka == ours:
        return
    if isinstance(kafka, Mapping) and isinstance(ours, Mapping):
        for name in sorted(kafka.keys() | ours.keys(), key=str):
            inside = kafka.get(name, NOTHING), ours.get(name, NOTHING)
            yield from _differing(f"{label} {name}", *inside)
    elif _is_list(kafka) and _is_list(ours) and len(kafka) == len(ours):
        for i, inside in enumerate(zip(kafka, ours, strict=True)):
            yield from _differing(f"{label}[{i}]", *inside)
    else:
        yield row(label, kafka, ours)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


@dataclass(slots=True)
class Shown:
    """One case: its drawing, and the rows of both sides."""

    drawn: list[str]
    rows: list[Row] = field(default_factory=list)

    @property
    def differing(self) -> list[Row]:
        return [each for each in self.rows if not each.is_same]

    def page(self, title: str, *, width: int = 150) -> str:
        count = len(self.differing)
        result = f"{count} of {len(self.rows)} rows differ" if count else "both sides are the same"
        label_width = min(width // 3, max([20, *(len(each.label) for each in self.rows)]))
        side = max(20, (width - label_width - 6) // 2)
        table = [_line("", ("what", "KAFKA", "OURS"), (label_width, side))]
        for each in self.rows:
            table += _lines(each, label_width, side)
        return "\n".join([f"{title}: {result}", "", "DRAWN", *self.drawn, "", *table, ""])


def _lines(each: Row, label_width: int, side: int) -> Iterator[str]:
    kafka, ours = text_of(each.kafka), text_of(each.ours)
    if each.is_same:
        kafka = textwrap.shorten(kafka, _SHORT, placeholder=" ...")
        ours = "=" if each.kafka == each.ours else textwrap.shorten(ours, _SHORT)
    columns = [_wrapped(each.label, label_width), _wrapped(kafka, side), _wrapped(ours, side)]
    for i in range(max(map(len, columns))):
        cells = tuple(column[i] if i < len(column) else "" for column in columns)
        yield _line("" if each.is_same else "!", cells, (label_width, side))


def _line(mark: str, cells: tuple[str, ...], widths: tuple[int, int]) -> str:
    label, kafka, ours = cells
    return f"{mark:1} {label:{widths[0]}}  {kafka:{widths[1]}}  {ours}".rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    return [part for line in text.splitlines() for part in textwrap.wrap(line, width)] or [""]


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes {bytes(value[:60]).hex(' ', 4)}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text_of(inside)}" for name, inside in value.items())
    return repr(value)
