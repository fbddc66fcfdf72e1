"""spark-submit on a cluster of two workers: the rows and bytes of a run in this process."""

import hashlib
import json
import re
import subprocess

from jobs import cli
from tests import golden
from tests.system.cluster import Cluster

NOW = 1_794_820_000_000


def tree(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_jobs_submitted_to_two_workers_do_as_in_this_process(tmp_path, capsys):
    data = golden.unpack("unclean-4.3.1", tmp_path) / "data"
    torn = max((data / "codecs.java-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes()[:-7])  # recover has something to cut, and ends with 1
    before = tree(data)
    here, there = tmp_path / "here", tmp_path / "there"
    now = ["--now", str(NOW)]
    offsets, files = ("offsets", now), ("list", ["--files"])
    recovers = [
        ("recover", [*now, "--clean-shutdown", "no", "--output", str(out)]) for out in (here, there)
    ]
    with Cluster(tmp_path) as cluster:
        assert_knows_nothing_of_us(cluster)
        for (verb, ours), (_, theirs) in ((offsets, offsets), (files, files), recovers):
            words = [str(data), "--format", "json"]
            code = cli.main([verb, *words, *ours, "--engine", "local"])
            expected = rows(capsys.readouterr().out)
            cores = 2 if verb == "recover" else 1  # starting executors is what takes the time
            done = cluster.submit(f"jobs/{verb}.py", *words, *theirs, cores=cores)
            assert done.returncode == code == (1 if verb == "recover" else 0), done.stderr
            assert rows(done.stdout) == expected
            assert len(executors(done.stderr)) == cores
            assert len(expected) > 20
    assert tree(there) == tree(here)
    assert tree(data) == before
    assert sorted(each.name for each in tmp_path.iterdir() if "attempt" in each.name) == []


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def assert_knows_nothing_of_us(cluster):
    for package in ("jobs", "pipelines", "kafka_log"):
        asked = [cluster.python, "-c", f"import pyarrow, {package}.__init__"]
        done = subprocess.run(
            asked, cwd=cluster.folder, capture_output=True, text=True, check=False
        )
        assert f"No module named '{package}" in done.stderr


def executors(said):
    """Which of them finished a task."""
    return set(re.findall(r"Finished task .* \(executor (\d+)\)", said))
