"""Leftovers and unknown files, and that a start does with them what the findings say."""

import random
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from kafka_format.java_text import uuid_text
from tests.kafka_log.checks.broker_cases import (
    DIRECTORY_ID,
    NOW,
    add_metadata,
    checked,
    directories_change,
    findings,
    ids,
    log_dir_of,
    only,
    registration_change,
    set_property,
    topic_id,
)
from tests.oracle.client import Oracle, OracleError

SEGMENT = "00000000000000000000"
UNIQUE = "0123456789abcdef0123456789abcdef"
OTHER = uuid.UUID(int=2**100 + 7)


def load(oracle: Oracle, *paths: Path, **image: object) -> dict[str, Any]:
    arguments = {"image": image} if image else {}
    return oracle.call(
        "start_log_manager", paths=list(paths), config={}, time=NOW, timeout=120, **arguments
    )


def with_file(tmp_path: Path, name: str, data: bytes = b"left") -> tuple[Path, Path]:
    log_dir = log_dir_of(tmp_path)
    path = log_dir / name
    path.write_bytes(data)
    return log_dir, path


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule", "remains"),
    [
        (f"{SEGMENT}.log.deleted", "DIR009", False),
        ("00000000000000000009.snapshot.deleted", "DIR009", False),
        ("anything.deleted", "DIR009", False),
        (f"{SEGMENT}.log.cleaned", "DIR010", False),
        (f"{SEGMENT}.timeindex.cleaned", "DIR010", False),
        ("leader-epoch-checkpoint.tmp", "DIR010", None),
        ("partition.metadata.tmp", "DIR010", None),
        ("notes.txt", "DIR015", True),
        ("00000000000000000007-0000000001.checkpoint.deleted", "DIR015", True),
        ("meta.properties", "DIR015", True),
    ],
)
def test_a_file_that_was_left(
    oracle: Oracle, tmp_path: Path, name: str, rule: str, remains: bool | None
) -> None:
    log_dir, path = with_file(tmp_path, f"counts-0/{name}")
    finding = only(log_dir)
    assert (finding.id, finding.path) == (rule, str(path))
    assert (finding.topic, finding.partition) == ("counts", 0)
    answer = load(oracle, log_dir)
    assert answer["logs"]["counts-0"]["log_end_offset"] == 9
    if remains is not None:
        assert path.exists() == remains


def test_many_leftovers_of_a_partition_are_one_finding(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    for base_offset in range(5):
        (log_dir / "counts-0" / f"{base_offset:020d}.log.deleted").write_bytes(b"")
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("DIR009", str(log_dir / "counts-0"))
    assert finding.found.endswith("00000000000000000002.log.deleted and 2 more")


@pytest.mark.parametrize("name", ["notes.txt", "recovery-point-offset-checkpoint.tmp"])
def test_a_file_in_a_log_dir_that_kafka_ignores(oracle: Oracle, tmp_path: Path, name: str) -> None:
    log_dir, path = with_file(tmp_path, name)
    finding = only(log_dir)
    assert finding.id == ("DIR010" if name.endswith(".tmp") else "DIR015")
    assert finding.path == str(path)
    assert load(oracle, log_dir)["offline"] is False


def test_an_incomplete_snapshot_of_the_metadata(oracle: Oracle, tmp_path: Path) -> None:
    name = "00000000000000000007-0000000001-17.checkpoint.part"
    log_dir, path = with_file(tmp_path, f"__cluster_metadata-0/{name}")
    assert ids(log_dir) == ["DIR010"]
    oracle.call("open_metadata_log", path=path.parent, time=NOW)
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "is_fatal"),
    [
        ("snapshot-of-yesterday-evening-at-nine.checkpoint", True),
        ("yesterday.checkpoint.deleted", True),
        ("00000000000000000007-0000000001.checkpoint.deleted", False),
    ],
)
def test_a_snapshot_of_the_metadata_with_another_name(
    oracle: Oracle, tmp_path: Path, name: str, is_fatal: bool
) -> None:
    log_dir, path = with_file(tmp_path, f"__cluster_metadata-0/{name}")
    assert ids(log_dir) == ["DIR016" if is_fatal else "DIR009"]
    if is_fatal:
        with pytest.raises(OracleError):
            oracle.call("open_metadata_log", path=path.parent, time=NOW)
    else:
        oracle.call("open_metadata_log", path=path.parent, time=NOW)
        assert not path.exists()


def as_swap(log_dir: Path) -> Path:
    """The segment of counts-0 was swapped in up to the renaming: its data as `.swap`."""
    directory = log_dir / "counts-0"
    for kind in ("log", "index", "timeindex"):
        shutil.copy(directory / f"{SEGMENT}.{kind}", directory / f"{SEGMENT}.{kind}.swap")
    return directory


