"""A set of offsets contains exactly what was put into it, and is small."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafka_log.cleaner.parallel.offset_set import OffsetSet, encode_offsets


@given(
    st.lists(st.sets(st.integers(0, 2**18), max_size=50), max_size=4),
    st.lists(st.tuples(st.integers(0, 2**18), st.integers(1, 30_000)), max_size=2),
)
def test_a_set_holds_what_was_put_into_it_and_nothing_else(few, many):
    members = [sorted(each) for each in few]
    members += [[*range(start, start + size)] for start, size in many]
    encoded = [encode_offsets(np.array(each, np.int64)) for each in members]
    found = OffsetSet(encoded)
    asked = np.arange(2**18 + 40_000, dtype=np.int64)
    everything = {offset for each in members for offset in each}
    assert set(np.flatnonzero(found.holds(asked)).tolist()) == everything
    assert len(found) == len(everything)


def test_offsets_far_apart_and_beyond_four_bytes_are_held():
    offsets = np.array([0, 2**31, 2**40 + 1, 2**62], np.int64)
    found = OffsetSet([encode_offsets(offsets)])
    assert found.holds(offsets).all()
    assert not found.holds(offsets + 1).any()


def test_a_set_of_every_offset_takes_a_bit_each():
    assert len(encode_offsets(np.arange(10 * 65_536))) < 10 * 65_536 / 8 + 200
