"""JUnit XML, as an independent parser reads it."""

import io

import junitparser
import pytest

from kafka_log.checks.finding import About, Finding
from pipelines.audit.outputs.junit import write_junit
from pipelines.audit.report import AuditReport
from tests.pipelines.audit.damaged import damaged, report_of


def cases(report, fail_on="error"):
    file = io.StringIO()
    write_junit(file, report, fail_on)
    found = junitparser.JUnitXml.fromstring(file.getvalue().encode())
    return {case.name: case for suite in found for case in suite}, found


def test_a_partition_is_a_case_and_fails_with_its_findings(tmp_path):
    data = damaged(tmp_path / "data")
    by_name, whole = cases(report_of(data))
    assert len(by_name) == 17 + 1
    failed = {name for name, case in by_name.items() if case.is_failure}
    assert failed == {"codecs-0", str(data)}
    (failure,) = by_name["codecs-0"].result
    assert failure.type == "LOG001"
    assert failure.message.startswith("error LOG001: a batch has a wrong checksum (2 times)")
    assert by_name["codecs-1"].is_passed
    assert by_name["codecs-0"].classname == "codecs"
    whole.update_statistics()
    assert (whole.tests, whole.failures, whole.errors) == (18, 2, 0)


@pytest.mark.parametrize(("fail_on", "fails"), [("warning", True), ("error", False)])
def test_findings_below_the_limit_are_output(fail_on, fails):
    report = AuditReport(partitions=[("t", 0)])
    report.add(Finding.of("LOG004", About("/data/t-0/0.log", "t", 0), "found", "expected"))
    by_name, _ = cases(report, fail_on)
    assert by_name["t-0"].is_failure is fails
    assert bool(by_name["t-0"].system_out) is not fails


def test_a_file_that_was_not_read_is_an_error():
    report = AuditReport(partitions=[("t", 0)])
    report.add(Finding.of("DIR001", About("/data/t-0/0.log", "t", 0), "found", "expected"))
    by_name, _ = cases(report, "never")
    assert by_name["t-0"].is_error


def test_text_that_xml_cannot_hold_is_replaced():
    report = AuditReport()
    hostile = "a\x00\x1b\ufffe\udce9<]]>&"
    report.add(Finding.of("LOG001", About(f"/data/{hostile}-0/0.log", hostile, 0), hostile, "x"))
    by_name, _ = cases(report)
    (name,) = by_name
    assert name == "a\\x00\\x1b\ufffd\\xe9<]]>&-0"
