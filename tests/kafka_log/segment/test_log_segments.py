"""LogSegments: which segment an offset lies in, and what lies around it."""

from pathlib import Path

import pytest

from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.segment.log_segment import LogSegment
from kafka_log.segment.log_segments import LogSegments, size_in_bytes


@pytest.fixture
def segments(tmp_path: Path) -> LogSegments:
    """At 30, 10 and 20; 10 has three bytes."""
    files = DiskFiles(tmp_path)
    files.write("00000000000000000010.log", b"abc")
    return LogSegments(
        LogSegment.open(files, base, LogConfig(segment_index_bytes=64), FixedClock(0))
        for base in (30, 10, 20)
    )


def bases(found: list[LogSegment]) -> list[int]:
    return [segment.base_offset for segment in found]


def base(found: LogSegment | None) -> int | None:
    return None if found is None else found.base_offset


def test_segments_are_in_the_order_of_their_offsets(segments: LogSegments) -> None:
    assert (
        segments.base_offsets() == bases(segments.values()) == bases(list(segments)) == [10, 20, 30]
    )
    assert (len(segments), segments.number_of_segments()) == (3, 3)
    assert segments.non_empty()
    assert not segments.is_empty()


def test_an_offset_lies_in_the_segment_with_the_highest_base_up_to_it(
    segments: LogSegments,
) -> None:
    assert [base(segments.floor_segment(offset)) for offset in (9, 10, 19, 20, 99)] == [
        None,
        10,
        10,
        20,
        30,
    ]
    assert [base(segments.lower_segment(offset)) for offset in (10, 11, 20, 99)] == [
        None,
        10,
        10,
        30,
    ]
    assert [base(segments.higher_segment(offset)) for offset in (9, 10, 29, 30)] == [
        10,
        20,
        30,
        None,
    ]


def test_a_range_begins_with_the_segment_that_holds_its_first_offset(segments: LogSegments) -> None:
    assert bases(segments.values(15, 30)) == [10, 20]
    assert bases(segments.values(20, 31)) == [20, 30]
    assert bases(segments.values(0, 20)) == [10]
    assert bases(segments.values(0, 10)) == []
    assert bases(segments.values(40, 50)) == [30]
    assert bases(segments.values(15, 15)) == []
    with pytest.raises(ValueError, match="from 16 to 15"):
        segments.values(16, 15)


def test_the_active_segment_is_the_last(segments: LogSegments) -> None:
    assert segments.active_segment() is segments.last_segment() is segments.get(30)
    assert base(segments.first_segment()) == segments.first_segment_base_offset() == 10
    assert bases(segments.non_active_log_segments_from(15)) == [10, 20]
    assert bases(segments.non_active_log_segments_from(30)) == []
    assert bases(segments.non_active_log_segments_from(31)) == []
    assert bases(segments.higher_segments(10)) == [20, 30]
    assert bases(segments.higher_segments(30)) == []


def test_a_segment_replaces_the_one_of_its_base(segments: LogSegments) -> None:
    old, new = segments.get(20), segments.get(10)
    assert old is not None
    assert new is not None
    new.base_offset = 20
    assert segments.add(new) is old
    assert segments.get(20) is new
    assert segments.base_offsets() == [10, 20, 30]


def test_removed_segments_are_gone(segments: LogSegments) -> None:
    segments.remove(20)
    segments.remove(20)
    assert segments.base_offsets() == [10, 30]
    assert not segments.contains(20)
    assert segments.contains(10)
    segments.clear()
    assert segments.is_empty()
    assert segments.first_segment() is segments.last_segment() is None
    assert segments.first_segment_base_offset() is None


def test_sizes_are_those_of_the_logs(segments: LogSegments) -> None:
    assert segments.size_in_bytes() == 3
    assert size_in_bytes(segments.higher_segments(10)) == 0
    assert bases(segments.filter(lambda segment: segment.size > 0)) == [10]


def test_all_segments_are_closed_even_if_one_fails(
    segments: LogSegments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for segment in segments:
        _ = segment.offset_index

    def fail() -> None:
        raise OSError("full")

    monkeypatch.setattr(segments.get(10), "close", fail)
    with pytest.raises(OSError, match="full"):
        segments.close()
    sizes = {path.name: path.stat().st_size for path in tmp_path.glob("*.index")}
    assert list(sizes.values()).count(0) == 2  # closed: trimmed to no entry
    segments.close_handlers()
