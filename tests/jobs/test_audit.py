"""The verb `audit`: output, options and exit codes. The checks are tested with their modules."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import audit
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from pipelines.audit.report import FIELDS
from tests.jobs.verbs import run_verb
from tests.pipelines.audit.damaged import LOG, damaged

ROOT = Path(__file__).parents[2]
NOW = "2026-11-18T12:00:00Z"
ONLY = ("--only", "LOG001,CKP001", "--now", NOW)


@pytest.fixture
def bad(tmp_path):
    return damaged(tmp_path / "data")


def run(capsys, *words):
    return run_verb(audit.main, capsys, *words)


def test_the_first_line_is_the_verdict_then_groups_then_what_was_not_checked(bad, capsys):
    code, out, err = run(capsys, bad, *ONLY)
    assert (code, err) == (FINDINGS, "")
    verdict, _, header, *rest = out.splitlines()
    assert verdict.startswith("3 errors in 17 partitions (59 segments, ")
    assert header.split() == [
        "SEVERITY",
        "ID",
        "PARTITION",
        "COUNT",
        "WHAT",
        "IS",
        "WRONG",
        "WHAT",
        "TO",
        "DO",
    ]
    assert rest[0].split()[:4] == ["error", "LOG001", "codecs-0", "2"]
    assert rest[0].endswith("Restore the partition from another replica.")
    assert rest[1].split()[:2] == ["error", "CKP001"]
    assert rest[2] == ""
    assert rest[3].startswith("not checked: ")


def test_all_prints_every_finding_under_its_group(bad, capsys):
    _, out, _ = run(capsys, bad, *ONLY, "--all")
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines[4:6]] == [
        f"  {LOG}@17, offset 0",
        f"  {LOG}@2153, offset 10",
    ]


def test_a_sound_directory_is_healthy(data, capsys):
    code, out, err = run(capsys, data, "--only", "LOG001", "--now", NOW)
    assert (code, err) == (CLEAN, "")
    assert out.startswith("healthy: nothing found in 17 partitions (59 segments, ")


def test_json_has_one_object_per_line_and_these_fields(bad, capsys):
    code, out, _ = run(capsys, bad, *ONLY, "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["kind"] for row in rows[:3]] == ["finding"] * 3
    assert {row["kind"] for row in rows[3:-1]} == {"not_checked"}
    for row in rows[:3]:
        assert tuple(row) == ("kind", *FIELDS)
    summary = rows[-1]
    assert summary["kind"] == "summary"
    assert (summary["errors"], summary["exit_code"], code) == (3, FINDINGS, FINDINGS)
    assert summary["verdict"].startswith("3 errors")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--fail-on", "warning"), FINDINGS),
        (("--fail-on", "never"), CLEAN),
        (("--skip", "log001", "--skip", "CKP001"), CLEAN),
        (("--topic", "compacted", "--skip", "CKP001"), CLEAN),
        (("--topic", "codecs", "--partition", "0", "--skip", "CKP001"), FINDINGS),
    ],
)
def test_what_decides_the_exit_code(words, code, bad, capsys):
    for form in ("text", "json"):
        assert run(capsys, bad, *ONLY, *words, "--format", form)[0] == code


@pytest.mark.parametrize("severity", ["warning", "note"])
def test_only_errors_fail_by_default(severity, data, capsys):
    if severity == "note":
        (data / "codecs-0" / "old").mkdir()
    else:
        with (data / "codecs-0" / LOG).open("ab") as file:
            file.write(bytes(40))
    rule = {"warning": "LOG005", "note": "DIR004"}[severity]
    words = (data, "--only", rule, "--now", NOW)
    assert run(capsys, *words)[0] == CLEAN
    assert run(capsys, *words, "--fail-on", severity)[0] == FINDINGS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "LOG01"), "unknown rule LOG01: did you mean LOG0"),
        (("--skip", "nonsense"), "unknown rule nonsense"),
        (("--explain", "LOG01"), "--explain: unknown rule LOG01: did you mean LOG0"),
        (("--fail-on", "bad"), "argument --fail-on: invalid choice: 'bad'"),
        (("--baseline", "nowhere.json"), "--baseline: nowhere.json: No such file or directory"),
        (("--set", "retention.ms=abc"), "retention.ms"),
        (("--config", "nowhere.properties"), "--config: "),
    ],
)
def test_wrong_usage(words, message, data, capsys):
    code, out, err = run(capsys, data, *words)
    assert (code, out) == (USAGE, "")
    assert message in err


def test_explain_prints_the_page_of_a_rule_without_a_path(capsys):
    code, out, _ = run(capsys, "--explain", "log003")
    assert code == CLEAN
    assert out == (ROOT / "docs" / "findings" / "LOG003.md").read_text()


def test_a_malformed_baseline_is_wrong_usage(bad, tmp_path, capsys):
    known = tmp_path / "known.json"
    known.write_text('{"version": 1}')
    code, _, err = run(capsys, bad, "--baseline", known)
    assert code == USAGE
    assert f'--baseline: {known}: expected a list "accepted"' in err


def test_a_baseline_from_the_first_run_to_its_end(bad, tmp_path, capsys):
    known = tmp_path / "known.json"
    assert run(capsys, bad, *ONLY, "--write-baseline", known)[0] == FINDINGS
    content = json.loads(known.read_text())
    for entry in content["accepted"]:
        entry["reason"] = "the power cut"
    content["accepted"][0]["until"] = "2026-12-01"
    content["accepted"].append(
        {"fingerprint": "f" * 32, "reason": "gone", "id": "LOG002", "where": "orders-0"}
    )
    known.write_text(json.dumps(content))
    code, out, err = run(capsys, bad, *ONLY, "--baseline", known)
    assert code == CLEAN
    assert "3 accepted by the baseline" in out
    later = ("--only", "LOG001,CKP001", "--now", "2026-12-01T00:00:00Z", "--baseline", known)
    code, out, err = run(capsys, bad, *later)
    assert code == FINDINGS
    assert "no longer accepted, the date has passed" in err
    _, _, err = run(capsys, bad, "--baseline", known, "--now", NOW)
    assert f"accepted, but not found any more: {'f' * 32} LOG002 orders-0" in err


def test_a_baseline_is_only_overwritten_to_update_it(bad, tmp_path, capsys):
    known = tmp_path / "known.json"
    run(capsys, bad, *ONLY, "--write-baseline", known)
    code, _, err = run(capsys, bad, *ONLY, "--write-baseline", known)
    assert code == USAGE
    assert f"--write-baseline: {known} exists" in err
    text = known.read_text().replace('"reason": ""', '"reason": "known"')
    known.write_text(text)
    words = ("--baseline", known, "--write-baseline", known)
    assert run(capsys, bad, *ONLY, *words)[0] == CLEAN
    assert known.read_text() == text


OUTPUTS = ("--sarif", "--junit", "--html", "--write-baseline", "--findings-table")


def test_all_outputs_in_one_run_leave_stdout_and_exit_code_as_they_are(bad, tmp_path, capsys):
    plain = run(capsys, bad, *ONLY)
    words = [word for name in OUTPUTS for word in (name, tmp_path / name)]
    assert run(capsys, bad, *ONLY, *words) == plain
    made = {path.name for path in tmp_path.iterdir()} - {"data"}
    assert made == set(OUTPUTS)
    for name in OUTPUTS[:-1]:
        assert (tmp_path / name).stat().st_size > 300


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_goes_into_the_evidence(name, bad, capsys):
    before = sorted(path.name for path in bad.rglob("*"))
    code, out, err = run(capsys, bad, *ONLY, name, bad / "report")
    assert (code, out) == (COULD_NOT_RUN, "")
    assert f"{bad / 'report'}: output must not be inside the evidence" in err
    assert sorted(path.name for path in bad.rglob("*")) == before


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(bad, tmp_path, capsys):
    (tmp_path / "pipe").symlink_to("/dev/null")
    for path in (tmp_path / "nowhere" / "x.sarif", tmp_path / "pipe"):
        code, out, _ = run(capsys, bad, *ONLY, "--sarif", path)
        assert (code, out) == (COULD_NOT_RUN, "")


def test_github_annotations_and_summary(bad, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    code, out, err = run(capsys, bad, *ONLY, "--github")
    assert code == FINDINGS
    assert sum(line.startswith("::error file=") for line in out.splitlines()) == 2
    assert (tmp_path / "summary.md").read_text().startswith("### 3 errors in 17 partitions")
    _, out, err = run(capsys, bad, *ONLY, "--github", "--format", "json")
    assert [json.loads(line)["kind"] for line in out.splitlines()][-1] == "summary"
    assert sum(line.startswith("::error file=") for line in err.splitlines()) == 2


def test_keys_and_values_only_on_request(bad, capsys):
    assert "key-000" not in "".join(run(capsys, bad, *ONLY, "--all")[1:])
    assert "key 'key-000'" in run(capsys, bad, *ONLY, "--all", "--show-data")[1]


def test_a_missing_path_among_others_is_3_and_the_others_are_checked(bad, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    code, out, err = run(capsys, bad, tmp_path / "empty", *ONLY, "--format", "json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == rows[-1]["exit_code"] == COULD_NOT_RUN
    assert err == f"{tmp_path / 'empty'}: no Kafka files found\n"
    assert [row["path"] for row in rows if row["kind"] == "not_checked" and row["path"]][-1] == (
        str(tmp_path / "empty")
    )


def test_a_directory_without_write_permission_is_read_and_stays_as_it_is(bad, capsys):
    def state():
        return {
            path: (path.read_bytes() if path.is_file() else b"", path.stat().st_mtime_ns)
            for path in [bad, *bad.rglob("*")]
        }

    for path in [*bad.rglob("*"), bad]:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
    before = state()
    assert run(capsys, bad, *ONLY)[0] == FINDINGS
    assert state() == before


def test_it_runs_under_spark_submit(bad, tmp_path):
    python = Path(sys.executable)
    done = subprocess.run(
        [
            *(python.with_name("spark-submit"), "--master", "local[1]"),
            *(ROOT / "jobs" / "audit.py", bad, *ONLY, "--format", "json"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == FINDINGS, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows if row["kind"] == "finding"] == ["LOG001", "LOG001", "CKP001"]


def test_a_lone_log_has_its_findings_only(bad, tmp_path, capsys):
    shutil.copyfile(bad / "codecs-0" / LOG, tmp_path / LOG)
    code, out, _ = run(capsys, tmp_path / LOG, "--format", "json", "--now", NOW)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == FINDINGS
    assert [row["id"] for row in rows if row["kind"] == "finding"] == ["LOG001", "LOG001"]
