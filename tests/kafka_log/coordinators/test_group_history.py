"""The history of a group: its kinds of events, and why an offset is gone."""

from pathlib import Path

from kafka_format.control import ControlRecordType
from kafka_log.coordinators.coordinator_log import read_records
from kafka_log.coordinators.group_history import GroupHistory
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.coordinators.internal_logs import (
    TIME,
    LogWriter,
    classic_group,
    classic_member,
    commit_key,
    commit_value,
    group_record,
)

DAY = 24 * 3600 * 1000
KEY, OTHER = commit_key("g", "t", 0), commit_key("g", "t", 1)


def history(
    tmp_path: Path, log: LogWriter, removed_topics: tuple[tuple[int, str], ...] = ()
) -> list[tuple[object, ...]]:
    """Event, offset and what else is not None, but for times."""
    found = GroupHistory("g", retention_ms=7 * DAY, removed_topics=removed_topics)
    names = ("committed_offset", "previous_offset", "producer_id", "epoch", "member_id", "reason")
    return [
        (each.event, each.offset, *(v for n in names if (v := getattr(each, n)) is not None))
        for each in found.events(read_records(DiskFiles(log.write(tmp_path))))
    ]


def test_commits_of_other_groups_are_left_out(tmp_path):
    log = LogWriter().add((KEY, commit_value(5))).add((commit_key("h", "t", 0), commit_value(9)))
    log.add((KEY, commit_value(6)))
    assert history(tmp_path, log) == [
        ("group_created", 0),
        ("commit", 0, 5),
        ("commit", 2, 6, 5),
    ]


def test_a_commit_that_goes_back_or_has_no_member_is_a_reset(tmp_path):
    log = LogWriter().add(classic_group("g", 1, classic_member("m", "t")))
    log.add((KEY, commit_value(5)), time=TIME + 1).add(classic_group("g", 2), time=TIME + 2)
    log.add((KEY, commit_value(8)), time=TIME + 3)
    log.add(classic_group("g", 3, classic_member("n", "t")), time=TIME + 4)
    log.add((KEY, commit_value(7)), time=TIME + 5)
    assert history(tmp_path, log) == [
        ("group_created", 0),
        ("member_joined", 0, "m"),
        ("rebalance", 0, 1),
        ("commit", 1, 5),
        ("member_left", 2, "m"),
        ("emptied", 2, 2),
        ("reset", 3, 8, 5),
        ("member_joined", 4, "n"),
        ("rebalance", 4, 3),
        ("reset", 5, 7, 8),
    ]


def test_transactions_end_with_their_markers(tmp_path):
    log = LogWriter().add((KEY, commit_value(5)), producer=7)
    log.add((OTHER, commit_value(6)), producer=8)
    log.end(7, ControlRecordType.COMMIT).end(8, ControlRecordType.ABORT)
    assert history(tmp_path, log) == [
        ("group_created", 0),
        ("transactional_commit", 0, 5, 7),
        ("transactional_commit", 1, 6, 8),
        ("transaction_committed", 2, 5, 7),
        ("transaction_aborted", 3, 6, 8),
    ]


def test_a_later_commit_stays_when_a_transaction_before_it_ends(tmp_path):
    log = LogWriter().add((KEY, commit_value(5)), producer=7).add((KEY, commit_value(9)))
    log.end(7, ControlRecordType.COMMIT).add((KEY, commit_value(10)))
    assert history(tmp_path, log)[3:] == [
        ("transaction_committed", 2, 5, 9, 7, "a later commit is in its place"),
        ("commit", 3, 10, 9),
    ]


def removal(
    tmp_path: Path, after: int, *records: tuple[bytes, bytes | None], topic: int | None = None
):
    """A commit, then tombstones after some time; `topic` after when its topic was deleted."""
    log = LogWriter().add((KEY, commit_value(5))).add(*records, time=TIME + after)
    removed = () if topic is None else ((TIME + topic, "t"),)
    return history(tmp_path, log, removed)[2:]


def test_why_an_offset_is_gone(tmp_path):
    gone, group = (KEY, None), group_record(2, "g", None)
    assert removal(tmp_path, 7 * DAY, gone) == [("offset_removed", 1, 5, "expired")]
    assert removal(tmp_path, 7 * DAY - 1, gone) == [("offset_removed", 1, 5, "deleted")]
    assert removal(tmp_path, DAY, gone, topic=DAY - 10) == [
        ("offset_removed", 1, 5, "topic deleted")
    ]
    assert removal(tmp_path, DAY, gone, topic=DAY // 2) == [
        ("offset_removed", 1, 5, "topic deleted")
    ]
    assert removal(tmp_path, DAY, gone, topic=-10) == [("offset_removed", 1, 5, "deleted")]
    assert removal(tmp_path, 7 * DAY, gone, topic=DAY) == [("offset_removed", 1, 5, "expired")]
    assert removal(tmp_path, DAY, gone, group) == [
        ("offset_removed", 1, 5, "group deleted"),
        ("group_removed", 2, "deleted"),
    ]
    assert removal(tmp_path, 7 * DAY, gone, group) == [
        ("offset_removed", 1, 5, "expired"),
        ("group_removed", 2, "expired"),
    ]


def test_a_group_without_offsets_is_removed(tmp_path):
    log = LogWriter().add(classic_group("g", 2)).add(group_record(2, "g", None), time=TIME + 5)
    assert history(tmp_path, log)[1:] == [("group_removed", 1, "no offsets left")]


def test_a_group_that_changes_its_protocol_is_not_removed(tmp_path):
    member = group_record(5, "g", {"client_id": "c"}, member_id="m")
    log = LogWriter().add(classic_group("g", 2, classic_member("m", "t")))
    epoch = group_record(3, "g", {"epoch": 3})
    log.add(group_record(2, "g", None), member, epoch, time=TIME + 1)
    assert history(tmp_path, log)[3:] == [
        ("group_converted", 2),
        ("rebalance", 3, 3),
    ]
