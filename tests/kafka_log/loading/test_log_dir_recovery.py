"""A whole log dir at a restart, against Kafka's LogManager; the metadata log against KafkaRaftLog.

Golden log dirs, as they were left and with things missing: Kafka loads a copy and writes its
checkpoints; our plan of the evidence must tell of the same directories, files and offsets.
"""

import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_format.checkpoint_file import OffsetCheckpoint
from kafka_format.java_text import parse_uuid, uuid_text
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import LogLoadError
from kafka_log.loading.log_dir_recovery import (
    Assignments,
    Fate,
    LogDirPlan,
    plan_log_dir,
    plan_partition,
)
from kafka_log.names import FileKind
from tests import golden
from tests.kafka_log.loading.test_partition_recovery_oracle import content, digest
from tests.oracle.client import Oracle, OracleError

NOW = 1_790_000_000_000
INDEX_BYTES = 4096
CONFIG = LogConfig(segment_index_bytes=INDEX_BYTES, producer_id_expiration_ms=2**31 - 1)
BROKER = 1
LOG_DIRS = [
    ("clean-3.9.1", "data"),
    ("cleaner-4.3.1", "data-1"),
    ("cleaner-4.3.1", "data-2"),
    ("groups-4.3.1", "data"),
    ("legacy-0.10.2.2", "data"),
    ("legacy-2.8.2", "data"),
    ("unclean-3.9.1", "data"),
    ("unclean-4.3.1", "data"),
]
_STRAY = re.compile(r"(.*)\.[0-9a-f]{32}-stray")


def topic_id(directory: Path) -> uuid.UUID | None:
    """The second line of partition.metadata, behind its colon."""
    path = directory / "partition.metadata"
    return parse_uuid(path.read_text().split()[-1]) if path.exists() else None


def assignments(log_dir: Path, stray: set[uuid.UUID]) -> Assignments:
    """Every topic has its replicas here, but for the strays, which are another broker's."""
    replicas: dict[tuple[uuid.UUID, int], list[int]] = {}
    for directory in log_dir.iterdir():
        found = topic_id(directory) if directory.is_dir() else None
        if found is not None:
            partition = re.search(r"-(\d+)(\.[0-9a-f]{32}-[a-z]+)?$", directory.name).group(1)
            replicas[found, int(partition)] = [2, 3] if found in stray else [2, BROKER]
    return Assignments(broker_id=BROKER, replicas=replicas)


def remove_marker(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)


def damage_checkpoints(log_dir: Path) -> None:
    remove_marker(log_dir)
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n7\ncodecs-0 0 3\n")
    (log_dir / "log-start-offset-checkpoint").unlink(missing_ok=True)


