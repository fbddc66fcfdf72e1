"""Where the facts of a plan come from, and how a plan is done to a directory."""

import os
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config import LogConfig
from kafka_log.disk.crash_points import Crash, CrashingFiles
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.loading.partition_recovery import load_partition
from kafka_log.retention_plan import apply_retention, plan_partition, read_facts

CLOCK = FixedClock(10_000)
MODIFIED = 7_000


def batch(offset, timestamp):
    return encode_batch([SimpleRecord(timestamp, b"k", b"v" * 20)], base_offset=offset)


def entry(timestamp, relative_offset):
    return timestamp.to_bytes(8, "big", signed=True) + relative_offset.to_bytes(4, "big")


def write_segment(directory: Path, base, *timestamps, time_index=None):
    """Batches of one record; `time_index` None: no such file."""
    log = directory / f"{base:020d}.log"
    log.write_bytes(b"".join(batch(base + i, time) for i, time in enumerate(timestamps)))
    log.with_suffix(".index").write_bytes(b"")
    if time_index is not None:
        log.with_suffix(".timeindex").write_bytes(time_index)
    os.utime(log, ns=(MODIFIED * 1_000_000,) * 2)
    return log


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "orders-0"
    path.mkdir()
    return path


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


# ------------------------------------------------------------------------------------- apply


def three_segments(directory):
    for base in (0, 5, 10):
        times = [1000] * 5
        write_segment(directory, base, *times, time_index=entry(1000, 0))
        (directory / f"{base:020d}.snapshot").write_bytes(b"")
    (directory / "00000000000000000015.snapshot").write_bytes(b"")
    (directory / "00000000000000000000.txnindex").write_bytes(b"")
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 6\n2 12\n")


# Example H, and two more starts
@pytest.mark.parametrize(
    ("start", "epochs"),
    [(10, [(1, 10), (2, 12)]), (12, [(2, 12)]), (15, [(2, 15)]), (0, [(0, 0), (1, 6), (2, 12)])],
)
def test_epochs_begin_at_the_new_log_start(directory, start, epochs):
    three_segments(directory)
    config = LogConfig(retention_ms=-1)
    plan = plan_partition(directory, config, CLOCK, high_watermark=15, log_start_offset=start)
    assert [tuple(each) for each in plan.leader_epochs] == epochs
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 6\n2 12\n"


def test_the_snapshot_at_the_new_first_segment_stays(directory):
    three_segments(directory)
    plan = plan_partition(directory, LogConfig(retention_ms=0), CLOCK, high_watermark=12)
    assert plan.new_log_start_offset == 10
    assert plan.snapshots == (10, 15)


def test_files_are_marked_first_and_unlinked_after_the_delay(directory):
    three_segments(directory)
    config = LogConfig(retention_ms=0, file_delete_delay_ms=60_000)
    clock = FixedClock(10_000)
    plan = plan_partition(directory, config, clock, high_watermark=5)
    scheduler = Scheduler(clock)
    apply_retention(plan, DiskFiles(directory), config, scheduler)
    marked = sorted(each.name for each in directory.glob("*.deleted"))
    kinds = ["index", "log", "snapshot", "timeindex", "txnindex"]
    assert marked == [f"00000000000000000000.{kind}.deleted" for kind in kinds]
    clock.now_ms += 59_999
    assert scheduler.run_due() == 0
    clock.now_ms += 1
    assert scheduler.run_due() == 1
    assert list(directory.glob("*.deleted")) == []
    assert not list(directory.glob("00000000000000000000.*"))


def test_a_log_that_loses_all_ends_with_one_empty_segment(directory):
    three_segments(directory)
    config = LogConfig(retention_ms=0)
    plan = plan_partition(directory, config, CLOCK, high_watermark=15)
    scheduler = Scheduler(CLOCK)
    apply_retention(plan, DiskFiles(directory), config, scheduler)
    scheduler.run_all()
    assert sorted(each.name for each in directory.iterdir()) == [
        "00000000000000000015.index",
        "00000000000000000015.log",
        "00000000000000000015.snapshot",
        "00000000000000000015.timeindex",
        "leader-epoch-checkpoint",
    ]


def test_producers_are_kept_where_the_log_was_not_closed(directory, oracle):
    three_segments(directory)
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
    log = directory / "00000000000000000010.log"
    last = encode_batch(
        [SimpleRecord(1000, b"k", b"v")],
        base_offset=15,
        producer_id=7,
        producer_epoch=2,
        base_sequence=3,
    )
    log.write_bytes(log.read_bytes() + last)
    config = LogConfig(retention_ms=0)
    plan = plan_partition(directory, config, CLOCK, high_watermark=16)
    assert plan.snapshots == (16,)
    apply_retention(plan, DiskFiles(directory), config, Scheduler(CLOCK))
    found = oracle.read_file("producer_snapshot", directory / "00000000000000000016.snapshot")
    (producer,) = found["entries"]
    told = {name: producer[name] for name in ("producer_id", "producer_epoch", "last_sequence")}
    assert told == {"producer_id": 7, "producer_epoch": 2, "last_sequence": 3}


def test_a_log_whose_end_is_damaged_is_not_emptied(directory):
    three_segments(directory)
    (directory / "00000000000000000015.snapshot").unlink()
    log = directory / "00000000000000000010.log"
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(LogError, match="ends at 15 but is sound only up to 14; recover it first"):
        plan_partition(directory, LogConfig(retention_ms=0), CLOCK, high_watermark=15)


@pytest.mark.parametrize("high_watermark", [12, 15])
def test_a_crash_at_any_change_leaves_a_log_that_loads(tmp_path, high_watermark):
    config = LogConfig(retention_ms=0)
    crash_at = 0
    is_whole = False
    while not is_whole:
        crash_at += 1
        directory = tmp_path / str(crash_at) / "orders-0"
        directory.mkdir(parents=True)
        three_segments(directory)
        plan = plan_partition(directory, config, CLOCK, high_watermark=high_watermark)
        scheduler = Scheduler(CLOCK)
        try:
            apply_retention(plan, CrashingFiles(DiskFiles(directory), crash_at), config, scheduler)
            scheduler.run_all()
            is_whole = True
        except Crash:
            pass
        loaded = load_partition(
            DiskFiles(directory),
            config,
            clean_shutdown=False,
            log_start_offset=0,
            recovery_point=0,
            clock=CLOCK,
        )
        loaded.close_handlers()
        assert loaded.log_end_offset == 15
        assert loaded.log_start_offset in (0, 5, 10, 15)
    assert loaded.log_start_offset == plan.new_log_start_offset
    assert crash_at > 15
