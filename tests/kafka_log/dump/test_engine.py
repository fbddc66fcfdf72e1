"""Which engine a log gets: rows where they are done before compiled code would be loaded."""

import io

import pytest

from kafka_format.batch import encode_batch
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
