"""Ids of log dirs, topics and replicas: meta.properties, partition.metadata and the image."""

import re
import shutil
import uuid
from pathlib import Path

import pytest

from kafka_format.java_text import uuid_text
from kafka_log.checks.brokers.identities import is_reserved
from tests import golden
from tests.kafka_log.checks.broker_cases import (
    CLUSTER_ID,
    DIRECTORY_ID,
    MARKER,
    NOW,
    add_metadata,
    checked,
    directories_change,
    findings,
    ids,
    log_dir_of,
    not_checked,
    only,
    registration_change,
    replicas_change,
    set_property,
    set_row,
    topic_id,
)
from tests.kafka_log.inventory.test_cluster_metadata import remove, topic
from tests.oracle.client import Oracle, OracleError

OTHER = uuid.UUID(int=2**100 + 7)
NODE = 1


def start(oracle: Oracle, *paths: Path) -> None:
    """Raises OracleError if a node with these log dirs does not start."""
    oracle.call("initialize_log_dirs", paths=list(paths), node_id=NODE)


def second_log_dir(tmp_path: Path, directory_id: uuid.UUID | None = OTHER) -> Path:
    """An empty log dir of the same node."""
    log_dir = tmp_path / "evidence" / "second"
    log_dir.mkdir(parents=True)
    shutil.copy(golden.shared("groups-4.3.1") / "data" / "meta.properties", log_dir)
    set_property(log_dir, "directory.id", None if directory_id is None else uuid_text(directory_id))
    return log_dir


def load(oracle: Oracle, *paths: Path, **image: object) -> list[str]:
    """The directories that Kafka serves after it loaded the log dirs."""
    answer = oracle.call(
        "start_log_manager", paths=list(paths), config={}, time=NOW, image=image, timeout=120
    )
    assert "error" not in answer
    return sorted(answer["logs"])


# --- meta.properties ------------------------------------------------------------------------------


def test_two_log_dirs_of_one_node_are_fine(oracle: Oracle, tmp_path: Path) -> None:
    first, second = log_dir_of(tmp_path), second_log_dir(tmp_path)
    assert checked(first, second) == []
    start(oracle, first, second)


def test_a_directory_id_of_two_log_dirs(oracle: Oracle, tmp_path: Path) -> None:
    first, second = log_dir_of(tmp_path), second_log_dir(tmp_path, DIRECTORY_ID)
    finding = only(first, second)
    assert finding.id == "MET010"
    assert finding.path == str(second / "meta.properties")
    assert finding.found == "directory.id=yIckUInzRhWcVm-nD304zw"
    with pytest.raises(OracleError, match="Duplicate directory ID"):
        start(oracle, first, second)


def test_a_reserved_directory_id(oracle: Oracle, tmp_path: Path) -> None:
    first, second = log_dir_of(tmp_path), second_log_dir(tmp_path, uuid.UUID(int=99))
    assert ids(first, second) == ["MET010"]
    with pytest.raises(OracleError, match="Invalid reserved directory ID"):
        start(oracle, first, second)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, True), (99, True), (100, False), (2**63 - 1, False), (2**63, True), (2**64, False)],
)
def test_reserved_ids(number: int, expected: bool) -> None:
    assert is_reserved(uuid.UUID(int=number)) == expected


def test_a_log_dir_without_meta_properties(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / "meta.properties").unlink()
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("MET011", str(log_dir / "meta.properties"))
    with pytest.raises(OracleError, match=r"No readable meta\.properties"):
        start(oracle, log_dir)


def test_a_malformed_meta_properties_is_not_missing(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / "meta.properties").write_text("version=1\n")
    assert ids(log_dir) == []


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("node.id", "2", "doesn't match previous node id"),
        ("cluster.id", "b3RoZXItY2x1c3Rlci0xMg", "Invalid cluster.id"),
    ],
)
def test_a_registered_log_dir_of_another_node_or_cluster(
    oracle: Oracle, tmp_path: Path, name: str, value: str, error: str
) -> None:
    first, second = log_dir_of(tmp_path), second_log_dir(tmp_path)
    add_metadata(first, registration_change(NODE, DIRECTORY_ID, OTHER))
    assert findings(first, second) == []
    set_property(second, name, value)
    finding = only(first, second)
    assert (finding.id, finding.path) == ("MET012", str(second / "meta.properties"))
    assert finding.expected == f"node 1 of cluster {CLUSTER_ID}, which registered this log dir"
    with pytest.raises(OracleError, match=error):
        start(oracle, first, second)


def test_other_brokers_of_the_cluster_are_no_findings(tmp_path: Path) -> None:
    first, second = log_dir_of(tmp_path), second_log_dir(tmp_path)
    set_property(second, "node.id", "2")
    assert findings(first, second) == []


