"""Nothing in the current directory is imported or read as settings: it may be the evidence.

And nothing is written there.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.options import FINDINGS
from kafka_format import search_path
from tests import golden
from tests.hostile.poison import Poison
from tests.system.cluster import ROOT, SPARK_HOME, Cluster

PACK = "unclean-4.3.1"
COMMAND = Path(sys.executable).parent / "kafka-forensics"
NOW = "--now=2026-11-16T12:00:00Z"
SUBMIT = SPARK_HOME / "bin" / "spark-submit"
LOCAL_SUBMIT = [
    *(SUBMIT, "--master", "local[2]", "--driver-memory", "1g"),
    *("--conf", "spark.jars.packages=", "--conf", "spark.ui.enabled=false"),
    *("--conf", "spark.driver.bindAddress=127.0.0.1", "--conf", "spark.driver.host=127.0.0.1"),
]
SETTINGS = ["--properties-file", ROOT / "conf" / "spark-defaults.conf"]


class Evidence:
    """A log directory, poisoned, as the current directory of a program.

    A package in it is a directory with which no broker starts: a finding.
    """

    def __init__(self, folder, modules=None):
        self.path = golden.unpack(PACK, folder) / "data"
        self.poison = Poison(self.path, folder / "markers", modules=modules)
        self.before = tree(self.path)

    def run(self, *command, **variables):
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        # spark-submit looks for Spark in `..` unless it is set; its scratch is elsewhere.
        environment |= {"SPARK_HOME": str(SPARK_HOME)} if command[0] == SUBMIT else {}
        done = subprocess.run(
            [*map(str, command)],
            cwd=self.path,
            env=environment | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        self.assert_clean()
        assert "Traceback" not in done.stderr
        return done

    def assert_clean(self):
        assert self.poison.marks() == []
        assert tree(self.path) == self.before


def tree(directory):
    return {
        str(path.relative_to(directory)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(directory.rglob("*"))
    }


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    """One for all: every run shows that it is as it was."""
    return Evidence(tmp_path_factory.mktemp("evidence"))


@pytest.fixture(scope="module")
def another(tmp_path_factory):
    """A second log directory: one of them alone is so small that one process reads it."""
    return golden.unpack(PACK, tmp_path_factory.mktemp("another")) / "data"


def test_the_poison_works(tmp_path):
    evidence = Evidence(tmp_path)
    program = [sys.executable, "-c", "import json, numpy"]
    subprocess.run(program, cwd=evidence.path, capture_output=True, check=False)
    names = {mark.partition(":")[0] for mark in evidence.poison.marks()}
    assert {"json", "numpy"} <= names


@pytest.mark.parametrize(
    "words",
    [
        ["list", "."],
        ["offsets", "."],
        pytest.param(["retain", ".", NOW], marks=pytest.mark.soak),
        pytest.param(["recover", ".", "--files", NOW], marks=pytest.mark.soak),
        ["compact", ".", "--set=cleanup.policy=compact", NOW],
        ["dump", "transactions-0", "--deep-iteration"],
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_in_one_process(evidence, words):
    done = evidence.run(COMMAND, *words)
    assert done.returncode in (0, 1), done.stderr
    assert "transactions" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["offsets"],
        pytest.param(["retain", NOW], marks=pytest.mark.soak),
        pytest.param(["recover", "--files", NOW], marks=pytest.mark.soak),
        ["compact", "--set=cleanup.policy=compact", NOW],
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_in_several_processes(evidence, another, words):
    done = evidence.run(COMMAND, *words, ".", another, "--engine=local")
    assert done.returncode in (0, 1), done.stderr
    assert "transactions" in done.stdout


def test_in_several_processes_of_a_program_that_has_the_directory_on_its_path(tmp_path):
    """A notebook has it; what our packages do not need to start is poisoned, so that it can."""
    evidence = Evidence(tmp_path, modules=["pyarrow", "pandas", "pyspark_evil"])
    program = (
        "import sys\n"
        "from pipelines.engine.engine import run\n"
        "from tests.hostile.imports import imports\n"
        "before = [*sys.path]\n"
        "rows = [*run(['pyarrow', 'pandas'], imports, processes=2)]\n"
        "assert '' in sys.path and before == sys.path, sys.path\n"
        "print(rows)\n"
    )
    done = evidence.run(sys.executable, "-c", program)
    assert "site-packages/pyarrow/__init__.py" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "path",
    [
        ".",
        *(pytest.param(each, marks=pytest.mark.soak) for each in (os.pathsep, f"lib{os.pathsep}.")),
    ],
)
def test_a_relative_entry_of_pythonpath_is_ignored_as_far_as_python_lets_us(tmp_path, path):
    """Python itself imports some modules before any code of ours, and these from there."""
    evidence = Evidence(tmp_path, modules=["pyarrow", "numpy", "multiprocessing", "kafka_log"])
    done = evidence.run(COMMAND, "offsets", ".", PYTHONPATH=path)
    assert done.returncode == FINDINGS, done.stderr


def test_as_a_module(tmp_path):
    """`python -m` has the directory on the path before us, and needs some modules itself."""
    evidence = Evidence(tmp_path, modules=["numpy", "kafka_format", "kafka_log", "argparse"])
    done = evidence.run(sys.executable, "-m", "jobs.cli", "offsets", ".")
    assert done.returncode == FINDINGS, done.stderr
    assert "transactions" in done.stdout


def test_on_a_spark_of_this_machine(evidence):
    done = evidence.run(COMMAND, "offsets", ".", "--engine=spark")
    assert done.returncode == FINDINGS, done.stderr
    assert "transactions" in done.stdout


@pytest.mark.soak
def test_export_on_a_spark_of_this_machine(evidence, tmp_path):
    output = tmp_path / "lake"
    words = ["--format=parquet", "--table=segments", "--output", output]
    done = evidence.run(COMMAND, "export", ".", *words)
    assert done.returncode in (0, 1), done.stderr
    assert (output / "segments").is_dir()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SETTINGS, id="with our settings", marks=pytest.mark.soak),
        pytest.param([], id="without"),
    ],
)
def test_offsets_by_spark_submit(evidence, settings):
    done = evidence.run(*LOCAL_SUBMIT, *settings, ROOT / "jobs" / "offsets.py", ".", **submitted())
    assert done.returncode == FINDINGS, done.stderr
    assert "transactions" in done.stdout


@pytest.mark.soak
def test_export_by_spark_submit(evidence, tmp_path):
    output = tmp_path / "lake"
    words = [".", "--format=parquet", "--table=segments", "--output", output]
    job = ROOT / "jobs" / "export.py"
    done = evidence.run(*LOCAL_SUBMIT, *SETTINGS, job, *words, **submitted())
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert (output / "segments").is_dir()


def submitted():
    return {"PYSPARK_PYTHON": sys.executable}


def test_on_a_cluster_of_two_workers(evidence, tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    with Cluster(folder) as cluster:
        words = [evidence.path, "--format=json"]
        done = cluster.submit("jobs/offsets.py", *words, cwd=evidence.path)
        assert done.returncode == FINDINGS, done.stderr
        assert "transactions" in done.stdout
        output = tmp_path / "lake"
        words = [evidence.path, "--format=parquet", "--table=segments", "--output", output]
        done = cluster.submit("jobs/export.py", *words, cwd=evidence.path)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        assert (output / "segments").is_dir()
    evidence.assert_clean()


NOTEBOOK = """
import os
def variables():
    return {name: os.environ[name] for name in os.environ if name.startswith(("PY", "SPARK_HOME"))}
