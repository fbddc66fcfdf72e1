"""One partition by many tasks, in processes and on Spark: the bytes that Kafka's Cleaner leaves."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobs import cli
from pipelines.compaction.parallel_compaction import Parallel, ProcessRunner, SparkRunner
from pipelines.engine.engine import EngineError
from tests.kafka_log.cleaner.cleaning import CleaningCase, compare, draw_plan, planned_case
from tests.kafka_log.cleaner.in_parallel import in_parallel
from tests.kafka_log.compare import scratch
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle
from tests.oracle.logs import LogPlan
from tests.pipelines.parallel_functions import Troubled, dies_once, twice

FULL, ABORTED = 5, 14  # seeds
TASK_MEMORY = 20_000


def one_pass(oracle: Oracle, folder: Path, seed: int) -> CleaningCase:
    case = planned_case(oracle, folder, seed)
    return replace(case, passes=case.passes[:1])


def left_behind(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith("round-")]


def test_processes_leave_the_bytes_that_kafka_leaves(oracle):
    with (
        scratch() as folder,
        ProcessRunner(2) as processes,
        in_parallel(folder, runner=processes, task_memory=TASK_MEMORY) as made,
    ):
        compare(oracle, folder, [one_pass(oracle, folder, FULL)])
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None]


def test_spark_leaves_the_bytes_that_kafka_leaves_even_if_tasks_run_twice(oracle, spark):
    troubled = Troubled(spark.sparkContext)
    troubled.trouble = twice
    with scratch() as folder, in_parallel(folder, runner=troubled, task_memory=TASK_MEMORY) as made:
        compare(oracle, folder, [one_pass(oracle, folder, FULL)])
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None]


def test_a_worker_that_dies_while_it_writes_leaves_nothing_and_is_replaced(oracle, spark):
    with scratch() as folder:
        troubled = Troubled(spark.sparkContext)
        troubled.trouble = partial(dies_once, str(folder / "died"))
        with in_parallel(folder, runner=troubled, task_memory=TASK_MEMORY) as made:
            compare(oracle, folder, [one_pass(oracle, folder, ABORTED)])
        assert (folder / "died").exists()
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None]


def test_the_engine_is_chosen_as_for_any_other_tasks(spark):
    assert isinstance(Parallel(engine="local").runner(), ProcessRunner)
    assert isinstance(Parallel(engine="spark").runner(), SparkRunner)
    assert isinstance(Parallel().runner(), ProcessRunner)


def test_an_engine_that_is_not_there_is_told_at_once(monkeypatch):
    monkeypatch.setattr("pipelines.session.unavailable", lambda: "no Java was found")
    with pytest.raises(EngineError, match="no Java was found"):
        Parallel(engine="spark").runner()


def test_the_verb_copies_a_large_partition_by_many_tasks_to_the_same_bytes(
    oracle, tmp_path, capsys
):
    plan = LogPlan(seed=5, batches=90, config={"segment.bytes": 2500})
    oracle.build_log(tmp_path / "data" / "t-0", plan)
    options = ["--set", "cleanup.policy=compact", "--now", str(START + 10**6), "--format", "json"]
    by_one, by_many = tmp_path / "one", tmp_path / "many"
    rows = []
    for output, more in ((by_one, ()), (by_many, ("--parallel-above", "0", *SMALL))):
        arguments = ["compact", str(tmp_path / "data"), *options, "--output", str(output), *more]
        assert cli.main(arguments) == 0
        rows.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert contents(by_many) == contents(by_one)
    assert untimed(rows[1]) == untimed(rows[0])
    assert rows[0][0]["removed_superseded"] > 0


@pytest.mark.parametrize("magic", [0, 1])
def test_superseded_tombstones_of_old_magic_count_as_by_one_task(oracle, tmp_path, capsys, magic):
    """A later record has their key, whatever else would have taken them."""
    oracle.build_log(tmp_path / "data" / "t-0", replace(draw_plan(27), magic=magic))
    words = ["--set", "cleanup.policy=compact", "--set", "delete.retention.ms=0", "--format=json"]
    found = []
    for number, more in enumerate([(), ("--parallel-above", "0", *SMALL)]):
        output = ("--output", str(tmp_path / str(number)), "--now", str(START + 10**6))
        assert cli.main(["compact", str(tmp_path / "data"), *words, *output, *more]) == 0
        row = json.loads(capsys.readouterr().out.splitlines()[0])
        found.append((row["removed_superseded"], row["removed_tombstone"]))
    assert found == [(95, 0), (95, 0)]  # twelve of them tombstones


SMALL = ("--task-memory", "20000", "--engine", "local", "--dedupe-buffer-size", "1048576")


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Every file, with its modification time where the cleaner sets it."""
    return {
        str(path.relative_to(directory)): (
            path.read_bytes(),
            path.stat().st_mtime_ns if path.suffix in (".log", ".index", ".timeindex") else 0,
        )
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    reported = ("elapsed", "buffer")
    return [
        {name: value for name, value in row.items() if not name.startswith(reported)}
        for row in rows
    ]


@pytest.mark.parametrize("way", ["one task", "local", "spark", "damaged", "explained"])
def test_a_bar_moves_with_the_bytes_of_every_step(
    oracle, tmp_path, capsys, monkeypatch, request, way
):
    if way == "spark":
        request.getfixturevalue("spark")
    plan = LogPlan(seed=ABORTED, batches=90, config={"segment.bytes": 2500}, open_transactions=0)
    oracle.build_log(tmp_path / "data" / "t-0", plan)
    (tmp_path / "data" / ".kafka_cleanshutdown").touch()
    if way == "damaged":  # which the tasks find out, and the bar begins again
        log = min((tmp_path / "data" / "t-0").glob("*.log"))
        log.write_bytes(log.read_bytes()[:-1] + b"?")
    reported: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "pipelines.engine.progress.progress_bar", lambda _: lambda *now: reported.append(now)
    )
    monkeypatch.setattr("pipelines.engine.progress._INTERVAL_S", 0)
    arguments = ["compact", str(tmp_path / "data"), "--set", "cleanup.policy=compact", *SMALL]
    arguments += ["--now", str(START + 10**6)]
    if way == "explained":
        arguments += ["--explain-key", "k"]
    else:
        arguments += ["--output", str(tmp_path / "out")]
    if way not in ("one task", "explained"):
        arguments += ["--parallel-above", "0", "--engine", way if way == "spark" else "local"]
    assert cli.main(arguments) == (3 if way == "damaged" else 0)
    (total,) = {total for _, total in reported}
    done = [done for done, _ in reported]
    assert done[-1] == total
    if way != "damaged":
        assert done == sorted(done)
        assert done[-2] > 0.7 * total  # what was thought to be all is about that
    often = {"damaged": 3, "spark": 2}.get(way, 9)  # Spark is asked a few times a second
    assert len({each for each in done if 0 < each < total}) > often


