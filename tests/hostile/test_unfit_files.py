"""Files that cannot be read as what their names say: every verb says the same of them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import compact, dump, offsets, recover, retain
from jobs import list as list_verb
from jobs.options import COULD_NOT_RUN, FINDINGS
from tests import golden
from tests.jobs.verbs import run_verb

VERBS = {
    "list": list_verb.main,
    "dump": dump.main,
    "offsets": offsets.main,
    "recover": recover.main,
    "retain": retain.main,
    "compact": compact.main,
}
NAME = f"{0:020}.log"


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    (source,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    shutil.copytree(source / "transactions-0", tmp_path / "data" / "t-0")
    shutil.copy(source / "meta.properties", tmp_path / "data")
    return tmp_path / "data"


SMALL_FILES = {
    "meta.properties": 1024 * 1024,
    "recovery-point-offset-checkpoint": 64 * 1024 * 1024,
    "t-0/leader-epoch-checkpoint": 16 * 1024 * 1024,
    "t-0/partition.metadata": 8 * 1024,
}


@pytest.mark.parametrize("name", SMALL_FILES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_is_too_large_has_one_limit_and_one_line(
    capsys: pytest.CaptureFixture[str], evidence: Path, verb: str, name: str
) -> None:
    path = evidence / name
    path.touch()
    os.truncate(path, 8 * 2**30)
    code, _, err = run_verb(VERBS[verb], capsys, evidence)
    (line,) = [line for line in err.splitlines() if str(path) in line]
    assert f"found {8 * 2**30} bytes, expected at most {SMALL_FILES[name]}, the largest" in line
    assert code == FINDINGS
