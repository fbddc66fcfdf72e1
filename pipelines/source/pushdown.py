"""Turns the filters of a query into bounds that prune files and batches.

Every filter is also returned to Spark, which applies it to each row: here it only saves reading. So
an unknown filter does no harm, and bounds may be wider than the filter.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pipelines.source.options import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_OFFSETS = {"records": ("offset",), "batches": ("base_offset", "last_offset")}
"""By table: columns whose lower bound limits offsets; a batch ends where it begins, or later."""
_LAST_OFFSET = {"records": "offset", "batches": "base_offset"}
_TIMESTAMPS = {
    "records": ("timestamp", "timestamp_ms"),
    "batches": ("max_timestamp", "max_timestamp_ms"),
}
_SCANNED = frozenset(_FIRST_OFFSETS)


def bounds_of(table: str, filters: Iterable[Filter]) -> Bounds:
    """Return the bounds that all filters together imply."""
    conditions = _Conditions(table)
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) == 1:
            conditions.add(attribute[0], each)
    return conditions.bounds()


class _Conditions:
    def __init__(self, table: str) -> None:
        self._table = table
        self._sets: dict[str, frozenset[Any]] = {}
        self._least: dict[str, int] = {}
        self._largest: dict[str, int] = {}

    def add(self, column: str, condition: Filter) -> None:
        values = _values(condition)
        if values is not None:
            self._sets[column] = self._sets.get(column, values) & values
            numbers = [number for value in values if (number := _number(value)) is not None]
            if len(numbers) == len(values):
                self._at_least(column, min(numbers, default=None))
                self._at_most(column, max(numbers, default=None))
        elif isinstance(condition, GreaterThan | GreaterThanOrEqual):
            self._at_least(column, _number(condition.value))
        elif isinstance(condition, LessThan | LessThanOrEqual):
            self._at_most(column, _number(condition.value))

    def _at_least(self, column: str, value: int | None) -> None:
        if value is not None:
            self._least[column] = max(value, self._least.get(column, value))

    def _at_most(self, column: str, value: int | None) -> None:
        if value is not None:
            self._largest[column] = min(value, self._largest.get(column, value))

    def bounds(self) -> Bounds:
        table = self._table
        if table not in _SCANNED:
            return Bounds(topics=self._sets.get("topic"), partitions=self._sets.get("partition"))
        times = [self._least[name] for name in _TIMESTAMPS[table] if name in self._least]
        firsts = [self._least[name] for name in _FIRST_OFFSETS[table] if name in self._least]
        return Bounds(
            topics=self._sets.get("topic"),
            partitions=self._sets.get("partition"),
            segments=self._sets.get("segment"),
            least_offset=max(firsts, default=None),
            largest_offset=self._largest.get(_LAST_OFFSET[table]),
            least_timestamp=max(times, default=None),
        )


def _values(condition: Filter) -> frozenset[Any] | None:
    """Return the values that a column may equal, if the filter is an equality."""
    if isinstance(condition, In):
        return frozenset(condition.value)
    if isinstance(condition, EqualTo | EqualNullSafe):
        return frozenset([condition.value])
    return None


def _number(value: Any) -> int | None:
    """Return a number, or epoch milliseconds rounded down; None for another type."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        since = moment - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return value if type(value) is int else None