def test_damage_in_a_large_partition_is_told_as_in_a_small_one(oracle, tmp_path, capsys):
    plan = LogPlan(seed=5, batches=40, config={"segment.bytes": 2500})
    oracle.build_log(tmp_path / "data" / "t-0", plan)
    log = min((tmp_path / "data" / "t-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    reported = []
    for more in ((), ("--parallel-above", "0", *SMALL)):
        output = ("--output", str(tmp_path / "out"), "--set", "cleanup.policy=compact", *more)
        assert cli.main(["compact", str(tmp_path / "data"), "--now", str(START), *output]) == 3
        reported.append(capsys.readouterr().err)
    assert reported[0] == reported[1]
    assert log.name in reported[0]
    assert not (tmp_path / "out").exists()


def several_segments(oracle, tmp_path):
    """Segments of a log of which the last is active, and empty."""
    plan = LogPlan(seed=5, batches=90, config={"segment.bytes": 2500}, open_transactions=0)
    oracle.build_log(tmp_path / "data" / "t-0", plan)
    (tmp_path / "data" / ".kafka_cleanshutdown").touch()
    return sorted((tmp_path / "data" / "t-0").glob("*.log"))


def flip_last_bit(log):
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def told_of_damage(capsys, tmp_path, *more):
    words = [str(tmp_path / "data"), "--output", str(tmp_path / "out"), "--now", str(START)]
    words += ["--set", "cleanup.policy=compact", "--high-watermark", "end", "--quiet"]
    assert cli.main(["compact", *words, *more]) == 3
    assert not (tmp_path / "out").exists()
    return capsys.readouterr().err


@pytest.mark.parametrize("passes", ["1", "until-clean"])
def test_damage_behind_a_full_map_is_told_before_anything_is_written(
    oracle, tmp_path, capsys, passes
):
    *_, damaged, _active = several_segments(oracle, tmp_path)
    flip_last_bit(damaged)
    few_keys = ("--dedupe-buffer-size", "240", "--passes", passes)
    many = ("--parallel-above", "0", "--task-memory", "20000", "--engine", "local")
    by_one = told_of_damage(capsys, tmp_path, *few_keys)
    assert f"{damaged}@" in by_one
    assert told_of_damage(capsys, tmp_path, *few_keys, *many) == by_one


def test_damage_is_told_where_only_the_active_segment_makes_a_partition_large(
    oracle, tmp_path, capsys
):
    *cleanable, _active = logs = several_segments(oracle, tmp_path)
    flip_last_bit(cleanable[-1])
    by_one = told_of_damage(capsys, tmp_path)
    assert f"{cleanable[-1]}@" in by_one
    above = sum(log.stat().st_size for log in logs) - 1
    assert told_of_damage(capsys, tmp_path, "--parallel-above", str(above), *SMALL) == by_one
