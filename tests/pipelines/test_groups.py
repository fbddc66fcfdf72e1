"""The rows of groups are what Kafka's own coordinator answers after loading the same records."""

import random
import uuid
from pathlib import Path
from typing import Any

import pytest

import pipelines.groups
from kafka_format.control import ControlRecordType
from kafka_format.metadata_records import decode_metadata_record
from kafka_format.schemas import metadata as schemas
from kafka_log.config.log_config import LogConfig
from kafka_log.coordinators.coordinator_log import read_records
from kafka_log.disk.files import DiskFiles
from kafka_log.names import DirectoryKind
from pipelines.engine.partition_tasks import PartitionTask
from pipelines.groups import ReadGroups
from tests import golden
from tests.kafka_log.coordinators.internal_logs import (
    TIME,
    LogWriter,
    classic_group,
    classic_member,
    commit_key,
    commit_value,
    group_record,
)
from tests.kafka_log.image.stories import framed
from tests.oracle.client import Oracle, OracleError, b64

RETENTION = 7 * 24 * 3600 * 1000
IDS = {uuid.UUID(int=0x1000 + number): name for number, name in enumerate("abc")}
Row = dict[str, Any]


def task(directory: Path, now: int = TIME) -> PartitionTask:
    return PartitionTask(
        path=str(directory),
        log_dir=str(directory.parent),
        topic="__consumer_offsets",
        partition=0,
        kind=DirectoryKind.PARTITION,
        config=LogConfig(),
        now_ms=now,
        is_clean=True,
    )


def rows(directory: Path, now: int = TIME, names: dict[uuid.UUID, str] | None = None) -> list[Row]:
    function = ReadGroups(retention_ms=RETENTION, topic_names=IDS if names is None else names)
    return [*function(task(directory, now))]


def kafkas(oracle: Oracle, directory: Path, now: int, metadata: list[bytes]) -> Any:
    records = [
        {"marker": each.marker.name, "producer_id": each.producer_id}
        if each.marker is not None
        else {
            "offset": each.offset,
            "producer_id": each.producer_id,
            "key": b64(each.key),
            "value": b64(each.value),
        }
        for each in read_records(DiskFiles(directory))
    ]
    framed_records = [b64(each) for each in metadata]
    return oracle.call(
        "load_groups", records=records, metadata=framed_records, now=now, retention_ms=RETENTION
    )


def topics() -> list[bytes]:
    return [
        framed(schemas.TOPIC_RECORD, 0, name=name, topic_id=topic_id)
        for topic_id, name in IDS.items()
    ]


def without_ids(assignment: Any) -> Any:
    """Kafka leaves out topics that do not exist, whose names it does not know."""
    if not isinstance(assignment, list):
        return assignment
    known = [part for part in assignment if part["topic"] is not None]
    return [{key: part[key] for key in ("topic", "partitions")} for part in known]


def assert_equal_to_kafkas(found: list[Row], answer: Any) -> None:
    """Every field that Kafka answers, of every group, member and offset, and what expires."""
    by_group = {row["group"]: row for row in found if row["kind"] == "group"}
    assert sorted(by_group) == sorted(each["group"] for each in answer["groups"])
    for expected in answer["groups"]:
        group = by_group[expected["group"]]
        for name in ("type", "state", "protocol"):
            assert group[name] == expected[name], (group, expected)
        if "epoch" in expected:
            assert group["epoch"] == expected["epoch"]
            assert group["assignment_epoch"] == expected["assignment_epoch"]
        members = {
            row["member_id"]: row
            for row in found
            if row["kind"] == "member" and row["group"] == expected["group"]
        }
        assert len(members) == group["members"]
        if not (expected["type"] == "streams" and "epoch" not in expected):
            assert sorted(members) == sorted(each["member_id"] for each in expected["members"])
        for each in expected["members"]:
            row = members[each["member_id"]]
            for name in set(each) - {"member_id", "assignment_bytes"}:
                ours, kafkas_value = row[name], each[name] or None
                if name in ("assignment", "target_assignment"):
                    ours = without_ids(ours)
                assert (ours or None) == kafkas_value, (expected["group"], name)
        ours = sorted(
            (row["topic"], row["partition"], row["committed_offset"], row["metadata"])
            for row in found
            if row["kind"] == "offset" and row["group"] == expected["group"]
        )
        assert ours == sorted(
            (each["topic"], each["partition"], each["committed_offset"], each["metadata"])
            for each in expected["offsets"]
        )
    removed = [each for each in answer["removed"] if "topic" in each]
    assert sorted(
        (row["group"], row["topic"], row["partition"])
        for row in found
        if row["kind"] == "offset" and row["expires"]
    ) == sorted((each["group"], each["topic"], each["partition"]) for each in removed)
    group_tombstones = [each for each in answer["removed"] if each.get("type") in (2, 3, 17)]
    assert sum(row["expires"] for row in by_group.values()) == len(group_tombstones)


