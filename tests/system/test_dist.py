"""What `make dist` builds is all that is needed beside the dependencies."""

import json
import subprocess
import sys
import zipfile

import pytest

from tests import golden
from tests.system.cluster import ROOT

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import jobs.cli, pipelines.session
code = jobs.cli.main(["list", sys.argv[2], "--quiet"])
reported = [pipelines.session.__file__, pipelines.session.settings(delta=True), code]
print(json.dumps(reported), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_a_job_runs_from_the_zip_with_the_settings_in_it(wheel, tmp_path):
    archive = tmp_path / "kafka_forensics.zip"
    archive.write_bytes(wheel.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, archive, golden.shared("clean-3.9.1")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    place, settings, code = json.loads(done.stderr)
    assert place == f"{archive}/pipelines/session.py"
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.jars.packages"].startswith("io.delta:delta-spark_")
    assert code == 0


def test_the_wheel_has_every_module_and_nothing_that_was_left_about(wheel):
    packages = {
        "kafka_forensics",
        "kafka_format",
        "kafka_log",
        "pipelines",
        "jobs",
        "pyspark_kafka_files",
    }
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {
        str(path.relative_to(ROOT)) for name in packages for path in (ROOT / name).rglob("*.py")
    }
    assert modules <= names
    pages = {
        f"pipelines/finding_pages/{path.name}" for path in (ROOT / "docs" / "findings").glob("*.md")
    }
    others = {name for name in names if not name.endswith(".py")}
    assert others == {"pipelines/spark-defaults.conf", *pages}