before = variables()
from pipelines.session import session
spark = session()
assert session() is spark
spark.sql("SHOW TABLES").collect()
print(spark.read.format("kafka_files").load(os.getcwd()).count(), "rows")
assert before == variables(), variables()
"""


def test_in_a_notebook_it_warns_once_and_the_workers_are_clean(tmp_path):
    """The kernel's own imports are out of reach; Spark's workers are not."""
    evidence = Evidence(tmp_path, modules=["pyspark_evil", "pyspark_kafka_files", "py_compile"])
    done = evidence.run(sys.executable, "-c", NOTEBOOK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" rows\n")
    said = [line for line in done.stderr.splitlines() if "kafka-forensics" in line]
    assert "\n".join(said) == (
        "kafka-forensics: Python searches the current directory for modules (sys.path has ''), "
        "so code in the evidence could run: start Python with PYTHONSAFEPATH=1"
    )


@pytest.mark.soak
def test_in_a_notebook_with_a_safe_path_it_does_not_warn(evidence):
    done = evidence.run(sys.executable, "-c", NOTEBOOK, PYTHONSAFEPATH="1")
    assert (done.returncode, "kafka-forensics:" in done.stderr) == (0, False), done.stderr


def test_numba_reads_no_settings_from_the_current_directory(evidence):
    program = (
        "import sys\n"
        "from kafka_format.columnar.compilation import can_compile, njit\n"
        "from kafka_format.columnar.records import RecordScan\n"
        "assert can_compile() and RecordScan(b'', compiled=True)\n"
        "assert njit(lambda value: value + 1)(1) == 2\n"
        "from numba.core import config\n"
        "assert config.CACHE_DIR == '', config.CACHE_DIR\n"
    )
    done = evidence.run(sys.executable, "-P", "-c", program)
    assert done.returncode == 0, done.stderr


def test_only_what_depends_on_the_current_directory_is_dropped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["lib", "/opt/lib", ""]))
    path = ["", ".", str(tmp_path), str(tmp_path / "lib"), "/opt/lib", str(ROOT)]
    monkeypatch.setattr(sys, "path", [*path])
    assert search_path.current_directory_entries() == path[:4]
    with search_path.CleanStart(ANOTHER="value"):
        assert sys.path == path[4:]
        assert os.environ["PYTHONSAFEPATH"] == "1"
        assert os.environ["PYTHONPATH"] == "/opt/lib"
        assert os.environ["ANOTHER"] == "value"
    assert sys.path == path
    assert os.environ["PYTHONPATH"] == os.pathsep.join(["lib", "/opt/lib", ""])
    assert "PYTHONSAFEPATH" not in os.environ
    assert "ANOTHER" not in os.environ


def test_our_own_packages_stay_on_the_path_where_a_source_tree_is_the_current_directory(
    monkeypatch,
):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", str(ROOT)])
    assert search_path.current_directory_entries() == []
    assert search_path.safe_environment(".")["PYTHONPATH"] == str(ROOT)
