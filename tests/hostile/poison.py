"""A directory whose files run, or are read as settings, if anything looks for them there.

    poison = Poison(directory, markers)
    … run a program with `directory` as its current directory …
    assert poison.marks() == []

Every module of the standard library, every package that we use and every package of ours has a
twin there, which leaves a mark outside the directory when it is imported. So have the files that
Spark, Java, numba and others read from the current directory when they are let.
"""

import sys
from importlib import metadata
from pathlib import Path

OURS = ("jobs", "kafka_broker", "kafka_format", "kafka_log", "pipelines", "pyspark_kafka_files")
_NEVER_INSTALLED = ("sitecustomize", "usercustomize", "pyspark_evil")
_PACKAGES = ("jobs", "kafka_log", "multiprocessing", "numpy", "pipelines", "pyspark")
"""Directories with an __init__.py; the others are single files. Python prefers directories."""

_MODULE = """
import os, sys
_mark = os.open({mark!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(_mark, (__name__ + " in " + repr(sys.orig_argv) + "\\n").encode())
"""


class Poison:
    def __init__(self, directory: Path, markers: Path, *, modules: list[str] | None = None) -> None:
        """`modules` are the names to poison, by default all that anybody could import."""
        self._markers = markers
        markers.mkdir()
        for name in every_module() if modules is None else modules:
            code = _MODULE.format(mark=str(markers / name))
            self._write(directory / f"{name}.py", code)
            if name in _PACKAGES:
                self._write(directory / name / "__init__.py", code)
        self._settings(directory)

    def marks(self) -> list[str]:
        """What left a mark since the last call, and where it ran."""
        found = [path for path in sorted(self._markers.rglob("*")) if path.is_file()]
        reported = [
            f"{path.relative_to(self._markers)}: {path.read_text(errors='replace')[:300]}"
            for path in found
        ]
        for path in found:
            path.unlink()
        return reported

    def _settings(self, directory: Path) -> None:
        log = self._markers / "event-log"
        log.mkdir()
        touch = f"#!/bin/sh\ntouch '{self._markers}'/$(basename \"$0\")-ran\nexit 1\n"
        spark = f"spark.eventLog.enabled true\nspark.eventLog.dir file:{log}\n"
        warehouse = (
            "<configuration><property><name>hive.metastore.warehouse.dir</name>"
            f"<value>{self._markers}</value></property></configuration>"
        )
        for folder in (directory, directory / "conf"):
            self._write(folder / "spark-defaults.conf", spark)
            self._write(folder / "spark-env.sh", touch)
            self._write(folder / "hive-site.xml", warehouse)
            self._write(folder / "core-site.xml", "<not xml")
            self._write(
                folder / "log4j2.properties", "this is = no configuration\nstatus = trace\n"
            )
            self._write(folder / "ivysettings.xml", "<not xml")
        self._write(directory / "evil.pth", f"import os; open({str(log / 'pth')!r}, 'w')\n")
        # Compiled code would be kept there, and loaded from there by the next process.
        self._write(directory / ".numba_config.yaml", f"cache_dir: {self._markers / 'numba'}\n")
        self._write(directory / ".hotspotrc", "+PrintFlagsFinal\n")
        self._write(directory / "pyproject.toml", "not toml [\n")
        self._write(directory / "setup.cfg", "not ini\n")
        self._write(directory / "pyvenv.cfg", "home = /nowhere\n")
        # pyspark takes the directory above the current one for Spark's, if it looks like it.
        for home in (directory, directory.parent):
            (home / "jars").mkdir(exist_ok=True)
            self._write(home / "bin" / "spark-submit", touch)
            self._write(home / "bin" / "java", touch)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)


def every_module() -> list[str]:
    """All of the standard library, of what is installed and of ours."""
    installed = {name for name in metadata.packages_distributions() if name.isidentifier()}
    standard = {*sys.stdlib_module_names} - {"sys", "os"}  # a mark is made by these two
    return sorted({*standard, *installed, *OURS, *_NEVER_INSTALLED})
