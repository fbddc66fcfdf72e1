"""On Spark: the same rows in the same order, the same bytes, failures in their place."""

import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jobs import cli
from kafka_log.config.settings import read_settings
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.scan import scan
from pipelines import session
from pipelines.compaction.compaction import CompactPartition
from pipelines.engine import engine, spark_tasks
from pipelines.engine.engine import EngineError, Failure, SparkOptions, run
from pipelines.engine.partition_tasks import Destination, destination, partition_tasks
from pipelines.recovery import RecoverPartition
from tests import golden
from tests.kafka_log.driver import Session
from tests.kafka_log.workload import draw_workload
from tests.pipelines.engine import functions
from tests.pipelines.parallel_functions import DiesWhileItExplains

ROOT = Path(__file__).parents[3]
NOW = 1_794_820_000_000

# ------------------------------------------------------------------------------- rows of tasks


def test_rows_come_in_the_order_of_the_tasks_from_other_processes(spark):
    rows: list[Any] = [*run([0, 1, 2, 3], functions.slow_first, engine="spark")]
    assert [task for task, _ in rows] == [0, 1, 2, 3]
    local: list[Any] = [*run([0], functions.slow_first, engine="local")]
    here = {pid for _, pid in local}
    assert not here & {pid for _, pid in rows}


def test_a_task_that_fails_says_so_in_its_place_and_the_others_go_on(spark):
    rows = [*run(functions.FAILING, functions.fails, engine="spark")]
    failures = [row for row in rows if isinstance(row, Failure)]
    assert [(each.task, each.message) for each in failures] == functions.FAILURES
    assert rows[:4] == ["fine: begun", "fine: done", "corrupt: begun", failures[0]]
    assert rows[-2:] == ["last: begun", "last: done"]
    assert "Traceback" in failures[3].details


def test_a_task_that_takes_its_worker_along_every_time_fails_alone(spark):
    rows = [*run(["a", "killed", "b"], functions.fails, engine="spark")]
    assert rows == [
        "a: begun",
        "a: done",
        Failure(
            task="killed",
            message="Spark gave it up: Python worker exited unexpectedly (crashed)",
        ),
        "b: begun",
        "b: done",
    ]


def test_a_row_that_cannot_be_pickled_is_that_tasks_failure(spark):
    first, second = run([1, 2], functions.unpicklable, engine="spark")
    assert isinstance(first, Failure)
    assert isinstance(second, Failure)
    assert first.message.startswith("internal error: ")


def test_no_tasks_give_no_rows(spark):
    assert [*run([], functions.double, engine="spark")] == []


def test_partial_functions_travel_and_progress_ends_with_all(spark):
    reported = []
    tasks = list(range(50))
    rows = run(
        tasks,
        partial(functions.plus, 10),
        engine="spark",
        on_progress=lambda *now: reported.append(now),
    )
    assert list(rows) == list(range(10, 60))
    assert reported[-1] == (50, 50)
    assert all(before <= after for before, after in pairwise(reported))


def test_the_one_task_of_a_worker_is_seen_to_go_on(spark, tmp_path):
    reported = []
    rows = run(
        [7],
        functions.in_quarters,
        engine="spark",
        bytes_of=lambda _: 1000,
        on_progress=lambda *now: reported.append(now),
        spark=SparkOptions(progress_in=str(tmp_path)),
    )
    assert list(rows) == [7]
    assert {total for _, total in reported} == {1000}
    assert {250, 500, 750} <= {done for done, _ in reported}
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert reported[-1] == (1000, 1000)
    assert list(tmp_path.iterdir()) == []


def test_a_large_task_beside_small_ones_counts_by_its_size(spark):
    reported = []
    rows = run(
        [0, 1000, 2, 3],
        functions.large_in_quarters,
        engine="spark",
        bytes_of=lambda task: task or 1,
        on_progress=lambda done, _: reported.append(done),
    )
    assert list(rows) == [0, 1000, 2, 3]
    assert any(500 <= done <= 506 for done in reported)  # half of it, and perhaps the others


def test_an_attempt_that_was_killed_is_no_longer_counted(spark, tmp_path):
    reported = []
    marker = str(tmp_path / "marker")
    rows = run(
        [marker],
        functions.in_quarters_at_last,
        engine="spark",
        bytes_of=lambda _: 1000,
        on_progress=lambda done, _: reported.append(done),
    )
    assert list(rows) == [marker]
    assert max(reported[:-1]) <= 999
    assert reported[-1] == 1000


def test_a_place_for_progress_that_is_not_there_is_not_missed(spark, tmp_path):
    reported = []
    rows = run(
        [1, 2],
        functions.double,
        engine="spark",
        on_progress=lambda *now: reported.append(now),
        spark=SparkOptions(progress_in=str(tmp_path / "nowhere")),
    )
    assert list(rows) == [1, 2, 2, 4]
    assert reported[-1] == (2, 2)


