"""The job: the same findings in the same order each way, and failures that hide nothing."""

import shutil
from pathlib import Path

import pytest

from kafka_log.checks.rules import RULES
from kafka_log.checks.rules.rule import Severity
from kafka_log.checks.segments import segment_checks
from pipelines.audit import tasks
from pipelines.audit.audit import Running, audit_inventory
from pipelines.audit.plan import AuditPlan, AuditRequest
from pipelines.audit.python import audit
from pipelines.audit.report import AuditReport
from pipelines.engine import engine
from tests import golden
from tests.pipelines.audit.damaged import LOG, NOW_MS, damaged, log_dir, report_of
from tests.pipelines.audit.damaged import RULES as MADE


def facts(report):
    return [(row["id"], row["topic"], row["partition"], row["offset"]) for row in report]


def test_damage_is_found_in_its_place_the_first_rule_first(tmp_path):
    data = damaged(tmp_path / "data")
    report = report_of(data)
    assert facts(report) == [
        ("LOG001", "codecs", 0, 0),
        ("LOG001", "codecs", 0, 10),
        ("CKP001", None, None, None),
    ]
    first, _, last = report
    assert first["path"] == str(data / "codecs-0" / LOG)
    assert (first["log_dir"], first["node_id"]) == (str(data), 1)
    (line,) = (data / "codecs-0" / "partition.metadata").read_text().splitlines()[1:]
    assert first["topic_id"] == line.removeprefix("topic_id: ")
    assert last["path"] == str(data / "recovery-point-offset-checkpoint")
    assert [(group.first["id"], group.count) for group in report.groups()] == [
        ("LOG001", 2),
        ("CKP001", 1),
    ]


@pytest.mark.parametrize("pack", golden.names())
def test_what_a_healthy_broker_left_has_no_error(pack):
    for directory in golden.log_dirs(golden.shared(pack)):
        report = audit(directory, now_ms=NOW_MS, engine="local")
        assert [row for row in report if row["severity"] == "error"] == []
        assert report.is_complete


def test_processes_and_spark_find_the_same_in_the_same_order(tmp_path, spark, monkeypatch):
    data = damaged(tmp_path / "data")
    here = report_of(data, only=()).rows()
    assert here
    on_spark = report_of(data, only=(), engine="spark").rows()
    assert on_spark == here
    monkeypatch.setattr(engine, "SMALL_INPUT", 0)
    monkeypatch.setattr(engine, "available_processors", lambda: 2)
    monkeypatch.setattr("pipelines.audit.plan._TASK_BYTES", 4096)
    assert report_of(data, only=()).rows() == here


def test_a_file_that_cannot_be_read_is_a_finding_and_not_checked_and_the_rest_is_read(tmp_path):
    data = damaged(tmp_path / "data")
    checkpoint = data / "cleaner-offset-checkpoint"
    checkpoint.unlink()
    checkpoint.symlink_to("nowhere")
    report = report_of(data, only=("LOG001", "DIR001"))
    assert facts(report) == [
        ("LOG001", "codecs", 0, 0),
        ("LOG001", "codecs", 0, 10),
        ("DIR001", None, None, None),
    ]
    assert list(report.unread) == [str(checkpoint)]
    assert str(checkpoint) in [row["path"] for row in report.not_checked]
    assert report.exit_code("never") == 3
    assert "1 file could not be read" in report.verdict


def test_a_link_out_of_the_evidence_is_not_read_unless_links_are_followed(tmp_path):
    data = log_dir(tmp_path / "data")
    shutil.move(data / "codecs-0" / LOG, tmp_path / LOG)
    (data / "codecs-0" / LOG).symlink_to(tmp_path / LOG)
    report = report_of(data, only=("DIR007",))
    assert [row["id"] for row in report] == ["DIR007"]
    assert report.exit_code("never") == 3
    assert report_of(data, only=("DIR007",), follow_links=True).exit_code() == 0