def test_a_log_dir_that_is_not_registered(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    add_metadata(log_dir, registration_change(NODE, OTHER))
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("MET013", str(log_dir / "meta.properties"))
    assert finding.expected == f"one of {uuid_text(OTHER)}"


# --- partition.metadata ---------------------------------------------------------------------------


def image_of(*partitions: tuple[uuid.UUID, int, list[int], list[uuid.UUID]]) -> list[object]:
    return [
        {
            "topic_id": uuid_text(each[0]),
            "partition": each[1],
            "replicas": each[2],
            "directories": [uuid_text(one) for one in each[3]],
        }
        for each in partitions
    ]


def only_counts(tmp_path: Path) -> tuple[Path, uuid.UUID]:
    """A log dir with counts-0 and the metadata log, and the id of `counts`."""
    log_dir = log_dir_of(tmp_path)
    counts = topic_id(log_dir / "counts-0")
    removed = set()
    for each in log_dir.iterdir():
        if each.is_dir() and each.name not in ("counts-0", "__cluster_metadata-0"):
            removed.add(topic_id(each))
            shutil.rmtree(each)
    add_metadata(log_dir, *map(remove, removed))
    for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log_dir / file).write_text("0\n1\ncounts 0 9\n")
    return log_dir, counts


def strays(log_dir: Path) -> list[str]:
    """The partitions whose directories were renamed."""
    found = (re.fullmatch(r"(.*)\.[0-9a-f]{32}-stray", each.name) for each in log_dir.iterdir())
    return [each.group(1) for each in found if each]


