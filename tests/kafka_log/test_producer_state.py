"""Producer state: every rule against Kafka's ProducerStateManager, operation by operation."""

from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import FormatError
from kafka_format.producer_snapshot import decode_producer_snapshot, iter_producer_snapshot
from tests.kafka_log.producer_driver import ERRORS, Driver
from tests.kafka_log.producer_operations import draw_run
from tests.oracle.client import Oracle

SEEDS_PER_CALL = 50


def compare(oracle: Oracle, folder: Path, seeds: range, **options: Any) -> dict[str, int]:
    """Kafka's manager and ours, by rows and over columns; which errors were seen, how often."""
    runs = [draw_run(seed, folder / f"{seed}-kafka", **options) for seed in seeds]
    seen: dict[str, int] = {}
    told = oracle.call("producer_states", runs=runs, timeout=300)
    for seed, run, answers in zip(seeds, runs, told, strict=True):
        for columnar in (False, True):
            ours = run | {"path": folder / f"{seed}-{'columns' if columnar else 'rows'}"}
            _compare_run(seed, ours, answers, columnar=columnar, seen=seen)
            _compare_files(run["path"], ours["path"])
    return seen


def _compare_run(
    seed: int, run: dict[str, Any], answers: list[Any], *, columnar: bool, seen: dict[str, int]
) -> None:
    driver = Driver(run, columnar=columnar)
    for place, (operation, expected) in enumerate(zip(run["operations"], answers, strict=True)):
        where = f"seed {seed}, operation {place}: {operation}"
        found = driver.attempt(operation)
        if "error" in expected:
            name = expected["error"]["class"]
            assert "error" in found, f"{where}: Kafka says {expected['error']}"
            classes = {each.__name__ for each in type(found["error"]).__mro__}
            assert ERRORS[name] in classes, (where, expected["error"], found["error"])
            seen[name] = seen.get(name, 0) + 1
        else:
            assert "error" not in found, (where, found["error"])
            assert found["answer"] == expected["answer"], where
        assert found["state"] == expected["state"], where


def _compare_files(kafka: Path, ours: Path) -> None:
    assert sorted(path.name for path in ours.iterdir()) == sorted(
        path.name for path in kafka.iterdir()
    )
    for path in ours.iterdir():
        assert _content(path.read_bytes()) == _content((kafka / path.name).read_bytes())


def _content(data: bytes) -> object:
    """A snapshot's rows as a set; what does not decode, by its size (rows have an order there)."""
    try:
        snapshot = decode_producer_snapshot(data)
    except FormatError:
        return len(data)
    return sorted(iter_producer_snapshot(snapshot)), snapshot.trailing


@pytest.mark.parametrize("first", range(0, 300, SEEDS_PER_CALL))
def test_random_operations_leave_the_state_that_kafka_has(
    oracle: Oracle, memory_path: Path, first: int
) -> None:
    seen = compare(oracle, memory_path, range(first, first + SEEDS_PER_CALL))
    assert len(seen) >= 6, f"the operations are tame: {seen}"


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, SEEDS_PER_CALL))
def test_many_random_operations_leave_the_state_that_kafka_has(
    oracle: Oracle, memory_path: Path, first: int
) -> None:
    compare(oracle, memory_path, range(first, first + SEEDS_PER_CALL), operations=80)
