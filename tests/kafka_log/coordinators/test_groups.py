"""Groups after loading: what makes, changes and removes them, and what expires."""

import random
from pathlib import Path

import pytest

from kafka_format.control import ControlRecordType
from kafka_log.coordinators.coordinator_log import read_records
from kafka_log.coordinators.groups import Expiry, Groups, partition_for
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
COMMIT = (commit_key("g", "t", 0), commit_value(5))


def loaded(tmp_path: Path, *batches: tuple[bytes, bytes | None]) -> Groups:
    log = LogWriter()
    for each in batches:
        log.add(each)
    return replayed(tmp_path, log)


def replayed(tmp_path: Path, log: LogWriter) -> Groups:
    groups = Groups()
    for record in read_records(DiskFiles(log.write(tmp_path))):
        groups.apply(record)
    return groups


def states(groups: Groups) -> list[tuple[str, str, str, str]]:
    return [
        (each.group_id, each.type.value, each.state.value, each.listed_protocol) for each in groups
    ]


@pytest.mark.parametrize(
    ("group", "count", "partition"),
    [("", 50, 0), ("a", 50, 47), ("my-group", 50, 12), ("polygenelubricants", 50, 0), ("é", 7, 2)],
)
def test_a_groups_partition_is_that_of_javas_hash_code(group: str, count: int, partition: int):
    """`polygenelubricants` has the hash -2147483648, whose abs is 0 in Kafka."""
    assert partition_for(group, count) == partition


def test_a_commit_makes_a_simple_group_also_in_a_transaction_that_is_aborted(tmp_path):
    log = LogWriter().add(COMMIT)
    log.add((commit_key("aborted", "t", 0), commit_value(1)), producer=7)
    log.end(7, ControlRecordType.ABORT)
    log.add((commit_key("pending", "t", 0), commit_value(1)), producer=8)
    log.add((commit_key("tombstone", "t", 0), None))
    groups = replayed(tmp_path, log)
    assert states(groups) == [
        ("aborted", "classic", "Empty", ""),
        ("g", "classic", "Empty", ""),
        ("pending", "classic", "Empty", ""),
    ]
    assert [each.group for each in groups.offsets.commits()] == ["g"]
    assert [(each, pending.group) for each, pending in groups.offsets.pending()] == [(8, "pending")]


def test_a_classic_group_is_stable_with_members_and_a_tombstone_removes_it(tmp_path):
    group = classic_group("g", 3, classic_member("m", "t"))
    groups = loaded(tmp_path, COMMIT, group)
    assert states(groups) == [("g", "classic", "Stable", "consumer")]
    found = groups.get("g")
    assert found is not None
    assert (found.epoch, found.assignor, found.subscribed_topics()) == (3, "range", {"t"})
    assert states(loaded(tmp_path, COMMIT, group, group_record(2, "g", None))) == []


CONSUMER = (
    group_record(5, "g", {"client_id": "c", "subscribed_topic_names": ["t"]}, member_id="m"),
    group_record(3, "g", {"epoch": 2}),
)
ASSIGNED = (
    group_record(7, "g", {"topic_partitions": []}, member_id="m"),
    group_record(6, "g", {"assignment_epoch": 2}),
)
CURRENT = group_record(
    8, "g", {"member_epoch": 2, "previous_member_epoch": 1, "state": 0}, member_id="m"
)


def test_the_states_of_a_consumer_group_follow_its_epochs(tmp_path):
    assert states(loaded(tmp_path, CONSUMER[1])) == [("g", "consumer", "Empty", "consumer")]
    assert states(loaded(tmp_path, *CONSUMER))[0][2] == "Assigning"
    assert states(loaded(tmp_path, *CONSUMER, *ASSIGNED))[0][2] == "Reconciling"
    assert states(loaded(tmp_path, *CONSUMER, *ASSIGNED, CURRENT))[0][2] == "Stable"


def test_a_simple_group_becomes_a_consumer_group_and_keeps_its_offsets(tmp_path):
    groups = loaded(tmp_path, COMMIT, *CONSUMER)
    assert states(groups) == [("g", "consumer", "Assigning", "consumer")]
    assert [each.offset for each in groups.offsets.commits()] == [5]
    assert groups.refusal is None


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (
            (classic_group("g", 1, classic_member("m")), CONSUMER[1]),
            "found a record of a consumer group, but it is classic",
        ),
        (
            (*CONSUMER, group_record(3, "g", None)),
            "found the removal of a group with 1 members",
        ),
        (
            (*CONSUMER, group_record(5, "g", None, member_id="m")),
            "found the removal of a member before that of its assignment",
        ),
        (
            (*CONSUMER, *ASSIGNED, group_record(6, "g", None)),
            "found the removal of an assignment that still has members",
        ),
        (
            (CONSUMER[1], group_record(3, "g", None)),
            "found the removal of a group before that of its assignment epoch",
        ),
    ],
)
def test_what_a_coordinator_refuses_is_reported_and_skipped(tmp_path, records, reason):
    groups = loaded(tmp_path, *records)
    assert groups.refusal == (len(records) - 1, reason)
    assert len(list(groups)) == 1