def test_a_replica_that_is_assigned_here(oracle: Oracle, tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    assert checked(log_dir) == []
    partitions = image_of((counts, 0, [NODE], [DIRECTORY_ID]))
    assert load(oracle, log_dir, broker_id=NODE, partitions=partitions) == ["counts-0"]
    assert strays(log_dir) == []


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_replica_that_is_not_assigned_here(
    oracle: Oracle, tmp_path: Path, is_moved: bool
) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(log_dir, replicas_change(counts, 0, 2, 3) if is_moved else remove(counts))
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("MET006", str(log_dir / "counts-0"))
    assert finding.found == (
        "its replicas are [2, 3], not broker 1"
        if is_moved
        else f"no topic has the id {counts} and this partition"
    )
    partitions = image_of((counts, 0, [2, 3], [OTHER, OTHER])) if is_moved else []
    assert load(oracle, log_dir, broker_id=NODE, partitions=partitions) == []
    assert strays(log_dir) == ["counts-0"]


def test_a_topic_that_was_created_again_has_another_id(tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(log_dir, remove(counts), topic("counts", OTHER))
    finding = only(log_dir)
    assert finding.id == "MET006"
    assert finding.found.endswith(f"this partition; counts is {uuid_text(OTHER)}")


def test_a_directory_with_records_and_without_an_id(oracle: Oracle, tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    (log_dir / "counts-0" / "partition.metadata").unlink()
    finding = only(log_dir)
    assert (finding.id, finding.expected) == ("MET007", f"topic id {uuid_text(counts)}")
    partitions = image_of((counts, 0, [NODE], [DIRECTORY_ID]))
    assert load(oracle, log_dir, broker_id=NODE, partitions=partitions) == []
    assert strays(log_dir) == ["counts-0"]


def test_without_metadata_kraft_still_needs_the_id_of_the_topic(tmp_path: Path) -> None:
    log_dir, _ = only_counts(tmp_path)
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    (log_dir / "counts-0" / "partition.metadata").unlink()
    assert ids(log_dir) == ["MET007"]
    meta = (log_dir / "meta.properties").read_text()
    meta = meta.replace("version=1", "version=0").replace("node.id", "broker.id")
    (log_dir / "meta.properties").write_text(meta)
    assert ids(log_dir) == []


def test_an_empty_directory_without_an_id_is_what_a_crash_leaves(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / MARKER).unlink()
    (log_dir / "__transaction_state-0" / "partition.metadata").unlink()
    assert checked(log_dir) == []


def test_an_empty_directory_without_an_id_after_a_clean_stop(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / "__transaction_state-0" / "partition.metadata").unlink()
    finding = only(log_dir)
    assert (finding.id, finding.topic, finding.partition) == ("MET017", "__transaction_state", 0)
    assert "-stray" in finding.on_restart


def test_the_metadata_log_gets_its_id_again(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    path = log_dir / "__cluster_metadata-0" / "partition.metadata"
    before = path.read_bytes()
    path.unlink()
    finding = only(log_dir)
    assert (finding.id, finding.on_restart) == ("MET017", "The broker writes the file again.")
    oracle.call("open_metadata_log", path=path.parent, time=NOW)
    assert path.read_bytes() == before


def test_a_metadata_log_without_quorum_state(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    path = log_dir / "__cluster_metadata-0" / "quorum-state"
    path.unlink()
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("MET019", str(path))


@pytest.mark.parametrize("knows_image", [True, False])
def test_a_directory_with_the_id_of_another_topic(
    oracle: Oracle, tmp_path: Path, knows_image: bool
) -> None:
    log_dir = log_dir_of(tmp_path)
    words = topic_id(log_dir / "words-0")
    (log_dir / "counts-0" / "partition.metadata").unlink()
    shutil.copy(log_dir / "words-0" / "partition.metadata", log_dir / "counts-0")
    if not knows_image:
        shutil.rmtree(log_dir / "__cluster_metadata-0")
    finding = only(log_dir)
    assert finding.id == "MET018"
    assert {finding.topic, *finding.found.split(" of ")[1:]} == {"counts", "words"}
    partitions = image_of((words, 0, [NODE], [DIRECTORY_ID]))
    served = load(oracle, log_dir, broker_id=NODE, partitions=partitions)
    assert served == ["counts-0", "words-0"]  # the others are stray


def test_a_malformed_partition_metadata_is_not_missing(tmp_path: Path) -> None:
    log_dir, _ = only_counts(tmp_path)
    (log_dir / "counts-0" / "partition.metadata").write_text("version: 0\ntopic_id: ?")
    assert ids(log_dir) == []


def test_partitions_of_a_topic_with_different_ids(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    assert findings(log_dir) == []
    path = log_dir / "input-2" / "partition.metadata"
    path.write_text(f"version: 0\ntopic_id: {uuid_text(OTHER)}")
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("MET008", str(path))
    assert finding.found == f"topic id {uuid_text(OTHER)}"


def test_a_metadata_log_with_another_id(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    directory = log_dir / "__cluster_metadata-0"
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(OTHER)}")
    finding = only(log_dir)
    assert (finding.id, finding.expected) == ("MET009", "AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(OracleError, match="topic ID"):
        oracle.call("open_metadata_log", path=directory, time=NOW)


# --- where replicas are ---------------------------------------------------------------------------


def test_a_replica_in_another_log_dir_than_assigned(oracle: Oracle, tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(log_dir, directories_change(counts, 0, OTHER))
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("MET014", str(log_dir / "counts-0"))
    assert finding.expected == f"log dir {uuid_text(OTHER)}"
    partitions = image_of((counts, 0, [NODE], [OTHER]))
    assert load(oracle, log_dir, broker_id=NODE, partitions=partitions) == ["counts-0"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_replicas_whose_log_dir_is_not_known_yet_are_fine(tmp_path: Path, number: int) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(log_dir, directories_change(counts, 0, uuid.UUID(int=number)))
    assert checked(log_dir) == []


def without_counts(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "counts-0")
    for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        set_row(log_dir, file, "counts 0", None)


def test_the_only_replica_is_not_on_disk(tmp_path: Path) -> None:
    log_dir, _ = only_counts(tmp_path)
    without_counts(log_dir)
    finding = only(log_dir)
    assert (finding.id, finding.topic, finding.partition) == ("MET016", "counts", 0)
    assert finding.path == str(log_dir)


def test_one_of_several_replicas_is_not_on_disk(tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(
        log_dir,
        replicas_change(counts, 0, NODE, 2),
        directories_change(counts, 0, DIRECTORY_ID, OTHER),
    )
    without_counts(log_dir)
    finding = only(log_dir)
    assert (finding.id, finding.found) == ("MET015", "no directory, other replicas on 2")


def test_a_topic_that_was_created_just_before_a_crash_has_no_directory_yet(
    tmp_path: Path,
) -> None:
    log_dir, _ = only_counts(tmp_path)
    without_counts(log_dir)
    (log_dir / MARKER).unlink()
    finding = only(log_dir)
    assert (finding.id, finding.found) == ("MET015", "no directory, no other replica")


def test_a_lost_directory_with_rows_is_missed_by_the_checkpoints_as_well(tmp_path: Path) -> None:
    log_dir, _ = only_counts(tmp_path)
    shutil.rmtree(log_dir / "counts-0")
    assert sorted(ids(log_dir)) == ["CKP008", "MET016"]
    (log_dir / MARKER).unlink()
    assert sorted(ids(log_dir)) == ["CKP008", "MET016"]


def test_a_replica_of_a_log_dir_that_was_not_given_is_not_checked(tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(
        log_dir,
        registration_change(NODE, DIRECTORY_ID, OTHER),
        directories_change(counts, 0, OTHER),
    )
    without_counts(log_dir)
    assert findings(log_dir) == []
    why = "1 replica is in log dirs that were not given, or only in part"
    assert not_checked(log_dir) == [("replica assignments", why)]


def test_what_was_not_selected_is_not_missed(tmp_path: Path) -> None:
    log_dir, _ = only_counts(tmp_path)
    shutil.copytree(log_dir / "counts-0", log_dir / "counts-1")
    shutil.rmtree(log_dir / "counts-0")
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    assert {"CKP008", "CKP011", "MET016"} < set(ids(log_dir))
    assert ids(log_dir / "counts-1") == ["CKP010", "MET006"]
    assert not_checked(log_dir / "counts-1") == [
        ("replica assignments", "1 replica is in log dirs that were not given, or only in part")
    ]


def test_damaged_metadata_says_nothing_about_replicas(tmp_path: Path) -> None:
    log_dir, counts = only_counts(tmp_path)
    add_metadata(log_dir, replicas_change(counts, 0, 2, 3))
    path = next((log_dir / "__cluster_metadata-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    why = "the cluster metadata log could not be read to its end"
    assert not_checked(log_dir) == [("replica assignments", why)]
    assert "MET006" not in ids(log_dir)
