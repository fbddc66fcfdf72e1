"""The evidence stays as it was: nothing below it is opened for writing, or changed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.cli import main
from jobs.options import FINDINGS
from tests import golden
from tests.jobs.verbs import run_verb
from tests.unreadable import NOBODY, open_the_way

CODE = "from jobs.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
_OPENED = re.compile(
    r'(?:open|openat|creat)\((?:AT_FDCWD, |\d+, )?"([^"]*)"(?:, ([A-Z_|0-9a-z]+))?'
)
_CHANGING = re.compile(
    r"^\d+ +(?:rename|renameat|renameat2|unlink|unlinkat|mkdir|mkdirat|rmdir|truncate|chmod|"
    r"fchmodat|link|linkat|symlink|symlinkat|utimensat|mknod|mknodat|setxattr)\((.*)$",
    re.MULTILINE,
)


def state(root: Path) -> dict[str, tuple[object, ...]]:
    """Names, contents, sizes, modes and times of everything below a directory."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (root, *sorted(root.rglob("*"))):
        about = path.lstat()
        data = path.read_bytes() if path.is_file() else None
        times = (about.st_mtime_ns, about.st_ctime_ns)
        found[str(path.relative_to(root))] = (data, about.st_size, about.st_mode, *times)
    return found


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A damaged log dir: reports are longer, and more is looked at."""
    root = Path(shutil.copytree(golden.shared("small-4.3.1") / "data", tmp_path / "evidence"))
    log = root / "orders-0" / "00000000000000000009.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    (root / "orders-0" / "00000000000000000025.index").unlink()
    return root


def arguments(evidence: Path, out: Path) -> list[str]:
    out.mkdir(exist_ok=True)
    files = [f"--sarif={out / 'a.sarif'}", f"--junit={out / 'a.xml'}", f"--html={out / 'a.html'}"]
    return ["audit", str(evidence), "--quiet", *files, f"--write-baseline={out / 'baseline.json'}"]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        command, check=False, text=True, capture_output=True, timeout=120, env=environment
    )


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_no_system_call_writes_below_the_evidence(evidence: Path, tmp_path: Path) -> None:
    before, trace = state(evidence), tmp_path / "trace"
    strace = ["strace", "-f", "-qq", "-e", "trace=%file,desc", "-o", str(trace)]
    done = run([*strace, sys.executable, "-c", CODE, *arguments(evidence, tmp_path / "out")])
    assert done.returncode == 1, done.stderr
    calls = trace.read_text(errors="replace")
    below = [each for each in _OPENED.finditer(calls) if each[1].startswith(str(evidence))]
    assert len(below) > 50
    modes = {flag for each in below for flag in (each[2] or "").split("|")}
    assert modes & {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"} == set()
    assert "O_RDONLY" in modes
    assert not [each for each in _CHANGING.findall(calls) if str(evidence) in each]
    assert state(evidence) == before


def test_a_directory_without_write_permission_is_audited(
    evidence: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Root may write everywhere: it is nobody meanwhile, with everything imported before."""
    expected = run_verb(main, capsys, "audit", evidence, "--all")
    open_the_way(tmp_path_factory.getbasetemp(), tmp_path)
    for path in sorted(evidence.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    evidence.chmod(0o555)
    before = state(evidence)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(PermissionError):
            (evidence / "here").write_bytes(b"")
        found = run_verb(main, capsys, "audit", evidence, "--all")
    finally:
        os.seteuid(user)
    assert found == expected
    assert found[0] == FINDINGS
    assert state(evidence) == before
