"""Log dirs to compact."""

import shutil
from pathlib import Path

import pytest

from tests import golden
from tests.jobs.compact.compacting import (
    write_log,
)


@pytest.fixture
def data(tmp_path):
    """A log dir of one's own, cleanly stopped."""
    (log_dir,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    return Path(shutil.copytree(log_dir, tmp_path / "data"))


@pytest.fixture
def log_dir(tmp_path):
    return write_log(tmp_path / "data", 10)
