"""A partition log's own rules, by hand; test_unified_log_oracle.py compares the rest with Kafka."""

import errno
import os
import random
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import decode_batch, encode_batch
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.java_text import parse_uuid
from kafka_format.record import SimpleRecord
from kafka_log.appends.origin import AppendOrigin
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles, File, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import (
    InconsistentTopicIdError,
    InvalidTransactionStateError,
    LogError,
    LogLoadError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    UnexpectedAppendOffsetError,
)
from kafka_log.log.unified_log import FetchIsolation, PartitionLog
from kafka_log.producers.entry import SENTINEL

NOW = 1_700_000_000_000
TOPIC_ID = parse_uuid("b2JqZWN0aW9uLXNlZWRlZA")
CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=100, segment_index_bytes=240)
CRASHED = LastRun(clean_shutdown=False)


class Opened:
    """A log, with the clock and the scheduler that it was given."""

    def __init__(self, files: Files, config: LogConfig = CONFIG, **more: Any) -> None:
        self.clock = FixedClock(NOW)
        self.scheduler = Scheduler(self.clock)
        self.log = PartitionLog.open(files, config, self.scheduler, **more)


@pytest.fixture
def files(tmp_path: Path) -> DiskFiles:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    return DiskFiles(directory)


@pytest.fixture
def opened(files: DiskFiles) -> Opened:
    config = replace(CONFIG, transaction_partition_verification_enable=False)
    return Opened(files, config, topic_id=TOPIC_ID)


@pytest.fixture
def log(opened: Opened) -> PartitionLog:
    return opened.log


def batch(count: int = 1, *, size: int = 10, **fields: Any) -> bytes:
    records = [SimpleRecord(NOW + i, b"k", b"v" * size) for i in range(count)]
    return encode_batch(records, **fields)


def of_producer(sequence: int, count: int = 1, **fields: Any) -> bytes:
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} | fields
    return batch(count, **fields)


def marker(type_: ControlRecordType, *, producer_epoch: int = 0) -> bytes:
    key, value = encode_control_record(end_transaction_marker(type_, 0))
    return encode_batch(
        [SimpleRecord(NOW, key, value)],
        producer_id=7,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def end_transaction(log: PartitionLog, type_: ControlRecordType) -> None:
    log.append_as_leader(marker(type_), 0, origin=AppendOrigin.COORDINATOR, transaction_version=1)


# ----------------------------------------------------------------------------------- appending


def test_a_leader_gives_offsets_and_its_epoch(log: PartitionLog) -> None:
    first = log.append_as_leader(batch(3), 5)
    second = log.append_as_leader(batch(2), 5)
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset) == (3, 4)
    stored = decode_batch(log.read(3, 1).records.read())
    assert (stored.header.base_offset, stored.header.partition_leader_epoch) == (3, 5)
    assert log.log_end_offset == 5
    assert log.latest_epoch == 5


def test_a_batch_sent_again_is_answered_with_its_old_offsets_and_not_written(
    log: PartitionLog,
) -> None:
    log.append_as_leader(batch(4), 0)
    sent = log.append_as_leader(of_producer(0, 2), 0)
    log.append_as_leader(batch(1), 0)
    size = log.size
    again = log.append_as_leader(of_producer(0, 2), 0)
    assert (again.first_offset, again.last_offset) == (4, 5)
    assert (sent.first_offset, sent.last_offset) == (4, 5)
    assert (log.log_end_offset, log.size) == (7, size)


def test_a_sequence_with_a_gap_is_refused_and_leaves_no_record(log: PartitionLog) -> None:
    log.append_as_leader(of_producer(0), 0)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(of_producer(5), 0)
    assert log.log_end_offset == 1


def test_a_follower_takes_gaps_but_nothing_before_its_end(log: PartitionLog) -> None:
    log.append_as_follower(batch(2, base_offset=10, partition_leader_epoch=3), 3)
    assert log.log_end_offset == 12
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_as_follower(batch(2, base_offset=11, partition_leader_epoch=3), 3)


def test_a_follower_leaves_the_batches_of_a_leader_it_does_not_know(log: PartitionLog) -> None:
    chunk = batch(1, partition_leader_epoch=3) + batch(1, base_offset=1, partition_leader_epoch=4)
    assert log.append_as_follower(chunk, 3).last_offset == 0
    assert log.log_end_offset == 1


def test_a_transaction_begins_only_with_its_guard(files: DiskFiles) -> None:
    log = Opened(files).log
    begin = of_producer(0, is_transactional=True)
    with pytest.raises(InvalidTransactionStateError):
        log.append_as_leader(begin, 0)
    guard = log.maybe_start_transaction_verification(7, 0, 0, supports_epoch_bump=False)
    assert guard is not SENTINEL
    assert log.append_as_leader(begin, 0, verification_guard=guard).first_offset == 0
    follows = of_producer(1, is_transactional=True)
    assert log.append_as_leader(follows, 0).first_offset == 1


