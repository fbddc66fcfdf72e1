"""Tasks go to other processes, and results to where they belong."""

import os
import pickle
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from jobs.rewriting import terminated_as_interrupted
from kafka_log.clock import system_clock
from kafka_log.config.settings import read_settings
from kafka_log.disk.output import OutputError
from kafka_log.inventory.scan import scan
from kafka_log.names import DirectoryKind
from pipelines.engine.engine import Failure, run
from pipelines.engine.partition_tasks import destination, partition_tasks
from pipelines.offsets import ReadOffsets
from pipelines.recovery import RecoverPartition
from pipelines.retention import retain_partition
from tests import golden

NOW = 1_794_820_000_000


@pytest.fixture(scope="module")
def tasks():
    (log_dir,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    return partition_tasks(scan([log_dir]), read_settings(), now_ms=NOW)


@pytest.mark.parametrize(
    "function", [retain_partition, ReadOffsets(replay=True), RecoverPartition()], ids=str
)
def test_several_processes_give_the_rows_of_one(tasks, function):
    chosen = [task for task in tasks if task.topic in ("codecs", "tiny.segments")]
    alone: list[Any] = list(run(chosen, function, processes=1))
    assert list(run(chosen, function, processes=2)) == alone
    assert not any(isinstance(row, Failure) for row in alone)
    assert {row["topic"] for row in alone} == {"codecs", "tiny.segments"}


def test_a_task_is_a_value(tasks):
    assert pickle.loads(pickle.dumps(tasks)) == tasks
    by_name = {task.name: task for task in tasks}
    task = by_name["tiny.segments-0"]
    assert (task.topic, task.partition, task.kind) == ("tiny.segments", 0, DirectoryKind.PARTITION)
    assert (task.log_start_offset, task.high_watermark, task.recovery_point) == (5, 80, 80)
    assert task.is_clean
    assert by_name["__cluster_metadata-0"].is_metadata_log
    (marked,) = [task for task in tasks if task.kind is DirectoryKind.DELETE]
    assert marked.high_watermark is None


def two_log_dirs(tmp_path, first="a/data", second="b/data"):
    (source,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    paths = []
    for name, partition in ((first, "codecs-0"), (second, "codecs-1")):
        path = tmp_path / name
        shutil.copytree(source / partition, path / partition)
        shutil.copy(source / "meta.properties", path)
        paths.append(path)
    return paths


def test_copies_of_several_log_dirs_lie_under_their_names(tmp_path):
    paths = two_log_dirs(tmp_path, "data-1", "data-2")
    log_dirs = scan(paths).log_dirs
    with destination(log_dirs, paths, output=tmp_path / "out", in_place=False) as place:
        assert sorted(each.name for each in place.copies.values()) == ["data-1", "data-2"]
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["data-1", "data-2"]


def test_log_dirs_of_one_name_cannot_be_copied_together(tmp_path):
    paths = two_log_dirs(tmp_path)
    with (
        pytest.raises(OutputError, match="with the same name"),
        destination(scan(paths).log_dirs, paths, output=tmp_path / "out", in_place=False),
    ):
        raise AssertionError("not reached")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


def test_being_terminated_is_like_ctrl_c():
    with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_future_replica_is_retained_as_the_log_it_will_be(tmp_path):
    root = golden.shared("cleaner-4.3.1")
    found = partition_tasks(scan([root]), read_settings(), now_ms=system_clock())
    (future,) = [task for task in found if task.kind is DirectoryKind.FUTURE]
    rows = list(retain_partition(future))
    assert rows[-1]["log_end_offset"] == rows[-1]["high_watermark"]
    assert Path(future.path).name.endswith("-future")
