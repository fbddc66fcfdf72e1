"""Jars that only the making of packs needs: fetched by the same Ivy as the oracle's, not pinned."""

import subprocess
import tempfile
from pathlib import Path

from tests.oracle import jars

FETCH_SECONDS = 300


def fetch(module: str, version: str, *, alone: bool = False) -> Path:
    """The folder with org.apache.kafka's `module`, and what it depends on unless `alone`."""
    folder = jars.cache_root() / f"{module}-{version}" / "libs"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        _resolve(Path(scratch), module, version, "master" if alone else "default")
        (Path(scratch) / "libs").rename(folder)
    return folder


def _resolve(scratch: Path, module: str, version: str, configuration: str) -> None:
    dependency = f'org="org.apache.kafka" name="{module}" rev="{version}"'
    (scratch / "ivy.xml").write_text(
        f"""<ivy-module version="2.0">
  <info organisation="kafka-forensics" module="golden" revision="{version}"/>
  <dependencies>
    <dependency {dependency} conf="default->{configuration}"/>
  </dependencies>
</ivy-module>"""
    )
    command = [jars.java_program("java"), "-jar", str(jars._ivy_jar()), "-warn"]
    command += ["-ivy", str(scratch / "ivy.xml"), "-confs", "default"]
    command += ["-cache", str(scratch / "cache")]
    command += ["-retrieve", str(scratch / "libs" / "[artifact]-[revision](-[classifier]).[ext]")]
    subprocess.run(command, check=True, capture_output=True, timeout=FETCH_SECONDS)