# ------------------------------------------------------------------------------------- rolling


def test_a_segment_rolls_before_it_is_larger_than_segment_bytes(log: PartitionLog) -> None:
    size = len(batch(1, size=300))
    for _ in range(4):
        log.append_as_leader(batch(1, size=300), 0)
    assert 2 * size <= 1000 < 3 * size
    assert [(each.base_offset, each.size) for each in log.log_segments] == [
        (0, 2 * size),
        (2, 2 * size),
    ]


def test_jitter_makes_a_segment_roll_earlier_by_what_was_drawn(files: DiskFiles) -> None:
    config = LogConfig(segment_ms=10_000, segment_jitter_ms=4_000)
    drawn = random.Random(3).randrange(4_000)
    opened = Opened(files, config, rng=random.Random(3))
    log = opened.log
    log.roll()  # the first segment is the loader's, whose jitter is its own
    records = [SimpleRecord(NOW, None, b"first")]
    log.append_as_leader(encode_batch(records), 0)
    due = NOW + 10_000 - drawn
    opened.clock.now_ms = due
    log.append_as_leader(encode_batch([SimpleRecord(due, None, b"not yet")]), 0)
    assert len(log.log_segments) == 1
    log.append_as_leader(encode_batch([SimpleRecord(due + 1, None, b"now")]), 0)
    assert [each.base_offset for each in log.log_segments] == [0, 2]


def test_a_roll_leaves_trimmed_indexes_and_a_snapshot_behind(
    log: PartitionLog, files: DiskFiles
) -> None:
    log.append_as_leader(of_producer(0, 3), 0)
    log.roll()
    assert files.size("00000000000000000000.index") == 0
    assert files.size("00000000000000000000.timeindex") == 12
    assert files.size("00000000000000000003.snapshot") > 0
    assert log.recovery_point == 3


# ------------------------------------------------------------------------------------- reading


def test_a_read_ends_where_its_isolation_says(log: PartitionLog) -> None:
    log.append_as_leader(batch(2), 0)
    log.append_as_leader(of_producer(0, is_transactional=True), 0)
    log.append_as_leader(batch(2), 0)
    log.update_high_watermark(3)
    sizes = {
        isolation: log.read(0, 10_000, isolation=isolation).records.size_in_bytes
        for isolation in FetchIsolation
    }
    two, one = len(batch(2)), len(of_producer(0, is_transactional=True))
    assert sizes[FetchIsolation.LOG_END] == two + one + two
    assert sizes[FetchIsolation.HIGH_WATERMARK] == two + one
    assert sizes[FetchIsolation.TXN_COMMITTED] == two
    assert (log.first_unstable_offset, log.last_stable_offset) == (2, 2)


def test_a_committed_read_lists_the_aborted_transactions_it_covers(log: PartitionLog) -> None:
    log.append_as_leader(of_producer(0, 2, is_transactional=True), 0)
    end_transaction(log, ControlRecordType.ABORT)
    log.append_as_leader(of_producer(2, is_transactional=True), 0)
    end_transaction(log, ControlRecordType.COMMIT)
    log.update_high_watermark(log.log_end_offset)
    found = log.read(0, 10_000, isolation=FetchIsolation.TXN_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in found.aborted_transactions] == [
        (7, 0)
    ]
    assert log.last_stable_offset == log.log_end_offset == 5


def test_the_first_batch_comes_whole_unless_nobody_asks_for_one_message(log: PartitionLog) -> None:
    log.append_as_leader(batch(3), 0)
    whole = log.read(1, 10)
    assert (whole.records.read()[8:12], whole.first_entry_incomplete) == (batch(3)[8:12], False)
    assert whole.records.size_in_bytes == len(batch(3))
    part = log.read(1, 10, min_one_message=False)
    assert (part.records.size_in_bytes, part.first_entry_incomplete) == (10, True)


def test_offsets_outside_the_log_are_refused_and_its_end_is_empty(log: PartitionLog) -> None:
    log.append_as_leader(batch(3), 0)
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(1)
    for offset in (0, 4):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 100)
    assert log.read(3, 100).records.read() == b""


def test_a_high_watermark_inside_a_batch_falls_back_to_its_beginning_when_read(
    log: PartitionLog,
) -> None:
    log.append_as_leader(batch(2), 0)
    log.append_as_leader(batch(4), 0)
    assert log.update_high_watermark(4) == 4
    log.read(0, 100, isolation=FetchIsolation.HIGH_WATERMARK)
    assert log.high_watermark == 2


