"""Which engine a log gets: rows where they are done before compiled code would be loaded."""

import io

import pytest

from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.compression import Codec, compress
from kafka_format.record import SimpleRecord
from kafka_log.dump import logs
from kafka_log.dump.options import DumpOptions


@pytest.mark.parametrize(("records", "value"), [(10, 100), (500, 1024), (2, 500_000)])
def test_the_work_is_judged_by_the_first_batches_whatever_their_size(records, value):
    """A first batch larger than the sample once looked like no work at all."""
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * value)] * records)
    log = io.BytesIO(batch * 3)
    seconds = logs._row_seconds(log, 1000 * len(batch), DumpOptions(deep=True, contents=True))
    assert seconds > 1000 * records * logs._RECORD_SECONDS


def test_a_small_file_of_many_records_is_work_too():
    """Two megabytes of the smallest record, which are a few hundred bytes as a file."""
    header = BatchHeader.unpack(encode_batch([SimpleRecord(1, None, None)], codec=Codec.ZSTD))
    records = compress(Codec.ZSTD, bytes.fromhex("0c000000010100") * 300_000)
    batch = assemble(header._replace(record_count=300_000), records)
    assert len(batch) < logs._SAMPLE
    seconds = logs._row_seconds(io.BytesIO(batch), len(batch), DumpOptions(deep=True))
    assert seconds > logs._LOAD_SECONDS


def test_a_count_that_the_bytes_cannot_hold_is_no_work():
    header = BatchHeader.unpack(encode_batch([SimpleRecord(1, None, None)]))
    batch = assemble(header._replace(record_count=2**31 - 1), bytes(700))
    seconds = logs._row_seconds(io.BytesIO(batch), len(batch), DumpOptions(deep=True))
    assert seconds < 200 * logs._RECORD_SECONDS
