"""Named pipes, sockets, directories and devices under the name of every kind of file."""

import os
import socket
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.hostile import healthy
from tests.hostile.case import DAMAGED, QUICK, Case, hostile_copy

IN_PARTITION = {
    "log": f"{0:020}.log",
    "last-log": f"{39:020}.log",
    "index": f"{0:020}.index",
    "timeindex": f"{0:020}.timeindex",
    "txnindex": f"{0:020}.txnindex",
    "snapshot": f"{63:020}.snapshot",
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
    "partition.metadata": "partition.metadata",
}
IN_LOG_DIR = (
    *("recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
    *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", "meta.properties"),
    *("bootstrap.checkpoint", ".kafka_cleanshutdown", ".lock"),
)
IN_METADATA_LOG = {
    "quorum-state": "quorum-state",
    "metadata-snapshot": "00000000000000000000-0000000000.checkpoint",
}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # a socket's path has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"of nobody")


def _device(kind: int, number: int, path: Path) -> None:
    """As root; else what anybody may make, a link to the same."""
    try:
        os.mknod(path, kind | 0o600, number)
    except PermissionError:
        path.symlink_to("/dev/zero" if kind == stat.S_IFCHR else "/dev/loop0")


KINDS: dict[str, Callable[[Path], None]] = {
    "fifo": _fifo,
    "socket": _socket,
    "directory": _directory,
    "character-device": partial(_device, stat.S_IFCHR, os.makedev(1, 5)),  # /dev/zero
    "block-device": partial(_device, stat.S_IFBLK, os.makedev(7, 0)),  # a disk that is not there
}


def replaced(directory: Path, name: str, make: Callable[[Path], None]) -> None:
    file = directory / name
    file.unlink(missing_ok=True)
    make(file)


def in_partition(name: str, make: Callable[[Path], None], path: Path) -> None:
    replaced(hostile_copy(path), name, make)


def in_log_dir(name: str, make: Callable[[Path], None], path: Path) -> None:
    replaced(path, name, make)


def in_metadata_log(name: str, make: Callable[[Path], None], path: Path) -> None:
    healthy.copy_metadata_log(path)
    replaced(path / "__cluster_metadata-0", name, make)


PLACES = {
    **{what: partial(in_partition, name) for what, name in IN_PARTITION.items()},
    **{name: partial(in_log_dir, name) for name in IN_LOG_DIR},
    **{what: partial(in_metadata_log, name) for what, name in IN_METADATA_LOG.items()},
    "stray": partial(in_partition, "notes.txt"),
}
CASES = [
    Case(name=f"special/{where}-{kind}", build=partial(place, make), codes=DAMAGED, seconds=QUICK)
    for where, place in PLACES.items()
    for kind, make in KINDS.items()
]
