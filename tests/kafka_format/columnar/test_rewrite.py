"""Retained records are written as the row encoder writes them, or are left to it."""

import random
from typing import Any

import numpy as np
import pytest

from kafka_format.batch import decode_batch, encode_batch
from kafka_format.columnar import kernels as k
from kafka_format.columnar.records import RecordScan
from kafka_format.columnar.rewrite import encode_kept_records
from kafka_format.compression import Codec
from kafka_format.record import Header, SimpleRecord, encode_records
from tests.compiled import BOTH_WAYS


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
