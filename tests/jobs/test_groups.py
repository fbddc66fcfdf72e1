"""`groups` on real brokers' directories, and on logs by hand."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from jobs import groups
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from kafka_format.batch import encode_batch
from kafka_format.control import ControlRecordType
from kafka_format.record import SimpleRecord
from tests import golden
from tests.jobs.verbs import rows_of_verb, run_verb
from tests.kafka_log.coordinators.internal_logs import (
    TIME,
    LogWriter,
    classic_group,
    classic_member,
    commit_key,
    commit_value,
    group_record,
)
from tests.kafka_log.inventory.test_cluster_metadata import LOG, A, log, remove, topic

run = partial(run_verb, groups.main)
rows = partial(rows_of_verb, groups.main)
DAY = 24 * 3600 * 1000
ONE = ("--set", "offsets.topic.num.partitions=1", "--now", TIME)
KEY, OTHER = commit_key("g", "t", 0), commit_key("g", "t", 1)


def pack() -> Path:
    (log_dir,) = golden.log_dirs(golden.shared("groups-4.3.1"))
    return log_dir


def write(tmp_path: Path, writer: LogWriter, number: int = 0) -> Path:
    writer.write(tmp_path / f"__consumer_offsets-{number}")
    return tmp_path


def of_kind(kind, found):
    return [row for row in found if row["kind"] == kind]


def test_a_real_brokers_groups_of_every_kind(capsys):
    """What its clients did: tests/golden/make/scenarios/groups_431.py."""
    found = rows(capsys, pack(), "--now", "2026-11-17T00:00:00Z")
    states = {row["group"]: (row["type"], row["state"]) for row in of_kind("group", found)}
    assert states == {
        "": ("classic", "Empty"),
        "classic-cooperative": ("classic", "Stable"),
        "classic-emptied": ("classic", "Empty"),
        "classic-java": ("classic", "Stable"),
        "classic-kafka-python": ("classic", "Stable"),
        "classic-librdkafka": ("classic", "Stable"),
        "consumer-java": ("consumer", "Stable"),
        "consumer-librdkafka": ("consumer", "Stable"),
        "consumer-pattern": ("consumer", "Stable"),
        "offsets-abort_transaction": ("classic", "Empty"),
        "offsets-both": ("classic", "Empty"),
        "offsets-commit_transaction": ("classic", "Empty"),
        "offsets-only": ("classic", "Empty"),
        "share-java": ("share", "Stable"),
        "share-moved": ("share", "Empty"),
        "streams-words": ("streams", "Stable"),
        "upgraded": ("consumer", "Stable"),
    }
    (java,) = [row for row in of_kind("offset", found) if row["group"] == "consumer-java"]
    assert (java["topic"], java["partition"], java["committed_offset"]) == ("input", 0, 7)
    assert (java["log_end_offset"], java["last_stable_offset"], java["lag"]) == (10, 10, 3)
    assert (java["metadata"], java["expires"]) == ("seven", False)
    members = [row for row in of_kind("member", found) if row["group"] == "consumer-java"]
    assigned = {row["client_id"]: row["assignment"] for row in members}
    assert {
        client: [(part["topic"], part["partitions"]) for part in parts]
        for client, parts in assigned.items()
    } == {"one": [("input", [0, 2])], "three": [("input", [1])]}


def test_a_selection_of_groups_and_topics(capsys):
    names = {row["group"] for row in rows(capsys, pack(), "--group", "classic-*")}
    assert len(names) == 5
    found = rows(capsys, pack(), "--topic", "words", "--kind", "offset")
    assert [(row["group"], row["committed_offset"]) for row in found] == [("streams-words", 11)]
    found = rows(capsys, pack(), "--group", "classic-librdkafka", "--partition", "2")
    assert [row["partition"] for row in of_kind("offset", found)] == [2]


def test_groups_whose_partition_is_not_here_are_unknown(tmp_path, capsys):
    data = tmp_path / "data"
    shutil.copytree(pack(), data)
    shutil.rmtree(data / "__consumer_offsets-0")
    arguments = ("--group", "classic-librdkafka", "--group", "upgraded")
    found = of_kind("group", rows(capsys, data, *arguments))
    assert [(row["group"], row["state"], row["type"]) for row in found] == [
        ("classic-librdkafka", "unknown", None),
        ("upgraded", "Stable", "consumer"),
    ]
    code, _, err = run(capsys, data)
    assert code == CLEAN
    assert "2 partitions of __consumer_offsets here, of 3: groups in 0 are unknown" in err
    code, _, err = run(capsys, data, "--history", "classic-librdkafka")
    assert code == COULD_NOT_RUN
    assert "__consumer_offsets-0 is not here" in err


def test_pending_commits_are_rows_with_their_producer(tmp_path, capsys):
    writer = LogWriter().add((KEY, commit_value(1)))
    writer.add((KEY, commit_value(2)), (OTHER, commit_value(3)), producer=7)
    found = rows(capsys, write(tmp_path, writer), *ONE)
    (offset,) = of_kind("offset", found)
    assert (offset["committed_offset"], offset["pending_producer_ids"]) == (1, [7])
    pending = of_kind("pending", found)
    assert [(row["partition"], row["offset"], row["producer_id"]) for row in pending] == [
        (0, 2, 7),
        (1, 3, 7),
    ]
    writer.end(7, ControlRecordType.COMMIT)
    found = rows(capsys, write(tmp_path, writer), *ONE)
    assert [row["committed_offset"] for row in of_kind("offset", found)] == [2, 3]
    assert of_kind("pending", found) == []


def test_what_expires_depends_on_now_and_on_the_retention(tmp_path, capsys):
    data = write(tmp_path, LogWriter().add((KEY, commit_value(1))))

    def expires(*arguments: object) -> list[bool]:
        return [row["expires"] for row in rows(capsys, data, *ONE[:2], *arguments)]

    assert expires("--now", TIME + 7 * DAY - 1) == [False, False]
    assert expires("--now", TIME + 7 * DAY) == [True, True]
    minutes = ("--set", "offsets.retention.minutes=10080000")
    assert expires("--now", TIME + 7 * DAY, *minutes) == [False, False]


def test_an_earlier_point_by_offset_and_by_time(tmp_path, capsys):
    writer = LogWriter().add((KEY, commit_value(1)))
    writer.add((KEY, commit_value(2)), time=TIME + 1000).add((OTHER, commit_value(3)), time=TIME)
    data = write(tmp_path, writer)

    def offsets(at: object) -> list[int]:
        found = rows(capsys, data, *ONE, "--at", at, "--kind", "offset")
        return [row["committed_offset"] for row in found]

    assert (offsets(0), offsets(1), offsets(2)) == ([1], [2], [2, 3])
    assert (offsets(TIME), offsets(TIME + 1000)) == ([1], [2, 3])
    write(tmp_path, LogWriter(), number=1)
    code, _, err = run(capsys, data, "--at", "1")
    assert code == USAGE
    assert "an offset applies to one partition of __consumer_offsets, but 2 are here" in err


def test_of_two_replicas_the_one_that_goes_further_in_the_last_epoch_is_used(tmp_path, capsys):
    old = LogWriter()
    for offset in range(5):
        old.add((KEY, commit_value(offset)))
    new = LogWriter().add((KEY, commit_value(70)))
    directories = [
        writer.write(tmp_path / name / "__consumer_offsets-0")
        for name, writer in (("one", old), ("two", new))
    ]
    both = (tmp_path / "one", tmp_path / "two", *ONE, "--kind", "offset")
    assert [row["committed_offset"] for row in rows(capsys, *both)] == [4]
    for directory, epoch in zip(directories, (3, 4), strict=True):
        (directory / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    assert [row["committed_offset"] for row in rows(capsys, *both)] == [70]


def test_the_history_says_why_an_offset_is_gone(tmp_path, capsys):
    writer = LogWriter().add((commit_key("g", "a", 0), commit_value(5)))
    writer.add((commit_key("g", "a", 0), None), time=TIME + DAY)
    data = write(tmp_path, writer)
    events = rows(capsys, data, *ONE, "--history", "g")
    assert [(row["event"], row["offset"], row["timestamp"]) for row in events] == [
        ("group_created", 0, TIME),
        ("commit", 0, TIME),
        ("offset_removed", 1, TIME + DAY),
    ]
    assert events[-1]["reason"] == "deleted"
    assert events[-1]["previous_offset"] == 5
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    deleted = SimpleRecord(TIME + DAY - 5, None, remove(A))
    data_of_log = log(topic("a", A)) + encode_batch([deleted], base_offset=1)
    (metadata / LOG).write_bytes(data_of_log)
    events = rows(capsys, data, *ONE, "--history", "g", "--topic", "a")
    assert [row["reason"] for row in events] == [None, "topic deleted"]


def test_offsets_as_a_file_for_kafka_consumer_groups(tmp_path, capsys):
    writer = LogWriter().add((KEY, commit_value(5)), (commit_key('a,"b"', "t", 3), commit_value(9)))
    writer.add((commit_key("", "t", 0), commit_value(1)))
    code, out, err = run(capsys, write(tmp_path, writer), *ONE, "--reset-csv")
    assert code == CLEAN
    assert out == '"a,""b""",t,3,9\ng,t,0,5\n'
    assert "'': left out: kafka-consumer-groups cannot read such a group id" in err


