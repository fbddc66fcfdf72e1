"""Checkpoints against logs: rows beyond the end, below the start, missing, and of nothing."""

import shutil
from pathlib import Path

import pytest

from kafka_log.checks.rules.rule import Severity
from tests import golden
from tests.kafka_log.checks.broker_cases import (
    MARKER,
    NOW,
    add_metadata,
    checked,
    findings,
    ids,
    log_dir_of,
    not_checked,
    only,
    set_row,
    topic_id,
)
from tests.kafka_log.inventory.test_cluster_metadata import config, remove
from tests.oracle.client import Oracle

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"


@pytest.mark.parametrize("pack", golden.names())
def test_what_real_brokers_left_gives_neither_errors_nor_warnings(pack: str) -> None:
    found = findings(golden.shared(pack))
    assert [each for each in found if each.severity is not Severity.NOTE] == []
    assert {each.id for each in found} <= {"DIR009", "DIR012", "DIR013"}


def test_a_directory_without_leftovers_gives_nothing() -> None:
    assert checked(golden.shared("groups-4.3.1")) == []


@pytest.mark.parametrize(
    ("file", "rule", "found"),
    [
        (HIGH_WATERMARK, "CKP002", "high watermark 12: 3 acknowledged offsets are missing"),
        (RECOVERY_POINT, "CKP003", "recovery point 12: 3 flushed offsets are missing"),
        (LOG_START, "CKP004", "log start 12"),
        (CLEANER, "CKP005", "cleaner offset 12: 3 cleaned offsets are missing"),
    ],
)
def test_a_row_beyond_the_log_end(tmp_path: Path, file: str, rule: str, found: str) -> None:
    log_dir = log_dir_of(tmp_path)
    set_row(log_dir, file, "counts 0", 12)  # its log ends at 9
    finding = only(log_dir)
    assert (finding.id, finding.found, finding.expected) == (rule, found, "at most the log end 9")
    assert (finding.topic, finding.partition, finding.offset) == ("counts", 0, 12)
    assert finding.path == str(log_dir / file)


