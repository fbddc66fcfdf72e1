"""Annotations that cannot break out of their command, and the step summary."""

import pytest

from kafka_log.checks.finding import About, Finding
from kafka_log.disk.output import OutputError
from pipelines.audit.outputs.github import annotation_lines, append_summary, summary
from pipelines.audit.report import AuditReport
from tests.pipelines.audit.damaged import damaged, report_of


def report_with(count, topic="t", found="found"):
    report = AuditReport()
    for number in range(count):
        about = About(f"/data/{topic}-{number}/0.log", topic, number)
        report.add(Finding.of("LOG001", about, found, "expected"))
    return report


def test_one_annotation_per_rule_and_partition(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = report_of(damaged(tmp_path / "data"))
    first, second = annotation_lines(report)
    assert first == (
        f"::error file=data/codecs-0/{0:020d}.log,line=1,title=LOG001 codecs-0::a batch has a wrong"
        " checksum (2 times). Restore the partition from another replica."
    )
    assert second.startswith("::error file=data/recovery-point-offset-checkpoint,line=1,title=CKP0")
    assert second.endswith(
        "::an offset checkpoint that cannot be read: 'nonsense'."
        " Delete the file while the broker is stopped."
    )


def test_names_and_texts_are_escaped():
    (line,) = annotation_lines(report_with(1, topic="a,b:c%\n", found="100%\r\n::error::x"))
    assert "\n" not in line
    assert line.startswith("::error file=0.log,line=1,title=LOG001 a%2Cb%3Ac%25\\x0a-0::")
    assert line.endswith("100%25\\x0d\\x0a::error::x. Restore the partition from another replica.")


def test_what_github_does_not_show_is_counted():
    lines = list(annotation_lines(report_with(12)))
    assert len(lines) == 11
    assert lines[-1].endswith("::2 annotations more: see the summary")


def test_the_summary_is_appended_and_shows_names_as_they_are(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    append_summary(report_with(1, topic="<b>|`x`"), str(path), [])
    text = path.read_text()
    assert text.startswith("before\n### 1 error in 0 partitions")
    assert "&lt;b&gt;\\|\\`x\\`-0" in text
    append_summary(report_with(1), None, [])


def test_the_summary_is_not_written_into_the_evidence(tmp_path):
    with pytest.raises(OutputError):
        append_summary(report_with(1), str(tmp_path / "summary.md"), [str(tmp_path)])
    assert "not checked" not in summary(report_with(0))
