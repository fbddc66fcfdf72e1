"""A key table finds its keys as a dict does."""

import random

from kafka_log.cleaner.columns.key_table import KeyTable
from kafka_log.cleaner.offset_map import NOT_FOUND
from tests.compiled import needs_numba


@needs_numba
def test_a_table_knows_its_keys_as_a_dict_does() -> None:
    rng = random.Random(1)
    table, expected = KeyTable(24 * 10_000), {}
    for offset in range(40_000):
        key = rng.randbytes(rng.choice((0, 1, 2, 9, 9))) if offset % 3 else b"%d" % (offset % 900)
        if table.is_full:
            break
        table.put(key, offset)
        expected[key] = offset
    assert table.size == len(expected) == 9000
    assert all(table.get(key) == offset for key, offset in expected.items())
    assert table.get(b"not there") == NOT_FOUND
