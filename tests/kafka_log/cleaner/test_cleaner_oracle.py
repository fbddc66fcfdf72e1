"""Our cleaner against Kafka's Cleaner: the same directories, clocks and buffers, the same bytes."""

import dataclasses

import pytest

from tests.kafka_log.cleaner.cleaning import compare, draw_plan, lived_cases, planned_case
from tests.kafka_log.compare import scratch
from tests.oracle.client import Oracle

BLOCK = 40


@pytest.mark.parametrize("block", range(4))
def test_a_log_is_cleaned_to_the_bytes_that_kafka_leaves(oracle: Oracle, block: int) -> None:
    with scratch() as folder:
        seeds = range(block * BLOCK, (block + 1) * BLOCK)
        compare(oracle, folder, [planned_case(oracle, folder, seed) for seed in seeds])


@pytest.mark.parametrize("block", range(2))
def test_a_log_that_lives_on_between_passes_is_cleaned_as_kafka_does(
    oracle: Oracle, block: int
) -> None:
    with scratch() as folder:
        seeds = range(block * BLOCK, (block + 1) * BLOCK)
        compare(oracle, folder, lived_cases(oracle, folder, seeds))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(4, 130))
def test_a_log_is_cleaned_to_the_bytes_that_kafka_leaves_in_thousands(
    oracle: Oracle, block: int
) -> None:
    with scratch() as folder:
        seeds = range(block * BLOCK, (block + 1) * BLOCK)
        compare(oracle, folder, [planned_case(oracle, folder, seed) for seed in seeds])
        compare(oracle, folder, lived_cases(oracle, folder, seeds))


def test_snappy_batches_that_are_compressed_again_hold_the_same_records(oracle: Oracle) -> None:
    with scratch() as folder:
        cases = []
        for seed in range(20_000, 20_020):
            plan = dataclasses.replace(draw_plan(seed), magic=2, codecs=("snappy",))
            case = planned_case(oracle, folder, seed, plan)
            # Of sizes that differ a second pass may make other groups.
            cases.append(dataclasses.replace(case, passes=case.passes[:1]))
        compare(oracle, folder, cases)
