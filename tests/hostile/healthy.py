"""A small log dir that a broker of 3.9.1 left behind after a clean stop: two partitions of it.

A case adds to a copy of it, so that one sees whether these two are still reported.
"""

import functools
import shutil
from pathlib import Path

from tests import golden

PARTITIONS = ("transactions-0", "compacted-0")
_PACK = "clean-3.9.1"
_OTHER_FILES = ("meta.properties", ".kafka_cleanshutdown", "bootstrap.checkpoint")
_ENDS = {"transactions": 63, "compacted": 72}
_CHECKPOINTS = {
    "recovery-point-offset-checkpoint": _ENDS,
    "replication-offset-checkpoint": _ENDS,
    "cleaner-offset-checkpoint": {"compacted": 63},
    "log-start-offset-checkpoint": {},
}


def checkpoint_text(offsets: dict[str, int]) -> str:
    rows = "".join(f"{topic} 0 {offset}\n" for topic, offset in offsets.items())
    return f"0\n{len(offsets)}\n{rows}"


def make(path: Path) -> None:
    """Make the log dir at `path`, which must not exist yet."""
    source = _source()
    path.mkdir()
    for name in PARTITIONS:
        copy_partition(path / name, name)
    for name in _OTHER_FILES:
        shutil.copy(source / name, path / name)
    for name, offsets in _CHECKPOINTS.items():
        (path / name).write_text(checkpoint_text(offsets))


def copy_partition(target: Path | bytes, name: str = "compacted-0") -> None:
    """Copy the living files of a partition; what a broker was about to delete stays behind."""
    directory = Path(
        target.decode("utf-8", "surrogateescape") if isinstance(target, bytes) else target
    )
    directory.mkdir()
    for file in sorted((_source() / name).iterdir()):
        if not file.name.endswith(".deleted"):
            shutil.copy(file, directory / file.name)


def copy_metadata_log(path: Path) -> None:
    """Copy the log of a KRaft controller, with its snapshot and quorum-state."""
    shutil.copytree(_source() / "__cluster_metadata-0", path / "__cluster_metadata-0")


@functools.cache
def _source() -> Path:
    (log_dir,) = golden.log_dirs(golden.shared(_PACK))
    return log_dir
