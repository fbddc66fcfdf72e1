"""Fixtures every test may use; a JVM starts with the first test that asks for one."""

import functools
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.oracle import jars
from tests.oracle.client import Oracle, classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No example has a time limit, for machines are shared; in CI every run draws the same examples.
settings.register_profile("ours", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("ours")

# A task that fails is run once more, as a cluster would.
_SPARK_SETTINGS = {"spark.master": "local[2,2]", "spark.sql.shuffle.partitions": "2"}
_ORACLES = {"oracle": jars.CURRENT, "oracle_3_9": jars.OLDER}


def _versions(item: pytest.Item) -> list[str]:
    wanted = getattr(item, "fixturenames", ())
    return [version for name, version in _ORACLES.items() if name in wanted]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever uses an oracle is marked so, by hand or not: `-m "not oracle"` needs no Java.

    What is marked `soak` runs only when asked for by that marker: `pytest -m soak`.
    """
    for item in items:
        if _versions(item):
            item.add_marker(pytest.mark.oracle)
    if "soak" not in config.getoption("markexpr"):
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]


@functools.cache
def _unavailable(version: str) -> str | None:
    """Why this release cannot be asked; downloads and compiles as far as not yet done."""
    try:
        classes(version)
    except jars.JarsUnavailableError as problem:
        return str(problem)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips from here, not from the fixtures: pytest then folds them all into one line."""
    for version in _versions(item):
        reason = _unavailable(version)
        if reason and os.environ.get("CI") == "true":
            pytest.fail(f"CI must run the oracle tests: {reason}", pytrace=False)
        if reason:
            pytest.skip(f"no oracle: {reason}")


_MAY_BE_MISSING = ("may mount", "strace is not installed", "no Chromium is installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let what is skipped elsewhere fail in CI, where the project's own files install everything.

    Programs of the system, and the right to mount a small disk, may be missing there too.
    """
    report = yield
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(each in reason for each in _MAY_BE_MISSING):
            report.outcome, report.longrepr = (
                "failed",
                f"CI runs every test: {item.nodeid}: {reason}",
            )
    return report


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """Apache Kafka 4.3.1's own classes."""
    with Oracle(jars.CURRENT) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def oracle_3_9() -> Iterator[Oracle]:
    """Apache Kafka 3.9.1's own classes."""
    with Oracle(jars.OLDER) as oracle:
        yield oracle


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The one Spark session of a run: on two threads of this machine, few shuffle partitions."""
    from pipelines.session import session

    made = session("tests", more=_SPARK_SETTINGS | _package_settings())
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def _package_settings() -> dict[str, str]:
    """Spark's packages with their jars from the tests' cache, as far as these can be had."""
    delta = _spark_jars(jars.SPARK)
    found = [*delta, *_spark_jars(jars.SPARK_SOURCES)]
    with_jars = {"spark.jars": ",".join(map(str, found))} if found else {}
    return (_delta_settings() if delta else {}) | with_jars


def _spark_jars(package: str) -> list[Path]:
    try:
        return sorted(jars.libs(package).glob("*.jar"))
    except jars.JarsUnavailableError:
        return []


def _delta_settings() -> dict[str, str]:
    from pipelines.session import DELTA_SETTINGS
    from pipelines.session import settings as spark_settings

    packages, *others = DELTA_SETTINGS
    assert packages == "spark.jars.packages"
    wanted = spark_settings(delta=True)
    return {name: wanted[name] for name in others} | {
        # Delta reads its own log in 50 tasks, which is for tables of millions of files.
        "spark.databricks.delta.snapshotPartitions": "2",
    }


@pytest.fixture
def delta_spark(spark: "SparkSession") -> "SparkSession":
    """The same session, for tests that write Delta tables."""
    if "delta" not in spark.conf.get("spark.sql.extensions", ""):
        _without("Delta", jars.SPARK)
    return spark


@pytest.fixture(scope="session")
def sources_spark(spark: "SparkSession") -> "SparkSession":
    """The same session, for tests that use Spark's own Kafka source or its Avro functions."""
    if "spark-sql-kafka" not in spark.conf.get("spark.jars", ""):
        _without("Kafka source of Spark's", jars.SPARK_SOURCES)
    return spark


def _without(what: str, package: str) -> None:
    reason = f"{package}: its jars are not to be had"
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must run these tests: {reason}", pytrace=False)
    pytest.skip(f"no {what}: {reason}")
