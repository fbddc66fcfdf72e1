"""Keys are hashed by SipHash, compiled or not."""

import numpy as np
import pytest

from kafka_log.cleaner.columns import map_kernels
from tests.compiled import BOTH_WAYS


@pytest.mark.parametrize("compiled", BOTH_WAYS)
@pytest.mark.parametrize(
    ("length", "expected"),
    [  # of OpenSSL's SIPHASH: key 00 01 .. 0f, input 00 01 ..
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (8, "3b62a9ba6258f5610f83e264f31497b4"),
        (16, "6ee2a4ca67b054bbfd3315bf85230577"),
    ],
)
def test_keys_are_hashed_by_siphash_of_128_bits(
    *, compiled: bool, length: int, expected: str
) -> None:
    data = np.arange(16, dtype=np.uint8)
    key = [int.from_bytes(bytes(data[at : at + 8]), "little", signed=True) for at in (0, 8)]
    source = data if compiled else data.data
    found = map_kernels.load(compiled=compiled).siphash(source, 0, length, *key)
    assert (
        b"".join(int(each).to_bytes(8, "little", signed=True) for each in found).hex() == expected
    )
