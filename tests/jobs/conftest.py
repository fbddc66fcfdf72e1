"""Log dirs to work on."""

import shutil
from pathlib import Path

import pytest

from tests import golden


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log dir of one's own, cleanly stopped, with a directory to be deleted."""
    (log_dir,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    return Path(shutil.copytree(log_dir, tmp_path / "data"))
