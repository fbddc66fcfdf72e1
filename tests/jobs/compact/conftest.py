"""Log dirs to compact."""

import pytest

from tests.jobs.compact.compacting import write_log


@pytest.fixture
def log_dir(tmp_path):
    return write_log(tmp_path / "data", 10)