def test_offsets_by_time(log: PartitionLog) -> None:
    log.append_as_leader(batch(3), 2)  # NOW, NOW + 1, NOW + 2
    log.append_as_leader(encode_batch([SimpleRecord(NOW + 1, None, b"late")]), 2)
    assert log.fetch_offset_by_timestamp(NOW + 1) == (NOW + 1, 1, 2)
    assert log.fetch_offset_by_timestamp(NOW + 3) is None
    assert log.fetch_offset_by_timestamp(-1) == (-1, 4, 2)
    assert log.fetch_offset_by_timestamp(-2) == (-1, 0, 2)
    assert log.fetch_offset_by_timestamp(-3) == (NOW + 2, 2, 2)
    assert log.fetch_offset_by_timestamp(-5) == (-1, -1, -1)


# ------------------------------------------------------------------- log start, cutting, deleting


def test_records_are_given_up_to_the_high_watermark_and_no_further(log: PartitionLog) -> None:
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(3)
    with pytest.raises(OffsetOutOfRangeError):
        log.maybe_increment_log_start_offset(4)
    assert log.maybe_increment_log_start_offset(3)
    assert not log.maybe_increment_log_start_offset(2)
    assert log.log_start_offset == 3


def test_a_cut_inside_a_batch_takes_it_whole_and_leaves_a_gap(log: PartitionLog) -> None:
    log.append_as_leader(batch(2), 0)
    log.append_as_leader(batch(4), 0)
    assert log.truncate_to(4)
    assert (log.log_end_offset, log.size) == (4, len(batch(2)))
    assert not log.truncate_to(9)


def test_a_cut_takes_producers_back_to_where_they_were(log: PartitionLog) -> None:
    log.append_as_leader(of_producer(0, 2), 0)
    log.append_as_leader(of_producer(2, 2), 0)
    log.truncate_to(2)
    assert log.append_as_leader(of_producer(2, 1), 0).first_offset == 2


def test_a_log_cut_fully_starts_anew(log: PartitionLog, files: DiskFiles) -> None:
    log.append_as_leader(of_producer(0, 2), 4)
    log.truncate_fully_and_start_at(50)
    state = log.state
    assert (state.log_start_offset, state.high_watermark, state.log_end_offset) == (50, 50, 50)
    assert log.latest_epoch is None
    assert not log.producer_state_manager.active_producers
    assert files.exists("00000000000000000050.log")
    assert files.exists("00000000000000000000.log.deleted")


def test_retention_renames_now_and_unlinks_after_the_delay(files: DiskFiles) -> None:
    opened = Opened(files, replace(CONFIG, retention_ms=1_000))
    log = opened.log
    log.append_as_leader(batch(2), 0)
    log.roll()
    log.append_as_leader(encode_batch([SimpleRecord(NOW + 500, None, b"younger")]), 0)
    log.update_high_watermark(3)
    opened.clock.now_ms = NOW + 1_001  # the first segment's largest is NOW + 1
    assert log.delete_old_segments() == 0
    opened.clock.now_ms += 1
    assert log.delete_old_segments() == 1
    assert log.log_start_offset == 2
    assert files.exists("00000000000000000000.log.deleted")
    opened.clock.now_ms += opened.log.config.file_delete_delay_ms
    opened.scheduler.run_due()
    assert not files.exists("00000000000000000000.log.deleted")


def test_a_deleted_log_leaves_no_file_of_a_segment(log: PartitionLog, files: DiskFiles) -> None:
    log.append_as_leader(of_producer(0, 2, is_transactional=True), 0)
    end_transaction(log, ControlRecordType.ABORT)
    log.roll()
    log.append_as_leader(batch(1), 0)
    log.delete()
    assert files.names() == ["leader-epoch-checkpoint", "partition.metadata"]
    with pytest.raises(LogError, match="closed"):
        log.append_as_leader(batch(1), 0)


# -------------------------------------------------------------------------------- opening, closing


def test_an_open_log_has_full_indexes_and_a_closed_one_trimmed_ones(
    log: PartitionLog, files: DiskFiles
) -> None:
    log.append_as_leader(batch(1), 0)
    assert files.size("00000000000000000000.index") == 240
    assert files.size("00000000000000000000.timeindex") == 240
    log.close()
    assert files.size("00000000000000000000.index") == 0
    assert files.size("00000000000000000000.timeindex") == 12


