"""A log that Kafka wrote, for one edit per test."""

import shutil
from pathlib import Path

import pytest

from tests.oracle.client import BuiltLog, Oracle
from tests.oracle.logs import LogPlan


@pytest.fixture(scope="session")
def built(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> BuiltLog:
    """A cleanly stopped log of Kafka's UnifiedLog, with two open transactions. For reading only."""
    plan = LogPlan(seed=1, batches=120, transactional_producers=4, open_transactions=2)
    return oracle.build_log(tmp_path_factory.mktemp("built") / "orders-0", plan)


@pytest.fixture
def log(built: BuiltLog, tmp_path: Path) -> Path:
    """A copy of it, to edit."""
    return Path(shutil.copytree(built.path, tmp_path / "orders-0"))
