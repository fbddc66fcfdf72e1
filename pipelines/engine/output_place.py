"""Checks that output may be written somewhere, before anything is read, and writes small files.

Spark's own error for a place that it cannot write to is a hundred lines of Java, at the end.
"""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from kafka_format.shown_text import name_base64
from kafka_log.disk.output import OutputError
from pipelines.source.storage import is_local, local_path, shown

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
"""By scheme: the package that adds it to Spark."""


def ensure_outside(output: str, evidence: Sequence[str]) -> None:
    """Raise OutputError if the output would be inside the evidence."""
    target = _comparable(output)
    for path in evidence:
        if (source := _comparable(path)) in (target, *target.parents):
            where = source if is_local(path) else shown(path)
            raise OutputError(f"{shown(output)}: output must not be inside the evidence ({where})")


def _comparable(location: str) -> PurePath:
    """Return an equal path for two ways to write it: links, file:, and Spark's names of stores."""
    if is_local(location):
        return Path(local_path(location)).resolve()
    store, _, rest = shown(location).partition("://")
    return PurePosixPath("/", {"s3a": "s3", "abfss": "abfs"}.get(store, store), rest.lstrip("/"))


def ensure_absent(spark: SparkSession, location: str) -> None:
    if exists(spark, location):
        raise OutputError(f"{location}: found something else, expected a Delta table or nothing")


def hadoop_path(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Return Spark's file system and path for a location, so that we can write where it can."""
    jvm: Any = spark._jvm  # noqa: SLF001
    java_spark: Any = spark._jsc  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(java_spark.hadoopConfiguration()), path


def ensure_utf8(output: str) -> None:
    """Raise OutputError for a name that is not UTF-8: Java cannot open it."""
    if name_base64(output) is not None:
        raise OutputError(
            f"{output}: found a name that is not UTF-8, expected one that Spark can write to"
        )


class OutputFile(NamedTuple):
    """A file in a directory of the output."""

    name: str
    size_in_bytes: int


def entries(spark: SparkSession, directory: str) -> list[OutputFile]:
    """Return the files of a directory by name; none if it does not exist."""
    files, path = hadoop_path(spark, directory)
    if not files.exists(path):
        return []
    found = (OutputFile(each.getPath().getName(), each.getLen()) for each in files.listStatus(path))
    return sorted(found)


def entries_below(spark: SparkSession, directory: str) -> list[OutputFile]:
    """Return the files of a directory and all those below, by their full paths."""
    files, path = hadoop_path(spark, directory)
    if not files.exists(path):
        return []
    remaining, found = files.listFiles(path, True), []
    while remaining.hasNext():
        each = remaining.next()
        found.append(OutputFile(str(each.getPath().toUri().getPath()), each.getLen()))
    return sorted(found)


def read_text(spark: SparkSession, location: str) -> str:
    """Return the text of a small file of the output."""
    files, path = hadoop_path(spark, location)
    jvm: Any = spark._jvm  # noqa: SLF001
    stream = files.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def write_text(spark: SparkSession, location: str, text: str) -> None:
    """Write the whole file or none: under another name first."""
    files, path = hadoop_path(spark, location)
    directory, _, name = location.rpartition("/")
    _, attempt = hadoop_path(spark, f"{directory}/.{name}.attempt")
    files.mkdirs(path.getParent())
    target = _without_checksums(spark) if files.getScheme() == "file" else files
    try:
        stream = target.create(attempt, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        target.delete(path, False)
        if not target.rename(attempt, path):
            raise OutputError(f"{location}: cannot be written to")
    finally:
        target.delete(attempt, False)


def _without_checksums(spark: SparkSession) -> Any:
    """Return the local file system without the checksum file that Hadoop puts beside each file."""
    jvm: Any = spark._jvm  # noqa: SLF001
    java_spark: Any = spark._jsc  # noqa: SLF001
    return jvm.org.apache.hadoop.fs.FileSystem.getLocal(java_spark.hadoopConfiguration()).getRaw()


def remove(spark: SparkSession, location: str) -> None:
    """Remove a directory with its content."""
    files, path = hadoop_path(spark, location)
    files.delete(path, True)


def exists(spark: SparkSession, location: str) -> bool:
    files, path = hadoop_path(spark, location)
    return bool(files.exists(path))


def ensure_writable(spark: SparkSession, output: str) -> None:
    """Create the directory, and a file in it that is removed. Raises OutputError, of one line."""
    from py4j.protocol import Py4JJavaError

    try:
        files, path = hadoop_path(spark, output)
        files.mkdirs(path)
        _, probe = hadoop_path(spark, f"{output.rstrip('/')}/{_PROBE}")
        files.create(probe, True).close()
        files.delete(probe, False)
    except Py4JJavaError as error:
        cause = _innermost_cause(error.java_exception)
        raise OutputError(_refusal(spark, output, cause)) from None


def _refusal(spark: SparkSession, output: str, cause: str) -> str:
    scheme = urlsplit(output).scheme
    is_missing = "ClassNotFoundException" in cause or "No FileSystem for scheme" in cause
    if not is_missing:
        return f"{shown(output)}: cannot be written to: {cause}"
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


def _innermost_cause(thrown: Any) -> str:
    """Return the first line of the innermost cause, with its class."""
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.toString()).strip().splitlines()[0]