@pytest.mark.parametrize("days", [0, 8])
@pytest.mark.parametrize("pack", golden.names())
def test_real_groups_are_those_of_kafkas_coordinator(pack: str, days: int, oracle: Oracle):
    for log_dir in golden.log_dirs(golden.shared(pack)):
        metadata, names = _metadata(log_dir)
        for directory in sorted(log_dir.glob("__consumer_offsets-*")):
            times = [each.timestamp for each in read_records(DiskFiles(directory))]
            now = max(times, default=TIME) + days * 24 * 3600 * 1000
            found = rows(directory, now, names)
            assert_equal_to_kafkas(found, kafkas(oracle, directory, now, metadata))


def _metadata(log_dir: Path) -> tuple[list[bytes], dict[uuid.UUID, str]]:
    """The topics that exist at the end of a pack's metadata log, which has no snapshot but one."""
    names: dict[uuid.UUID, str] = {}
    for directory in log_dir.glob("__cluster_metadata-0"):
        for each in read_records(DiskFiles(directory)):
            if each.key is not None or each.value is None:
                continue
            record = decode_metadata_record(each.value)
            if record.name == "TopicRecord":
                names[record.value.topic_id] = record.value.name
            elif record.name == "RemoveTopicRecord":
                names.pop(record.value.topic_id, None)
    existing = [
        framed(schemas.TOPIC_RECORD, 0, name=name, topic_id=topic_id)
        for topic_id, name in names.items()
    ]
    return existing, names


# ------------------------------------------------------------------- drawn histories


