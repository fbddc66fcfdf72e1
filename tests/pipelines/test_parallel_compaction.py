"""One partition by many tasks, in processes and on Spark: the bytes that Kafka's Cleaner leaves."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pipelines.engine import EngineError
from pipelines.parallel_compaction import OnProcesses, OnSpark, runner
from tests.kafka_log.cleaner.cleaning import Case, compare, planned_case
from tests.kafka_log.cleaner.in_parallel import in_parallel
from tests.kafka_log.compare import scratch
from tests.oracle.client import Oracle
from tests.pipelines.parallel_functions import Troubled, dies_once, twice

FULL, ABORTED, PLAIN = 5, 14, 27  # seeds


def one_pass(oracle: Oracle, folder: Path, seed: int) -> Case:
    case = planned_case(oracle, folder, seed)
    return replace(case, passes=case.passes[:1])


def left_behind(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith("round-")]


def test_processes_leave_the_bytes_that_kafka_leaves(oracle):
    with scratch() as folder, in_parallel(folder, runner=OnProcesses(2)) as made:
        compare(oracle, folder, [one_pass(oracle, folder, FULL)])
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None]


def test_spark_leaves_the_bytes_that_kafka_leaves(oracle, spark):
    with scratch() as folder, in_parallel(folder, runner=OnSpark(spark.sparkContext)) as made:
        cases = [one_pass(oracle, folder, seed) for seed in (FULL, ABORTED, PLAIN)]
        compare(oracle, folder, cases)
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None] * len(cases)


def test_tasks_that_run_twice_leave_the_same_bytes(oracle, spark):
    troubled = Troubled(spark.sparkContext)
    troubled.trouble = twice
    with scratch() as folder, in_parallel(folder, runner=troubled) as made:
        compare(oracle, folder, [one_pass(oracle, folder, FULL)])
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None]


def test_a_worker_that_dies_while_it_writes_leaves_nothing_and_is_replaced(oracle, spark):
    with scratch() as folder:
        troubled = Troubled(spark.sparkContext)
        troubled.trouble = partial(dies_once, str(folder / "died"))
        with in_parallel(folder, runner=troubled) as made:
            compare(oracle, folder, [one_pass(oracle, folder, FULL)])
        assert (folder / "died").exists()
        assert not left_behind(folder)
    assert [each.why_not for each in made] == [None]


def test_the_engine_is_chosen_as_for_any_other_tasks(spark):
    assert isinstance(runner("local", 1 << 40), OnProcesses)
    assert isinstance(runner("spark", 0), OnSpark)
    assert isinstance(runner("auto", 1 << 10), OnProcesses)


def test_an_engine_that_is_not_there_is_told_at_once(monkeypatch):
    monkeypatch.setattr("pipelines.session.unavailable", lambda: "no Java was found")
    with pytest.raises(EngineError, match="no Java was found"):
        runner("spark", 0)
