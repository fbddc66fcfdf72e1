"""Keys get numbers in the order of their first occurrence."""

import numpy as np

from kafka_log.cleaner.parallel.key_index import KeyIndex


def test_keys_are_numbered_in_the_order_in_which_they_are_met():
    rng = np.random.default_rng(1)
    known: dict[tuple[int, int], int] = {}
    index = KeyIndex()
    for _ in range(5):
        hashes = rng.integers(0, 300, (4000, 2))
        expected = [known.setdefault((low, high), len(known)) for low, high in hashes.tolist()]
        assert index.numbers(hashes).tolist() == expected
    assert index.count == len(known)
    assert index.find(np.array([[-5, 7]])).tolist() == [-1]
