"""Log dirs with known damage: copies of a real broker's, with a few bytes changed."""

import shutil
from pathlib import Path

from pipelines.audit.python import audit
from tests import golden

NOW_MS = 1_763_500_000_000
LOG = f"{0:020d}.log"
RULES = ("LOG001", "CKP001")
"""What `damaged` makes, whatever other checks there are."""


def log_dir(target: Path) -> Path:
    """A log dir of a cleanly stopped broker, to change."""
    (found,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    return Path(shutil.copytree(found, target))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def damaged(target: Path) -> Path:
    """Two batches of codecs-0 (offsets 0 and 10) with a wrong checksum, and a bad checkpoint."""
    data = log_dir(target)
    flip(data / "codecs-0" / LOG, 200)
    flip(data / "codecs-0" / LOG, -1)
    (data / "recovery-point-offset-checkpoint").write_text("nonsense")
    return data


def report_of(*paths, **options):
    options = {"only": RULES, "now_ms": NOW_MS, "engine": "local", **options}
    return audit(*paths, **options)