def write_marker(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").write_text("")


def nothing(log_dir: Path) -> None:
    pass


def run(
    oracle: Oracle,
    pack: str,
    name: str,
    change: Callable[[Path], None],
    tmp_path: Path,
    strays: int,
) -> tuple[LogDirPlan, dict[str, Any], Path]:
    """Kafka's answer about a copy, which is then as the restart left it, and our plan."""
    evidence, copy = tmp_path / "evidence" / name, tmp_path / "kafka" / name
    shutil.copytree(golden.shared(pack) / name, evidence)
    for padded in evidence.rglob("*index"):  # 10 MiB of holes each
        if padded.stat().st_size > INDEX_BYTES and not (evidence / ".kafka_cleanshutdown").exists():
            padded.write_bytes(padded.read_bytes()[: INDEX_BYTES // 12 * 12])
    change(evidence)
    shutil.copytree(evidence, copy)
    ids = sorted({found for each in evidence.iterdir() if (found := topic_id(each))})
    stray = set(ids[:strays])
    answer = oracle.call(
        "start_log_manager",
        paths=[copy],
        config={"segment.index.bytes": INDEX_BYTES},
        time=NOW,
        stray=[uuid_text(each) for each in stray],
        timeout=300,
    )
    plan = plan_log_dir(
        evidence, CONFIG, clock=FixedClock(NOW), assignments=assignments(evidence, stray)
    )
    return plan, answer, copy


RESTARTS = [
    (pack, name, change)
    for pack, name in LOG_DIRS
    for change in (nothing, remove_marker, write_marker, damage_checkpoints)
    # Padded indexes after a clean stop are full of entries: no broker leaves that.
    if change is not write_marker or not pack.startswith("unclean")
]


@pytest.mark.parametrize(("pack", "name", "change"), RESTARTS)
def test_a_log_dir_is_planned_as_log_manager_loads_it(
    oracle: Oracle, pack: str, name: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    plan, answer, copy = run(oracle, pack, name, change, tmp_path, strays=change is nothing)
    assert answer["offline"] == bool(plan.fatal)
    if answer["offline"]:
        return
    logs = answer["logs"]
    before = digests(tmp_path / "evidence" / name)
    left = {
        (found.group(1) if (found := _STRAY.fullmatch(each.name)) else each.name): each
        for each in copy.iterdir()
        if each.is_dir()
    }
    for planned in plan.partitions():
        directory = str(planned.name)
        if planned.fate is Fate.METADATA:
            continue
        assert planned.plan.error is None
        written = tmp_path / "written" / directory
        written.mkdir(parents=True)
        planned.plan.write_to(written)
        assert content(written) == content(left[directory]), directory
        is_stray = planned.fate is Fate.STRAY
        assert left[directory].name.endswith("-stray") == is_stray, directory
        if planned.fate in (Fate.CURRENT, Fate.FUTURE):
            loaded = planned.plan.loaded
            assert logs.pop(directory) == {
                "log_start_offset": loaded.log_start_offset,
                "log_end_offset": loaded.log_end_offset,
                "recovery_point": loaded.recovery_point,
            }
    assert logs == {}
    for kind, checkpoint in plan.checkpoints().items():
        assert rows_of(checkpoint) == lines_of(copy / kind.value)
    assert not (copy / ".kafka_cleanshutdown").exists()
    assert digests(tmp_path / "evidence" / name) == before


def digests(log_dir: Path) -> dict[str, Any]:
    return {each.name: digest(each) for each in log_dir.iterdir() if each.is_dir()}


def rows_of(checkpoint: OffsetCheckpoint) -> list[str]:
    return sorted(f"{each.topic} {each.partition} {each.offset}" for each in checkpoint.entries)


def lines_of(path: Path) -> list[str]:
    """Behind the version and the count."""
    return sorted(path.read_text().splitlines()[2:])


# ----------------------------------------------------------------------------- the dir by itself


def log_dir_with(tmp_path: Path, *names: str) -> Path:
    for each in names:
        (tmp_path / each).mkdir()
    return tmp_path


def test_a_name_that_is_no_partitions_stops_the_broker(tmp_path: Path) -> None:
    plan = plan_log_dir(log_dir_with(tmp_path, "orders-0", "lost+found"), CONFIG)
    assert [(row.name, row.action) for row in plan.fatal] == [("lost+found", "stop")]


def test_two_directories_of_one_partition_stop_the_broker(tmp_path: Path) -> None:
    plan = plan_log_dir(log_dir_with(tmp_path, "orders-0", "orders-00"), CONFIG)
    (row,) = plan.fatal
    assert row.name == "orders-00"
    assert row.why == "the same partition as orders-0: the broker does not start"


def test_a_current_and_a_future_directory_are_a_move_and_no_duplicate(tmp_path: Path) -> None:
    future = "orders-0.0123456789abcdef0123456789abcdef-future"
    plan = plan_log_dir(log_dir_with(tmp_path, "orders-0", future), CONFIG)
    assert plan.fatal == []
    assert [each.fate for each in plan.partitions()] == [Fate.CURRENT, Fate.FUTURE]


def test_a_future_directory_that_metadata_assigns_here_is_promoted(tmp_path: Path) -> None:
    topic, here = uuid.UUID(int=7), uuid.UUID(int=99)
    future = "orders-0.0123456789abcdef0123456789abcdef-future"
    log_dir_with(tmp_path, future)
    metadata = f"version: 0\ntopic_id: {uuid_text(topic)}"
    (tmp_path / future / "partition.metadata").write_text(metadata)
    assigned = Assignments(
        broker_id=BROKER,
        replicas={(topic, 0): [BROKER]},
        directories={(topic, 0): here},
        directory_id=here,
    )
    plan = plan_log_dir(tmp_path, CONFIG, assignments=assigned)
    assert [each.fate for each in plan.partitions()] == [Fate.PROMOTED]


def test_a_checkpoint_that_cannot_be_read_counts_as_empty_and_takes_the_log_dir_offline(
    tmp_path: Path,
) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\norders 0 5\n")
    plan = plan_log_dir(log_dir_with(tmp_path, "orders-0"), CONFIG)
    assert plan.recovery_points == {}
    (row,) = plan.fatal
    assert row.action == "offline"
    assert "recovery-point-offset-checkpoint@2: found a count of 2, expected 1" in row.why


def test_without_the_metadata_nothing_is_called_stray_and_a_row_says_so(tmp_path: Path) -> None:
    plan = plan_log_dir(log_dir_with(tmp_path, "orders-0"), CONFIG)
    assert [each.fate for each in plan.partitions()] == [Fate.CURRENT]
    (row,) = [row for row in plan.rows if row.name == "-stray"]
    assert row.why == "not checked: only the metadata log says which replicas belong here"


def test_a_missing_log_dir_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        plan_log_dir(tmp_path / "nowhere", CONFIG)


# ------------------------------------------------------------------------------ the metadata log


def _part(directory: Path) -> None:
    (directory / "00000000000000000007-0000000001-17.checkpoint.part").write_bytes(b"half")
    (directory / "00000000000000000003-0000000001.checkpoint.deleted").write_bytes(b"old")


def _torn(directory: Path) -> None:
    log = max(directory.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-3])


def _snapshot_ahead(directory: Path) -> None:
    (directory / "00000000000000000500-0000000009.checkpoint").write_bytes(b"")


def _snapshot_of_a_newer_epoch(directory: Path) -> None:
    (directory / "00000000000000000020-0000000099.checkpoint").write_bytes(b"")


def _start_above_snapshots(directory: Path) -> None:
    for path in sorted(directory.glob("0*"))[:-12]:
        path.unlink()
    for path in directory.glob("*.checkpoint"):
        path.unlink()


def _start_at_a_snapshot(directory: Path) -> None:
    for path in directory.glob("0*.*"):
        if not path.name.endswith(".checkpoint") and int(path.name[:20]) < 100:
            path.unlink()


def _no_topic_id(directory: Path) -> None:
    (directory / "partition.metadata").unlink()


def _other_topic_id(directory: Path) -> None:
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: b2JqZWN0aW9uLXNlZWRlZA")


def _bad_name(directory: Path) -> None:
    (directory / "snapshot-of-yesterday-evening-at-nine.checkpoint").write_bytes(b"")


CHANGES = [
    nothing,
    _part,
    _torn,
    _snapshot_ahead,
    _snapshot_of_a_newer_epoch,
    _start_above_snapshots,
    _start_at_a_snapshot,
    _no_topic_id,
    _other_topic_id,
    _bad_name,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("pack", ["cleaner-4.3.1", "unclean-3.9.1"])
def test_the_metadata_log_is_planned_as_kafka_raft_log_opens_it(
    oracle: Oracle, pack: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    evidence, copy = (tmp_path / each / "__cluster_metadata-0" for each in ("evidence", "kafka"))
    shutil.copytree(next(golden.shared(pack).rglob(evidence.name)), evidence)
    change(evidence)
    shutil.copytree(evidence, copy)
    try:
        answer = oracle.call("open_metadata_log", path=copy, time=NOW)
    except OracleError as error:
        answer = {"error": error.error_class}
    ignored = LastRun(clean_shutdown=True, log_start_offset=10**6, recovery_point=10**6)
    plan = plan_partition(evidence, CONFIG, ignored, clock=FixedClock(NOW))
    if "error" in answer:
        assert isinstance(plan.error, LogLoadError), answer
        return
    assert plan.error is None
    loaded = plan.loaded
    assert answer == {
        "log_start_offset": loaded.log_start_offset,
        "log_end_offset": loaded.log_end_offset,
    }
    written = tmp_path / "written"
    written.mkdir()
    plan.write_to(written)
    assert content(written) == content(copy)
    assert [row for row in plan.rows() if not row.why] == []


def test_the_plan_of_a_log_dir_checks_the_metadata_log_whatever_the_marker_says(
    tmp_path: Path,
) -> None:
    log_dir = tmp_path / "data"
    shutil.copytree(golden.shared("clean-3.9.1") / "data", log_dir)
    plan = plan_log_dir(log_dir, CONFIG, clock=FixedClock(NOW))
    assert plan.had_clean_shutdown
    name = next(each for each in plan.directories if each.topic == "__cluster_metadata")
    planned = plan.partition(name)
    assert (planned.fate, planned.last_run.clean_shutdown) == (Fate.METADATA, False)
    size = (log_dir / str(name) / "00000000000000000000.log").stat().st_size
    assert planned.plan.bytes_read == size
    topics = {each.topic for each in plan.checkpoints()[FileKind.RECOVERY_POINT_CHECKPOINT].entries}
    assert "__cluster_metadata" not in topics
