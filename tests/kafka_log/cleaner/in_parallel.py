"""The comparison with Kafka's Cleaner (cleaning.py), with rounds that are done by parts."""

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.parallel.cleaner import ParallelCleaner, ParallelSettings
from kafka_log.cleaner.parallel.runner import InProcess, Runner
from kafka_log.cleaner.releases import CleanerRules
from tests.kafka_log.cleaner import cleaning
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.cleaning import CleaningCase, compare_one, set_times
from tests.kafka_log.cleaner.passes import CleaningPass
from tests.kafka_log.driver import Session, files_of


@contextmanager
def in_parallel(
    folder: Path, *, runner: Runner | None = None, seed: int = 0, task_memory: int | None = None
) -> Iterator[list[ParallelCleaner]]:
    """Every round within is done by parts, of sizes drawn by the seed; by which cleaners."""
    rng = random.Random(seed)
    made: list[ParallelCleaner] = []

    def cleaner(
        session: Session, one: CleaningPass, keys: Keys, rules: CleanerRules
    ) -> ParallelCleaner:
        del keys
        made.append(
            ParallelCleaner(
                new_cleaner(
                    session.log.config,
                    session.clock,
                    dedupe_buffer_size=one.dedupe_buffer_size,
                    io_buffer_size=one.io_buffer_size,
                    message_max_bytes=one.message_max_bytes,
                    rules=rules,
                ),
                runner or InProcess(),
                ParallelSettings(
                    work=folder,
                    task_memory=task_memory or rng.choice((1000, 8000, 40_000, 1 << 20)),
                ),
            )
        )
        return made[-1]

    with mock.patch.object(cleaning, "_cleaner", cleaner):
        yield made


def compare_again(folder: Path, cases: Sequence[CleaningCase], *, seed: int) -> set[str]:
    """What `compare` has just compared, by parts: with Kafka's files, and with ours of one task.

    Kafka is not asked again. Gives the names of cases of which a round was done so.
    """
    by_parts = set()
    with in_parallel(folder, seed=seed) as made:
        for case in cases:
            name, before = case.source.name, len(made)
            ours = folder / "parts" / name
            shutil.copytree(case.source, ours)
            compare_one(case, ours, folder / "kafka" / name, case.reported)
            assert _files(ours) == _files(folder / "ours" / name), case.name
            if any(each.why_not is None for each in made[before:]):
                by_parts.add(case.name)
    return by_parts


def _files(directory: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Without what a failed round leaves: it may differ by a chunk where blocks meet."""
    reported = files_of(directory)
    return {name: reported[name] for name in reported if ".cleaned" not in name}, set_times(
        directory
    )
