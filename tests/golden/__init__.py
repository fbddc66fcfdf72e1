"""Golden directories: what real Apache Kafka brokers left on disk, packed small.

A pack is a folder `packs/NAME/` with

    log_dirs.tar.xz       the broker's log directories (`data/`, or `data-1/` and `data-2/`)
    expected.jsonl.xz     what a real consumer received from it, at both isolation levels
    MANIFEST.md           which release wrote it, how, and the checksum of every file

    for name in golden.names():
        root = golden.shared(name)            # unpacked once a process; read only, please
        for log_dir in golden.log_dirs(root): ...
    root = golden.unpack(name, tmp_path)      # a copy of one's own, to write in
"""

import atexit
import functools
import json
import lzma
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

PACKS = Path(__file__).parent / "packs"
ARCHIVE = "log_dirs.tar.xz"
EXPECTED = "expected.jsonl.xz"
MANIFEST = "MANIFEST.md"

_CHUNK = 1 << 16
_MANIFEST_LINE = re.compile(r"^([0-9a-f]{64}) +(\d+) (\S.*)$", re.MULTILINE)


class Checksum(NamedTuple):
    sha256: str
    size: int
    path: str


def names() -> list[str]:
    return sorted(folder.name for folder in PACKS.iterdir() if (folder / MANIFEST).is_file())


def unpack(name: str, target_dir: Path) -> Path:
    """The log directories of a pack below `target_dir/name`, which must not exist yet."""
    root = target_dir / name
    root.mkdir(parents=True)
    with tarfile.open(PACKS / name / ARCHIVE, "r:xz") as archive:
        for member in archive:
            path = _inside(root, member)
            if member.isdir():
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_sparse(archive.extractfile(member), member.size, path)
    return root


def log_dirs(root: Path) -> list[Path]:
    """The log directories of an unpacked pack: `data`, or `data-1` and `data-2`."""
    return sorted(root.iterdir())


@functools.cache
def shared(name: str) -> Path:
    """The pack, unpacked once in this process and removed at its end. For reading only."""
    scratch = Path(tempfile.mkdtemp(prefix="golden-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return unpack(name, scratch)


def expected(name: str) -> Iterator[dict[str, Any]]:
    """What the consumers received: lines with `end_offset` are ranges, the rest records."""
    with lzma.open(PACKS / name / EXPECTED, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def manifest(name: str) -> str:
    return (PACKS / name / MANIFEST).read_text(encoding="utf-8")


def checksums(name: str) -> list[Checksum]:
    """The manifest's own list: the packed files (names without a slash), then the unpacked ones."""
    found = _MANIFEST_LINE.findall(manifest(name))
    return [Checksum(sha256, int(size), path) for sha256, size, path in found]


def _inside(root: Path, member: tarfile.TarInfo) -> Path:
    """Where a member goes; only plain files and folders, only below the root."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
        raise ValueError(f"{member.name}: not a plain file or folder below the pack")
    return root / name


def _write_sparse(source: IO[bytes], size: int, path: Path) -> None:
    """Preallocated indexes are 10 MiB of zeros: those become holes, not blocks."""
    with path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            if chunk == bytes(len(chunk)):
                target.seek(len(chunk), 1)
            else:
                target.write(chunk)
        target.truncate(size)
