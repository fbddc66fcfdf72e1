"""The parallel cleaner finds where a map of a given capacity is full without building the map."""

import random

import numpy as np
import pytest

from kafka_log.cleaner.offset_map import OffsetMap
from kafka_log.cleaner.parallel.capacity import last_key, offset_of

BYTES_PER_KEY = 24


def refused_by_a_map(keys: list[int], most: int) -> int | None:
    """The row that a map of so many keys refuses, by having one."""
    offset_map = OffsetMap(BYTES_PER_KEY * most, load_factor=1.0)
    for row, key in enumerate(keys):
        if offset_map.is_full:
            return row
        offset_map.put(b"%d" % key, row)
    return None


def refused_by_first_occurrences(keys: list[int], most: int, part_rows: int) -> int | None:
    """The same from what parts know: where their keys occur first."""
    firsts = sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values())
    parts = -(-len(keys) // part_rows)
    counts = np.bincount(np.array(firsts, np.int64) // part_rows, minlength=parts)
    last = last_key(counts, most)
    if last is None:
        return None
    base = last.part * part_rows
    within = [row - base for row in firsts if row // part_rows == last.part]
    shuffled = np.array(within, np.int32)
    np.random.default_rng(most).shuffle(shuffled)
    row = offset_of(last, [shuffled[::2], shuffled[1::2]], base)
    return row + 1 if row + 1 < len(keys) else None


@pytest.mark.parametrize("seed", range(60))
def test_first_occurrences_tell_where_a_map_is_full(seed):
    rng = random.Random(seed)
    keys = [rng.randrange(rng.choice((3, 20, 60))) for _ in range(rng.randrange(2, 80))]
    distinct = len(set(keys))
    part_rows = rng.randrange(1, 30)
    for most in {2, 3, distinct - 1, distinct, distinct + 1} - {-1, 0, 1}:
        expected = refused_by_a_map(keys, most)
        assert refused_by_first_occurrences(keys, most, part_rows) == expected, most


def test_a_map_with_room_for_all_keys_refuses_the_record_behind_the_last_of_them():
    assert refused_by_a_map([1, 2, 1], 2) == 2
    assert refused_by_first_occurrences([1, 2, 1], 2, part_rows=2) == 2


def test_a_map_whose_last_room_went_to_the_last_record_refuses_none():
    assert refused_by_first_occurrences([1, 1, 2], 2, part_rows=2) is None
