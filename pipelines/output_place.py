"""Where output may be, and whether Spark can write there: asked before anything is read.

What Spark itself says of a place that it cannot write to is a hundred lines of Java, at the end.
"""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kafka_log.disk.output import OutputError
from pipelines.storage import is_local, local_path, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_PROBE = "_kafka_forensics_probe"
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}
"""By scheme: what brings it to Spark, if it is not there."""


def ensure_outside(output: str, evidence: Sequence[str]) -> None:
    """Raises OutputError where output would lie in what is read."""
    target = _place(output)
    for path in evidence:
        if (source := _place(path)) in (target, *target.parents):
            where = source if is_local(path) else shown(path)
            raise OutputError(
                f"{shown(output)}: found inside {where}, expected output outside the evidence"
            )


def _place(location: str) -> PurePath:
    """Two ways to say one place are equal: links, file:, and Spark's names of stores."""
    if is_local(location):
        return Path(local_path(location)).resolve()
    store, _, rest = shown(location).partition("://")
    return PurePosixPath("/", {"s3a": "s3", "abfss": "abfs"}.get(store, store), rest.lstrip("/"))


def ensure_absent(spark: SparkSession, location: str) -> None:
    if exists(spark, location):
        raise OutputError(f"{location}: found something else, expected a Delta table or nothing")


def hadoop_path(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Spark's own way to a place, so that what it can write to, we can."""
    jvm: Any = spark._jvm  # noqa: SLF001
    java_spark: Any = spark._jsc  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(java_spark.hadoopConfiguration()), path


def exists(spark: SparkSession, location: str) -> bool:
    files, path = hadoop_path(spark, location)
    return bool(files.exists(path))


def ensure_writable(spark: SparkSession, output: str) -> None:
    """Make the directory, and a file in it that goes again. Raises OutputError, of one line."""
    from py4j.protocol import Py4JJavaError

    try:
        files, path = hadoop_path(spark, output)
        files.mkdirs(path)
        _, probe = hadoop_path(spark, f"{output.rstrip('/')}/{_PROBE}")
        files.create(probe, True).close()
        files.delete(probe, False)
    except Py4JJavaError as error:
        said = _said(error.java_exception)
        raise OutputError(_refusal(spark, output, said)) from None


def _refusal(spark: SparkSession, output: str, said: str) -> str:
    scheme = urlsplit(output).scheme
    is_missing = "ClassNotFoundException" in said or "No FileSystem for scheme" in said
    if not is_missing:
        return f"{shown(output)}: cannot be written to: {said}"
    if scheme == "s3":
        return f"{shown(output)}: found s3://, expected s3a://, which is what Spark calls it"
    if scheme not in _CONNECTORS:
        return f"{shown(output)}: found {scheme}://, expected a place that Spark can write to"
    jvm: Any = spark._jvm  # noqa: SLF001
    package = _CONNECTORS[scheme]
    if package.startswith("org.apache.hadoop:"):
        package += f":{jvm.org.apache.hadoop.util.VersionInfo.getVersion()}"
    return (
        f"{shown(output)}: this Spark session has no {scheme}://: a line"
        f" `spark.jars.packages {package}` of conf/spark-defaults.conf brings it"
    )


def _said(thrown: Any) -> str:
    """The first line of the innermost cause's message, with what it is."""
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.toString()).strip().splitlines()[0]
