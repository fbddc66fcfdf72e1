"""What cleaning does to logs whose outcome can be reported by hand."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.record import Record, SimpleRecord
from kafka_log.appends.origin import AppendOrigin
from kafka_log.cleaner.cleanable import filthiest, select
from kafka_log.cleaner.cleaner import RoundResult
from kafka_log.cleaner.cleaner_thread import compact_log
from kafka_log.cleaner.cleaner_thread import new_cleaner as new_broker_cleaner
from kafka_log.cleaner.errors import LogCleaningAbortedError
from kafka_log.cleaner.passes import UNTIL_CLEAN, Schedule
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import DAY_MS, LogConfig
from kafka_log.disk.crash_points import Crash, CrashingFiles
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.log.unified_log import PartitionLog
from tests.kafka_log.cleaner.cleaners import batches_of, new_cleaner

NOW = 1_700_000_000_000
RETENTION = 1000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=RETENTION,
    segment_index_bytes=1000,
    transaction_partition_verification_enable=False,
)


class Topic:
    """A log, its clock, and the few things that are done to it."""

    def __init__(self, files: Files, config: LogConfig = CONFIG) -> None:
        self.clock = FixedClock(NOW)
        self.log = PartitionLog.open(files, config, Scheduler(self.clock))

    def put(self, *records: tuple[str | None, str | None], producer_id: int = -1) -> None:
        """A batch; a producer's is transactional."""
        is_transactional = producer_id >= 0
        batch = encode_batch(
            [SimpleRecord(NOW, _bytes(key), _bytes(value)) for key, value in records],
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        self.log.append_as_leader(batch, 0)

    def end(self, type_: ControlRecordType, producer_id: int) -> None:
        key, value = encode_control_record(end_transaction_marker(type_, 0))
        marker = encode_batch(
            [SimpleRecord(NOW, key, value)],
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        self.log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR, transaction_version=1)

    def roll(self) -> None:
        self.log.roll()

    def clean(self, checkpoint: int | None = None, **options: Any) -> RoundResult:
        self.log.update_high_watermark(self.log.log_end_offset)
        return new_cleaner(self.log.config, self.clock, **options).clean(self.log, checkpoint)

    def batches(self) -> list[RecordBatch]:
        return batches_of(self.log)

    def left(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(each.offset, each.key, each.value) for each in self.records()]

    def records(self) -> list[Record]:
        return [record for batch in self.batches() for record in batch.records()]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@pytest.fixture
def topic(memory_path: Path) -> Topic:
    return Topic(DiskFiles(memory_path))


@pytest.fixture
def memory_path(tmp_path: Path) -> Path:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    return folder


def test_of_each_key_the_last_value_stays_at_its_offset(topic: Topic) -> None:
    topic.put(("a", "1"), ("b", "1"), ("a", "2"))
    topic.put(("b", "2"))
    topic.put(("c", "1"))
    topic.roll()
    assert topic.clean().next_dirty_offset == 5
    assert topic.left() == [(2, b"a", b"2"), (3, b"b", b"2"), (4, b"c", b"1")]


def test_the_active_segment_is_not_cleaned(topic: Topic) -> None:
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("a", "2"))
    assert topic.clean().next_dirty_offset == 1
    assert [offset for offset, _, _ in topic.left()] == [0, 1]


def test_records_behind_an_open_transaction_are_not_cleaned(topic: Topic) -> None:
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("x", "open"), producer_id=7)
    topic.put(("a", "2"))
    topic.roll()
    assert topic.clean().next_dirty_offset == 1
    assert len(topic.left()) == 3


def test_a_record_without_a_key_goes_and_is_counted(topic: Topic) -> None:
    topic.log.update_config(LogConfig(segment_index_bytes=1000))
    topic.put((None, "1"), ("a", "1"))
    topic.roll()
    assert topic.clean().stats.invalid_messages_read == 1
    assert topic.left() == [(1, b"a", b"1")]


def test_a_tombstone_stays_until_its_horizon_and_goes_at_it(topic: Topic) -> None:
    topic.put(("a", "1"))
    topic.put(("a", None))
    topic.put(("b", "1"))
    topic.roll()
    topic.clean()
    assert topic.batches()[0].header.delete_horizon_ms == NOW + RETENTION
    topic.clock.now_ms = NOW + RETENTION - 1
    topic.clean(checkpoint=0)
    assert topic.left() == [(1, b"a", None), (2, b"b", b"1")]
    topic.clock.now_ms = NOW + RETENTION
    topic.clean(checkpoint=0)
    assert topic.left() == [(2, b"b", b"1")]


def test_an_aborted_transaction_takes_three_passes_to_leave(topic: Topic) -> None:
    topic.put(("a", "aborted"), producer_id=7)
    topic.end(ControlRecordType.ABORT, 7)
    topic.put(("a", "1"))
    topic.roll()
    topic.log.remove_expired_producers(NOW + 2 * DAY_MS)
    segment = topic.log.segments.first_segment
    topic.clean()
    assert [batch.header.base_offset for batch in topic.batches()] == [1, 2]
    assert len(segment().transaction_index.all_aborted_txns()) == 1
    topic.clean(checkpoint=0)
    assert topic.batches()[0].header.delete_horizon_ms == NOW + RETENTION
    assert segment().transaction_index.all_aborted_txns() == []
    topic.clock.now_ms = NOW + RETENTION
    topic.clean(checkpoint=0)
    assert [batch.header.base_offset for batch in topic.batches()] == [2]


