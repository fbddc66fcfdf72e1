"""One round by many tasks, against Kafka's Cleaner: the same bytes, statistics and times."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.parallel.cleaner import InProcess, ParallelCleaner
from tests.kafka_log.cleaner import cleaning
from tests.kafka_log.cleaner.cleaning import compare, lived_cases, planned_case
from tests.kafka_log.compare import scratch
from tests.kafka_log.driver import Session
from tests.oracle.client import Oracle

BLOCK = 40


@contextmanager
def in_parallel(folder: Path, seed: int) -> Iterator[list[ParallelCleaner]]:
    """Every round that is compared within is done by parts, of sizes drawn by the seed."""
    rng = random.Random(seed)
    made: list[ParallelCleaner] = []

    def cleaner(session: Session, one: Mapping[str, Any], keys: Keys) -> Cleaner:
        del keys
        made.append(
            ParallelCleaner(
                session.log.config,
                session.clock,
                runner=InProcess(),
                work=folder,
                task_memory=rng.choice((1000, 8000, 40_000, 1 << 20)),
                dedupe_buffer_size=one.get("dedupe_buffer_size", 1 << 20),
                io_buffer_size=one.get("io_buffer_size", 512 * 1024),
                message_max_bytes=one.get("message_max_bytes", 1024 * 1024 + 12),
            )
        )
        return made[-1]

    with mock.patch.object(cleaning, "_cleaner", cleaner):
        yield made


def test_a_log_cleaned_by_parts_has_the_bytes_that_kafka_leaves(oracle: Oracle) -> None:
    with scratch() as folder, in_parallel(folder, 0) as made:
        compare(oracle, folder, [planned_case(oracle, folder, seed) for seed in range(BLOCK)])
    reasons = [each.why_not for each in made if each.why_not]
    print(len(made), reasons)


def test_a_log_that_lives_on_is_cleaned_by_parts_as_kafka_does(oracle: Oracle) -> None:
    with scratch() as folder, in_parallel(folder, 1) as made:
        compare(oracle, folder, lived_cases(oracle, folder, range(BLOCK)))
    reasons = [each.why_not for each in made if each.why_not]
    print(len(made), reasons)