def test_a_preallocated_file_is_cut_by_a_close_and_found_long_after_a_crash(
    files: DiskFiles,
) -> None:
    config = replace(CONFIG, preallocate=True)
    log = Opened(files, config).log
    log.append_as_leader(batch(1), 0)
    assert files.size("00000000000000000000.log") == 1000
    log.close_handlers()
    assert files.size("00000000000000000000.log") == 1000
    log = Opened(files, config, last_run=CRASHED).log
    assert log.log_end_offset == 1
    log.close()
    assert files.size("00000000000000000000.log") == len(batch(1))


def test_everything_is_there_after_a_close(log: PartitionLog, files: DiskFiles) -> None:
    log.append_as_leader(of_producer(0, 3, is_transactional=True), 6)
    log.close()
    again = Opened(files, log.config).log
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (0, 3, 3)
    assert (again.first_unstable_offset, again.latest_epoch) == (0, 6)
    assert again.topic_id == TOPIC_ID
    assert again.high_watermark == 0  # a broker has it in a checkpoint of its own


def test_a_closed_log_takes_nothing(log: PartitionLog) -> None:
    log.append_as_leader(batch(1), 0)
    log.close_handlers()
    for change in (
        lambda: log.append_as_leader(batch(1), 0),
        log.roll,
        lambda: log.truncate_to(0),
        log.close,
    ):
        with pytest.raises(LogError, match="the log is closed"):
            change()


def test_the_topic_id_is_on_disk_at_once_and_stays(log: PartitionLog, files: DiskFiles) -> None:
    expected = b"version: 0\ntopic_id: b2JqZWN0aW9uLXNlZWRlZA"
    assert files.read("partition.metadata", limit=100) == expected
    log.assign_topic_id(TOPIC_ID)
    other = uuid.UUID(int=1 << 100)
    with pytest.raises(InconsistentTopicIdError, match="found topic id b2JqZWN0aW9uLXNlZWRlZA"):
        log.assign_topic_id(other)
    log.close()
    with pytest.raises(InconsistentTopicIdError):
        Opened(files, topic_id=other)


def test_a_log_without_a_topic_id_can_be_given_one(files: DiskFiles) -> None:
    log = Opened(files).log
    assert log.topic_id is None
    assert not files.exists("partition.metadata")
    log.assign_topic_id(TOPIC_ID)
    assert files.exists("partition.metadata")


def next_handle() -> int:
    """The lowest number of a file that is not open."""
    handle = os.open(os.devnull, os.O_RDONLY)
    os.close(handle)
    return handle


@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_a_side_file_that_does_not_decode_is_a_log_that_does_not_load(
    log: PartitionLog, files: DiskFiles, name: str
) -> None:
    log.append_as_leader(batch(1), 0)
    log.close()
    files.write(name, b"nonsense\nof two lines")
    free = next_handle()
    with pytest.raises(LogLoadError, match=name):
        Opened(files)
    assert next_handle() == free  # nothing stayed open


def test_what_lies_where_a_new_segment_begins_is_dropped(
    log: PartitionLog, files: DiskFiles
) -> None:
    log.append_as_leader(batch(3), 0)
    files.write("00000000000000000003.log", b"left over")
    files.write("00000000000000000003.txnindex", b"left over")
    log.roll()
    assert files.size("00000000000000000003.log") == 0
    assert not files.exists("00000000000000000003.txnindex")


def test_tiered_storage_is_refused(files: DiskFiles) -> None:
    with pytest.raises(LogError, match=r"remote\.storage\.enable"):
        Opened(files, replace(CONFIG, remote_storage_enable=True))
    assert files.names() == []


def test_on_an_overlay_nothing_is_written_to_the_directory(
    log: PartitionLog, files: DiskFiles
) -> None:
    log.append_as_leader(batch(3), 0)
    log.close()
    before = {name: files.read(name, limit=10_000) for name in files.names()}
    overlay = Opened(OverlayFiles(files.directory), log.config).log
    overlay.append_as_leader(batch(3), 1)
    overlay.truncate_to(2)
    overlay.close()
    assert {name: files.read(name, limit=10_000) for name in files.names()} == before


class _FullDisk(DiskFiles):
    """A disk that takes no more bytes from a moment on."""

    is_full = False

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:
        file = super().open(name, create=create, write=write)
        write_at = file.write_at

        def checked(position: int, data: Any) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, "No space left on device", name)
            write_at(position, data)

        file.write_at = checked  # type: ignore[method-assign]
        return file


def test_a_full_disk_is_told_as_it_is_and_what_was_there_opens_again(files: DiskFiles) -> None:
    disk = _FullDisk(files.directory)
    log = Opened(disk).log
    log.append_as_leader(batch(2), 0)
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        log.append_as_leader(batch(2), 0)
    assert log.log_end_offset == 2
    log.close_handlers()
    again = Opened(files, last_run=CRASHED).log
    assert again.log_end_offset == 2
