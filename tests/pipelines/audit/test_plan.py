"""What is read, and in which tasks."""

import pickle

from kafka_log.inventory.scan import scan
from pipelines.audit.plan import AuditPlan, AuditRequest
from tests.pipelines.audit.damaged import NOW_MS, log_dir


def plan_of(*paths, **options):
    paths = tuple(map(str, paths))
    return AuditPlan.of(scan(paths), AuditRequest(paths=paths, now_ms=NOW_MS, **options))


def test_small_segments_share_a_task_and_none_is_lost(tmp_path, monkeypatch):
    plan = plan_of(log_dir(tmp_path / "data"))
    everything = [
        segment.log.path for each in plan.partitions for segment in each.partition.segments
    ]
    (one,) = plan.segment_tasks()
    monkeypatch.setattr("pipelines.audit.plan._TASK_SEGMENTS", 5)
    several = list(plan.segment_tasks())
    for tasks in ([one], several):
        found = [each.segment.log.path for task in tasks for _, each in task.segments()]
        assert found == everything
    assert max(len(list(task.segments())) for task in several) == 5
    assert sum(task.size_in_bytes for task in several) == one.size_in_bytes


def test_a_segment_knows_where_the_next_begins_and_a_task_has_few_of_many_segments(
    tmp_path, monkeypatch
):
    partition = tmp_path / "t-0"
    partition.mkdir()
    for base in range(0, 3000, 10):
        (partition / f"{base:020d}.log").write_bytes(b"")
    monkeypatch.setattr("pipelines.audit.plan._TASK_SEGMENTS", 10)
    tasks = list(plan_of(partition).segment_tasks())
    checked = [each for task in tasks for _, each in task.segments()]
    assert [each.next_base for each in checked] == [*range(10, 3000, 10), None]
    assert max(len(pickle.dumps(task)) for task in tasks) < 20_000
    audited, _ = next(tasks[5].segments())
    assert audited.partition.log_start_offset == 0
    assert audited.partition.segments[-1].base_offset == 2990


def test_whether_the_directory_was_given_or_some_of_its_files(tmp_path):
    data = log_dir(tmp_path / "data")
    file = data / "codecs-0" / f"{0:020d}.log"
    assert [each.is_whole for each in plan_of(file).partitions] == [False]
    assert [each.is_whole for each in plan_of(data / "codecs-0").partitions] == [True]
    assert {each.is_whole for each in plan_of(data, file).partitions} == {True}


def test_settings_are_known_from_the_metadata_or_the_user(tmp_path):
    data = log_dir(tmp_path / "data")
    assert {each.knows_settings for each in plan_of(data).partitions} == {True}
    lone = plan_of(data / "codecs-0" / f"{0:020d}.log")
    known = [each.knows_settings for each in lone.partitions]
    set_ = plan_of(data / "codecs-0", overrides=("cleanup.policy=compact",))
    assert [each.config.compact for each in set_.partitions] == [True]
    assert [each.knows_settings for each in set_.partitions] == [True]
    assert len(known) == 1
