"""Commits that do not fit the partitions they are for, and a group that fills a partition."""

import shutil
import uuid
from pathlib import Path

import pytest

from kafka_format.compression import Codec
from kafka_format.metadata_records import MetadataRecord, encode_metadata_record
from kafka_format.schemas.metadata import BY_API_KEY
from kafka_log.checks.brokers.committed_offsets import check_committed_offsets
from kafka_log.checks.facts import Depth, NotChecked
from tests import golden
from tests.kafka_log.checks.check_inputs import run_broker_check
from tests.kafka_log.coordinators.internal_logs import LogWriter, commit_key, commit_value
from tests.kafka_log.inventory.test_cluster_metadata import log, topic

META = "#\nversion=1\ncluster.id=c\nnode.id=1\n"
INPUT_ID = uuid.UUID(int=3)


def found_in(root: Path) -> list[tuple[str, ...]]:
    return [
        (each.id, each.entry, each.found, each.expected, str(each.offset))
        for each in run_broker_check(check_committed_offsets, root)
        if not isinstance(each, NotChecked)
    ]


def broker_with(root: Path, *commits: tuple[bytes, bytes | None]) -> Path:
    """A log dir with these commits, and the partition input-0, which has the offsets 5 to 9."""
    root.mkdir()
    (root / "meta.properties").write_text(META)
    writer = LogWriter()
    for commit in commits:
        writer.add(commit)
    writer.write(root / "__consumer_offsets-0")
    user = LogWriter()
    user.next_offset = 5
    user.add(*[(b"k", b"v")] * 5)
    (root / "input-0").mkdir()
    (root / "input-0" / f"{5:020d}.log").write_bytes(user.data)
    return root


