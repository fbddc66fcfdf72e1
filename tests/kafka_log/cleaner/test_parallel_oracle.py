"""One round by many tasks, against Kafka's Cleaner: the same bytes, statistics and times."""

import pytest

from tests.kafka_log.cleaner.cleaning import compare, lived_cases, planned_case
from tests.kafka_log.cleaner.in_parallel import in_parallel
from tests.kafka_log.compare import scratch
from tests.oracle.client import Oracle

BLOCK = 40


def test_a_log_cleaned_by_parts_has_the_bytes_that_kafka_leaves(oracle: Oracle) -> None:
    with scratch() as folder, in_parallel(folder) as made:
        compare(oracle, folder, [planned_case(oracle, folder, seed) for seed in range(BLOCK)])
    assert sum(each.why_not is None for each in made) > BLOCK


def test_a_log_that_lives_on_is_cleaned_by_parts_as_kafka_does(oracle: Oracle) -> None:
    with scratch() as folder, in_parallel(folder, seed=1) as made:
        compare(oracle, folder, lived_cases(oracle, folder, range(BLOCK)))
    assert sum(each.why_not is None for each in made) > BLOCK


@pytest.mark.soak
@pytest.mark.parametrize("block", range(1, 60))
def test_logs_cleaned_by_parts_have_the_bytes_that_kafka_leaves_in_thousands(
    oracle: Oracle, block: int
) -> None:
    seeds = range(block * BLOCK, (block + 1) * BLOCK)
    with scratch() as folder, in_parallel(folder, seed=block):
        compare(oracle, folder, [planned_case(oracle, folder, seed) for seed in seeds])
        compare(oracle, folder, lived_cases(oracle, folder, seeds))
