"""Filters prune what cannot hold a row, and nothing else."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pipelines.source.options import Bounds
from pipelines.source.pushdown import bounds_of

OFFSET, TOPIC, TIME = ("offset",), ("topic",), ("timestamp",)
NOON = datetime(2026, 11, 16, 12, 0, 0, 1500, tzinfo=UTC)
NOON_MS = 1_794_830_400_001


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], Bounds()),
        ([IsNotNull(TOPIC), EqualTo(TOPIC, "a")], Bounds(topics=frozenset({"a"}))),
        ([In(TOPIC, ("a", "b")), EqualNullSafe(TOPIC, "b")], Bounds(topics=frozenset({"b"}))),
        ([EqualTo(("partition",), 3)], Bounds(partitions=frozenset({3}))),
        ([EqualTo(("segment",), 3)], Bounds(segments=frozenset({3}))),
        ([GreaterThan(OFFSET, 3), GreaterThanOrEqual(OFFSET, 9)], Bounds(least_offset=9)),
        ([LessThan(OFFSET, 3), LessThanOrEqual(OFFSET, 9)], Bounds(largest_offset=3)),
        ([EqualTo(OFFSET, 5)], Bounds(least_offset=5, largest_offset=5)),
        ([In(OFFSET, (5, 2))], Bounds(least_offset=2, largest_offset=5)),
        ([GreaterThan(TIME, NOON)], Bounds(least_timestamp=NOON_MS)),
        (
            [GreaterThan(TIME, NOON.astimezone(timezone(timedelta(hours=5))))],
            Bounds(least_timestamp=NOON_MS),
        ),
        ([GreaterThan(("timestamp_ms",), 7)], Bounds(least_timestamp=7)),
        ([LessThan(("timestamp_ms",), 7)], Bounds()),
        ([Not(EqualTo(TOPIC, "a")), StringStartsWith(TOPIC, "a")], Bounds()),
        ([EqualTo(("headers", "key"), "a")], Bounds()),
        ([GreaterThan(OFFSET, None)], Bounds()),
    ],
)
def test_filters_on_records(filters, expected):
    assert bounds_of("records", filters) == expected


def test_a_batch_is_bounded_by_both_its_ends():
    filters = [GreaterThan(("base_offset",), 5), LessThan(("base_offset",), 9)]
    assert bounds_of("batches", filters) == Bounds(least_offset=5, largest_offset=9)
    assert bounds_of("batches", [GreaterThan(("last_offset",), 5)]) == Bounds(least_offset=5)
    assert bounds_of("batches", [LessThan(("last_offset",), 5)]) == Bounds()


def test_other_tables_are_pruned_by_topic_and_partition_alone():
    filters = [EqualTo(TOPIC, "a"), EqualTo(("partition",), 1), EqualTo(OFFSET, 5)]
    expected = Bounds(topics=frozenset({"a"}), partitions=frozenset({1}))
    assert bounds_of("time_index", filters) == expected
