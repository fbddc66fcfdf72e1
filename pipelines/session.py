"""The SparkSession: that of spark-submit, or a new one on this machine.

Settings are in one file, conf/spark-defaults.conf: spark-submit gets it through --properties-file,
and a session that starts here reads it (in a wheel it is beside this module). Delta's lines are
left out unless requested, because Spark downloads its jars before it starts.

Nothing is imported from the current directory, which may be evidence: not by the workers of a
session that starts here, nor by those of spark-submit (docs/decisions/0011).

pyspark is only imported inside functions: a job that stays in this process never loads it.
"""

from __future__ import annotations

import atexit
import importlib.util
import io
import os
import shutil
import sys
import tempfile
import uuid
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_format.search_path import (
    PYTHON_PATH,
    SAFE_PATH,
    CleanStart,
    current_directory_entries,
    safe_environment,
)
from kafka_format.shown_text import say

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
    # Evidence is private: no port of this machine is open to others.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # The job reports its errors; Spark's warnings would bury them.
    "spark.log.level": "ERROR",
}
"""For a session that spark-submit did not start."""
_EXECUTOR_SAFE_PATH = f"spark.executorEnv.{SAFE_PATH}"
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The port of spark-submit's JVM; only spark-submit sets it, for the program that it starts."""


class SparkUnavailableError(Exception):
    """Spark is not available; the message says why, and what to do."""


def _heap_mebibytes() -> int:
    """Return a quarter of this machine's memory, Java's own default, but at least Spark's 1 GB.

    In 1 GB a legal record below the limit of 256 MiB ends the JVM.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, memory // 4 // 2**20)


def is_submitted() -> bool:
    """Return whether spark-submit started this program."""
    return _GATEWAY in os.environ


class SubmitStderr(io.TextIOBase):
    """The stderr of spark-submit itself.

    It reads stdout and stderr of the program it starts as one stream and writes that to stdout: our
    messages would be mixed with the data.
    """

    def __init__(self) -> None:
        from pyspark import SparkContext

        SparkContext._ensure_initialized()  # noqa: SLF001  # connects to the JVM, starts nothing
        self._stream: Any = SparkContext._jvm.System.err  # type: ignore[union-attr]  # noqa: SLF001

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._stream.print(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def unavailable() -> str | None:
    """Return why Spark is not available; None if it seems to be. Starts and imports nothing."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (pip install pyspark==4.2.0)"
    if not is_submitted() and _java() is None:
        return "no Java was found: install 17 or newer, or set JAVA_HOME"
    return None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


def settings(*, delta: bool = False) -> dict[str, str]:
    """Return the settings of conf/spark-defaults.conf; Delta's only if requested."""
    found = parse_settings(_settings_text())
    if not delta:
        for name in DELTA_SETTINGS:
            found.pop(name, None)
    return found


def parse_settings(text: str) -> dict[str, str]:
    """Parse lines of a name, blanks or `=`, and a value, as spark-submit does."""
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
    """Return the active session, or a new local one with our settings and `more`.

    Raises SparkUnavailableError.
    """
    _ensure_available()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        _warn_of_foreign_workers(active)
        return active
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
    """Return the context only: with SQL it takes twice as long to start."""
    _ensure_available()
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError

    active = SparkContext._active_spark_context  # noqa: SLF001  # no other way to ask
    if active is not None:
        return active
    _warn_of_current_directory()
    conf = SparkConf()
    variables = {}
    if not is_submitted():
        conf.setAppName(app_name)
        local = {**_LOCAL, "spark.driver.memory": f"{_heap_mebibytes()}m"}
        conf.setAll(list({**local, **settings(delta=delta), **(more or {})}.items()))
        # Workers on this machine run the Python that runs here, not the first on the path.
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        variables |= _spark_home()
    conf.setIfMissing(_EXECUTOR_SAFE_PATH, "1")
    if str(conf.get("spark.master", "")).startswith("local"):
        conf.setIfMissing("spark.sql.warehouse.dir", _scratch_warehouse())
    try:
        with CleanStart(**variables):
            SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001  # only the JVM
            _make_safe(SparkContext._jvm)  # noqa: SLF001
            made = SparkContext(conf=conf)
    except PySparkRuntimeError as error:
        raise SparkUnavailableError(
            f"Spark did not start ({_first_line(error)}): it needs Java 17 or newer"
        ) from error
    atexit.register(made.stop)
    return made


def _scratch_warehouse() -> str:
    """Return a place for tables without a path; Spark's own is in the current directory.

    Spark creates it when it first uses the catalog. The catalog is in memory and ends with the
    session, so the files can be removed then.
    """
    place = Path(tempfile.gettempdir()) / f"kafka-forensics-warehouse-{uuid.uuid4().hex}"
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return str(place)


def _spark_home() -> dict[str, str]:
    """Return SPARK_HOME as pyspark would find it if it did not look into `..` first.

    That is the directory above the current one: a `bin/spark-submit` in the evidence would run.
    """
    spec = importlib.util.find_spec("pyspark")
    if "SPARK_HOME" in os.environ or spec is None or spec.origin is None:
        return {}
    package = Path(spec.origin).parent
    for home in (package / "spark-distribution", package, package.parents[1]):
        if (home / "bin" / "spark-submit").is_file() and (home / "jars").is_dir():
            return {"SPARK_HOME": str(home)}
    return {}


def _make_safe(jvm: Any) -> None:
    """Keep the Python processes that this JVM starts from importing from the current directory.

    Spark passes `spark.executorEnv` to workers, but not to the process that looks for data sources:
    that one has the environment of the JVM, which spark-submit started before us. Java has no call
    to change it. ProcessBuilder takes it from this map, which Spark opens to reflection when it
    starts (`--add-opens java.base/java.lang`).
    """
    from py4j.protocol import Py4JError

    if jvm.System.getenv(SAFE_PATH):
        return
    try:
        shown = _static(jvm, "java.lang.ProcessEnvironment", "theUnmodifiableEnvironment").get(None)
        variables = _static(jvm, "java.util.Collections$UnmodifiableMap", "m").get(shown)
        for name, value in safe_environment(jvm.System.getenv(PYTHON_PATH)).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
    except (Py4JError, TypeError) as error:
        raise SparkUnavailableError(
            f"Spark was started without {SAFE_PATH}=1, and its Python processes would search the "
            f"current directory for modules: set {SAFE_PATH}=1 before spark-submit"
        ) from error


def _static(jvm: Any, class_name: str, name: str) -> Any:
    field = jvm.java.lang.Class.forName(class_name).getDeclaredField(name)
    field.setAccessible(True)
    return field


_warned = set[str]()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        say(f"kafka-forensics: {text}")


def _warn_of_current_directory() -> None:
    """Warn if Python imports from it: in a notebook it does, before we are loaded."""
    for entry in current_directory_entries()[:1]:
        _warn_once(
            f"Python searches the current directory for modules (sys.path has {entry!r}), so code "
            f"in the evidence could run: start Python with {SAFE_PATH}=1"
        )


def _warn_of_foreign_workers(spark: SparkSession) -> None:
    """Warn if the workers of a session that we did not start import from the current directory."""
    _warn_of_current_directory()
    made = getattr(spark, "_sc", None)
    if made is None or made.environment.get(SAFE_PATH):
        return
    _warn_once(
        "Spark's Python workers search the current directory for modules, so code in the evidence "
        f"could run: set {SAFE_PATH}=1 before Spark starts, and {_EXECUTOR_SAFE_PATH}=1"
    )


def _ensure_available() -> None:
    reason = unavailable()
    if reason is not None:
        raise SparkUnavailableError(reason)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
