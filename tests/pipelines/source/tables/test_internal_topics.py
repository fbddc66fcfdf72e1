"""Records of Kafka's own topics as rows, held against kafka-dump-log's decoders and consumers."""

import base64
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from pipelines.source.schema import column_names
from pipelines.source.tables.side_files import DamageError
from tests import golden
from tests.oracle.client import Oracle
from tests.pipelines.in_process import read_table

SEGMENT = "00000000000000000000"
TIME = 1_700_000_000_000
ZERO_ID = "A" * 22
_RECORD = re.compile(r"\| offset: (-?\d+) .*?(?: key: (.*?))? payload: (.*)")
_CONTROL = re.compile(r"\| offset: (-?\d+) .*? headerKeys: \[.*?\] (\w+):? (\{.*\})")
STATUSES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


class Dumped(NamedTuple):
    """A record as kafka-dump-log prints it."""

    offset: int
    type_id: int
    key: dict[str, Any]
    version: int | None
    value: dict[str, Any] | None


def dumped(oracle: Oracle, path: Path, decoder: str) -> Iterator[Dumped]:
    for line in oracle.dump("--files", path, decoder).lines:
        if match := _RECORD.fullmatch(line):
            key = json.loads(match[2])
            value = None if match[3] == "<DELETE>" else json.loads(match[3])
            yield Dumped(
                int(match[1]),
                int(key["type"]),
                key["data"],
                None if value is None else int(value["version"]),
                None if value is None else value["data"],
            )


def logs(pack: str, topic: str) -> list[Path]:
    return sorted(golden.shared(pack).glob(f"*/{topic}-*/*.log"))


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


def all_dumped(
    oracle: Oracle, pack: str, topic: str, decoder: str
) -> dict[tuple[int, int], Dumped]:
    found = {}
    for path in logs(pack, topic):
        partition = int(path.parent.name.rpartition("-")[2])
        for each in dumped(oracle, path, decoder):
            found[partition, each.offset] = each
    return found


def check_coding(row: dict[str, Any], record: Dumped) -> None:
    assert (row["type_id"], row["value_version"]) == (record.type_id, record.version)
    assert row["is_tombstone"] == (record.value is None)
    assert (row["value"] is None) == (record.value is None)
    assert row["damage"] is None


def unless(value: Any, none: Any) -> Any:
    return None if value == none else value


@pytest.mark.parametrize("pack", golden.names())
def test_consumer_offsets_are_those_of_the_offsets_decoder(oracle, pack):
    expected = all_dumped(oracle, pack, "__consumer_offsets", "--offsets-decoder")
    commits = {at: each for at, each in expected.items() if each.type_id in (0, 1)}
    rows = read_table(golden.shared(pack), "consumer_offsets")
    assert sorted(map(place, rows)) == sorted(commits)
    for row in rows:
        record = commits[place(row)]
        check_coding(row, record)
        assert (row["group_id"], row["topic"], row["partition"]) == tuple(record.key.values())
        value = record.value or {}
        assert row["offset"] == value.get("offset")
        assert row["leader_epoch"] == unless(value.get("leaderEpoch"), -1)
        assert row["metadata"] == value.get("metadata")
        assert row["commit_timestamp_ms"] == value.get("commitTimestamp")
        assert row["expire_timestamp_ms"] == unless(value.get("expireTimestamp"), -1)
        assert row["topic_id"] == unless(value.get("topicId"), ZERO_ID)


@pytest.mark.parametrize("pack", golden.names())
def test_group_metadata_is_every_other_record_of_the_offsets_decoder(oracle, pack):
    expected = all_dumped(oracle, pack, "__consumer_offsets", "--offsets-decoder")
    others = {at: each for at, each in expected.items() if each.type_id not in (0, 1)}
    rows = read_table(golden.shared(pack), "group_metadata")
    assert sorted(map(place, rows)) == sorted(others)
    for row in rows:
        record = others[place(row)]
        check_coding(row, record)
        value = record.value or {}
        assert json.loads(row["key_json"]) == record.key
        assert (row["value_json"] and json.loads(row["value_json"])) == record.value
        assert row["group_id"] == record.key.get("group", record.key.get("groupId"))
        assert row["member_id"] == record.key.get("memberId")
        for column, name in (("protocol_type", "protocolType"), ("leader", "leader")):
            assert row[column] == value.get(name)
        epochs = ("generation", "epoch", "assignmentEpoch", "memberEpoch")
        assert row["epoch"] == next((value[name] for name in epochs if name in value), None)


