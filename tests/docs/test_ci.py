"""The files of docs/ci.md: linted with the published schemas, and their commands run."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.pipelines.audit.damaged import damaged

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text()
FILES = dict(re.findall(r"<!-- lint: (\S+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL))
STEPS = re.findall(r"^ *(kafka-forensics .*?) +# ends with (\d)$", PAGE, re.MULTILINE)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkout with damaged log dirs, and a baseline that accepts everything."""
    damaged(tmp_path / "broker-data")
    monkeypatch.chdir(tmp_path)
    run("kafka-forensics audit broker-data --write-baseline known.json")
    return tmp_path


def run(command):
    verb, *words = shlex.split(command)
    assert verb == "kafka-forensics"
    return subprocess.run(
        [sys.executable, "-c", "import jobs.cli; raise SystemExit(jobs.cli.main())", *words],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "vendor.gitlab-ci"])
def test_a_file_follows_its_published_schema(schema, tmp_path):
    path = tmp_path / "file.yml"
    path.write_text(FILES[schema])
    tool = shutil.which("check-jsonschema", path=Path(sys.executable).parent)
    done = subprocess.run(
        [tool, "--builtin-schema", schema, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_github_job_makes_the_files_that_it_uploads(place):
    steps = yaml.safe_load(FILES["vendor.github-workflows"])["jobs"]["audit"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("name") == "Audit"]
    done = run(command)
    assert done.returncode == 0, done.stderr
    uploads = [step["with"] for step in steps if "upload" in step.get("uses", "")]
    assert [each.get("sarif_file") or each["path"] for each in uploads] == [
        "audit.sarif",
        "audit.html",
    ]
    assert (place / "audit.sarif").exists()
    assert (place / "audit.html").exists()


def test_the_gitlab_job_makes_the_files_that_it_keeps(place):
    job = yaml.safe_load(FILES["vendor.gitlab-ci"])["audit"]
    (command,) = job["script"]
    assert run(command).returncode == 0
    kept = [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
    assert kept == ["audit.html", "audit.xml"]
    for name in kept:
        assert (place / name).exists()


def test_the_hook_runs_and_fails_for_damage(place):
    (hook,) = yaml.safe_load(FILES["pre-commit"])["repos"][0]["hooks"]
    assert re.search(hook["files"], "broker-data/codecs-0/00000000000000000000.log")
    assert run(hook["entry"]).returncode == 1  # the checkpoint is damaged
    (place / "broker-data" / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    assert run(f"{hook['entry']} --fail-on never").returncode == 0


def test_the_pytest_recipe_passes_with_the_baseline_and_fails_without(place):
    (text,) = re.findall(r"<!-- pytest -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict = {}
    exec(compile(text, "ci.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
    (place / "known.json").write_text('{"version": 1, "accepted": []}')
    with pytest.raises(AssertionError, match="LOG001 codecs-0"):
        tests[0]()


def test_the_baseline_workflow_ends_as_the_page_says(place):
    (place / "known.json").unlink()
    assert len(STEPS) == 3
    for command, code in STEPS:
        done = run(command)
        assert done.returncode == int(code), (command, done.stderr)


def test_every_exit_code_is_on_the_page():
    assert [code for code in range(4) if f"\n| {code} |" not in PAGE] == []