class Story:
    """Records of groups in an order that a coordinator writes, and sometimes not."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.log = LogWriter()
        self.time = TIME
        self.open: set[int] = set()

    def write(self, tmp_path: Path) -> Path:
        for _ in range(self.draw.randrange(5, 60)):
            self.time += self.draw.choice([0, 1, 3_600_000, RETENTION // 3])
            step = self.draw.choice([self.commit, self.commit, self.classic, self.modern])
            step()
        return self.log.write(tmp_path / "__consumer_offsets-0")

    def add(self, *records: tuple[bytes, bytes | None], producer: int | None = None) -> None:
        self.log.add(*records, producer=producer, time=self.time)

    def commit(self) -> None:
        group, topic = self.draw.choice("kcgt"), self.draw.choice("abc")
        key = commit_key(group, topic, self.draw.randrange(2))
        if self.draw.random() < 0.2:
            self.add((key, None))
            return
        producer = self.draw.choice([None, None, None, 7, 8])
        value = commit_value(self.draw.randrange(100), time=self.time)
        self.add((key, value), producer=producer)
        if producer is not None and self.draw.random() < 0.6:
            kind = self.draw.choice([ControlRecordType.COMMIT, ControlRecordType.ABORT])
            self.log.end(producer, kind)

    def classic(self) -> None:
        group = self.draw.choice("kkg")
        if self.draw.random() < 0.2:
            self.add(group_record(2, group, None))
            return
        members = [
            classic_member(f"m{number}", *self.draw.sample("abc", self.draw.randrange(3)))
            for number in range(self.draw.randrange(3))
        ]
        for each in members:
            if self.draw.random() < 0.2:
                each["subscription"] = self.draw.choice(
                    [b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\0\x09"]
                )
        values: Row = {}
        if self.draw.random() < 0.3:
            values["current_state_timestamp"] = self.draw.choice([-1, self.time])
        if self.draw.random() < 0.3:
            values["protocol_type"] = "connect"
        self.add(classic_group(group, self.draw.randrange(9), *members, **values))

    def modern(self) -> None:
        """Records of one group type; its numbers follow those of consumer groups."""
        group, base = self.draw.choice([("c", 3), ("s", 11), ("t", 17)])
        types = _TYPES[base]
        epoch, member = self.draw.randrange(1, 6), f"m{self.draw.randrange(2)}"
        what = self.draw.choice([*types, "leave", "delete"])
        if what == "leave":
            self.add(
                group_record(types["assignment"], group, None, member_id=member),
                group_record(types["target"], group, None, member_id=member),
                group_record(types["member"], group, None, member_id=member),
            )
        elif what == "delete":
            for number in range(2):
                self.add(
                    *(
                        group_record(types[each], group, None, member_id=f"m{number}")
                        for each in ("assignment", "target", "member")
                    )
                )
            self.add(group_record(types["target_epoch"], group, None))
            self.add(group_record(types["epoch"], group, None))
        elif what in ("member", "target", "assignment"):
            if base == 17 and what != "member":  # a coordinator fails at members without metadata
                metadata = self._member_values(base, "member", epoch)
                self.add(group_record(types["member"], group, metadata, member_id=member))
            values = self._member_values(base, what, epoch)
            self.add(group_record(types[what], group, values, member_id=member))
        elif what == "regex":
            values = {"topics": self.draw.sample("abc", 2), "version": 1, "timestamp": self.time}
            tombstone = self.draw.random() < 0.3
            value = None if tombstone else values
            self.add(group_record(16, group, value, regular_expression="a.*"))
        elif what == "topology":
            self.add(group_record(23, group, self._topology(epoch % 2)))
        else:
            name = "assignment_epoch" if what == "target_epoch" else "epoch"
            values = {name: epoch}
            if base == 17 and what == "epoch":
                values["validated_topology_epoch"] = self.draw.choice([-1, 0, 1])
            self.add(group_record(types[what], group, values))

    def _member_values(self, base: int, what: str, epoch: int) -> Row:
        draw = self.draw
        if what == "member":
            values: Row = {"client_id": "client", "client_host": "/host", "rack_id": None}
            if base == 17:
                return values | {"topology_epoch": 0, "process_id": "p"}
            values["subscribed_topic_names"] = draw.sample("abc", draw.randrange(3))
            if base == 3:
                regex = draw.choice([None, "a.*"])
                values |= {"subscribed_topic_regex": regex, "classic_member_metadata": None}
            return values
        if base == 17:
            tasks = {
                f"{kind}_tasks": [
                    {"subtopology_id": str(number), "partitions": [number]}
                    for number in range(draw.randrange(2))
                ]
                for kind in ("active", "standby", "warmup")
            }
            extra = {
                "member_epoch": epoch,
                "previous_member_epoch": 0,
                "state": draw.choice([1, 2]),
            }
            return tasks | (extra if what == "assignment" else {})
        # Members own partitions of their own: Kafka refuses two owners.
        parts = [{"topic_id": draw.choice([*IDS, uuid.UUID(int=9)]), "partitions": []}]
        if what == "target":
            return {"topic_partitions": parts}
        values = {"member_epoch": epoch, "previous_member_epoch": 0, "state": draw.choice([0, 1])}
        return values | {"assigned_partitions": parts}

    def _topology(self, epoch: int) -> Row:
        subtopology = {
            "subtopology_id": "0",
            "source_topics": [self.draw.choice("ab")],
            "repartition_source_topics": [
                {"name": "c", "partitions": 1, "replication_factor": 1, "topic_configs": []}
            ],
        }
        return {"epoch": epoch, "subtopologies": [subtopology]}


_TYPES = {
    3: {"epoch": 3, "member": 5, "target_epoch": 6, "target": 7, "assignment": 8, "regex": 16},
    11: {"epoch": 11, "member": 10, "target_epoch": 12, "target": 13, "assignment": 14},
    17: {"epoch": 17, "member": 19, "target_epoch": 20, "target": 21, "assignment": 22}
    | {"topology": 23},
}


@pytest.mark.parametrize("seed", range(120))
def test_drawn_histories_give_what_kafkas_coordinator_has(
    seed: int, tmp_path: Path, oracle: Oracle
):
    """Up to the record that Kafka refuses, if there is one; the rows name the same offset."""
    story = Story(seed)
    directory = story.write(tmp_path)
    now = story.time + story.draw.choice([0, RETENTION // 2, RETENTION])
    answer = kafkas(oracle, directory, now, topics())
    found = rows(directory, now)
    problems = [row["problem"] for row in found if row["kind"] == "problem"]
    if "failed_at" in answer:
        (problem,) = problems
        assert f": offset {answer['failed_at']}: " in problem, answer["error"]
        return
    assert problems == []
    assert_equal_to_kafkas(found, answer)


@pytest.mark.parametrize("seed", range(60))
def test_a_large_log_is_read_twice_with_the_same_result(seed: int, tmp_path: Path, monkeypatch):
    """One pass over all records is what Kafka's coordinator does, and is tested above."""
    directory = Story(seed).write(tmp_path)
    expected = rows(directory)
    monkeypatch.setattr(pipelines.groups, "LARGE_BYTES", 0)
    assert rows(directory) == expected


def test_the_oracle_reports_what_it_cannot_do(oracle: Oracle):
    with pytest.raises(OracleError):
        oracle.call("load_groups", metadata=[])
