"""Directories that are not what they seem: poisoned, deep, crowded, empty, or of something else."""

import io
import os
import subprocess
import tarfile
from functools import partial
from pathlib import Path

from tests.hostile import healthy, logs
from tests.hostile.case import NOT_READ, Case, codes, hostile_copy, partition, write

MARKER = "imported"
"""A file beside the evidence, which a poisoned module writes when it is imported."""
_MODULES = (
    *("multiprocessing", "pyspark", "numpy", "numba", "pyarrow", "pandas", "json", "pickle"),
    *("struct", "zlib", "lz4", "cramjam", "crc32c", "zstandard", "encodings", "ctypes", "socket"),
    *("sitecustomize", "usercustomize", "jobs", "pipelines", "kafka_format", "kafka_log"),
    *("argparse", "difflib", "tempfile", "subprocess", "signal", "resource"),
)


def _poison(path: Path, *, as_packages: bool) -> None:
    marker = str(path.parent / MARKER)
    text = f"open({marker!r}, 'a').write(__name__ + '\\n')\nraise SystemExit(99)\n"
    for name in _MODULES:
        if as_packages:
            (path / name).mkdir()
            write(path / name / "__init__.py", text.encode())
        else:
            write(path / f"{name}.py", text.encode())
    write(path / "evil.pth", f"import os; open({marker!r}, 'a')\n".encode())
    write(path / "spark-defaults.conf", b"spark.driver.extraJavaOptions -XX:OnError=evil\n")
    write(path / "pyvenv.cfg", b"home = .\n")


def _poisoned(path: Path) -> None:
    _poison(path, as_packages=False)


def _poisoned_packages(path: Path) -> None:
    _poison(path, as_packages=True)


def _poisoned_large(path: Path) -> None:
    """So large that the work is done in processes, which import again."""
    _poison(path, as_packages=False)
    for number in range(3):
        segment = partition(path, logs.batch(), f"large-{number}") / f"{1000:020}.log"
        with segment.open("ab") as file:
            file.truncate(40 * 1024 * 1024)


def _nothing(path: Path) -> None:
    """The directory as it is."""


def _text_file(path: Path) -> None:
    write(path / "README.txt", b"Dear examiner\n")


def _tar(path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(path / "transactions-0", "transactions-0")
    partition(path, packed.getvalue())


def _of_zip(path: Path) -> None:
    partition(path, b"PK\x03\x04" + bytes(range(256)) * 40)


def _deep(levels: int, name: str, path: Path) -> None:
    """Step by step: the whole path may be longer than the system takes at once."""
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(path)
        for _ in range(levels):
            Path(name).mkdir()
            os.chdir(name)
    finally:
        os.fchdir(here)
        os.close(here)


def _deep_partition(path: Path) -> None:
    directory = hostile_copy(path)
    _deep(500, "d", directory)


def _log_dirs_in_log_dir(path: Path) -> None:
    """A log dir in a partition of a log dir."""
    healthy.make(hostile_copy(path) / "inner")


def _many_files(count: int, path: Path) -> None:
    directory = path / "hostile-0"
    directory.mkdir()
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        for number in range(count):
            flags = os.O_CREAT | os.O_WRONLY
            os.close(os.open(f"{number:020}.log", flags, 0o600, dir_fd=descriptor))
    finally:
        os.close(descriptor)


def _many_strays(count: int, path: Path) -> None:
    directory = hostile_copy(path)
    for number in range(count):
        os.close(os.open(directory / f"stray-{number}", os.O_CREAT | os.O_WRONLY, 0o600))


def _many_partitions(count: int, path: Path) -> None:
    data = logs.batch()
    for number in range(count):
        (path / f"many-{number}").mkdir()
        write(path / f"many-{number}" / f"{0:020}.log", data)


def _directory_as(name: str, path: Path) -> None:
    (path / name).mkdir()


def _no_evidence(path: Path) -> None:
    subprocess.run(["rm", "-rf", path], check=True)


def _newline_path(path: Path) -> None:
    path.rename(path.parent / "a\nFORGED\x1b[2J")


CASES = [
    Case(name="places/healthy", build=_nothing),
    Case(name="places/poisoned-modules", build=_poisoned, in_process=False),
    Case(name="places/poisoned-packages", build=_poisoned_packages, in_process=False),
    Case(name="places/poisoned-processes", build=_poisoned_large, in_process=False),
    Case(name="places/empty", build=_nothing, empty=True, has_healthy=False, codes=NOT_READ),
    Case(name="places/text-file", build=_text_file, empty=True, has_healthy=False, codes=NOT_READ),
    Case(
        name="places/given-text-file",
        build=_text_file,
        empty=True,
        paths=("evidence/README.txt",),
        has_healthy=False,
        codes=NOT_READ,
    ),
    Case(name="places/gone", build=_no_evidence, has_healthy=False, codes=NOT_READ),
    Case(name="places/tar-as-log", build=_tar, codes=codes(0, dump=1, recover=1, compact=1)),
    Case(name="places/zip-as-log", build=_of_zip, codes=codes(0, dump=1, recover=1, compact=1)),
    Case(name="places/path-with-controls", build=_newline_path, paths=("a\nFORGED\x1b[2J",)),
    Case(name="places/deep-2000", build=partial(_deep, 2000, "d")),
    Case(name="places/deep-beyond-path-max", build=partial(_deep, 40, "d" * 200)),
    Case(name="places/deep-partitions", build=partial(_deep, 300, "t-0")),
    Case(name="places/deep-in-partition", build=_deep_partition),
    Case(name="places/log-dir-in-partition", build=_log_dirs_in_log_dir),
    Case(name="places/directory-as-segment", build=partial(_directory_as, f"{0:020}.log")),
    Case(
        name="places/directory-as-checkpoint",
        build=partial(_directory_as, "replication-offset-checkpoint.tmp"),
    ),
    Case(name="places/1000-empty-segments", build=partial(_many_files, 1000)),
    Case(name="places/10000-strays", build=partial(_many_strays, 10_000)),
    Case(name="places/1000-partitions", build=partial(_many_partitions, 1000)),
    Case(name="places/a-million-files", build=partial(_many_files, 1_000_000), is_large=True),
    Case(name="places/20000-partitions", build=partial(_many_partitions, 20_000), is_large=True),
]
