"""How a plan is made of the log's own deletion, and carried out in a directory."""

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.crash_points import Crash, CrashingFiles
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.loading.partition_recovery import load_partition
from kafka_log.producers.producer_state import read_snapshot
from kafka_log.retention.breaches import Breach
from kafka_log.retention.plan import delete_planned, plan_partition, retain_in_place
from tests.kafka_log.segments_by_hand import entry, write_segment

CLOCK = FixedClock(10_000)


def contents(files):
    return {name: files.read(name, limit=1_000_000) for name in files.names()}


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
    delete_planned(plan, DiskFiles(directory), config, scheduler)
    marked = sorted(each.name for each in directory.glob("*.deleted"))
    kinds = ["index", "log", "snapshot", "timeindex", "txnindex"]
    assert marked == [f"00000000000000000000.{kind}.deleted" for kind in kinds]
    clock.now_ms += 59_999
    assert scheduler.run_due() == 0
    clock.now_ms += 1
    assert scheduler.run_due() == 2  # the segment's files, and its snapshot
    assert list(directory.glob("*.deleted")) == []
    assert not list(directory.glob("00000000000000000000.*"))


def test_a_log_that_loses_all_ends_with_one_empty_segment(directory):
    three_segments(directory)
    config = LogConfig(retention_ms=0)
    plan = plan_partition(directory, config, CLOCK, high_watermark=15)
    retain_in_place(plan, config)
    assert contents(DiskFiles(directory)) == contents(plan.files)
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
    retain_in_place(plan, config)
    found = oracle.read_file("producer_snapshot", directory / "00000000000000000016.snapshot")
    (producer,) = found["entries"]
    reported = {name: producer[name] for name in ("producer_id", "producer_epoch", "last_sequence")}
    assert reported == {"producer_id": 7, "producer_epoch": 2, "last_sequence": 3}


def test_producers_of_segments_that_an_earlier_step_deletes_are_kept(directory):
    """The log start deletes the first segment; only then does time delete the others."""
    three_segments(directory)
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
    first = [
        encode_batch(
            [SimpleRecord(1000, b"k", b"v")],
            base_offset=offset,
            producer_id=7,
            producer_epoch=2,
            base_sequence=offset,
        )
        for offset in range(5)
    ]
    (directory / "00000000000000000000.log").write_bytes(b"".join(first))
    config = LogConfig(retention_ms=0)
    plan = plan_partition(directory, config, CLOCK, high_watermark=15, log_start_offset=5)
    assert {verdict.breach for verdict in plan.verdicts} == {
        Breach.LOG_START_OFFSET,
        Breach.RETENTION_MS,
    }
    retain_in_place(plan, config)
    assert contents(DiskFiles(directory)) == contents(plan.files)
    (producer,) = read_snapshot(plan.files, "00000000000000000015.snapshot")
    assert (producer.producer_id, producer.last_seq) == (7, 4)


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
            delete_planned(plan, CrashingFiles(DiskFiles(directory), crash_at), config, scheduler)
            scheduler.run_all()
            is_whole = True
        except Crash:
            pass
        last_run = LastRun(clean_shutdown=False)
        loaded = load_partition(DiskFiles(directory), config, last_run, clock=CLOCK)
        loaded.close_handlers()
        assert loaded.log_end_offset == 15
        assert loaded.log_start_offset in (0, 5, 10, 15)
    assert loaded.log_start_offset == plan.new_log_start_offset
    assert crash_at > 15
