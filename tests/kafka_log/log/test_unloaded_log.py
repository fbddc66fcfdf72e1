"""What is known of a log that was not loaded, and what its deletion leaves alone."""

import os
from pathlib import Path

import pytest

from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.log.unloaded_log import close_unloaded, open_unloaded, read_facts
from tests.kafka_log.segments_by_hand import MODIFIED, entry, write_segment


def first_facts(directory):
    return read_facts(DiskFiles(directory)).segments[0]


def test_an_inactive_segment_s_time_index_ends_with_its_largest_timestamp(directory):
    write_segment(directory, 0, 5000, 6000, time_index=entry(5000, 0) + entry(6000, 1))
    write_segment(directory, 2, 1, time_index=b"")
    assert first_facts(directory)[2:] == (6000, MODIFIED, "time index")


@pytest.mark.parametrize(
    "time_index",
    [None, b"", bytes(12), entry(5000, 0) + bytes(24), entry(5000, 0)[:7], entry(-1, 0)],
    ids=["missing", "empty", "zeros", "padded", "torn", "negative"],
)
def test_where_the_time_index_tells_nothing_the_batches_do(directory, time_index):
    write_segment(directory, 0, 5000, 6000, 4000, time_index=time_index)
    write_segment(directory, 3, 1, time_index=b"")
    assert first_facts(directory)[2:] == (6000, MODIFIED, "batches")


def test_without_any_timestamp_the_modification_time_counts(directory):
    write_segment(directory, 0, -1, -1, time_index=b"")
    write_segment(directory, 2, -1, time_index=b"")
    facts = read_facts(DiskFiles(directory)).segments
    assert [each.largest_timestamp() for each in facts] == [MODIFIED, MODIFIED]
    assert [each.timestamp_source for each in facts] == ["modification time"] * 2


def test_a_preallocated_active_segment_is_as_large_as_its_batches(directory):
    log = write_segment(directory, 0, 5000, 6000, time_index=bytes(1200))
    size = log.stat().st_size
    os.truncate(log, 1_000_000)
    facts = read_facts(DiskFiles(directory))
    assert facts.segments[0].size == size
    assert facts.segments[0].record_timestamp == 6000
    assert facts.log_end_offset == 2


def test_a_torn_batch_at_the_end_is_not_part_of_the_log(directory):
    log = write_segment(directory, 0, 5000, 6000)
    os.truncate(log, log.stat().st_size - 1)
    assert read_facts(DiskFiles(directory)).log_end_offset == 1


def test_files_that_are_no_longer_or_not_yet_of_the_log_are_no_segments(directory):
    write_segment(directory, 5, 5000)
    for name in ("00000000000000000000.log.deleted", "00000000000000000002.log.swap", "3.log"):
        (directory / name).write_bytes(b"")
    assert [each.base_offset for each in read_facts(DiskFiles(directory)).segments] == [5]


def test_a_directory_without_a_segment_is_refused(directory):
    with pytest.raises(LogError, match="found no segment"):
        read_facts(DiskFiles(directory))


# --------------------------------------------------------------------------------------- log


def no_snapshot() -> bytes:
    raise AssertionError("nothing rolls")


def deleted_up_to(directory: Path, offset: int) -> list[str]:
    """Delete what lies below an offset; the names of the files that are left."""
    clock = FixedClock(10_000)
    scheduler, files = Scheduler(clock), DiskFiles(directory)
    log = open_unloaded(
        files,
        read_facts(files),
        LogConfig(retention_ms=-1),
        scheduler,
        log_start_offset=offset,
        end_snapshot=no_snapshot,
    )
    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    close_unloaded(log)
    scheduler.run_all()
    return files.names()


def test_only_the_files_of_deleted_segments_are_touched(directory):
    """A load would delete most of these, or refuse the directory."""
    write_segment(directory, 0, 1000, time_index=b"")
    write_segment(directory, 1, 1000, time_index=b"")
    others = ["00000000000000000007.snapshot", "1.log.swap", "named.snapshot", "x.log.deleted"]
    others.append("00000000000000000000.txnindex.deleted")  # its segment has no such index now
    for name in ("00000000000000000000.snapshot", *others):
        (directory / name).write_bytes(b"?")
    (directory / "partition.metadata").write_bytes(b"damaged")
    active = [f"{1:020d}.{kind}" for kind in ("index", "log", "timeindex")]
    assert deleted_up_to(directory, 1) == sorted([*active, *others, "partition.metadata"])


def test_leader_epochs_are_not_made_where_there_is_no_file(directory):
    write_segment(directory, 0, 1000, time_index=b"")
    write_segment(directory, 1, 1000, time_index=b"")
    assert "leader-epoch-checkpoint" not in deleted_up_to(directory, 1)
