"""Committed offsets: what real groups left, and what transactions and tombstones do to them."""

import base64
import random
from pathlib import Path

import pytest

from kafka_format.control import ControlRecordType
from kafka_log.coordinators.committed_offsets import GroupSizes, read_committed_offsets
from kafka_log.disk.files import DiskFiles
from tests import golden
from tests.kafka_log.coordinators.internal_logs import (
    TOPIC_ID,
    LogWriter,
    commit_key,
    commit_value,
)
from tests.oracle.client import Oracle

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
KEY, OTHER = commit_key("g", "t", 0), commit_key("g", "t", 1)


def offsets(directory: Path) -> dict[tuple[str, str, int], int]:
    state = read_committed_offsets(DiskFiles(directory))
    return {(each.group, each.topic, each.partition): each.offset for each in state.commits()}


def test_the_commits_of_a_real_broker_are_those_its_scenario_made():
    (log_dir,) = golden.log_dirs(golden.shared("groups-4.3.1"))
    found: dict[tuple[str, str, int], int] = {}
    for number in range(3):
        found |= offsets(log_dir / f"__consumer_offsets-{number}")
    every = {(group, "input", number): 10 for group in _POLLED for number in range(3)}
    assert found == every | {
        ("classic-java", "input", 0): 3,
        ("classic-cooperative", "input", 2): 10,
        ("classic-emptied", "input", 0): 10,
        ("upgraded", "input", 0): 10,
        ("consumer-java", "input", 0): 7,
        ("", "input", 0): 1,
        ("offsets-only", "input", 0): 1,
        ("offsets-commit_transaction", "input", 0): 9,
        ("offsets-both", "input", 0): 9,
        ("streams-words", "words", 0): 11,
        ("streams-words", "streams-words-counts-repartition", 0): 11,
    }


_POLLED = ("classic-librdkafka", "consumer-librdkafka", "classic-kafka-python")


@pytest.mark.parametrize("pack", golden.names())
def test_a_real_consumer_that_reads_committed_records_has_the_same_last_values(
    pack: str, oracle: Oracle
):
    """The model: the last committed record of each key, decoded by Kafka."""
    last: dict[int, dict[bytes, bytes | None]] = {}
    for line in golden.expected(pack):
        is_record = "key" in line and line["isolation"] == "read_committed"
        if is_record and line["topic"] == "__consumer_offsets":
            value = None if line["value"] is None else base64.b64decode(line["value"])
            last.setdefault(line["partition"], {})[base64.b64decode(line["key"])] = value
    for number, values in last.items():
        expected = {}
        for key, value in values.items():
            if value is not None and key[:2] in (b"\0\0", b"\0\1"):
                record = oracle.decode_coordinator("group", key, value)
                place = record["key"]
                of = place["group"], place["topic"], place["partition"]
                expected[of] = record["value"]["offset"]
        (directory,) = [
            found
            for log_dir in golden.log_dirs(golden.shared(pack))
            if (found := log_dir / f"__consumer_offsets-{number}").is_dir()
        ]
        assert offsets(directory) == expected


def test_a_commit_in_a_transaction_counts_after_its_marker(tmp_path):
    log = LogWriter().add((KEY, commit_value(1)))
    log.add((KEY, commit_value(2)), producer=7)
    assert offsets(log.write(tmp_path)) == {("g", "t", 0): 1}
    state = read_committed_offsets(DiskFiles(tmp_path))
    assert [(producer, each.offset) for producer, each in state.pending()] == [(7, 2)]
    assert offsets(log.end(7, COMMIT).write(tmp_path)) == {("g", "t", 0): 2}


def test_an_aborted_commit_never_counts(tmp_path):
    log = LogWriter().add((KEY, commit_value(2)), producer=7).end(7, ABORT).end(7, COMMIT)
    assert offsets(log.write(tmp_path)) == {}


def test_a_marker_does_not_bring_back_what_a_later_commit_replaced(tmp_path):
    log = LogWriter().add((KEY, commit_value(2)), (OTHER, commit_value(2)), producer=7)
    log.add((KEY, commit_value(1))).end(7, COMMIT)
    assert offsets(log.write(tmp_path)) == {("g", "t", 0): 1, ("g", "t", 1): 2}


def test_a_tombstone_removes_a_commit_and_those_that_wait_for_their_marker(tmp_path):
    log = LogWriter().add((KEY, commit_value(1)))
    log.add((KEY, commit_value(2)), (OTHER, commit_value(2)), producer=7)
    log.add((KEY, None)).end(7, COMMIT)
    assert offsets(log.write(tmp_path)) == {("g", "t", 1): 2}