def test_what_workers_cannot_load_is_said_once(spark, monkeypatch, tmp_path):
    (tmp_path / "only_here.py").write_text("def nothing(task):\n    return []\n")
    monkeypatch.syspath_prepend(tmp_path)
    only_here = importlib.import_module("only_here")

    with pytest.raises(EngineError, match=r"cannot run this: .*No module named 'only_here'"):
        list(run([1, 2, 3], only_here.nothing, engine="spark"))


def test_ctrl_c_ends_the_tasks(spark, tmp_path):
    tasks = [str(tmp_path / name) for name in "ab"]
    pids: list[int] = []

    def interrupt(*_):
        pids.extend(int(Path(task).read_text()) for task in tasks if Path(task).exists())
        if len(pids) < len(tasks):
            pids.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        else:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(run(tasks, functions.sleeps, engine="spark"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    until = time.monotonic() + 30  # of the minute that they would sleep
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(is_alive, pids))


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ----------------------------------------------------------------------------------- slices


def test_a_slice_has_neighbours_of_about_equal_work_and_the_largest_begins():
    numbered = [(number, f"t{number}") for number in range(10)]
    sizes = [0, 0, 0, 0, 0, 900 * 1024 * 1024, 0, 0, 0, 0]
    found = spark_tasks.slices(numbered, sizes, cores=1)
    assert [number for number, _ in found[0]] == [5]
    assert [number for each in sorted(found) for number, _ in each] == list(range(10))
    assert len(found) <= 4


def test_few_tasks_have_a_slice_each():
    found = spark_tasks.slices([(0, "a"), (1, "b"), (2, "c")], [5, 5, 5], cores=2)
    assert sorted(found) == [[(0, "a")], [(1, "b")], [(2, "c")]]


# ------------------------------------------------------------------------- which engine it is


@pytest.fixture
def spark_is_asked(monkeypatch):
    asked = []

    def refuse(*_, **__):
        asked.append(True)
        raise session.SparkUnavailableError("no Java was found")

    monkeypatch.setattr(session, "context", refuse)
    return asked


@pytest.mark.parametrize(
    ("tasks", "size", "expected"),
    [
        ([1, 2], 2**29 - 1, False),
        ([1, 2], 2**29, True),  # together one gigabyte
        ([1], 2**40, False),  # nothing to share out
    ],
)
def test_auto_means_spark_from_a_gigabyte_on_where_it_can_be_had(
    spark_is_asked, monkeypatch, tasks, size, expected
):
    monkeypatch.setattr(engine, "available_processors", lambda: 1)
    rows = [*run(tasks, functions.double, bytes_of=lambda _: size)]
    assert rows == [number for task in tasks for number in (task, 2 * task)]
    assert bool(spark_is_asked) == expected


def test_under_spark_submit_it_is_spark_whatever_the_size(spark_is_asked, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(EngineError, match="no Java was found"):
        run([1, 2], functions.double)
    assert [*run([1], functions.double, engine="local")] == [1, 2]


def test_what_must_not_be_done_twice_stays_here(spark_is_asked, monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert [*run([1], functions.double, spark=SparkOptions(repeatable=False))] == [1, 2]
    with pytest.raises(EngineError, match="may run a task twice"):
        run([1], functions.double, engine="spark", spark=SparkOptions(repeatable=False))
    assert not spark_is_asked


def test_without_spark_a_verb_could_not_run(spark_is_asked, capsys):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    for verb in ("list", "offsets", "recover", "retain"):
        assert cli.main([verb, str(log_dir), "--engine", "spark"]) == 3
        said = capsys.readouterr().err
        assert said == f"kafka-forensics {verb}: --engine spark: no Java was found\n"


def test_in_place_on_spark_is_refused_as_usage(capsys, tmp_path):
    (tmp_path / "orders-0").mkdir()
    assert cli.main(["recover", str(tmp_path), "--in-place", "--engine", "spark"]) == 2
    assert "--in-place cannot run on Spark" in capsys.readouterr().err


# ------------------------------------------------------------------------ the verbs, and bytes


def seeded(folder):
    """Logs that lived through seeded sessions and ended in a crash, each with its log cut."""
    rng = random.Random(5)
    for number in range(6):
        directory = folder / f"seeded-{number}"
        directory.mkdir(parents=True)
        plan = draw_workload(number).sessions[0]
        lived = Session(DiskFiles(directory), plan.opening)
        for step in plan.steps:
            lived.try_step(step)
        lived.close("crash")
        last = max(directory.glob("*.log"))
        data = last.read_bytes()
        last.write_bytes(data[: rng.randint(0, len(data))])
    return folder


@pytest.fixture(scope="module", params=["seeded", *golden.names()])
def log_dirs(request, tmp_path_factory):
    if request.param == "seeded":
        return [seeded(tmp_path_factory.mktemp("seeded") / "data")]
    return golden.log_dirs(golden.shared(request.param))


def tree(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else None
        for path in sorted(directory.rglob("*"))
    }


def verb(capsys, name, log_dirs, how, *more):
    words = [name, *map(str, log_dirs), "--engine", how, "--format", "json", "--quiet", *more]
    code = cli.main(words if name == "list" else [*words, "--now", str(NOW)])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


@pytest.mark.parametrize(
    "words",
    [("list", "--segments", "--files"), ("offsets", "--replay"), ("retain",), ("recover",)],
    ids=lambda words: words[0],
)
def test_every_verb_gives_the_rows_of_this_process(spark, capsys, log_dirs, words):
    here = verb(capsys, words[0], log_dirs, "local", *words[1:])
    assert verb(capsys, words[0], log_dirs, "spark", *words[1:]) == here
    assert here[1]


@pytest.mark.parametrize(
    "words",
    [("recover", "--clean-shutdown", "no"), ("retain", "--set", "retention.bytes=1")],
    ids=lambda words: words[0],
)
def test_every_output_has_the_bytes_of_this_process(spark, capsys, log_dirs, tmp_path, words):
    name, *more = words
    reported = {
        how: verb(capsys, name, log_dirs, how, *more, "--output", str(tmp_path / how))
        for how in ("local", "spark")
    }
    assert reported["spark"] == reported["local"]
    assert tree(tmp_path / "spark") == tree(tmp_path / "local")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["local", "spark"]


# -------------------------------------------------------------------------- more than one attempt


def test_a_killed_attempt_is_run_again_and_leaves_nothing(spark, tmp_path):
    out = tmp_path / "out"
    with destination([], [], output=str(out), in_place=False) as place:
        whole = place.scratch / "whole"
        task = (str(tmp_path / "marker"), str(whole / "orders-0"), str(place.scratch))
        rows = [*run([task], functions.writes_twice, engine="spark")]
        assert rows == [str(whole / "orders-0")]
        assert (tmp_path / "marker").exists()
        assert len(list(place.scratch.iterdir())) == 2  # and what the killed one left
    (tmp_path / "marker").unlink()
    assert tree(tmp_path) == {
        "out": None,
        "out/orders-0": None,
        "out/orders-0/00000000000000000000.index": hashlib.sha256(b"b").hexdigest(),
        "out/orders-0/00000000000000000000.log": hashlib.sha256(b"a").hexdigest(),
    }


def test_a_killed_attempt_to_explain_leaves_no_half_file_in_the_output(
    spark, capsys, tmp_path, monkeypatch
):
    (log_dir,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    words = ["--topic", "tiny*", "--set", "cleanup.policy=compact", "--explain"]
    once = verb(capsys, "compact", [log_dir], "spark", *words, str(tmp_path / "once"))
    monkeypatch.setattr("pipelines.compaction.explanation.ExplanationWriter", DiesWhileItExplains)
    (tmp_path / "again").mkdir()
    out = tmp_path / "again" / "out"
    again = verb(capsys, "compact", [log_dir], "spark", *words, str(out))
    assert (tmp_path / "again" / "died").exists()
    assert sorted(each.name for each in out.parent.iterdir()) == ["died", "out"]
    names = sorted(each.name for each in out.iterdir())
    assert names == sorted(each.name for each in (tmp_path / "once").iterdir())
    assert len(names) == 2  # tiny-indexed-0, tiny.segments-0
    assert spark.read.parquet(str(out)).count() == 156  # of 80 offsets each; 0 to 3 are deleted
    reported = [{**row, "file": None} for row in again[1]]
    assert reported == [{**row, "file": None} for row in once[1]]


@pytest.mark.parametrize("name", ["recover", "retain", "compact"])
def test_a_task_that_runs_twice_at_once_writes_once(tmp_path, name):
    from pipelines.retention import retain_partition

    functions_by_name: dict[str, Any] = {
        "recover": RecoverPartition(),
        "retain": retain_partition,
        "compact": CompactPartition(),
    }
    function = functions_by_name[name]
    pack = "clean-3.9.1" if name == "compact" else "unclean-4.3.1"
    (log_dir,) = golden.log_dirs(golden.shared(pack))
    settings = read_settings(overrides=["cleanup.policy=compact"] if name == "compact" else [])
    tasks = partition_tasks(scan([log_dir]), settings, now_ms=NOW)
    for copy in ("once", "twice"):
        (tmp_path / copy / "whole").mkdir(parents=True)
        place = Destination(
            copies={str(log_dir): tmp_path / copy / "whole"}, scratch=tmp_path / copy
        )
        placed = [place.place(task) for task in tasks]
        both = placed if copy == "once" else [task for task in placed for _ in range(2)]
        rows = [*run(both, function, processes=1 if copy == "once" else 2)]
        assert not any(isinstance(row, Failure) for row in rows)
    assert tree(tmp_path / "twice") == tree(tmp_path / "once")
    assert len(list((tmp_path / "once" / "whole").iterdir())) > 5


# ---------------------------------------------------------------------------- as a command line


def test_a_job_of_its_own_starts_spark_and_stdout_is_data_alone(capsys, tmp_path):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    words = [str(log_dir), "--topic", "t*", "--format", "json", "--now", str(NOW)]
    done = subprocess.run(
        [sys.executable, "-m", "jobs.cli", "offsets", *words, "--engine", "spark"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == cli.main(["offsets", *words, "--engine", "local"]), done.stderr
    assert done.stdout == capsys.readouterr().out
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []  # no metastore, no warehouse
    shutil.rmtree(tmp_path)
