"""Markers that nobody writes: compressed, and cut. The classes are those of Kafka's own refusals
(`test_producer_state.py` has them by seeds)."""

import pytest

from kafka_format.batch import HEADER_SIZE, RecordBatch, assemble, decode_batch, encode_batch
from kafka_format.compression import Codec, compress
from kafka_format.errors import FormatError
from kafka_format.record import SimpleRecord
from kafka_log.errors import IllegalControlRecordError
from kafka_log.producers.append import read_end_transaction_marker

ABORT = SimpleRecord(
    timestamp=0, key=bytes.fromhex("00000000"), value=bytes.fromhex("000000000007")
)
LZ4_END_MARK = 4  # bytes


def _compressed(*, more: bytes, cut: int) -> RecordBatch:
    plain = encode_batch(
        [ABORT], producer_id=9, producer_epoch=1, is_transactional=True, is_control=True
    )
    header = decode_batch(plain).header
    packed = compress(Codec.LZ4, plain[HEADER_SIZE:] + more)
    header = header._replace(attributes=header.attributes | Codec.LZ4)
    return decode_batch(assemble(header, packed[: len(packed) - cut]))


def test_a_marker_that_is_compressed_is_read():
    marker = read_end_transaction_marker(_compressed(more=b"", cut=0))
    assert marker is not None
    assert marker.coordinator_epoch == 7


def test_a_stream_that_breaks_behind_the_marker_ends_the_replay():
    with pytest.raises(IllegalControlRecordError, match="end mark"):
        read_end_transaction_marker(_compressed(more=b"", cut=LZ4_END_MARK))


def test_bytes_behind_the_marker_are_found_before_the_stream_breaks():
    with pytest.raises(FormatError, match="1 bytes after record 0, expected none"):
        read_end_transaction_marker(_compressed(more=b"\0", cut=LZ4_END_MARK))
