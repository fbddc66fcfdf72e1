"""A round that is stopped, that never gets on, or from which retention takes a segment."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.cleaner_thread import compact_log, new_cleaner
from kafka_log.cleaner.errors import LogCleaningAbortedError
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.settings import CleanerSettings, TooSmallMapError
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.cleaner.stories import Story
from tests.kafka_log.cleaner.test_cleaner import Topic
from tests.kafka_log.steps import DeleteOldSegments, LogStartOffset, RelativeOffset, Step
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

WAYS = [
    {},
    {"cores": 3, "block_bytes": 1, "io_buffer_size": 200},
    {"columnar": False},
    {"keys": Keys.EXACT},
]


class _AbortAt:
    """Raises when it is asked for the n-th time."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise LogCleaningAbortedError("somebody wants the log")


def _topic(folder: Path) -> Topic:
    """Three segments of one batch each, and the active one."""
    folder.mkdir()
    topic = Topic(DiskFiles(folder))
    for number in range(3):
        topic.put(("a", str(number)), (f"key {number}", "1"))
        topic.roll()
    return topic


@pytest.mark.parametrize("way", WAYS)
def test_an_aborted_round_raises_and_leaves_no_cleaned_files(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    """Wherever it is: the map asks twice a segment, the rewriting once."""
    asked = 9
    for number in range(1, asked + 1):
        folder = tmp_path / f"topic-{number}"
        topic = _topic(folder)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        with pytest.raises(LogCleaningAbortedError):
            topic.clean(check_done=_AbortAt(number), **way)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert topic.clean(**way).next_dirty_offset == 6
        assert topic.left() == [
            (1, b"key 0", b"1"),
            (3, b"key 1", b"1"),
            (4, b"a", b"2"),
            (5, b"key 2", b"1"),
        ]
    not_aborted = _AbortAt(asked + 1)
    _topic(tmp_path / "topic-0").clean(check_done=not_aborted, **way)
    assert not_aborted.left == 1


def test_groups_that_were_swapped_in_before_an_abort_stay_cleaned(tmp_path: Path) -> None:
    topic = _topic(tmp_path / "topic-0")
    log = topic.log
    log.update_high_watermark(log.log_end_offset)
    config = log.config.__class__(cleanup_policy=frozenset({"compact"}), segment_bytes=1)
    with pytest.raises(LogCleaningAbortedError):
        Cleaner(config, topic.clock, check_done=_AbortAt(8)).clean(log, 0)
    assert [offset for offset, _, _ in topic.left()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("at", range(1, 10))
def test_an_aborted_round_leaves_what_kafkas_leaves(oracle: Oracle, at: int) -> None:
    aborted, cleaned = (
        Story().write("(a,b) | (a,c) | (a,d) |").clean(abort_at=at).clean().reported(oracle)
    )
    assert aborted.done["error"]["class"].endswith(".LogCleaningAbortedException")
    assert not [name for name in aborted.files if name.endswith(".cleaned")]
    assert (aborted.keys, cleaned.keys) == ("a b a c a d", "b c a d")


def test_a_segment_that_retention_deletes_while_it_is_cleaned_is_renamed_once_only(
    oracle: Oracle,
) -> None:
    take = [Step(LogStartOffset(RelativeOffset(offset=2))), Step(DeleteOldSegments())]
    story = Story().write("(a,b) | (c,d) | (c,e) |").clean(during={"8": take})
    (left,) = story.reported(oracle)
    assert left.segments == [0, 6]
    deleted = sorted(name for name in left.files if name.endswith(".log.deleted"))
    assert deleted == [f"{base:020d}.log.deleted" for base in (0, 2, 4)]
    assert left.keys == "a b d c e"  # the first is read from the file that is to be unlinked


class _Renames(DiskFiles):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.seen: list[str] = []

    def rename(self, old: str, new: str) -> None:
        self.seen.append(f"{old} {new}")
        super().rename(old, new)


@pytest.mark.parametrize("way", WAYS)
def test_files_that_retention_took_from_a_round_are_not_renamed_by_its_end(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    files = _Renames(tmp_path)
    topic = Topic(files)
    for number in range(3):
        topic.put(("a", str(number)))
        topic.roll()
    asked = 0

    def take() -> None:
        nonlocal asked
        asked += 1
        if asked == 8:  # the first segment is written, the second is next
            topic.log.maybe_increment_log_start_offset(2)
            assert topic.log.delete_old_segments() == 2

    topic.clean(check_done=take, **way)
    renamed = [each for each in files.seen if each.endswith(".log.deleted")]
    assert renamed == [f"{base:020d}.log {base:020d}.log.deleted" for base in (0, 1, 2)]
    assert len(topic.log.log_segments) == 2


def compact(topic: Topic, settings: CleanerSettings) -> None:
    compact_log(topic.log, None, partial(new_cleaner, settings), topic.clock)


def test_an_io_buffer_of_1_byte_cleans_nothing_until_it_is_larger(
    oracle: Oracle, tmp_path: Path
) -> None:
    """Kafka's cleaner doubles a buffer of 0 bytes for ever; ours refuses to begin."""
    topic = _topic(tmp_path / "topic-0")
    files = {path.name: path.read_bytes() for path in (tmp_path / "topic-0").iterdir()}
    topic.log.update_high_watermark(topic.log.log_end_offset)
    with pytest.raises(TooSmallMapError, match=r"log\.cleaner\.io\.buffer\.size=1: nothing"):
        compact(topic, CleanerSettings(io_buffer_size=1))
    assert {path.name: path.read_bytes() for path in (tmp_path / "topic-0").iterdir()} == files
    compact(topic, CleanerSettings())
    assert [offset for offset, _, _ in topic.left()] == [1, 3, 4, 5]

    settings = {"config": Story().config, "time": START, "path": tmp_path / "kafka-0"}
    story = Story().write("(a) | (a) |").clean(io_buffer_size=1, abort_at=100_000).clean()
    stuck, cleaned = oracle.call("clean_logs", runs=[settings | {"passes": story.passes}])[0][
        "passes"
    ]
    assert stuck["error"]["class"].endswith(".LogCleaningAbortedException")
    assert cleaned["stats"]["messages_written"] == 1