def test_the_last_batch_of_a_producer_stays_without_records(topic: Topic) -> None:
    topic.put(("a", "1"), ("b", "1"), producer_id=7)
    topic.end(ControlRecordType.COMMIT, 7)
    topic.put(("a", "2"), ("b", "2"))
    topic.roll()
    topic.clean()
    header = topic.batches()[0].header
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 1, 0)
    assert header.size_in_bytes == 61


def test_the_last_batch_of_a_round_stays_without_records(topic: Topic) -> None:
    topic.log.update_config(LogConfig(segment_index_bytes=1000))
    topic.put(("a", "1"))
    topic.put((None, "1"))
    topic.roll()
    topic.clean()
    assert [batch.header.record_count for batch in topic.batches()] == [1, 0]


def test_a_full_map_ends_the_round_in_the_middle_of_a_batch(topic: Topic) -> None:
    topic.put(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3"))
    topic.roll()
    # Three slots, of which two may be used: full at offset 2, though "a" is in it.
    first = topic.clean(dedupe_buffer_size=72)
    assert first.next_dirty_offset == 2
    assert first.stats.map_bytes_read == 0
    assert [offset for offset, _, _ in topic.left()] == [0, 1, 2, 3, 4]
    second = topic.clean(first.next_dirty_offset, dedupe_buffer_size=72)
    assert second.next_dirty_offset == 4
    assert [offset for offset, _, _ in topic.left()] == [1, 2, 3, 4]


def test_rounds_follow_each_other_until_the_log_is_clean(topic: Topic) -> None:
    topic.put(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3"))
    topic.roll()
    topic.log.update_high_watermark(topic.log.log_end_offset)
    topic.log.update_config(
        LogConfig(min_cleanable_dirty_ratio=0.0, segment_index_bytes=1000, segment_bytes=1)
    )
    settings = CleanerSettings(dedupe_buffer_size=72)
    schedule = Schedule(passes=UNTIL_CLEAN, only_when_due=True)
    make_cleaner = partial(new_broker_cleaner, settings)
    done = compact_log(topic.log, None, make_cleaner, topic.clock, schedule)
    assert [each.next_dirty_offset for each in done.rounds] == [2, 4, 5]
    assert topic.left() == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]


def test_a_cleaned_segment_has_the_time_of_its_last_source(topic: Topic) -> None:
    for i in range(3):
        topic.put(("a", str(i)))
        topic.roll()
        topic.log.log_segments[i].set_last_modified(NOW - 10_000 * (3 - i))
    topic.clean()
    assert len(topic.log.log_segments) == 2
    assert topic.log.log_segments[0].last_modified == NOW - 10_000


def test_a_dry_run_tells_what_a_run_does_and_writes_nothing(memory_path: Path) -> None:
    topic = Topic(DiskFiles(memory_path))
    for i in range(4):
        topic.put(("a", str(i)), (f"{i}", "1"))
        topic.roll()
    topic.log.close()
    before = {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in memory_path.iterdir()
    }
    dry = Topic(OverlayFiles(memory_path))
    reported = dry.clean()
    after = {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in memory_path.iterdir()
    }
    assert after == before
    real = Topic(DiskFiles(memory_path))
    done = real.clean()
    assert (reported.next_dirty_offset, reported.stats.bytes_written) == (
        done.next_dirty_offset,
        done.stats.bytes_written,
    )
    assert dry.left() == real.left()


def test_a_crash_at_any_change_loses_no_last_value(memory_path: Path) -> None:
    topic = Topic(DiskFiles(memory_path))
    for i in range(3):
        topic.put(("a", str(i)), (f"{i}", "1"))
        topic.roll()
    topic.log.close()
    latest = {b"a": b"2", b"0": b"1", b"1": b"1", b"2": b"1"}
    crashes = 0
    for changes in range(1, 200):
        overlay = OverlayFiles(memory_path)
        if not _crashes(CrashingFiles(overlay, changes)):
            break
        crashes += 1
        loaded = Topic(overlay)
        assert {key: value for _, key, value in loaded.left()} == latest, changes
    assert crashes > 20


def _crashes(files: Files) -> bool:
    try:
        Topic(files).clean()
    except Crash:
        return True
    return False


def test_offsets_too_far_apart_split_the_segment_and_end_the_round(memory_path: Path) -> None:
    far = 2**31 + 5
    data = encode_batch([SimpleRecord(NOW, b"a", b"1")])
    data += encode_batch([SimpleRecord(NOW, b"b", b"1", offset=far)], base_offset=far)
    for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
        (memory_path / f"{0:020d}.{suffix}").write_bytes(content)
    topic = Topic(DiskFiles(memory_path))
    topic.roll()
    with pytest.raises(LogCleaningAbortedError, match="it was split"):
        topic.clean()
    assert topic.log.segments.base_offsets() == [0, far, far + 1]
    assert not [name for name in topic.log.files.names() if name.endswith(".cleaned")]
    assert topic.clean().next_dirty_offset == far + 1


def test_the_dirtiest_of_the_eligible_logs_is_cleaned_next(tmp_path: Path) -> None:
    chosen = []
    for name, clean in (("little-0", 4), ("much-0", 1)):
        (tmp_path / name).mkdir()
        topic = Topic(DiskFiles(tmp_path / name))
        for _ in range(5):
            topic.put(("a", "1"))
            topic.roll()
        topic.log.update_high_watermark(5)
        chosen.append(select(topic.log, clean, NOW))
    assert [each.cleanable_ratio for each in chosen] == [0.2, 0.8]
    assert filthiest(chosen) is chosen[1]
    assert filthiest(chosen[:1]) is None