def with_metadata(root: Path) -> Path:
    (root / "__cluster_metadata-0").mkdir()
    records = log(topic("input", INPUT_ID), topic("elsewhere", uuid.UUID(int=4)))
    (root / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(records)
    return root


@pytest.mark.parametrize("pack", golden.names())
def test_a_real_broker_has_no_such_commit(pack):
    assert found_in(golden.shared(pack)) == []


def test_grp001_a_partition_of_a_real_broker_that_lost_its_last_records(tmp_path):
    root = golden.unpack("groups-4.3.1", tmp_path)
    (log_dir,) = golden.log_dirs(root)
    (segment,) = (log_dir / "input-0").glob("*.log")
    segment.write_bytes(b"")
    rows = found_in(root)
    assert {row[0] for row in rows} == {"GRP001"}
    assert ("GRP001", "group consumer-java, input-0", *_BEYOND, "35") in rows
    assert len(rows) == 11


_BEYOND = "offset 7, 7 beyond the log end", "at most 0"


def test_a_commit_at_either_end_of_the_log_is_no_finding(tmp_path):
    commits = [(commit_key("g", "input", 0), commit_value(offset)) for offset in (5, 10)]
    for number, commit in enumerate(commits):
        assert found_in(broker_with(tmp_path / str(number), commit)) == []


def test_grp001_a_commit_one_beyond_the_log_end(tmp_path):
    root = broker_with(tmp_path / "data", (commit_key("g", "input", 0), commit_value(11)))
    expected = ("offset 11, 1 beyond the log end", "at most 10", "0")
    assert found_in(root) == [("GRP001", "group g, input-0", *expected)]


def test_grp003_a_commit_below_the_log_start(tmp_path):
    root = broker_with(tmp_path / "data", (commit_key("g", "input", 0), commit_value(4)))
    expected = ("commits for 1 partitions: below the log start", "offsets in the log", "0")
    assert found_in(root) == [("GRP003", "group g, topic input", *expected)]


def test_grp002_commits_for_a_topic_that_does_not_exist(tmp_path):
    commits = [(commit_key("g", "gone", number), commit_value(1)) for number in range(3)]
    root = with_metadata(broker_with(tmp_path / "data", *commits))
    reason = "commits for 3 partitions: the topic does not exist"
    assert found_in(root) == [
        ("GRP002", "group g, topic gone", reason, "commits for topics that exist", "0")
    ]


def test_grp002_a_commit_for_a_topic_that_was_created_again(tmp_path):
    commit = commit_key("g", "input", 0), commit_value(99, topic_id=uuid.UUID(int=9))
    root = with_metadata(broker_with(tmp_path / "data", commit))
    (row,) = found_in(root)
    assert row[:3] == (
        "GRP002",
        "group g, topic input",
        "commits for 1 partitions: the topic was deleted and created again",
    )


def test_grp002_a_commit_for_a_partition_that_the_topic_does_not_have(tmp_path):
    commits = [(commit_key("g", "input", number), commit_value(5)) for number in (0, 1)]
    root = with_metadata(broker_with(tmp_path / "data", *commits))
    schema = BY_API_KEY[3]
    partition = schema.new(0, partition_id=0, topic_id=INPUT_ID, replicas=[1], isr=[1])
    record = encode_metadata_record(MetadataRecord(3, 0, schema.name, partition))
    path = root / "__cluster_metadata-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes() + log(record, base_offset=2))
    (row,) = found_in(root)
    assert row[2] == "commits for 1 partitions: the topic has no such partition"
    assert row[4] == "1"


def test_without_metadata_a_topic_may_be_elsewhere(tmp_path):
    commit = commit_key("g", "gone", 0), commit_value(1)
    root = broker_with(tmp_path / "data", commit)
    unknown = NotChecked("commits for topics that are gone", "no complete cluster metadata")
    assert run_broker_check(check_committed_offsets, root) == [unknown, _elsewhere(root)]


def test_a_broker_without_commits_of_its_cluster_does_not_check_them(tmp_path):
    root = with_metadata(broker_with(tmp_path / "data"))
    shutil.rmtree(root / "__consumer_offsets-0")
    assert run_broker_check(check_committed_offsets, root) == []
    path = root / "__cluster_metadata-0" / f"{0:020d}.log"
    path.write_bytes(log(topic("__consumer_offsets", INPUT_ID)))
    why = "no partition of __consumer_offsets here"
    assert run_broker_check(check_committed_offsets, root) == [NotChecked("committed offsets", why)]


def test_a_partition_of_another_broker_is_not_checked(tmp_path):
    commit = commit_key("g", "elsewhere", 0), commit_value(1)
    root = with_metadata(broker_with(tmp_path / "data", commit))
    assert run_broker_check(check_committed_offsets, root) == [_elsewhere(root)]


def _elsewhere(root: Path) -> NotChecked:
    why = "1 commits are for partitions that were not read here"
    return NotChecked("committed offsets", why, str(root / "__consumer_offsets-0"))


def test_damaged_metadata_does_not_say_that_a_topic_is_gone(tmp_path):
    commit = commit_key("g", "gone", 0), commit_value(1)
    root = with_metadata(broker_with(tmp_path / "data", commit))
    path = root / "__cluster_metadata-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 0xFF
    path.write_bytes(data)
    assert found_in(root) == []


def filled(root: Path, metadata: int, *, others: int) -> Path:
    """Commits of 1 MiB each, compressed: of one group, and of as many others."""
    writer = LogWriter()
    value = commit_value(5, "m" * 32_000)
    for number in range(metadata):
        group = "loud" if number >= others else f"g{number}"
        writer.add(*[(commit_key(group, "input", 0), value)] * 32, codec=Codec.ZSTD)
    broker_with(root)
    writer.write(root / "__consumer_offsets-0")
    return root


def test_grp004_a_large_partition_of_one_group(tmp_path):
    (row,) = found_in(filled(tmp_path / "data", 104, others=40))
    assert row[:2] == ("GRP004", "group loud")
    each = 32 * (len(commit_key("loud", "input", 0)) + len(commit_value(5, "m" * 32_000)))
    assert row[2].startswith(f"{64 * each} of ")


def test_a_large_partition_of_many_groups_and_a_small_one_are_no_finding(tmp_path):
    assert found_in(filled(tmp_path / "many", 104, others=60)) == []
    assert found_in(filled(tmp_path / "small", 90, others=1)) == []


def test_a_partition_that_cannot_be_read_is_not_checked(tmp_path):
    root = broker_with(tmp_path / "data", (commit_key("g", "input", 0), commit_value(11)))
    directory = root / "__consumer_offsets-0"
    inventory_only = tmp_path / "later"
    shutil.copytree(directory, inventory_only)

    def vanished(audited, facts, files_of):
        shutil.rmtree(directory)
        yield from check_committed_offsets(audited, facts, files_of)

    row = run_broker_check(vanished, root)[-1]
    assert isinstance(row, NotChecked)
    assert row.path == str(directory)


def test_with_headers_only_nothing_is_decoded(tmp_path):
    root = broker_with(tmp_path / "data", (commit_key("g", "input", 0), commit_value(11)))
    found = run_broker_check(check_committed_offsets, root, Depth.HEADERS)
    why = "records are not decoded with headers only"
    assert found[-1:] == [NotChecked("committed offsets", why)]
    assert all(isinstance(each, NotChecked) for each in found)