def test_a_last_segment_that_is_gone_is_missed_by_two_checkpoints(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    for each in (log_dir / "counts-0").glob("00*"):
        each.unlink()
    assert [each.found for each in findings(log_dir)] == [
        "high watermark 9: 9 acknowledged offsets are missing",
        "recovery point 9: 9 flushed offsets are missing",
    ]


def test_a_log_start_beyond_the_end_empties_the_log(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    set_row(log_dir, LOG_START, "counts 0", 12)
    assert ids(log_dir) == ["CKP004"]
    answer = oracle.call("start_log_manager", paths=[log_dir], config={}, time=NOW, timeout=120)
    assert answer["logs"]["counts-0"]["log_start_offset"] == 12
    assert answer["logs"]["counts-0"]["log_end_offset"] == 12
    logs = {each.name: each.stat().st_size for each in (log_dir / "counts-0").glob("*.log")}
    assert logs == {"00000000000000000012.log": 0}


@pytest.mark.parametrize(("row", "kafkas"), [(12, 9), (5, 9), (None, 9)])
def test_after_a_clean_stop_the_recovery_point_becomes_the_log_end(
    oracle: Oracle, tmp_path: Path, row: int | None, kafkas: int
) -> None:
    log_dir = log_dir_of(tmp_path)
    set_row(log_dir, RECOVERY_POINT, "counts 0", row)
    rule = {12: "CKP003", 5: "CKP007", None: "CKP010"}[row]
    assert ids(log_dir) == [rule]
    answer = oracle.call("start_log_manager", paths=[log_dir], config={}, time=NOW, timeout=120)
    assert answer["logs"]["counts-0"]["recovery_point"] == kafkas


def test_a_high_watermark_beyond_the_end_becomes_the_end(oracle: Oracle, tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    answer = oracle.call(
        "run_log",
        path=log_dir / "counts-0",
        config={},
        time=NOW,
        clean_shutdown=True,
        log_start_offset=0,
        recovery_point=9,
        steps=[{"do": "high_watermark", "offset": 12}],
    )
    assert answer["state"]["high_watermark"] == 9


def test_after_a_crash_rows_may_be_old_or_missing(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / MARKER).unlink()
    set_row(log_dir, RECOVERY_POINT, "counts 0", 5)
    set_row(log_dir, RECOVERY_POINT, "words 0", None)
    set_row(log_dir, HIGH_WATERMARK, "counts 0", 2)
    set_row(log_dir, HIGH_WATERMARK, "words 0", None)
    assert checked(log_dir) == []


def test_a_recovery_point_below_the_log_start(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path, "clean-3.9.1")
    before = ids(log_dir)
    set_row(log_dir, RECOVERY_POINT, "tiny.segments 0", 1)
    finding = next(each for each in findings(log_dir) if each.id == "CKP006")
    assert sorted([*before, "CKP006"]) == sorted(ids(log_dir))
    assert (finding.found, finding.expected) == ("recovery point 1", "at least the log start 5")
    (log_dir / MARKER).unlink()
    assert "CKP006" not in ids(log_dir)


@pytest.mark.parametrize(("policy", "is_found"), [("compact", True), ("compact,delete", False)])
def test_a_cleaner_offset_below_the_log_start(tmp_path: Path, policy: str, is_found: bool) -> None:
    log_dir = log_dir_of(tmp_path)
    set_row(log_dir, LOG_START, "counts 0", 6)
    set_row(log_dir, CLEANER, "counts 0", 3)
    add_metadata(log_dir, config(2, "counts", "cleanup.policy", policy))
    assert ids(log_dir) == (["CKP006"] if is_found else [])


@pytest.mark.parametrize("file", [RECOVERY_POINT, HIGH_WATERMARK])
def test_a_partition_without_a_row_after_a_clean_stop(tmp_path: Path, file: str) -> None:
    log_dir = log_dir_of(tmp_path)
    set_row(log_dir, file, "words 0", None)
    finding = only(log_dir)
    assert (finding.id, finding.found) == ("CKP010", "no row for words-0")


@pytest.mark.parametrize("file", [RECOVERY_POINT, LOG_START, HIGH_WATERMARK])
def test_a_checkpoint_that_is_missing(oracle: Oracle, tmp_path: Path, file: str) -> None:
    log_dir = log_dir_of(tmp_path)
    (log_dir / file).unlink()
    finding = only(log_dir)
    assert (finding.id, finding.path) == ("CKP011", str(log_dir / file))
    assert finding.on_restart.startswith("The broker creates an empty file: ")
    if file != HIGH_WATERMARK:  # that is the ReplicaManager's
        oracle.call("start_log_manager", paths=[log_dir], config={}, time=NOW, timeout=120)
        assert (log_dir / file).exists()


def test_the_cleaners_checkpoint_is_missed_if_another_log_dir_has_it(tmp_path: Path) -> None:
    first = log_dir_of(tmp_path, "cleaner-4.3.1", "data-1")
    second = log_dir_of(tmp_path, "cleaner-4.3.1", "data-2")
    (first / CLEANER).unlink()
    found = [each for each in findings(first, second) if each.id.startswith("CKP")]
    assert [(each.id, each.path) for each in found] == [("CKP011", str(first / CLEANER))]


def test_a_log_dir_of_a_controller_needs_no_checkpoints(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    for each in log_dir.iterdir():
        if each.name not in ("__cluster_metadata-0", "meta.properties", "bootstrap.checkpoint"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
    set_property_of_node(log_dir, 7)
    assert findings(log_dir) == []


def set_property_of_node(log_dir: Path, node_id: int) -> None:
    """A node without replicas, and which never registered this log dir."""
    path = log_dir / "meta.properties"
    lines = path.read_text().replace("node.id=1", f"node.id={node_id}").splitlines()
    path.write_text("\n".join(each for each in lines if not each.startswith("directory")) + "\n")


def test_records_that_checkpoints_promise_and_that_are_not_on_disk(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    shutil.rmtree(log_dir / "counts-0")
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    finding = only(log_dir)
    assert (finding.id, finding.topic, finding.partition) == ("CKP008", "counts", 0)
    assert finding.found == "recovery point 9, high watermark 9, and no directory"
    assert not_checked(log_dir) == [
        ("replica assignments", "no cluster metadata log on these disks")
    ]


def test_a_row_of_a_partition_that_was_deleted_is_harmless(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    add_metadata(log_dir, remove(topic_id(log_dir / "counts-0")))
    shutil.rmtree(log_dir / "counts-0")
    finding = only(log_dir)
    assert (finding.id, finding.severity) == ("CKP009", Severity.NOTE)


def test_a_directory_that_is_marked_as_deleted_explains_its_rows(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    add_metadata(log_dir, remove(topic_id(log_dir / "counts-0")))
    deleted = f"counts-0.{'0' * 32}-delete"
    (log_dir / "counts-0").rename(log_dir / deleted)
    assert ids(log_dir) == ["DIR012"]


def test_rows_of_partitions_that_were_not_selected_are_not_missing(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path)
    assert checked(log_dir / "counts-0") == []


def test_bare_directories_and_files_give_nothing(tmp_path: Path) -> None:
    bare = tmp_path / "bare" / "orders-0"
    shutil.copytree(golden.shared("groups-4.3.1") / "data" / "counts-0", bare)
    assert findings(bare) == []
    (log,) = bare.glob("*.log")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(log, alone)
    assert findings(alone / log.name) == []
