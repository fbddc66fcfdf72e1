"""SARIF as the published schema wants it, and as code scanning uses it."""

import io
import json
from pathlib import Path

import jsonschema
import pytest

from kafka_log.checks.finding import About, Finding
from pipelines.audit.outputs import sarif
from pipelines.audit.report import AuditReport
from tests.pipelines.audit.damaged import damaged, log_dir, report_of

SCHEMA = json.loads(Path(__file__).with_name("sarif-schema-2.1.0.json").read_text())


def written(report):
    file = io.StringIO()
    sarif.write_sarif(file, report)
    found = json.loads(file.getvalue())
    jsonschema.Draft4Validator(SCHEMA).validate(found)
    (run,) = found["runs"]
    return run


def texts(run):
    (invocation,) = run["invocations"]
    return [each["message"]["text"] for each in invocation["toolExecutionNotifications"]]


def test_a_finding_is_a_result_with_place_and_fingerprint(tmp_path):
    report = report_of(damaged(tmp_path / "data"))
    run = written(report)
    _, result, last = run["results"]
    assert (result["ruleId"], result["level"]) == ("LOG001", "error")
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": f"data/codecs-0/{0:020d}.log"},
        "region": {"startLine": 1, "byteOffset": 2153, "byteLength": 0},
    }
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "node 1/codecs-0"
    assert result["partialFingerprints"] == {"kafkaForensics/v1": report.rows()[1]["fingerprint"]}
    assert last["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (
        "data/recovery-point-offset-checkpoint"
    )
    rules = run["tool"]["driver"]["rules"]
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == [
        each["ruleId"] for each in run["results"]
    ]
    assert rules[0]["help"]["markdown"].startswith("# LOG001: ")


def test_what_was_not_checked_is_a_notification(tmp_path):
    run = written(report_of(log_dir(tmp_path / "data"), headers=True))
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is True
    assert texts(run)[0].startswith("healthy: nothing found in 17 partitions")
    assert any("checksums and records" in text for text in texts(run))


def test_accepted_findings_are_suppressed(tmp_path):
    data = damaged(tmp_path / "data")
    mark = report_of(data).rows()[0]["fingerprint"]
    known = tmp_path / "known.json"
    known.write_text(
        f'{{"version": 1, "accepted": [{{"fingerprint": "{mark}", "reason": "known"}}]}}'
    )
    results = written(report_of(data, baseline=known))["results"]
    assert [each.get("suppressions") for each in results] == [
        [{"kind": "external", "justification": "known"}],
        None,
        None,
    ]


@pytest.mark.parametrize(("partitions", "listed"), [(3, 3), (12, 10)])
def test_more_findings_than_code_scanning_shows_are_summed_up(partitions, listed, monkeypatch):
    monkeypatch.setattr(sarif, "MOST_RESULTS", 10)
    report = AuditReport()
    for partition in range(partitions):
        for offset in range(5):
            about = About(f"/data/t-{partition}/0.log", "t", partition)
            report.add(Finding.of("LOG001", about, "found", "expected", offset=offset))
    run = written(report)
    assert [each["occurrenceCount"] for each in run["results"]] == [5] * listed
    assert run["results"][0]["message"]["text"].startswith("5 findings: a batch has a wrong")
    summed = f"{5 * partitions} findings are summed up by rule and partition"
    assert any(text.startswith(summed) for text in texts(run))
    assert any("the worst 10 of 12" in text for text in texts(run)) == (partitions == 12)


def test_hostile_names_are_encoded():
    report = AuditReport()
    about = About("/data/x y\udce9%-0/0.log", "x y\udce9%", 0)
    report.add(Finding.of("LOG001", about, "\x1b[31m", "expected"))
    (result,) = written(report)["results"]
    assert "\x1b" not in result["message"]["text"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "0.log"


def test_paths_below_the_current_directory_are_relative_to_it(tmp_path, monkeypatch):
    data = damaged(tmp_path / "disks" / "data")
    monkeypatch.chdir(tmp_path)
    run = written(report_of(data))
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == f"disks/data/codecs-0/{0:020d}.log"