def test_a_record_that_a_coordinator_refuses(tmp_path, capsys):
    writer = LogWriter().add(classic_group("g", 1, classic_member("m", "t")))
    writer.add(group_record(3, "g", {"epoch": 1})).add((KEY, commit_value(5)))
    code, out, err = run(capsys, write(tmp_path, writer), *ONE)
    assert code == FINDINGS
    assert "a coordinator does not load the partition: offset 1: found a record of a" in err
    assert "Stable" in out


def test_damage_is_reported_and_the_rest_is_printed(tmp_path, capsys):
    writer = LogWriter().add((KEY, commit_value(1)))
    damaged_at = len(writer.data)
    writer.add((KEY, commit_value(2))).add((OTHER, commit_value(3)))
    data = bytearray(writer.data)
    data[damaged_at + 70] ^= 0xFF
    writer.data = bytes(data)
    directory = write(tmp_path, writer)
    found = rows(capsys, directory, *ONE, "--kind", "offset", expect=FINDINGS)
    assert [row["committed_offset"] for row in found] == [1, 3]
    _, _, err = run(capsys, directory, *ONE)
    assert f"{directory}/__consumer_offsets-0: left out: " in err


def test_without_metadata_a_wrong_count_is_noticed(tmp_path, capsys):
    """Group g is in 3 of 50, and in 1 of 2."""
    writer = LogWriter().add((KEY, commit_value(1)))
    _, _, err = run(capsys, write(tmp_path, writer, number=0))
    assert "it is unknown how many there are" in err
    _, _, err = run(capsys, write(tmp_path / "b", writer, number=1), *ONE[2:])
    assert "it is unknown how many there are" in err
    fifty = write(tmp_path / "c", writer, number=3)
    _, _, err = run(capsys, fifty)
    assert "1 partition of __consumer_offsets here, of 50: groups in 0-2, 4-49 are unknown" in err


