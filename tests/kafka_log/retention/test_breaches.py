"""The rules of retention, on logs small enough to be worked out by hand."""

import tempfile

import pytest

from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError
from kafka_log.log.unloaded_log import LogFacts, SegmentFacts
from kafka_log.retention.breaches import Breach, LogPosition, breaches, iter_verdicts
from kafka_log.retention.plan import plan_on_overlay

NEVER = {"retention_ms": -1, "retention_bytes": -1}
TIME = 10_000


def segment(base, size=500, timestamp=0, *, modified_ms=0):
    return SegmentFacts(base, size, timestamp, modified_ms)


THREE = LogFacts((segment(0), segment(5), segment(10)), 15)


def plan(log=THREE, *, high_watermark=15, log_start_offset=0, now=TIME, **settings):
    policy = settings.pop("cleanup_policy", {"delete"})
    config = LogConfig(cleanup_policy=frozenset(policy), **NEVER | settings)
    with tempfile.TemporaryDirectory() as directory:
        return plan_on_overlay(
            files_of(log, directory),
            config,
            FixedClock(now),
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
            facts=log,
        )


def files_of(log, directory):
    """Empty logs of these names, and the snapshot that a roll leaves: the facts say the rest."""
    files = OverlayFiles(directory)
    for each in log.segments:
        files.write(f"{each.base_offset:020d}.log", b"")
    files.write(f"{log.log_end_offset:020d}.snapshot", b"")
    return files


def deleted(found):
    return [facts.base_offset for facts in found.deleted]


def reasons(found):
    return [verdict.reason for verdict in found.verdicts]


# Example A
@pytest.mark.parametrize(
    ("retention_bytes", "gone", "start"), [(1000, [0], 5), (1001, [], 0), (1500, [], 0)]
)
def test_size_deletes_while_what_remains_is_at_least_the_limit(retention_bytes, gone, start):
    found = plan(retention_bytes=retention_bytes)
    assert deleted(found) == gone
    assert found.new_log_start_offset == start
    assert found.roll_offset is None


def test_a_log_below_the_limit_is_left_alone():
    found = plan(retention_bytes=1501)
    assert deleted(found) == []
    # No step has a limit to compare with but the first.
    assert reasons(found)[0] == "segment end 5 is above log start 0"


# Example B
def test_a_log_that_loses_all_is_rolled_first():
    found = plan(retention_bytes=0)
    assert deleted(found) == [0, 5, 10]
    assert found.roll_offset == 15
    assert found.new_log_start_offset == 15
    assert found.first_base_offset == 15


# Example C
def test_an_old_segment_behind_a_young_one_stays():
    log = LogFacts((segment(0, timestamp=8000), segment(5, 500, 9500), segment(10, 500, 7000)), 15)
    found = plan(log, retention_ms=1000)
    assert deleted(found) == [0]
    assert found.new_log_start_offset == 5
    assert reasons(found) == [
        "2000 ms old, above retention.ms 1000",
        "500 ms old, within retention.ms 1000",
        "the earlier segment 5 is kept",
    ]


# Example D
@pytest.mark.parametrize(("timestamp", "gone"), [(9000, []), (8999, [0])])
def test_a_segment_goes_when_it_is_older_than_the_limit_not_when_it_is_as_old(timestamp, gone):
    log = LogFacts((segment(0, timestamp=timestamp), segment(5, 500, 9999)), 15)
    assert deleted(plan(log, retention_ms=1000)) == gone


# Example E
def test_the_high_watermark_keeps_the_segment_it_is_in_and_all_behind():
    found = plan(retention_bytes=0, high_watermark=12)
    assert deleted(found) == [0, 5]
    assert found.new_log_start_offset == 10
    assert found.roll_offset is None
    assert reasons(found)[2] == "high watermark 12 is below the segment end 15"


# Example F
def test_compaction_alone_deletes_only_below_the_log_start():
    found = plan(
        cleanup_policy={"compact"},
        log_start_offset=7,
        retention_bytes=0,
        retention_ms=0,
    )
    assert deleted(found) == [0]
    assert found.new_log_start_offset == 7
    assert found.verdicts[0].breach is Breach.LOG_START_OFFSET
    assert reasons(found) == [
        "segment end 5 is at or below log start 7",
        "cleanup.policy is compact; segment end 10 is above log start 7",
        "the earlier segment 5 is kept",
    ]


