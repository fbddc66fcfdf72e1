"""Tiered storage: what the events say that is not there, twice there, or from another lineage."""

import random
from pathlib import Path

import pytest

from kafka_log.checks.brokers.remote_storage import check_remote_storage
from kafka_log.checks.facts import Depth, NotChecked
from tests import golden
from tests.kafka_log.checks.check_inputs import run_broker_check
from tests.kafka_log.coordinators.internal_logs import (
    DELETED,
    DELETING,
    FINISHED,
    TIME,
    TOPIC_ID,
    LogWriter,
    copy_started,
    partition_deleted,
    remote_log,
    segment_id,
    updated,
)
from tests.kafka_log.inventory.test_cluster_metadata import log, topic

HOUR_MS = 3_600_000
EPOCHS = "0\n2\n0 0\n2 40\n"


def copied(number: int, start: int, end: int, **fields) -> list[bytes]:
    return [copy_started(number, start, end, **fields), updated(number, FINISHED)]


def broker_with(root: Path, *events: bytes, local: bool = False, first: int = 0) -> Path:
    """A log dir with these events, and perhaps tiered-0: the offsets 30 to 99 of epochs 0 and 2."""
    root.mkdir()
    (root / "meta.properties").write_text("#\nversion=1\ncluster.id=c\nnode.id=1\n")
    writer = remote_log(events)
    writer.write(root / "__remote_log_metadata-7")
    if first:
        path = root / "__remote_log_metadata-7" / f"{0:020d}.log"
        path.rename(path.with_name(f"{first:020d}.log"))
    if local:
        directory = root / "tiered-0"
        directory.mkdir()
        user = LogWriter()
        user.next_offset = 30
        user.add(*[(None, b"v")] * 70)
        (directory / f"{30:020d}.log").write_bytes(user.data)
        (directory / "leader-epoch-checkpoint").write_text(EPOCHS)
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {_ID}\n")
    return root


_ID = "AAAAAAAAAAAAAAAAAAAATQ"  # 77


def found_in(root: Path) -> list[tuple[str | int | None, ...]]:
    found: list[tuple[str | int | None, ...]] = []
    for each in run_broker_check(check_remote_storage, root):
        assert not isinstance(each, NotChecked)
        assert each.partition == 7
        found.append((each.id, each.offset, each.entry, each.found, each.expected))
    return found


def entry(number: int) -> str:
    return f"tiered-0, segment {segment_id(number)}"


@pytest.mark.parametrize("pack", golden.names())
def test_a_broker_without_tiered_storage_has_none_of_this(pack):
    assert run_broker_check(check_remote_storage, golden.shared(pack)) == []


