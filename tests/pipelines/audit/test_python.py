"""The public functions: a report, and an assertion."""

import subprocess
import sys
from pathlib import Path

import pytest

import kafka_forensics
from pipelines.audit.baseline import BaselineError
from pipelines.audit.rule_selection import UnknownRuleError
from pipelines.source.storage import StorageError
from tests.pipelines.audit.damaged import NOW_MS, damaged, log_dir

WRONG: dict = {"nosuch": 1}


def test_a_healthy_directory_passes_and_a_damaged_one_fails_with_its_findings(tmp_path):
    kafka_forensics.assert_clean(log_dir(tmp_path / "sound"), now_ms=NOW_MS)
    data = damaged(tmp_path / "data")
    with pytest.raises(AssertionError) as error:
        kafka_forensics.assert_clean(data, now_ms=NOW_MS)
    text = str(error.value)
    assert "LOG001 codecs-0" in text
    assert f"  {0:020d}.log@2153, offset 10: found stored crc " in text
    kafka_forensics.assert_clean(data, fail_on="never", now_ms=NOW_MS)
    kafka_forensics.assert_clean(data, skip=["LOG001", "CKP001"], now_ms=NOW_MS)


def test_a_baseline_lets_known_findings_pass(tmp_path):
    data = damaged(tmp_path / "data")
    marks = {row["fingerprint"] for row in kafka_forensics.audit(data, now_ms=NOW_MS)}
    entries = ", ".join(f'{{"fingerprint": "{each}", "reason": "known"}}' for each in marks)
    known = tmp_path / "known.json"
    known.write_text(f'{{"version": 1, "accepted": [{entries}]}}')
    kafka_forensics.assert_clean(data, baseline=known, now_ms=NOW_MS)
    known.write_text("nonsense")
    with pytest.raises(BaselineError):
        kafka_forensics.assert_clean(data, baseline=known, now_ms=NOW_MS)


def test_settings_are_those_of_set(tmp_path):
    data = log_dir(tmp_path / "data")
    with pytest.raises(Exception, match=r"retention\.ms"):
        kafka_forensics.audit(data, settings={"retention.ms": "abc"})
    assert kafka_forensics.audit(data, settings={"retention.ms": 1}, now_ms=NOW_MS).is_complete


def test_wrong_options_are_errors(tmp_path):
    data = log_dir(tmp_path / "data")
    with pytest.raises(ValueError, match="fail_on='bad': expected error, warning, note, never"):
        kafka_forensics.assert_clean(data, fail_on="bad")
    with pytest.raises(TypeError, match="unexpected option 'nosuch'"):
        kafka_forensics.audit(data, **WRONG)
    with pytest.raises(UnknownRuleError):
        kafka_forensics.audit(data, only=["LOG01"])
    with pytest.raises(StorageError, match="No such file or directory"):
        kafka_forensics.audit(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match="no Kafka files found"):
        kafka_forensics.audit(tmp_path / "empty")


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from pipelines.engine import engine
import kafka_forensics
print("once")
engine.SMALL_INPUT = 0
engine.available_processors = lambda: 2
report = kafka_forensics.audit({data!r}, engine="local", now_ms={now})
print(report.is_complete, [row["id"] for row in report if row["severity"] == "error"])
"""


def test_a_plain_script_runs_once_although_its_audit_runs_in_processes(tmp_path):
    data = damaged(tmp_path / "data")
    script = tmp_path / "script.py"
    root = str(Path(__file__).parents[3])
    script.write_text(SCRIPT.format(root=root, data=str(data), now=NOW_MS))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, timeout=120
    )
    once, result = done.stdout.splitlines()
    assert once == "once"
    assert result.startswith("True ['LOG001', 'LOG001'")