# Example G
def test_what_the_log_start_removes_no_longer_blocks_the_time_step():
    log = LogFacts((segment(0, timestamp=TIME + 1), segment(5), segment(10, 500, TIME)), 15)
    assert deleted(plan(log, retention_ms=1000)) == []
    found = plan(log, retention_ms=1000, log_start_offset=5)
    assert deleted(found) == [0, 5]
    assert [verdict.breach for verdict in found.verdicts] == [
        Breach.LOG_START_OFFSET,
        Breach.RETENTION_MS,
        None,
    ]


def test_a_timestamp_in_the_future_keeps_its_segment_and_all_behind():
    log = LogFacts((segment(0, timestamp=TIME + 7), segment(5), segment(10)), 15)
    found = plan(log, retention_ms=0)
    assert deleted(found) == []
    assert "timestamp 10007 is 7 ms in the future" in reasons(found)[0]


def test_an_empty_policy_keeps_for_ever_what_nobody_deleted():
    assert deleted(plan(cleanup_policy=set(), retention_bytes=0, retention_ms=0)) == []
    assert deleted(plan(cleanup_policy=set(), log_start_offset=10)) == [0, 5]


def test_compact_and_delete_takes_all_steps():
    assert breaches(LogConfig(cleanup_policy=frozenset({"compact", "delete"}))) == tuple(Breach)


def test_an_unknown_high_watermark_lets_nothing_go():
    assert deleted(plan(retention_bytes=0, retention_ms=0, high_watermark=None)) == []


def test_a_log_of_one_empty_segment_is_left_alone():
    found = plan(LogFacts((segment(7, size=0),), 7), retention_bytes=0, retention_ms=0)
    assert deleted(found) == []
    assert found.roll_offset is None
    assert "the active segment is empty" in reasons(found)[0]


def test_an_empty_active_segment_stays_when_all_before_it_go():
    log = LogFacts((segment(0), segment(5, size=0)), 5)
    found = plan(log, retention_bytes=0, high_watermark=5)
    assert deleted(found) == [0]
    assert found.roll_offset is None
    assert found.new_log_start_offset == 5


def test_without_a_timestamp_the_file_s_own_time_counts():
    old = segment(0, timestamp=-1, modified_ms=8000)
    young = segment(5, timestamp=-1, modified_ms=9500)
    assert deleted(plan(LogFacts((old, young), 9), retention_ms=1000, high_watermark=9)) == [0]


def test_a_timestamp_of_1970_is_a_timestamp():
    log = LogFacts((segment(0, timestamp=0, modified_ms=TIME), segment(5, 500, TIME)), 9)
    assert deleted(plan(log, retention_ms=1000, high_watermark=9)) == [0]


def test_size_goes_before_time_and_what_it_deletes_time_does_not_see():
    log = LogFacts((segment(0, timestamp=9999), segment(5), segment(10, 500, 9999)), 15)
    assert deleted(plan(log, retention_ms=1000)) == []
    assert deleted(plan(log, retention_ms=1000, retention_bytes=1000)) == [0, 5]


def test_a_high_watermark_beyond_the_log_counts_as_its_end():
    found = plan(retention_bytes=0, high_watermark=99)
    assert found.before == LogPosition(0, 15, 15)
    assert found.new_log_start_offset == 15


def test_a_log_start_beyond_the_log_is_refused():
    with pytest.raises(LogError, match="found log start 16, expected at most its end 15"):
        plan(log_start_offset=16)


def test_tiered_storage_is_refused():
    config = LogConfig(remote_storage_enable=True)
    with pytest.raises(LogError, match=r"remote\.storage\.enable"):
        breaches(config)


def test_the_rule_of_a_step_is_asked_of_no_segment_that_the_high_watermark_keeps():
    class Segment:
        base_offset = 0
        size = 10

        def largest_timestamp(self):
            raise AssertionError("not to be asked")

    position = LogPosition(log_start_offset=0, high_watermark=4, log_end_offset=5)
    config = LogConfig(retention_ms=0)
    found = iter_verdicts(
        Breach.RETENTION_MS, [Segment()], config=config, now_ms=TIME, position=position
    )
    assert [verdict.is_deleted for verdict in found] == [False]
