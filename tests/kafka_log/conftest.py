"""Fixtures of the log's tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHARED_MEMORY = Path("/dev/shm")  # Linux has it; elsewhere the disk must do


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A temporary directory in memory: Kafka's thousands of flushes to a disk take minutes."""
    memory = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty directory of a partition."""
    path = tmp_path / "orders-0"
    path.mkdir()
    return path
