"""One log through the cleaner's whole day: what is due, rounds, retention, the checkpoint."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_format.columnar.compilation import can_compile
from kafka_format.control import ControlRecordType
from kafka_log.cleaner.cleaner_thread import (
    Compaction,
    compact_log,
    new_cleaner,
    outlook,
)
from kafka_log.cleaner.columns import key_table, lanes
from kafka_log.cleaner.errors import UncleanableError
from kafka_log.cleaner.explain.explain import explain
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.passes import Schedule
from kafka_log.cleaner.settings import CleanerSettings, TooSmallMapError
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.cleaner.test_cleaner import CONFIG, NOW, RETENTION, Topic

TWO_KEYS = CleanerSettings(dedupe_buffer_size=72)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    return Topic(DiskFiles(folder))


def compacted(topic: Topic, checkpoint: int | None = None, **options: Any) -> Compaction:
    log = topic.log
    log.update_high_watermark(log.log_end_offset)
    make_cleaner = partial(new_cleaner, options.pop("settings", CleanerSettings()))
    return compact_log(log, checkpoint, make_cleaner, topic.clock, Schedule(**options))


def fill(topic: Topic, segments: int = 4) -> None:
    """Two keys a segment, and an empty active one."""
    for number in range(segments):
        topic.put(("a", str(number)), ("b", str(number)))
        topic.roll()


def test_one_round_ends_where_the_dirty_part_does(topic: Topic) -> None:
    fill(topic)
    done = compacted(topic)
    assert [(each.outlook.first_dirty_offset, each.next_dirty_offset) for each in done.rounds] == [
        (0, 8)
    ]
    assert (done.checkpoint, done.is_clean) == (8, True)


@pytest.mark.skipif(
    not can_compile(), reason="needs compiled kernels: numba is missing or switched off"
)
@pytest.mark.parametrize("explains", [False, True])
def test_a_cleaner_gives_its_memory_back_before_python_looks_for_garbage(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, *, explains: bool
) -> None:
    """Its table and its buffers are hundreds of megabytes, and the next log wants its own."""
    held: list[weakref.ref[object]] = []

    def remembered(size: int, new: Callable[[int], object] = key_table._new_table) -> object:
        table = new(size)
        held.append(weakref.ref(table))
        return table

    class Remembered(lanes.Lane):
        def __init__(self, *options: Any) -> None:
            super().__init__(*options)
            held.append(weakref.ref(self))

    monkeypatch.setattr(key_table, "_new_table", remembered)
    monkeypatch.setattr(lanes, "Lane", Remembered)
    fill(topic)
    gc.disable()
    try:
        if explains:
            topic.log.update_high_watermark(topic.log.log_end_offset)
            explain(
                topic.log,
                None,
                lambda _: None,
                make_cleaner=partial(new_cleaner, CleanerSettings(), CONFIG, topic.clock),
                now_ms=NOW,
            )
        else:
            compacted(topic)
        assert len(held) == 3  # a table, a lane; and a small new table
        assert not any(each() is not None for each in held)
    finally:
        gc.enable()


def test_a_map_for_two_keys_takes_a_round_a_segment(topic: Topic) -> None:
    """Full is asked before each put, so the third record ends a round."""
    fill(topic)
    done = compacted(topic, settings=TWO_KEYS, passes=None)
    assert [each.next_dirty_offset for each in done.rounds] == [2, 4, 6, 8]
    assert [each.is_map_full for each in done.rounds] == [True, True, True, False]
    assert [offset for offset, _, _ in topic.left()] == [6, 7]


def test_so_many_passes_are_made_and_no_more(topic: Topic) -> None:
    fill(topic)
    done = compacted(topic, settings=TWO_KEYS, passes=2)
    assert (len(done.rounds), done.checkpoint, done.is_clean) == (2, 4, False)


def test_passes_end_when_nothing_is_dirty(topic: Topic) -> None:
    fill(topic)
    assert len(compacted(topic, passes=5).rounds) == 1


def test_nothing_dirty_is_no_round_and_leaves_the_checkpoint(topic: Topic) -> None:
    fill(topic)
    done = compacted(topic, 8)
    assert (done.rounds, done.checkpoint, done.is_clean) == ([], 8, True)
    assert done.outlook.reason == "nothing is dirty up to 8"


def test_a_log_without_a_checkpoint_and_without_dirt_gets_none(topic: Topic) -> None:
    topic.put(("a", "1"))
    assert compacted(topic).checkpoint is None


@pytest.mark.parametrize("checkpoint", [-5, 9, 100])
def test_a_checkpoint_outside_of_the_log_begins_at_its_start(topic: Topic, checkpoint: int) -> None:
    fill(topic)
    done = compacted(topic, checkpoint)
    assert done.outlook.checkpoint_was_invalid
    assert (done.rounds[0].outlook.first_dirty_offset, done.checkpoint) == (0, 8)


def test_an_invalid_checkpoint_is_corrected_even_if_nothing_is_due(topic: Topic) -> None:
    fill(topic)
    topic.log.update_config(replace(CONFIG, min_cleanable_dirty_ratio=1.0))
    done = compacted(topic, 100, only_when_due=True)
    assert (done.rounds, done.checkpoint) == ([], 0)


def test_an_offset_of_ones_own_is_used_instead_of_the_checkpoint(topic: Topic) -> None:
    fill(topic)
    done = compacted(topic, 8, first_dirty_offset=4)
    assert (done.outlook.first_dirty_offset, done.checkpoint) == (4, 8)


def test_only_what_is_due_is_cleaned_if_so_wanted(topic: Topic) -> None:
    fill(topic)
    done = compacted(topic, 4, only_when_due=True)
    assert done.rounds == []
    assert (done.outlook.is_due, done.outlook.reason) == (False, "dirty ratio 0.50, not above 0.5")
    topic.log.update_config(replace(CONFIG, min_cleanable_dirty_ratio=0.4))
    assert len(compacted(topic, 4, only_when_due=True).rounds) == 1


def test_a_log_dirty_for_too_long_is_due_whatever_the_ratio(topic: Topic) -> None:
    fill(topic)
    topic.log.update_config(replace(CONFIG, max_compaction_lag_ms=50))
    topic.clock.now_ms = NOW + 50
    assert not outlook(topic.log, 6, topic.clock()).is_due
    topic.clock.now_ms = NOW + 51
    topic.log.update_high_watermark(topic.log.log_end_offset)
    seen = outlook(topic.log, 6, topic.clock())
    assert (seen.is_due, seen.reason) == (
        True,
        "dirty ratio 0.25, but dirty 1 ms longer than max.compaction.lag.ms",
    )


def test_what_holds_the_cleaner_back_is_told(topic: Topic) -> None:
    fill(topic, 2)
    topic.put(("x", "open"), producer_id=7)
    topic.roll()
    topic.log.update_high_watermark(topic.log.log_end_offset)
    assert outlook(topic.log, None, NOW).held_by == "open transaction"
    topic.end(ControlRecordType.COMMIT, 7)
    topic.log.update_high_watermark(3)
    assert outlook(topic.log, None, NOW).held_by == "high watermark"
    topic.log.update_high_watermark(topic.log.log_end_offset)
    assert outlook(topic.log, None, NOW).held_by == "active segment"
    topic.log.update_config(replace(CONFIG, min_compaction_lag_ms=10))
    assert outlook(topic.log, None, NOW).held_by == "min.compaction.lag.ms"


def test_reasons_and_statistics_are_of_the_same_records(topic: Topic) -> None:
    topic.put(("a", "1"), ("b", "1"), ("gone", "1"))
    topic.put(("x", "aborted"), producer_id=7)
    topic.end(ControlRecordType.ABORT, 7)
    topic.put(("a", "2"), ("gone", None))
    topic.roll()
    first = compacted(topic).rounds[0]
    assert (first.removed.superseded, first.removed.aborted) == (2, 1)
    topic.clock.now_ms = NOW + RETENTION
    topic.put(("c", "1"))
    topic.roll()
    second = compacted(topic, first_dirty_offset=0).rounds[0]
    assert (second.removed.tombstone, second.removed.superseded) == (1, 0)
    for done in (first, second):
        read = done.stats.messages_read + done.removed.unread
        assert read == done.stats.messages_written + done.removed.total


@pytest.mark.parametrize("keys", Keys)
def test_reasons_are_the_same_however_keys_are_known(tmp_path: Path, keys: Keys) -> None:
    (tmp_path / "topic-0").mkdir()
    topic = Topic(DiskFiles(tmp_path / "topic-0"))
    topic.put(("a", None), ("a", "2"), ("b", None), ("c", "1"))
    topic.roll()
    settings = CleanerSettings(keys=keys)
    compacted(topic, settings=settings)
    topic.put(("b", None))
    topic.roll()
    topic.clock.now_ms = NOW + RETENTION  # both horizons of the first pass have come
    removed = compacted(topic, settings=settings, first_dirty_offset=0).rounds[0].removed
    assert (removed.superseded, removed.tombstone) == (1, 0)


def test_retention_follows_a_round(topic: Topic) -> None:
    fill(topic)
    topic.log.update_config(
        replace(CONFIG, cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=0)
    )
    done = compacted(topic)
    assert done.deleted_segments > 0
    assert (done.checkpoint, topic.log.log_start_offset) == (8, 8)
    assert topic.left() == []


def test_below_the_log_start_segments_go_whatever_the_policy(topic: Topic) -> None:
    fill(topic)
    topic.log.update_high_watermark(8)
    topic.log.maybe_increment_log_start_offset(4)
    done = compacted(topic, 8)
    assert (done.rounds, done.deleted_segments) == ([], 2)


@pytest.mark.parametrize(
    "settings",
    [
        CleanerSettings(dedupe_buffer_size=47),
        CleanerSettings(threads=0),
        CleanerSettings(load_factor=0.0),
        CleanerSettings(io_buffer_size=1),
    ],
)
def test_a_map_without_room_is_refused(topic: Topic, settings: CleanerSettings) -> None:
    fill(topic)
    with pytest.raises(TooSmallMapError, match="expected"):
        compacted(topic, settings=settings)


def test_a_log_that_kafka_would_mark_uncleanable_says_why(topic: Topic) -> None:
    """A batch larger than a message may be, in a buffer that may not grow for it."""
    topic.put(("a", "x" * 4000))
    topic.roll()
    topic.log.update_config(replace(CONFIG, max_message_bytes=100))
    settings = CleanerSettings(io_buffer_size=200, message_max_bytes=100)
    segment = topic.log.log_segments[0]
    segment.log.file.truncate(segment.size - 1)
    segment.log.size -= 1
    with pytest.raises((UncleanableError, ValueError), match=r"000\.log@0: found"):
        compacted(topic, settings=settings)
