"""Jars of Kafka and of Spark's packages, from Maven Central, into a cache that outlives a checkout.

The resolver is the Ivy that pyspark ships, so that a machine with Python and Java needs no Maven.
Each release has an ivy file beside this module; what it resolved to is pinned in `jars.sha256`.

    python -m tests.oracle.jars 4.3.1      prints the folder that holds the jars of that release
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CURRENT = "4.3.1"
OLDER = "3.9.1"
SPARK = "spark-4.2.0"
"""What the tests' Spark session has beyond pyspark's own jars: Delta."""
SPARK_SOURCES = "spark-sources-4.2.0"
"""Spark's own Kafka source and Avro functions, for comparison."""


class JarsUnavailableError(RuntimeError):
    """The jars are neither cached nor reachable; the message is one line for the test report."""


def cache_root() -> Path:
    """Where jars and compiled oracles stay between runs and checkouts."""
    chosen = os.environ.get("KAFKA_FORENSICS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen) if chosen else Path(base) / "kafka-forensics"


def libs(version: str = CURRENT) -> Path:
    """The folder of one release's jars, downloaded on first use and checked against the pins."""
    folder = cache_root() / _name(version) / "libs"
    if not folder.is_dir():
        _download(version, folder)
    return folder


def _name(version: str) -> str:
    """The product of the release; Kafka unless stated otherwise."""
    return version if version in (SPARK, SPARK_SOURCES) else f"kafka-{version}"


def class_path(version: str = CURRENT) -> str:
    return str(libs(version) / "*")


def java_program(name: str) -> str:
    """`java` or `javac`: from JAVA_HOME if it is set, else from the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin")) if home else shutil.which(name)
    if found is None:
        raise JarsUnavailableError(f"{name} not found: install a JDK, version 17 or newer")
    return found


def _download(version: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fetched = Path(scratch) / "libs"
        command = [java_program("java"), "-jar", str(_ivy_jar()), "-warn"]
        command += ["-ivy", str(HERE / f"{_name(version)}.ivy.xml"), "-confs", "default"]
        command += ["-cache", str(Path(scratch) / "ivy")]
        command += ["-retrieve", f"{fetched}/[artifact]-[revision](-[classifier]).[ext]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not fetched.is_dir():
            raise JarsUnavailableError(
                f"{_name(version)}: its jars are not in {cache_root()}"
                " and Maven Central is not reachable"
            )
        _check_pins(version, fetched)
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another run was first, with the same pinned jars
                raise


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsUnavailableError("pyspark, which ships the Ivy resolver, is not installed")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))


def _check_pins(version: str, fetched: Path) -> None:
    pinned = {
        name: digest
        for digest, name in map(str.split, (HERE / "jars.sha256").read_text().splitlines())
        if name.startswith(f"{version}/")
    }
    found = digests(version, fetched)
    for name in sorted(pinned.keys() | found.keys()):
        if pinned.get(name) != found.get(name):
            raise JarsUnavailableError(
                f"{name}: sha256 {found.get(name)}, pinned {pinned.get(name)} in jars.sha256"
            )


def digests(version: str, folder: Path) -> dict[str, str]:
    return {
        f"{version}/{jar.name}": hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in sorted(folder.glob("*.jar"))
    }


if __name__ == "__main__":
    print(libs(*sys.argv[1:2]))
