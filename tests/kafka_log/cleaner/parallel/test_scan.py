"""The rows of a scanned part are divided into blocks by ranges of hashes."""

import numpy as np

from kafka_log.cleaner.parallel.scan import KeyRows, _blocks


def test_every_row_goes_into_the_block_of_one_range():
    rng = np.random.default_rng(2)
    hashes = rng.integers(-(2**63), 2**63 - 1, (5000, 2))
    relative = np.arange(5000, dtype=np.int32)
    blocks = [KeyRows.decode(data) for data in _blocks(hashes, relative, relative, 7)]
    assert sorted(np.concatenate([each.relative for each in blocks]).tolist()) == [*range(5000)]
    assert all(np.all(np.diff(each.relative) > 0) for each in blocks)
    assert all(500 < len(each.relative) < 900 for each in blocks)
    assert all((hashes[each.relative] == each.hashes).all() for each in blocks)
