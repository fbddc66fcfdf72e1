"""The KRaft metadata of a log dir: topics, settings and replicas, of whole and damaged logs."""

import base64
import uuid
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.inventory.cluster_metadata import ClusterMetadata, read_cluster_metadata
from tests import golden

A, B = uuid.UUID(int=2**100 + 1), uuid.UUID(int=2**100 + 2)
LOG = f"{0:020d}.log"


# Records by hand, as spec/metadata_records.md has them: frame, api key, version, fields, no tags.
def compact(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()


def topic(name: str, topic_id: uuid.UUID) -> bytes:
    return b"\x01\x02\x00" + compact(name) + topic_id.bytes + b"\x00"


def remove(topic_id: uuid.UUID) -> bytes:
    return b"\x01\x09\x00" + topic_id.bytes + b"\x00"


def config(kind: int, resource: str, name: str, value: str | None) -> bytes:
    return bytes([1, 4, 0, kind]) + compact(resource) + compact(name) + compact(value) + b"\x00"


BEGIN, END, ABORT = b"\x01\x17\x00\x00", b"\x01\x18\x00\x00", b"\x01\x19\x00\x00"
NO_OP = b"\x01\x14\x00\x00"


def log(*values: bytes, base_offset: int = 0) -> bytes:
    """A batch a record, as a slow quorum writes them."""
    return b"".join(
        encode_batch([SimpleRecord(0, None, value)], base_offset=base_offset + number)
        for number, value in enumerate(values)
    )


def read(directory: Path) -> ClusterMetadata:
    return read_cluster_metadata(str(directory), [each.name for each in directory.iterdir()])


def test_topics_come_and_go_with_their_settings(tmp_path):
    (tmp_path / LOG).write_bytes(
        log(
            topic("a", A),
            config(2, "a", "retention.ms", "5"),
            config(2, "a", "segment.ms", "6"),
            config(2, "a", "segment.ms", None),
            topic("b", B),
            config(2, "b", "retention.ms", "7"),
            remove(B),
            NO_OP,
        )
    )
    found = read(tmp_path)
    assert found.topic_ids == {"a": A}
    assert found.topic_configs == {"a": {"retention.ms": "5"}}
    assert found.deleted_topics == {B: "b"}
    assert found.topic_name(A) == "a"
    assert found.topic_name(B) is None
    assert (found.end_offset, found.problems) == (8, ())


def test_settings_of_a_topic_do_not_survive_it(tmp_path):
    (tmp_path / LOG).write_bytes(
        log(topic("a", A), config(2, "a", "retention.ms", "5"), remove(A), topic("a", B))
    )
    found = read(tmp_path)
    assert found.topic_ids == {"a": B}
    assert found.topic_configs.get("a", {}) == {}


def test_settings_of_brokers_are_apart_from_those_of_all_and_others_are_left_out(tmp_path):
    (tmp_path / LOG).write_bytes(
        log(
            config(4, "", "log.retention.ms", "1"),
            config(4, "3", "log.retention.ms", "2"),
            config(8, "3", "kafka.log", "DEBUG"),
            config(16, "metrics", "interval.ms", "5"),
        )
    )
    found = read(tmp_path)
    assert found.broker_configs == {"": {"log.retention.ms": "1"}, "3": {"log.retention.ms": "2"}}
    assert found.topic_configs == {}


def test_of_a_metadata_transaction_only_what_was_ended_counts(tmp_path):
    (tmp_path / LOG).write_bytes(
        log(BEGIN, topic("a", A), ABORT, BEGIN, topic("b", B), END, BEGIN, topic("c", A))
    )
    assert read(tmp_path).topic_ids == {"b": B}


def test_a_snapshot_comes_before_the_log_behind_it(tmp_path):
    (tmp_path / f"{5:020d}-{2:010d}.checkpoint").write_bytes(log(topic("a", A)))
    (tmp_path / f"{3:020d}-{1:010d}.checkpoint").write_bytes(b"never looked at")
    (tmp_path / LOG).write_bytes(log(*[NO_OP] * 4, remove(A), topic("b", B)))
    found = read(tmp_path)
    assert found.topic_ids == {"a": A, "b": B}  # offset 4 is in the snapshot already
    assert found.end_offset == 6


def test_an_older_snapshot_stands_in_for_a_damaged_one(tmp_path):
    (tmp_path / f"{3:020d}-{1:010d}.checkpoint").write_bytes(log(topic("a", A)))
    damaged = bytearray(log(topic("b", B)))
    damaged[-1] ^= 1
    newer = tmp_path / f"{5:020d}-{2:010d}.checkpoint"
    newer.write_bytes(damaged)
    found = read(tmp_path)
    assert found.topic_ids == {"a": A}
    (problem,) = found.problems
    assert problem.startswith(f"{newer}@")
    assert "crc" in problem


@pytest.mark.parametrize("damage", ["flipped", "unframed", "garbage"])
def test_a_damaged_log_counts_up_to_the_damage(tmp_path, damage):
    good, more = log(topic("a", A)), log(topic("b", B), base_offset=2)
    bad = bytearray(log(topic("c", B), base_offset=1))
    if damage == "flipped":
        bad[-2] ^= 4
    elif damage == "unframed":
        bad[:] = log(b"\x07 no frame", base_offset=1)
    else:
        bad[:] = b"\xff" * 100
    (tmp_path / LOG).write_bytes(good + bad + more)
    found = read(tmp_path)
    assert found.topic_ids == {"a": A}
    (problem,) = found.problems
    in_header = 17 if damage == "flipped" else 0  # where a batch has its checksum
    assert problem.startswith(f"{tmp_path / LOG}@{len(good) + in_header}: found ")


def test_a_torn_end_is_no_problem(tmp_path):
    whole = log(topic("a", A))
    (tmp_path / LOG).write_bytes(whole + whole[:20])
    assert read(tmp_path).problems == ()


def test_a_log_that_is_gone_is_told(tmp_path):
    found = read_cluster_metadata(str(tmp_path), [LOG])
    assert found.unreadable == ((str(tmp_path / LOG), "No such file or directory"),)
    assert found.topic_ids == {}


def test_every_replica_of_a_golden_broker_has_its_log_dir():
    root = golden.shared("cleaner-4.3.1")
    found = read(root / "data-1" / "__cluster_metadata-0")
    directories = found.directories_of(1)
    by_log_dir = {}
    for log_dir in golden.log_dirs(root):
        text = (log_dir / "meta.properties").read_text()
        by_log_dir[log_dir.name] = text.split("directory.id=")[1].split()[0]
    placed = {
        (found.topic_name(topic_id), partition): directory
        for (topic_id, partition), directory in directories.items()
    }
    assert len(placed) == 22
    encoded = {name: _base64(placed[name, 0]) for name in ("moved", "compacted.producers")}
    assert encoded == {
        "moved": by_log_dir["data-2"],
        "compacted.producers": by_log_dir["data-1"],
    }


def _base64(directory: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(directory.bytes).decode().rstrip("=")


def register(broker: int, *log_dirs: uuid.UUID) -> bytes:
    """A RegisterBrokerRecord of version 3, without endpoints and features."""
    fields = broker.to_bytes(4, "big") + bytes(1) + bytes(16) + bytes(8) + b"\1\1\0\0\0"
    value = bytes([len(log_dirs) + 1]) + b"".join(each.bytes for each in log_dirs)
    return b"\x01\x00\x03" + fields + bytes([1, 0, len(value)]) + value


def test_the_log_dirs_of_brokers_are_those_of_their_last_registration(tmp_path):
    change = b"\x01\x11\x02" + (2).to_bytes(4, "big") + bytes(8)
    (tmp_path / LOG).write_bytes(
        log(
            register(1, A),
            register(2, A),
            register(3, B),
            register(1, A, B),
            change + bytes([1, 2, 17, 2]) + B.bytes,
            change + b"\0",  # nothing about log dirs
            b"\x01\x01\x00" + (3).to_bytes(4, "big") + bytes(8) + b"\0",  # unregistered
        )
    )
    found = read(tmp_path)
    assert found.problems == ()
    assert found.log_dirs == {1: (A, B), 2: (B,)}


@pytest.mark.parametrize("pack", ["clean-3.9.1", "cleaner-4.3.1"])
def test_real_brokers_register_the_log_dirs_that_they_have(pack):
    root = golden.shared(pack)
    (directory,) = root.rglob("__cluster_metadata-0")
    metas = [path.read_text() for path in root.rglob("meta.properties")]
    ids = {line.split("=")[1] for text in metas for line in text.split() if "directory.id" in line}
    found = {
        base64.urlsafe_b64encode(each.bytes)[:22].decode() for each in read(directory).log_dirs[1]
    }
    assert found == ids


def test_an_empty_or_damaged_log_is_incomplete(tmp_path):
    (tmp_path / LOG).write_bytes(b"")
    assert read(tmp_path).why_incomplete == "the cluster metadata log is empty"
    (tmp_path / LOG).write_bytes(log(topic("a", A)))
    assert read(tmp_path).why_incomplete == ""
    damaged = bytearray(log(topic("a", A), topic("b", B)))
    damaged[-1] ^= 1
    (tmp_path / LOG).write_bytes(damaged)
    assert read(tmp_path).why_incomplete == "the cluster metadata log could not be read to its end"