def test_a_commit_has_every_field_of_its_version(tmp_path):
    log = LogWriter().add((commit_key("g", "t", 0, type_id=0), commit_value(1, "old")))
    log.add((KEY, commit_value(3, "new", TOPIC_ID)))
    (commit,) = read_committed_offsets(DiskFiles(log.write(tmp_path))).commits()
    assert (commit.offset, commit.metadata, commit.topic_id) == (3, "new", TOPIC_ID)
    assert (commit.leader_epoch, commit.expire_timestamp, commit.log_offset) == (5, None, 1)


def test_damage_and_records_that_cannot_be_decoded_are_left_out(tmp_path):
    log = LogWriter().add((KEY, commit_value(1)))
    damaged_at = len(log.data)
    log.add((OTHER, commit_value(2))).add((commit_key("g", "t", 2), b"\0\3short"))
    log.add((commit_key("g", "t", 3), commit_value(4))).add((None, b"no key"), (b"\0", b"short"))
    directory = log.write(tmp_path)
    data = bytearray(log.data)
    data[damaged_at + 70] ^= 0xFF
    (directory / "00000000000000000000.log").write_bytes(data)
    assert offsets(directory) == {("g", "t", 0): 1, ("g", "t", 3): 4}


def test_records_below_the_log_start_do_not_count(tmp_path):
    log = LogWriter().add((KEY, commit_value(1))).add((OTHER, commit_value(2)))
    state = read_committed_offsets(DiskFiles(log.write(tmp_path)), log_start_offset=1)
    assert [each.partition for each in state.commits()] == [1]


def test_the_largest_group_is_found_among_more_groups_than_are_counted():
    sizes = GroupSizes()
    total = large = 0
    for number in range(30_000):
        group = "large" if number % 4 == 0 else f"g{number}"
        key, value = commit_key(group, "t", 0), bytes(100)
        sizes.count(key, value)
        size = len(key) + len(value)
        total += size
        large += size if group == "large" else 0
    found = sizes.largest()
    assert found is not None
    assert found[0] == "large"
    assert sizes.total_bytes == total
    assert 0 <= large - found[1] <= total // 4096


@pytest.mark.parametrize("seed", range(60))
def test_the_last_commit_that_counts_is_the_one_held(seed: int, tmp_path: Path):
    """The model looks at the whole log at once: no state is carried from record to record."""
    draw = random.Random(seed)
    log = LogWriter()
    written: list[tuple[str, int, int | None]] = []  # kind, partition or is_commit, producer
    for _ in range(draw.randrange(1, 80)):
        offset, partition = log.next_offset, draw.randrange(4)
        producer = draw.choice([None, None, 7, 8])
        kind = draw.choice(["commit", "commit", "commit", "tombstone", "marker"])
        if kind == "marker" and producer is not None:
            is_commit = draw.random() < 0.7
            written.append(("marker", int(is_commit), producer))
            log.end(producer, COMMIT if is_commit else ABORT)
        elif kind == "tombstone":
            written.append(("tombstone", partition, None))
            log.add((commit_key("g", "t", partition), None))
        else:
            written.append(("commit", partition, producer))
            log.add((commit_key("g", "t", partition), commit_value(offset)), producer=producer)

    def counts(offset: int, producer: int | None) -> bool:
        if producer is None:
            return True
        later = [each for each in written[offset:] if each[0] == "marker" and each[2] == producer]
        return bool(later) and later[0][1] == 1

    expected: dict[tuple[str, str, int], int] = {}
    for offset, (kind, partition, producer) in enumerate(written):
        if kind == "tombstone":
            expected.pop(("g", "t", partition), None)
        elif kind == "commit" and counts(offset, producer):
            expected["g", "t", partition] = offset
    assert offsets(log.write(tmp_path)) == expected


@pytest.mark.parametrize("seed", range(40))
def test_any_bytes_give_commits_and_no_other_error(seed: int, tmp_path: Path):
    draw = random.Random(seed)
    log = LogWriter()
    for number in range(20):
        key = bytearray(commit_key(f"g{number % 3}", "t", number))
        value = bytearray(commit_value(number, "m", draw.choice([None, TOPIC_ID])))
        for data in (key, value):
            if draw.random() < 0.5:  # with a correct checksum
                data[draw.randrange(len(data))] = draw.randrange(256)
        cut = draw.randrange(len(value))
        log.add((bytes(key), bytes(value) if draw.random() < 0.7 else bytes(value[:cut])))
    damaged = bytearray(log.data)
    for _ in range(draw.randrange(4)):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    log.data = bytes(damaged)
    state = read_committed_offsets(DiskFiles(log.write(tmp_path)))
    assert len(list(state.commits())) <= 20
    assert state.sizes.total_bytes > 0
