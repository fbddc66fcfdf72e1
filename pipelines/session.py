"""The SparkSession: the one that spark-submit gives, or one of our own for this machine.

Settings are in one file, conf/spark-defaults.conf: spark-submit is given it by --properties-file,
a session of our own reads it here (in a wheel it lies beside this module). Delta's lines are left
out unless asked for, because Spark downloads its jars before it starts.

pyspark is imported in functions alone: a job that stays in this process never loads it.
"""

from __future__ import annotations

import atexit
import importlib.util
import io
import os
import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

APP_NAME = "kafka-forensics"
SETTINGS_FILE = "spark-defaults.conf"
DELTA_SETTINGS = (
    "spark.jars.packages",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
)

_LOCAL = {
    "spark.master": "local[*]",
    # Evidence is nobody else's: no port of this machine is open to others.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # What fails is told by the job; Spark's warnings would drown it.
    "spark.log.level": "ERROR",
}
"""For a session that is not spark-submit's."""
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Where spark-submit's JVM listens; it sets this for the Python program it starts, nobody else."""


class SparkUnavailableError(Exception):
    """Why there is no Spark here, and what would bring it."""


def is_submitted() -> bool:
    """Whether spark-submit started this program."""
    return _GATEWAY in os.environ


class SubmitStderr(io.TextIOBase):
    """The stderr of spark-submit itself.

    It reads stdout and stderr of the program it starts as one stream, and writes that to stdout:
    what we say to people would be amid the data.
    """

    def __init__(self) -> None:
        from pyspark import SparkContext

        SparkContext._ensure_initialized()  # noqa: SLF001  # meets the JVM, starts nothing
        self._stream: Any = SparkContext._jvm.System.err  # type: ignore[union-attr]  # noqa: SLF001

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._stream.print(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def unavailable() -> str | None:
    """Why Spark cannot be had here; None if it seems it can. Starts nothing, imports nothing."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (pip install pyspark==4.2.0)"
    if not is_submitted() and _java() is None:
        return "no Java was found: install 17 or newer, or set JAVA_HOME"
    return None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


def settings(*, delta: bool = False) -> dict[str, str]:
    """What conf/spark-defaults.conf says; Delta's lines only if asked for."""
    found = parse_settings(_settings_text())
    if not delta:
        for name in DELTA_SETTINGS:
            found.pop(name, None)
    return found


def parse_settings(text: str) -> dict[str, str]:
    """Lines of a name, blanks or `=`, and a value, as spark-submit reads them."""
    found = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            name, *rest = stripped.replace("=", " ", 1).split(maxsplit=1)
            found[name] = rest[0].strip() if rest else ""
    return found


def _settings_text() -> str:
    packed = resources.files("pipelines") / SETTINGS_FILE
    if packed.is_file():
        return packed.read_text(encoding="utf-8")
    return (Path(__file__).parents[1] / "conf" / SETTINGS_FILE).read_text(encoding="utf-8")


def session(
    app_name: str = APP_NAME,
    *,
    delta: bool = False,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session there is; else one of this machine with our settings, and `more` over them.

    Raises SparkUnavailableError.
    """
    _ensure_available()
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        return there
    context(app_name, delta=delta, more=more)
    made = SparkSession.builder.getOrCreate()
    atexit.register(made.stop)
    return made


def context(
    app_name: str = APP_NAME,
    *,
    delta: bool = False,
    more: Mapping[str, str] | None = None,
) -> SparkContext:
    """As `session`, without SQL: that takes twice as long to start."""
    _ensure_available()
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError

    there = SparkContext._active_spark_context  # noqa: SLF001  # no other way to ask
    if there is not None:
        return there
    conf = SparkConf()
    if not is_submitted():
        # Workers of this machine: the Python that runs here, not the first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf.setAppName(app_name)
        conf.setAll(list({**_LOCAL, **settings(delta=delta), **(more or {})}.items()))
    try:
        made = SparkContext(conf=conf)
    except PySparkRuntimeError as error:
        raise SparkUnavailableError(
            f"Spark did not start ({_first_line(error)}): it needs Java 17 or newer"
        ) from error
    atexit.register(made.stop)
    return made


def _ensure_available() -> None:
    reason = unavailable()
    if reason is not None:
        raise SparkUnavailableError(reason)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
