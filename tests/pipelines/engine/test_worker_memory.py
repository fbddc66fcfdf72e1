"""What a worker has loaded is not looked through behind every task; elsewhere nothing changes."""

import gc

from pyspark.sql import SparkSession

from pipelines.engine.worker_memory import freeze_loaded


def _frozen(_: int) -> tuple[int, int]:
    freeze_loaded("a test")
    first = gc.get_freeze_count()
    freeze_loaded("a test")
    return first, gc.get_freeze_count()


def test_a_worker_puts_aside_what_its_first_task_loaded(spark: SparkSession) -> None:
    ((first, second),) = spark.sparkContext.parallelize([0], 1).map(_frozen).collect()
    assert first > 10_000
    assert second == first


def test_a_process_that_is_no_worker_collects_as_it_did() -> None:
    before = gc.get_freeze_count()
    freeze_loaded("a test")
    assert gc.get_freeze_count() == before