def test_a_broker_without_the_topic_of_its_cluster_does_not_check_it(tmp_path):
    root = broker_with(tmp_path / "data")
    (root / "__remote_log_metadata-7").rename(root / "other-0")
    assert run_broker_check(check_remote_storage, root) == []
    (root / "__cluster_metadata-0").mkdir()
    records = log(topic("__remote_log_metadata", TOPIC_ID))
    (root / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(records)
    why = "no partition of __remote_log_metadata here"
    assert run_broker_check(check_remote_storage, root) == [NotChecked("tiered storage", why)]


def test_what_a_broker_does_in_order_is_no_finding(tmp_path):
    events = [
        *copied(1, 0, 39),
        *copied(2, 40, 79, epochs={2: 40}),
        *copied(3, 80, 94, epochs={2: 80}),
        updated(1, DELETING),
        updated(1, DELETED),
        copy_started(4, 95, 99, epochs={2: 95}),  # in progress
    ]
    assert found_in(broker_with(tmp_path / "data", *events, local=True)) == []


def test_rmt001_a_copy_after_which_another_began(tmp_path):
    events = [copy_started(1, 0, 39), *copied(2, 0, 39)]
    found = "COPY_SEGMENT_STARTED of offsets 0 to 39, by broker 1"
    assert found_in(broker_with(tmp_path / "data", *events)) == [
        ("RMT001", 0, entry(1), found, "the end of the copy")
    ]


def test_rmt001_a_copy_that_takes_an_hour(tmp_path):
    late = copied(1, 0, 9, partition=1, event_timestamp_ms=TIME + 2 + HOUR_MS)[0]
    root = broker_with(tmp_path / "late", copy_started(2, 0, 39), late)
    assert [row[:2] for row in found_in(root)] == [("RMT001", 0)]
    earlier = copy_started(1, 0, 9, partition=1, event_timestamp_ms=TIME + 1 + HOUR_MS)
    assert found_in(broker_with(tmp_path / "earlier", copy_started(2, 0, 39), earlier)) == []


def test_rmt002_a_deletion_after_which_another_began(tmp_path):
    events = [*copied(1, 0, 39), *copied(2, 40, 79), updated(1, DELETING)]
    assert found_in(broker_with(tmp_path / "before", *events)) == []
    events.append(updated(2, DELETING))
    found = "DELETE_SEGMENT_STARTED of offsets 0 to 39, by broker 1"
    assert found_in(broker_with(tmp_path / "data", *events)) == [
        ("RMT002", 4, entry(1), found, "the end of the deletion")
    ]


def test_rmt003_an_event_that_does_not_follow(tmp_path):
    events = [*copied(1, 0, 39), updated(1, DELETED), updated(5, FINISHED)]
    expected = "an event that follows from those before it"
    assert found_in(broker_with(tmp_path / "data", *events)) == [
        ("RMT003", 2, "", "DELETE_SEGMENT_FINISHED after COPY_SEGMENT_FINISHED", expected),
        ("RMT003", 3, "", "COPY_SEGMENT_FINISHED of an unknown segment", expected),
    ]


def test_events_of_a_topic_that_lost_its_first_records_may_be_of_unknown_segments(tmp_path):
    root = broker_with(tmp_path / "data", *copied(1, 0, 39), updated(5, FINISHED))
    checkpoint = root / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\n__remote_log_metadata 7 1\n")
    assert found_in(root) == []


def test_after_damage_events_may_be_of_unknown_segments(tmp_path):
    root = broker_with(tmp_path / "data", copy_started(1, 0, 39), updated(1, FINISHED))
    assert found_in(root) == []
    path = root / "__remote_log_metadata-7" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[90] ^= 0xFF
    path.write_bytes(data)
    assert found_in(root) == []


def test_rmt004_offsets_that_no_segment_has(tmp_path):
    events = [*copied(1, 0, 19), *copied(2, 35, 39)]
    found, expected = "offsets 20 to 34 in no segment", "a segment at offset 20"
    assert found_in(broker_with(tmp_path / "data", *events, local=True)) == [
        ("RMT004", 3, entry(2), found, expected)
    ]


def test_a_gap_below_the_log_start_is_no_finding(tmp_path):
    root = broker_with(tmp_path / "data", *copied(1, 0, 19), *copied(2, 35, 39), local=True)
    (root / "log-start-offset-checkpoint").write_text("0\n1\ntiered 0 35\n")
    assert found_in(root) == []


def test_rmt005_segments_that_overlap(tmp_path):
    events = [*copied(1, 0, 39), *copied(2, 10, 59, epochs={0: 10, 2: 40})]
    assert found_in(broker_with(tmp_path / "data", *events, local=True)) == [
        ("RMT005", 3, entry(2), "offsets 10 to 59", "offset 40, after the segment before it")
    ]


def test_rmt006_a_segment_of_an_epoch_that_the_partition_does_not_have(tmp_path):
    events = [*copied(1, 0, 39), *copied(2, 40, 60, epochs={1: 40})]
    expected = "the epochs of leader-epoch-checkpoint"
    assert found_in(broker_with(tmp_path / "data", *events, local=True)) == [
        ("RMT006", 3, entry(2), "offsets 40 to 60 of epochs 1 from 40", expected)
    ]


def test_a_replica_that_lags_does_not_know_the_newest_epochs(tmp_path):
    events = [*copied(1, 0, 99, epochs={0: 0, 2: 40}), *copied(2, 100, 120, epochs={5: 100})]
    assert found_in(broker_with(tmp_path / "data", *events, local=True)) == []


def test_rmt007_a_partition_whose_deletion_did_not_finish(tmp_path):
    events = [*copied(1, 0, 39), partition_deleted(1)]
    found = "DELETE_PARTITION_STARTED, 1 segments left"
    assert found_in(broker_with(tmp_path / "data", *events)) == [
        ("RMT007", 2, "tiered-0", found, "DELETE_PARTITION_FINISHED")
    ]
    events.append(partition_deleted(2))
    assert found_in(broker_with(tmp_path / "finished", *events)) == []


def test_the_topic_id_of_the_local_partition_is_the_one_of_the_events():
    from kafka_format.java_text import parse_uuid

    assert parse_uuid(_ID) == TOPIC_ID


def test_with_headers_only_nothing_is_decoded(tmp_path):
    root = broker_with(tmp_path / "data", updated(5, FINISHED))
    found = run_broker_check(check_remote_storage, root, Depth.HEADERS)
    why = "records are not decoded with headers only"
    assert found[-1:] == [NotChecked("tiered storage", why)]
    assert all(isinstance(each, NotChecked) for each in found)


@pytest.mark.parametrize("seed", range(40))
def test_any_bytes_give_findings_and_no_error(seed: int, tmp_path: Path):
    draw = random.Random(seed)
    events = [*copied(1, 0, 39), *copied(2, 35, 79), updated(1, DELETING), partition_deleted(0)]
    changed = []
    for event in events:
        data = bytearray(event)
        for _ in range(draw.randrange(2)):  # with a correct checksum
            data[draw.randrange(len(data))] = draw.randrange(256)
        changed.append(bytes(data))
    root = broker_with(tmp_path / "data", *changed, local=True)
    lines = bytearray(EPOCHS.encode())
    lines[draw.randrange(len(lines))] = draw.choice(b"-19 \n")
    (root / "tiered-0" / "leader-epoch-checkpoint").write_bytes(lines)
    assert {str(row[0])[:3] for row in found_in(root)} <= {"RMT"}
