"""Lines for a terminal: one per finding, with nothing in them that controls it."""

import pytest

from kafka_log.checks.facts import NotChecked
from kafka_log.checks.finding import About, Finding
from pipelines.audit.outputs.text import (
    finding_line,
    first_sentence,
    not_checked_lines,
    summary_lines,
)
from pipelines.audit.report import AuditReport


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Move it away.", "Move it away."),
        ("Restore it. Then look.", "Restore it."),
        ("no end", "no end"),
    ],
)
def test_the_first_sentence(text, first):
    assert first_sentence(text) == first


def test_a_line_is_escaped():
    report = AuditReport()
    about = About("/data/t-0/\x1b[2J.log", "t", 0)
    report.add(Finding.of("LOG001", about, "a\nb", "c", position=7, offset=9))
    (row,) = report
    assert finding_line(row) == "  \\x1b[2J.log@7, offset 9: found a\\x0ab, expected c"


def test_of_many_the_first_are_shown():
    report = AuditReport()
    for number in range(25):
        report.add_not_checked(NotChecked("records", "why", f"/data/{number}"))
        about = About(f"/data/t-{number}/0.log", "t", number)
        report.add(Finding.of("LOG001", about, "a", "b"))
    assert len(list(not_checked_lines(report))) == 21
    assert len(list(not_checked_lines(report, everything=True))) == 25
    assert "and 5 groups of findings more" in list(summary_lines(report))
