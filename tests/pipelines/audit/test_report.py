"""The verdict, the groups and the exit code."""

import pytest

from kafka_log.checks.facts import NotChecked
from kafka_log.checks.finding import About, Finding
from pipelines.audit.report import FIELDS, AuditReport
from pipelines.audit.rule_selection import RuleSelection
from tests.pipelines.audit.damaged import damaged, log_dir, report_of


def report_with(*rules, **options):
    report = AuditReport(**options)
    for number, rule in enumerate(rules):
        about = About(f"/data/t-0/{number}.log", "t", 0)
        report.add(Finding.of(rule, about, "found", "expected", offset=number))
    return report


@pytest.mark.parametrize(
    ("rules", "verdict", "codes"),
    [
        ((), "healthy: nothing found in 0 partitions (0 segments, 0 B)", (0, 0, 0, 0)),
        (
            ("DIR004",),
            "healthy: no errors or warnings in 0 partitions (0 segments, 0 B); 1 note",
            (0, 0, 1, 0),
        ),
        (("LOG004",), "1 warning in 0 partitions (0 segments, 0 B)", (0, 1, 1, 0)),
        (
            ("LOG001", "DIR004", "LOG001", "LOG004"),
            "2 errors, 1 warning, 1 note in 0 partitions (0 segments, 0 B)",
            (1, 1, 1, 0),
        ),
        (
            ("DIR001", "LOG001"),
            "2 errors in 0 partitions (0 segments, 0 B); 1 file could not be read",
            (3, 3, 3, 3),
        ),
    ],
)
def test_verdict_and_exit_code(rules, verdict, codes):
    report = report_with(*rules)
    assert report.verdict == verdict
    assert tuple(map(report.exit_code, ("error", "warning", "note", "never"))) == codes
    assert report.summary("note")["exit_code"] == codes[2]


def test_a_finding_has_all_its_fields(tmp_path):
    row = report_of(damaged(tmp_path / "data")).rows()[0]
    assert tuple(row) == FIELDS
    assert row["on_restart"].startswith("After an unclean shutdown the log is truncated")
    assert row["what_to_do"].startswith("Restore the partition from another replica.")


def test_rules_that_are_not_selected_are_not_there_but_what_was_not_read_still_counts():
    report = report_with("LOG001", "DIR001", rules=RuleSelection(skip=frozenset({"DIR001"})))
    assert [row["id"] for row in report] == ["LOG001"]
    assert [row["path"] for row in report.not_checked] == ["/data/t-0/1.log"]
    assert report.exit_code("never") == 3


def test_what_was_not_checked_is_listed_once():
    report = AuditReport()
    for _ in range(2):
        report.add_not_checked(NotChecked("replicas", "not given"))
    assert [(row["what"], row["why"]) for row in report.not_checked] == [("replicas", "not given")]


def test_groups_have_the_first_finding_in_the_order_of_the_report():
    report = report_with("LOG004", "LOG001", "LOG001")
    assert [(each.first["id"], each.first["offset"], each.count) for each in report.groups()] == [
        ("LOG001", 1, 2),
        ("LOG004", 0, 1),
    ]


def test_the_repr_is_the_verdict_and_the_groups(tmp_path):
    report = report_of(damaged(tmp_path / "data"))
    lines = repr(report).splitlines()
    assert lines[0] == report.verdict
    assert lines[1].startswith("error LOG001 codecs-0: a batch has a wrong checksum (2 times). ")
    assert repr(report_of(log_dir(tmp_path / "other"))).startswith("healthy: nothing found")


def test_data_is_next_to_a_finding_only_on_request(tmp_path):
    data = damaged(tmp_path / "data")
    assert "records" not in report_of(data).rows()[0]
    shown = report_of(data, show_data=True).rows()
    assert [each["key"] for each in shown[1]["records"]][:2] == ["key-000", "key-001"]
    assert [each["offset"] for each in shown[1]["records"]] == [10, 11, 12, 13, 14]
    assert shown[2]["records"] == []
