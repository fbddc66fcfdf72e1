"""Fixtures every test may use; a JVM starts with the first test that asks for one."""

import os
from collections.abc import Iterator

import pytest

from tests.oracle import jars
from tests.oracle.client import Oracle

_ORACLES = {"oracle", "oracle_3_9"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses an oracle is marked so, by hand or not: `-m "not oracle"` needs no Java."""
    for item in items:
        if _ORACLES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)


def _oracle(version: str) -> Iterator[Oracle]:
    oracle = Oracle(version)
    try:
        oracle.start()
    except jars.JarsUnavailableError as unavailable:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run the oracle tests: {unavailable}", pytrace=False)
        pytest.skip(f"no oracle: {unavailable}")
    yield oracle
    oracle.close()


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Apache Kafka 4.3.1's own classes."""
    yield from _oracle(jars.CURRENT)


@pytest.fixture(scope="session")
def oracle_3_9() -> Iterator[Oracle]:
    """Apache Kafka 3.9.1's own classes."""
    yield from _oracle(jars.OLDER)