def test_a_finished_swap_is_completed(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    directory = as_swap(log_dir)
    finding = only(log_dir)
    assert finding.id == "DIR011"
    names = [f"{SEGMENT}.{kind}" for kind in ("index", "log", "timeindex")]
    assert finding.on_restart == (
        f"The broker deletes {', '.join(names)}, and renames {'.swap, '.join(names)}.swap."
    )
    before = (directory / names[1]).read_bytes()
    (directory / names[1]).write_bytes(b"")  # it is replaced, so its content does not matter
    assert load(oracle, log_dir)["logs"]["counts-0"]["log_end_offset"] == 9
    assert (directory / names[1]).read_bytes() == before
    assert list(directory.glob("*.swap")) == []


def test_a_swap_that_was_not_finished_is_deleted(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    directory = as_swap(log_dir)
    (directory / f"{SEGMENT}.txnindex.cleaned").write_bytes(b"")
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("DIR010", str(directory))
    before = (directory / f"{SEGMENT}.log").read_bytes()
    load(oracle, log_dir)
    assert (directory / f"{SEGMENT}.log").read_bytes() == before
    assert list(directory.glob("*.swap")) == []


@pytest.mark.parametrize(
    "name", ["orders.log", "orders.index", "orders.snapshot", "x.swap", "x.cleaned"]
)
def test_a_name_with_which_the_broker_does_not_start(
    oracle: Oracle, tmp_path: Path, name: str
) -> None:
    log_dir, path = with_file(tmp_path, f"counts-0/{name}")
    found = findings(log_dir)
    assert ("DIR016", str(path)) in [(each.id, each.path) for each in found]
    assert {each.id for each in found} <= {"DIR016", "DIR010"}
    assert "error" in load(oracle, log_dir)


def test_a_log_with_another_name_moves_the_end_of_the_log(oracle: Oracle, tmp_path: Path) -> None:
    log_dir, path = with_file(tmp_path, "counts-0/5.log")
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("DIR016", str(path))
    proper = "00000000000000000005.log"
    assert finding.expected == proper
    answer = load(oracle, log_dir)
    assert answer["logs"]["counts-0"]["log_end_offset"] == 5  # of 9
    assert (log_dir / "counts-0" / proper).exists()


_STEMS = ("5", "05", SEGMENT, "orders", "-3", "9" * 20, "1.x", "x.1", f"{SEGMENT}-0000000001")
_ENDINGS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", "", ".txt")
_SUFFIXES = ("", ".swap", ".cleaned", ".deleted", ".tmp", ".part", ".bak")


@pytest.mark.parametrize("seed", range(25))
def test_what_becomes_of_any_name(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    name = "".join(map(rng.choice, (_STEMS, _ENDINGS, _SUFFIXES)))
    log_dir, path = with_file(tmp_path, f"counts-0/{name}", b"")
    found = [each for each in findings(log_dir) if each.id != "CKP002"]
    answer = load(oracle, log_dir)
    says_no_start = [each.on_restart for each in found] == ["The partition does not load."]
    assert says_no_start == ("error" in answer)
    is_renamed_or_deleted = any(
        word in each.on_restart for each in found for word in ("deletes", "renames")
    )
    if found and not says_no_start:
        assert is_renamed_or_deleted == (not path.exists())


# --- directories ----------------------------------------------------------------------------------


def without_images(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "__cluster_metadata-0")


@pytest.mark.parametrize(("suffix", "rule"), [("delete", "DIR012"), ("stray", "DIR014")])
def test_a_directory_that_is_not_served(
    oracle: Oracle, tmp_path: Path, suffix: str, rule: str
) -> None:
    log_dir = log_dir_of(tmp_path)
    left = log_dir / f"counts-0.{UNIQUE}-{suffix}"
    shutil.copytree(log_dir / "counts-0", left)
    finding = only(log_dir)
    assert (finding.id, finding.path) == (rule, str(left))
    assert left.name not in load(oracle, log_dir)["logs"]


def moving(tmp_path: Path) -> tuple[Path, Path, uuid.UUID]:
    """A replica of `counts` in one log dir, and its future log in another one."""
    first = log_dir_of(tmp_path)
    counts = topic_id(first / "counts-0")
    second = first.parent / "second"
    second.mkdir()
    shutil.copy(first / "meta.properties", second)
    set_property(second, "directory.id", uuid_text(OTHER))
    shutil.copytree(first / "counts-0", second / f"counts-0.{UNIQUE}-future")
    return first, second, counts


def image(counts: uuid.UUID, directory: uuid.UUID) -> dict[str, object]:
    partition = {
        "topic_id": uuid_text(counts),
        "partition": 0,
        "replicas": [1],
        "directories": [uuid_text(directory)],
    }
    return {"broker_id": 1, "partitions": [partition]}


def test_a_move_between_log_dirs_continues(oracle: Oracle, tmp_path: Path) -> None:
    first, second, counts = moving(tmp_path)
    add_metadata(first, registration_change(1, DIRECTORY_ID, OTHER))
    finding = only(first, second)
    assert (finding.id, finding.on_restart) == ("DIR013", "The move continues.")
    logs = load(oracle, first, second, **image(counts, DIRECTORY_ID))["logs"]
    assert sorted(logs) == ["counts-0", f"counts-0.{UNIQUE}-future"]


def test_a_future_replica_that_is_already_assigned_is_promoted(
    oracle: Oracle, tmp_path: Path
) -> None:
    first, second, counts = moving(tmp_path)
    add_metadata(
        first,
        registration_change(1, DIRECTORY_ID, OTHER),
        directories_change(counts, 0, OTHER),
    )
    found = {each.id: each for each in findings(first, second)}
    assert sorted(found) == ["DIR013", "MET014"]
    assert found["DIR013"].on_restart == (
        "The metadata already assigns the replica to this log dir: the directory loses its suffix "
        "and is served. The other copy is deleted."
    )
    logs = load(oracle, first, second, **image(counts, OTHER))["logs"]
    assert sorted(logs) == ["counts-0"]
    assert (second / "counts-0").is_dir()
    assert [each.name[-7:] for each in first.glob("counts-0*")] == ["-delete"]


def test_a_future_replica_without_a_current_one(tmp_path: Path) -> None:
    first, second, _ = moving(tmp_path)
    add_metadata(first, registration_change(1, DIRECTORY_ID, OTHER))
    without_images(first)
    shutil.rmtree(first / "counts-0")
    found = next(each for each in findings(first, second) if each.id == "DIR013")
    assert found.found.endswith(", and no current directory")
    assert found.on_restart == "The broker creates an empty replica if no other log dir has one."


def test_without_leftovers_there_is_nothing(tmp_path: Path) -> None:
    assert checked(log_dir_of(tmp_path)) == []
