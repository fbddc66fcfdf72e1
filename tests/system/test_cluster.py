"""spark-submit on a cluster of two workers: the rows and bytes of a run in this process."""

import hashlib
import json
import re
import subprocess

import pytest
from pyarrow.dataset import dataset

from jobs import cli
from tests import golden
from tests.oracle import jars
from tests.system.cluster import Cluster

PACK = "unclean-4.3.1"
NOW = 1_794_820_000_000


def tree(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        assert_knows_nothing_of_us(running)
        yield running


def test_jobs_submitted_to_two_workers_do_as_in_this_process(cluster, tmp_path, capsys):
    data = golden.unpack(PACK, tmp_path) / "data"
    torn = max((data / "codecs.java-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes()[:-7])  # recover has something to cut, and ends with 1
    before = tree(data)
    here, there = tmp_path / "here", tmp_path / "there"
    now = ["--now", str(NOW)]
    offsets, files = ("offsets", now), ("list", ["--files"])
    recovers = [
        ("recover", [*now, "--clean-shutdown", "no", "--output", str(out)]) for out in (here, there)
    ]
    for (verb, ours), (_, theirs) in ((offsets, offsets), (files, files), recovers):
        words = [str(data), "--format", "json"]
        code = cli.main([verb, *words, *ours, "--engine", "local"])
        expected = rows(capsys.readouterr().out)
        cores = 2 if verb == "recover" else 1  # starting executors is what takes the time
        done = cluster.submit(f"jobs/{verb}.py", *words, *theirs, cores=cores)
        assert done.returncode == code == (0 if verb == "list" else 1), done.stderr
        assert rows(done.stdout) == expected
        assert len(executors(done.stderr)) == cores
        assert len(expected) > 20
    assert tree(there) == tree(here)
    assert tree(data) == before
    assert sorted(each.name for each in tmp_path.iterdir() if "attempt" in each.name) == []


@pytest.mark.parametrize(
    ("verb", "settings"),
    [
        ("retain", ["--set=retention.ms=1000"]),
        ("compact", ["--set=cleanup.policy=compact"]),
    ],
)
def test_a_copy_made_by_the_cluster_has_the_bytes_of_one_made_here(
    cluster, tmp_path, capsys, verb, settings
):
    data = golden.shared(PACK)
    words = [str(data), *settings, "--now", str(NOW), "--output"]
    here, there = tmp_path / "here", tmp_path / "there"
    assert cli.main([verb, *words, str(here), "--engine", "local"]) == 0
    done = cluster.submit(f"jobs/{verb}.py", *words, str(there), cores=1)
    assert done.returncode == 0, done.stderr
    assert executors(done.stderr)
    assert tree(there) == tree(here)
    assert tree(here) != tree(data)


def test_dump_submitted_to_the_cluster_prints_what_it_prints_here(cluster, capsys):
    log = min(golden.shared(PACK).glob("**/codecs.java-0/*.log"))
    assert cli.main(["dump", "--files", str(log), "--print-data-log"]) == 0
    expected = capsys.readouterr().out
    done = cluster.submit("jobs/dump.py", "--files", str(log), "--print-data-log", cores=1)
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert "offset: 0 " in expected


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_export_submitted_to_the_cluster_writes_what_a_consumer_received(cluster, tmp_path, form):
    conf = {}
    if form == "delta":
        try:
            found = sorted(jars.libs(jars.SPARK).glob("*.jar"))
        except jars.JarsUnavailableError as problem:
            pytest.skip(f"no Delta: {problem}")
        conf["spark.jars"] = ",".join(map(str, found))
    root = golden.shared(PACK)
    before = tree(root)
    words = ["--topic", "transactions", "--table", "records", "--table", "log_dirs"]
    words += ["--isolation-level", "read_committed", "--format", form, "--output", tmp_path]
    done = cluster.submit("jobs/export.py", root, *words, cores=1, conf=conf)
    assert done.returncode == 0, done.stdout + done.stderr
    received = sorted(
        (row["partition"], row["offset"])
        for row in golden.expected(PACK)
        if (row["topic"], row["isolation"]) == ("transactions", "read_committed")
        and "offset" in row
    )
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["TABLE", "ROWS"],
        ["records", str(len(received))],
        ["log_dirs", "1"],
    ]
    written = dataset(tmp_path / "records", format="parquet", exclude_invalid_files=True)
    rows = written.to_table(columns=["partition", "offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == received
    assert len([*(tmp_path / "manifests").iterdir()]) == 1
    assert tree(root) == before


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