@pytest.mark.parametrize("pack", golden.names())
def test_transaction_state_is_that_of_the_transaction_log_decoder(oracle, pack):
    expected = all_dumped(oracle, pack, "__transaction_state", "--transaction-log-decoder")
    rows = read_table(golden.shared(pack), "transaction_state")
    assert sorted(map(place, rows)) == sorted(expected)
    for row in rows:
        record = expected[place(row)]
        check_coding(row, record)
        assert row["transactional_id"] == record.key["transactionalId"]
        if record.value is None:
            assert row["producer_id"] is row["status"] is row["partitions"] is None
            continue
        value = record.value
        assert row["producer_id"] == value["producerId"]
        assert row["producer_epoch"] == value["producerEpoch"]
        assert row["status"] == STATUSES[value["transactionStatus"]]
        assert row["transaction_timeout_ms"] == value["transactionTimeoutMs"]
        assert row["start_timestamp_ms"] == value["transactionStartTimestampMs"]
        assert row["last_update_timestamp_ms"] == value["transactionLastUpdateTimestampMs"]
        assert row["previous_producer_id"] == unless(value.get("previousProducerId"), -1)
        assert row["client_transaction_version"] == (
            value.get("clientTransactionVersion", 0) if record.version else None
        )
        partitions = value["transactionPartitions"]
        assert row["partitions"] == (
            None
            if partitions is None
            else [
                {"topic": each["topic"], "partition": number}
                for each in partitions
                for number in each["partitionIds"]
            ]
        )


def test_share_group_state_is_that_of_its_decoder(oracle):
    pack = "groups-4.3.1"
    expected = all_dumped(oracle, pack, "__share_group_state", "--share-group-state-decoder")
    rows = read_table(golden.shared(pack), "share_group_state")
    assert sorted(map(place, rows)) == sorted(expected)
    assert {row["record_type"] for row in rows} == {"ShareSnapshot", "ShareUpdate"}
    for row in rows:
        record = expected[place(row)]
        check_coding(row, record)
        key, value = record.key, record.value or {}
        assert (row["group_id"], row["topic_id"], row["partition"]) == tuple(key.values())
        for column, name in (
            ("snapshot_epoch", "snapshotEpoch"),
            ("state_epoch", "stateEpoch"),
            ("leader_epoch", "leaderEpoch"),
            ("start_offset", "startOffset"),
            ("create_timestamp_ms", "createTimestamp"),
            ("write_timestamp_ms", "writeTimestamp"),
        ):
            assert row[column] == value.get(name)
        batches = (
            None if record.value is None else [tuple(b.values()) for b in value["stateBatches"]]
        )
        assert (
            row["state_batches"] and [tuple(b.values()) for b in row["state_batches"]]
        ) == batches