def test_no_partition_of_the_topic(tmp_path, capsys):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    code, _, err = run(capsys, tmp_path)
    assert code == COULD_NOT_RUN
    assert "no partition of __consumer_offsets found" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--group", "nosuch", "--group", "x*"), "no group matches --group nosuch --group x*"),
        (("--topic", "nosuch"), "no committed offset matches --topic nosuch"),
        (("--partition", "9"), "no committed offset matches --partition 9"),
        (("--history", "nosuch"), "no record of group nosuch found"),
    ],
)
def test_a_selection_of_nothing(tmp_path, capsys, arguments, message):
    data = write(tmp_path, LogWriter().add((KEY, commit_value(1))))
    code, _, err = run(capsys, data, *ONE, *arguments)
    assert code == COULD_NOT_RUN
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kind", "groups"), "--kind groups: unknown: did you mean group?"),
        (("--history", "g", "--group", "g"), "--history and --group exclude each other"),
        (("--history", "g", "--reset-csv"), "--history and --reset-csv exclude each other"),
        (("--at", "soon"), "'soon': expected an offset, epoch milliseconds, or a time"),
    ],
)
def test_wrong_usage(tmp_path, capsys, arguments, message):
    data = write(tmp_path, LogWriter().add((KEY, commit_value(1))))
    code, _, err = run(capsys, data, *arguments)
    assert code == USAGE
    assert message in err
