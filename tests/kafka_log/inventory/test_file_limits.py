"""The largest size of each kind: literals, and the smallest marker that a real broker wrote."""

import pytest

from kafka_format.batch import RecordBatch
from kafka_format.log_file import LogFile
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind
from tests import golden


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        (FileKind.LOG, 2_147_483_647),
        (FileKind.OFFSET_INDEX, 2_147_483_647),
        (FileKind.REMOTE_TIME_INDEX, 2_147_483_647),
        (FileKind.PRODUCER_SNAPSHOT, 67_108_864),
        (FileKind.TRANSACTION_INDEX, 936_082_594),
        (FileKind.META_PROPERTIES, 1_048_576),
        (FileKind.LEADER_EPOCH_CHECKPOINT, 16_777_216),
        (FileKind.PARTITION_METADATA, 8_192),
    ],
)
def test_the_largest_of_a_kind(kind: FileKind, limit: int) -> None:
    assert largest_size(kind) == limit


def test_every_kind_has_a_limit() -> None:
    assert all(largest_size(kind) > 0 for kind in FileKind)


def test_no_marker_of_a_real_broker_is_smaller_than_the_bound_takes_it_to_be() -> None:
    sizes = {
        len(batch.raw)
        for path in golden.shared("cleaner-4.3.1").rglob("*.log")
        for batch in LogFile(path.read_bytes()).batches()
        if isinstance(batch, RecordBatch)
        and batch.header.is_control
        and batch.header.is_transactional
        and batch.header.record_count
    }
    assert min(sizes) == 78