def constant_name(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper()


CONTROLS = {
    "LeaderChange": "LEADER_CHANGE",
    "SnapshotHeader": "SNAPSHOT_HEADER",
    "SnapshotFooter": "SNAPSHOT_FOOTER",
    "KRaftVersion": "KRAFT_VERSION",
    "KRaftVoters": "KRAFT_VOTERS",
}


@pytest.mark.parametrize("pack", [name for name in golden.names() if "legacy" not in name])
def test_cluster_metadata_is_that_of_its_decoder_log_and_snapshots(oracle, pack):
    rows = read_table(golden.shared(pack), "cluster_metadata")
    directories = sorted(golden.shared(pack).glob("*/__cluster_metadata-0"))
    paths = [path for each in directories for path in sorted(each.glob("*.log"))]
    paths += [path for each in directories for path in sorted(each.glob("*.checkpoint"))]
    assert {row["path"] for row in rows} == set(map(str, paths))
    for path in paths:
        mine = {row["log_offset"]: row for row in rows if row["path"] == str(path)}
        found = set()
        for line in oracle.dump("--files", path, "--cluster-metadata-decoder").lines:
            if match := _RECORD.fullmatch(line):
                row, node = mine[int(match[1])], json.loads(match[3])
                assert constant_name(row["record_type"]) == node["type"]
                assert row["version"] == node["version"]
                assert json.loads(row["value_json"]) == node["data"]
                check_metadata_columns(row, node["data"])
            elif match := _CONTROL.fullmatch(line):
                row = mine[int(match[1])]
                assert row["control_type"] == CONTROLS[match[2]]
                assert json.loads(row["value_json"]) == json.loads(match[3])
            else:
                continue
            found.add(int(match[1]))
            assert row["is_snapshot"] == (path.suffix == ".checkpoint")
        assert found == mine.keys()


def check_metadata_columns(row: dict[str, Any], node: dict[str, Any]) -> None:
    if row["record_type"] == "TopicRecord":
        assert (row["topic"], row["topic_id"]) == (node["name"], node["topicId"])
    elif row["record_type"] == "PartitionRecord":
        for column in ("leader", "replicas", "isr"):
            assert row[column] == node[column]
        assert (row["partition"], row["topic_id"]) == (node["partitionId"], node["topicId"])
        assert row["leader_epoch"] == node["leaderEpoch"]
    elif row["record_type"] == "PartitionChangeRecord":
        for column in ("leader", "replicas", "isr"):
            assert row[column] == node.get(column)
    elif row["record_type"] == "RegisterBrokerRecord":
        assert (row["broker_id"], row["broker_epoch"]) == (node["brokerId"], node["brokerEpoch"])


@pytest.mark.parametrize(
    ("pack", "isolation"),
    [
        (pack, isolation)
        for pack in golden.names()
        for isolation in ("read_uncommitted", "read_committed")
        if (pack, isolation) != ("legacy-0.10.2.2", "read_committed")  # unknown to its consumers
    ],
)
def test_rows_are_of_the_records_that_a_consumer_of_the_topic_received(pack, isolation):
    topics = {
        "__consumer_offsets": ("consumer_offsets", "group_metadata"),
        "__transaction_state": ("transaction_state",),
        "__share_group_state": ("share_group_state",),
    }
    for topic, tables in topics.items():
        expected = [
            (line["partition"], line["offset"], line["key"], line["value"], line["timestamp"])
            for line in golden.expected(pack)
            if "end_offset" not in line and (line["topic"], line["isolation"]) == (topic, isolation)
        ]
        rows = [
            row
            for table in tables
            for row in read_table(golden.shared(pack), table, isolationLevel=isolation)
        ]
        found = [
            (*place(row), text(row["key"]), text(row["value"]), row["log_timestamp_ms"])
            for row in rows
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


# --- what no broker up to now wrote, and damage -------------------------------------------------


def log_dir(tmp_path: Path, partition: str, *records: tuple[bytes | None, bytes | None]) -> Path:
    directory = tmp_path / "data" / partition
    directory.mkdir(parents=True)
    simple = [SimpleRecord(TIME + at, *record) for at, record in enumerate(records)]
    (directory / f"{SEGMENT}.log").write_bytes(encode_batch(simple))
    return tmp_path / "data"


def string(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


COMMIT_KEY = b"\0\1" + string("g") + string("t") + struct.pack(">i", 2)
COMMIT = b"\0\3" + struct.pack(">qi", 42, 7) + string("m") + struct.pack(">q", TIME)


def test_a_commit_its_tombstone_and_a_version_to_come(tmp_path):
    newer = b"\0\x09anything"
    root = log_dir(
        tmp_path,
        "__consumer_offsets-0",
        (COMMIT_KEY, COMMIT),
        (COMMIT_KEY, None),
        (COMMIT_KEY, newer),
    )
    rows = read_table(root, "consumer_offsets")
    names = ("group_id", "topic", "partition", "offset", "leader_epoch", "metadata")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("g", "t", 2, 42, 7, "m"),
        ("g", "t", 2, None, None, None),
        ("g", "t", 2, None, None, None),
    ]
    coding = ("is_tombstone", "value_version", "value", "damage", "log_offset")
    assert [tuple(row[name] for name in coding) for row in rows] == [
        (False, 3, COMMIT, None, 0),
        (True, None, None, None, 1),
        (False, 9, newer, None, 2),
    ]
    assert read_table(root, "group_metadata") == []


def test_a_type_to_come_keeps_its_bytes(tmp_path):
    root = log_dir(tmp_path, "__consumer_offsets-0", (b"\0\x63later", b"\0\0more"))
    assert read_table(root, "consumer_offsets") == []
    (row,) = read_table(root, "group_metadata")
    assert (row["type_id"], row["record_type"], row["value_version"]) == (99, None, 0)
    assert (row["key"], row["value"]) == (b"\0\x63later", b"\0\0more")
    assert row["group_id"] is row["key_json"] is row["value_json"] is row["damage"] is None


def test_a_metadata_record_to_come_keeps_its_bytes(tmp_path):
    newer = b"\1\x02\x7fanything"  # a TopicRecord of version 127
    root = log_dir(tmp_path, "__cluster_metadata-0", (None, newer), (None, b"\1\x63\0"))
    rows = read_table(root, "cluster_metadata")
    names = ("record_type", "api_key", "version", "value", "value_json", "damage")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("TopicRecord", 2, 127, newer, None, None),
        (None, 99, 0, b"\1\x63\0", None, None),
    ]


BROKEN = {
    "consumer_offsets": ("__consumer_offsets-0", (b"\0\1\0\5g", COMMIT)),
    "group_metadata": ("__consumer_offsets-0", (None, b"v")),
    "transaction_state": ("__transaction_state-0", (b"\0\0" + string("id"), b"\0\1short")),
    "share_group_state": ("__share_group_state-0", (b"\0\0" + string("g"), b"\0\0")),
    "cluster_metadata": ("__cluster_metadata-0", (None, b"\2\0\0")),
}
DAMAGES = {
    "consumer_offsets": "found 1 bytes left, expected 5 for OffsetCommitKey.group",
    "group_metadata": "found no key, expected the key of a record of __consumer_offsets",
    "cluster_metadata": "found frame version 2, expected 1",
}


@pytest.mark.parametrize("table", BROKEN)
def test_a_record_that_cannot_be_decoded_is_a_row_with_its_bytes_and_why(tmp_path, table):
    partition, (key, value) = BROKEN[table]
    (row,) = read_table(log_dir(tmp_path, partition, (key, value)), table)
    assert (row["key"], row["value"]) == (key, value)
    assert re.fullmatch("found .+, expected .+", row["damage"])
    assert row["damage"] == DAMAGES.get(table, row["damage"])
    assert (row["log_partition"], row["log_offset"], row["log_timestamp_ms"]) == (0, 0, TIME)


@pytest.mark.parametrize("table", BROKEN)
def test_by_mode_it_is_left_out_or_fails(tmp_path, table):
    partition, record = BROKEN[table]
    root = log_dir(tmp_path, partition, record)
    assert read_table(root, table, mode="DROPMALFORMED") == []
    path = root / partition / f"{SEGMENT}.log"
    with pytest.raises(DamageError, match=re.escape(f"{path}@0, offset 0: found ")):
        read_table(root, table, mode="FAILFAST")


def test_topics_choose_commits_by_what_they_are_for(tmp_path):
    other = b"\0\1" + string("g") + string("u") + struct.pack(">i", 0)
    root = log_dir(tmp_path, "__consumer_offsets-0", (COMMIT_KEY, COMMIT), (other, COMMIT))
    assert [row["topic"] for row in read_table(root, "consumer_offsets", topics="u*")] == ["u"]
    assert [row["topic"] for row in read_table(root, "consumer_offsets", partitions="2")] == ["t"]


def test_offsets_choose_records_of_the_internal_topic(tmp_path):
    commits = [(COMMIT_KEY, COMMIT)] * 5
    root = log_dir(tmp_path, "__consumer_offsets-0", *commits)
    rows = read_table(root, "consumer_offsets", startingOffsets="1", endingOffsets="3")
    assert [row["log_offset"] for row in rows] == [1, 2]


@pytest.mark.parametrize("table", BROKEN)
def test_columns_can_be_chosen(table):
    root = golden.shared("groups-4.3.1")
    rows = read_table(root, table)
    for name in column_names(table):
        assert read_table(root, table, columns=name) == [{name: row[name]} for row in rows]
