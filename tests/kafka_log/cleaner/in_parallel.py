"""The comparison with Kafka's Cleaner (cleaning.py), with rounds that are done by parts."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.parallel.cleaner import InProcess, ParallelCleaner, Runner
from tests.kafka_log.cleaner import cleaning
from tests.kafka_log.driver import Session


@contextmanager
def in_parallel(
    folder: Path, *, runner: Runner | None = None, seed: int = 0, task_memory: int | None = None
) -> Iterator[list[ParallelCleaner]]:
    """Every round within is done by parts, of sizes drawn by the seed; by which cleaners."""
    rng = random.Random(seed)
    made: list[ParallelCleaner] = []

    def cleaner(session: Session, one: Mapping[str, Any], keys: Keys) -> Cleaner:
        del keys
        made.append(
            ParallelCleaner(
                session.log.config,
                session.clock,
                runner=runner or InProcess(),
                work=folder,
                task_memory=task_memory or rng.choice((1000, 8000, 40_000, 1 << 20)),
                dedupe_buffer_size=one.get("dedupe_buffer_size", 1 << 20),
                io_buffer_size=one.get("io_buffer_size", 512 * 1024),
                message_max_bytes=one.get("message_max_bytes", 1024 * 1024 + 12),
            )
        )
        return made[-1]

    with mock.patch.object(cleaning, "_cleaner", cleaner):
        yield made
