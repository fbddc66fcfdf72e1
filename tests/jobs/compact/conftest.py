"""Log dirs to compact."""

from pathlib import Path

import pytest

from tests.jobs.compact.compacting import write_log


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_log(tmp_path / "data", 10)