def test_a_log_that_is_replaced_while_it_is_read_is_a_finding(tmp_path, monkeypatch):
    data = log_dir(tmp_path / "data")
    target = data / "codecs-0" / LOG
    check = segment_checks.check_segment

    def replacing(audited, segment, files, **options):
        yield from check(audited, segment, files, **options)
        if segment.log.path == str(target):
            other = target.with_name("other")
            shutil.copyfile(target, other)
            other.replace(target)

    monkeypatch.setattr(tasks, "check_segment", replacing)
    report = report_of(data, only=("DIR001", "DIR008"))
    assert [(row["id"], row["path"]) for row in report] == [("DIR008", str(target))]
    assert report.exit_code() == 3


def test_an_internal_error_of_one_task_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    data = damaged(tmp_path / "data")
    check = segment_checks.check_segment

    def failing(audited, segment, files, **options):
        if audited.partition.topic == "compacted":
            raise ZeroDivisionError("a bug")
        yield from check(audited, segment, files, **options)

    monkeypatch.setattr(tasks, "check_segment", failing)
    monkeypatch.setattr("pipelines.audit.plan._TASK_SEGMENTS", 1)
    failures: list = []
    from kafka_log.inventory.scan import scan

    request = AuditRequest(paths=(str(data),), now_ms=NOW_MS)
    report = audit_inventory(
        scan([data]),
        request,
        AuditReport(paths=request.paths),
        Running(engine="local", on_failure=failures.append),
    )
    assert {row["topic"] for row in report if row["id"] == "DIR001"} == {"compacted"}
    assert ("LOG001", "codecs", 0, 10) in facts(report)
    assert "ZeroDivisionError" in failures[0].details
    assert report.exit_code("never") == 3


def test_a_log_file_is_checked_without_the_files_next_to_it(tmp_path):
    data = damaged(tmp_path / "data")
    alone = tmp_path / LOG
    shutil.copyfile(data / "codecs-0" / LOG, alone)
    for path in (alone, data / "codecs-0" / LOG):
        report = audit(path, now_ms=NOW_MS, engine="local")
        assert [(row["id"], row["offset"]) for row in report] == [("LOG001", 0), ("LOG001", 10)]
        assert report.checked.segments == 1


def test_a_partition_directory_with_logs_only_is_accepted(tmp_path):
    data = log_dir(tmp_path / "data")
    bare = tmp_path / "codecs-1"
    bare.mkdir()
    shutil.copyfile(data / "codecs-1" / LOG, bare / LOG)
    report = audit(bare, now_ms=NOW_MS, engine="local")
    assert [row for row in report if row["severity"] == "error"] == []
    assert report.checked.partitions == 1


def test_only_selected_partitions_are_read(tmp_path):
    data = damaged(tmp_path / "data")
    report = report_of(data, topics=["codecs"], partitions=[1])
    assert facts(report) == [("CKP001", None, None, None)]
    assert report.partitions == [("codecs", 1)]


def test_a_directory_to_be_deleted_is_named_as_not_checked_and_read_if_it_is_given(tmp_path):
    data = log_dir(tmp_path / "data")
    (gone,) = data.glob("*-delete")
    assert str(gone) in [row["path"] for row in audit(data, now_ms=NOW_MS).not_checked]
    report = audit(gone, now_ms=NOW_MS)
    assert report.checked.partitions == 1
    assert str(gone) not in [row["path"] for row in report.not_checked]


def test_headers_say_that_records_were_not_checked(tmp_path):
    report = audit(log_dir(tmp_path / "data"), headers=True, now_ms=NOW_MS)
    assert "checksums and records" in [row["what"] for row in report.not_checked]


def test_log_dirs_of_one_node_are_one_broker_and_its_settings_come_from_any_of_them(tmp_path):
    dirs = golden.log_dirs(golden.shared("cleaner-4.3.1"))
    from kafka_log.inventory.scan import scan

    plan = AuditPlan.of(scan(dirs), AuditRequest(paths=tuple(map(str, dirs)), now_ms=NOW_MS))
    assert len(plan.brokers) == 1
    assert {each.knows_settings for each in plan.partitions} == {True}


def test_the_rules_of_the_fixture_are_errors():
    assert {RULES[rule].severity for rule in MADE} == {Severity.ERROR}
    assert Path(LOG).suffix == ".log"
