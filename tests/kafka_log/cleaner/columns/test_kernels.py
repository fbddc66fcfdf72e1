"""Kernels of the cleaner: their hash is SipHash, their records are those of the row encoder."""

import random
from typing import Any

import numpy as np
import pytest

from kafka_format.batch import decode_batch, encode_batch
from kafka_format.columnar import kernels as k
from kafka_format.columnar.compilation import can_compile
from kafka_format.columnar.records import RecordScan
from kafka_format.columnar.rewrite import encode_kept_records
from kafka_format.compression import Codec
from kafka_format.record import Header, SimpleRecord, encode_records
from kafka_log.cleaner.columns import map_kernels
from kafka_log.cleaner.columns.key_table import KeyTable
from kafka_log.cleaner.offset_map import NOT_FOUND

BOTH_WAYS = [False, pytest.param(True, marks=pytest.mark.skipif(not can_compile(), reason="numba"))]
needs_numba = pytest.mark.skipif(not can_compile(), reason="numba is not there")


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


@pytest.mark.parametrize("compiled", BOTH_WAYS)
@pytest.mark.parametrize("seed", range(30))
def test_kept_records_are_written_as_the_row_encoder_writes_them(
    *, compiled: bool, seed: int
) -> None:
    rng = random.Random(seed)
    base_offset, offset, records = 2**40, 2**40, []
    for _ in range(rng.choice((1, 5, 40))):
        offset += rng.choice((0, 1, 700, 10**6))
        headers = [Header("k" * rng.randrange(99), rng.choice((None, b"", b"v" * 80)))]
        timestamp = rng.choice((-1, 0, 2**62, 2**63 - 1, 1_700_000_000_000))
        key, value = (
            rng.choice((None, b"", rng.randbytes(rng.choice((1, 63, 64, 9000))))) for _ in "kv"
        )
        records.append(SimpleRecord(timestamp, key, value, headers * rng.randrange(3), offset))
        offset += 1
    batch = encode_batch(
        records, base_offset=base_offset, codec=rng.choice((Codec.NONE, Codec.LZ4))
    )
    (columns,) = RecordScan(batch, compiled=compiled)
    is_kept = np.array([rng.random() < 0.7 for _ in records], np.uint8)
    base_timestamp = rng.choice((-1, 0, 2**63 - 1, -(2**63), 1_800_000_000_000))
    found = encode_kept_records(
        columns,
        is_kept,
        (0, len(records)),
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        compiled=compiled,
    )
    kept = [
        each for each, stays in zip(decode_batch(batch).records(), is_kept, strict=True) if stays
    ]
    expected = encode_records(kept, base_offset=base_offset, base_timestamp=base_timestamp)
    assert found is not None
    assert bytes(found) == expected


@pytest.mark.parametrize("compiled", BOTH_WAYS)
def test_a_header_key_that_is_not_ascii_is_left_to_the_row_encoder(*, compiled: bool) -> None:
    batch = encode_batch([SimpleRecord(1, b"k", b"v", (Header("größe", b""),))])
    (columns,) = RecordScan(batch, compiled=compiled)
    bases: dict[str, Any] = {"base_offset": 0, "base_timestamp": 1, "compiled": compiled}
    assert encode_kept_records(columns, np.ones(1, np.uint8), (0, 1), **bases) is None


@pytest.mark.parametrize("compiled", BOTH_WAYS)
@pytest.mark.parametrize(
    ("field", "value"),
    [(k.TIMESTAMP, -2), (k.OFFSET, 7), (k.OFFSET, 7 + 2**31), (k.OFFSET, 7 - 2**31 - 1)],
)
def test_what_the_builder_refuses_is_left_to_the_row_encoder(
    *, compiled: bool, field: int, value: int
) -> None:
    batch = encode_batch([SimpleRecord(1, b"k", b"v")] * 2, base_offset=7)
    (columns,) = RecordScan(batch, compiled=compiled)
    bases: dict[str, Any] = {"base_offset": 7, "base_timestamp": 1, "compiled": compiled}
    both = np.ones(2, np.uint8)
    assert encode_kept_records(columns, both, (0, 2), **bases) is not None
    columns.longs[field, 1] = value
    assert encode_kept_records(columns, both, (0, 2), **bases) is None