def test_records_that_cannot_be_decoded_are_refused_and_unknown_types_are_skipped(tmp_path):
    groups = loaded(tmp_path, (b"\0\x63\0\x01g", b"any"), (b"\0\x18\0\x01g", b"any"))
    assert (list(groups), groups.refusal) == ([], None)
    refusal = loaded(tmp_path, (b"\0\x03\0\x01g", b"\0\0")).refusal
    assert refusal is not None
    refusal = loaded(tmp_path, (b"\0\x03\0\x01g", b"\0\x09")).refusal
    assert refusal is not None
    assert refusal.reason == "found ConsumerGroupMetadata of an unknown version, 9"


def expiring(tmp_path: Path, now: int, *batches: tuple[bytes, bytes | None]) -> list[bool]:
    groups = loaded(tmp_path, *batches)
    group = groups.get("g")
    assert group is not None
    expiry = Expiry(group, now_ms=now, retention_ms=7 * DAY)
    return [expiry.takes(each, is_pending=False) for each in groups.offsets.commits()]


def test_offsets_of_a_simple_group_expire_by_their_commit(tmp_path):
    assert expiring(tmp_path, TIME + 7 * DAY - 1, COMMIT) == [False]
    assert expiring(tmp_path, TIME + 7 * DAY, COMMIT) == [True]


def test_offsets_of_an_empty_group_expire_by_the_time_it_became_empty(tmp_path):
    empty = classic_group("g", 2, current_state_timestamp=TIME + DAY)
    assert expiring(tmp_path, TIME + 7 * DAY, COMMIT, empty) == [False]
    assert expiring(tmp_path, TIME + 8 * DAY, COMMIT, empty) == [True]
    without_time = classic_group("g", 2, current_state_timestamp=-1)
    assert expiring(tmp_path, TIME + 7 * DAY, COMMIT, without_time) == [True]


def test_offsets_of_members_expire_only_for_topics_without_a_subscription(tmp_path):
    other = (commit_key("g", "other", 0), commit_value(1))
    group = classic_group("g", 1, classic_member("m", "t"))
    assert expiring(tmp_path, TIME + 8 * DAY, COMMIT, other, group) == [False, True]
    assert expiring(tmp_path, TIME + 8 * DAY, COMMIT, other, *CONSUMER) == [False, True]
    connect = classic_group("g", 1, classic_member("m"), protocol_type="connect")
    assert expiring(tmp_path, TIME + 8 * DAY, COMMIT, connect) == [False]


def test_an_old_commit_has_an_expiry_of_its_own(tmp_path):
    """Version 1, by a client that set a retention."""
    value = commit_value(5)[:2].replace(b"\0\3", b"\0\1") + commit_value(5)[2:10] + b"\0\0"
    value += TIME.to_bytes(8, "big") + (TIME + DAY).to_bytes(8, "big")
    record = (commit_key("g", "t", 0), value)
    assert expiring(tmp_path, TIME + DAY - 1, record) == [False]
    assert expiring(tmp_path, TIME + DAY, record) == [True]


def test_a_pending_commit_keeps_the_offset_and_the_group(tmp_path):
    groups = loaded(tmp_path, COMMIT)
    group = groups.get("g")
    assert group is not None
    expiry = Expiry(group, now_ms=TIME + 8 * DAY, retention_ms=7 * DAY)
    (commit,) = groups.offsets.commits()
    assert not expiry.takes(commit, is_pending=True)
    assert not expiry.takes_group(has_other_offsets=False, has_pending=True)
    assert not expiry.takes_group(has_other_offsets=True, has_pending=False)
    assert expiry.takes_group(has_other_offsets=False, has_pending=False)


def test_a_share_group_never_expires(tmp_path):
    group = loaded(tmp_path, group_record(11, "g", {"epoch": 2})).get("g")
    assert group is not None
    expiry = Expiry(group, now_ms=TIME + 900 * DAY, retention_ms=7 * DAY)
    assert not expiry.takes_group(has_other_offsets=False, has_pending=False)


def test_what_a_group_has_written_is_counted(tmp_path):
    groups = loaded(tmp_path, COMMIT, COMMIT, (COMMIT[0], None))
    key, value = len(COMMIT[0]), len(COMMIT[1])
    assert groups.sizes("g") == (3, 3 * key + 2 * value)
    assert groups.sizes("other") == (0, 0)


@pytest.mark.parametrize("seed", range(40))
def test_any_bytes_give_groups_and_no_other_error(seed: int, tmp_path: Path):
    draw = random.Random(seed)
    log = LogWriter()
    records = [*CONSUMER, *ASSIGNED, CURRENT, COMMIT, classic_group("h", 1, classic_member("m"))]
    for _ in range(40):
        key, value = draw.choice(records)
        changed = [bytearray(key), bytearray(value or b"")]
        for data in changed:
            if data and draw.random() < 0.5:  # with a correct checksum
                data[draw.randrange(len(data))] = draw.randrange(256)
            if draw.random() < 0.2:
                del data[draw.randrange(len(data) + 1) :]
        log.add((bytes(changed[0]), bytes(changed[1]) if draw.random() < 0.8 else None))
    groups = replayed(tmp_path, log)
    for group in groups:
        assert group.state.value in ("Empty", "Stable", "Assigning", "Reconciling", "NotReady")
        assert group.group_id == "" or partition_for(group.group_id, 50) < 50
    assert len(list(groups.offsets.commits())) <= 40
