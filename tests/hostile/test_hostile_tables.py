"""Every table of kafka_files over hostile directories, in one Spark session.

A sample here, all cases by `make soak`, several directories in one frame: a query takes a second,
however little there is to read. Where a frame fails, its directories are read one by one, to name
the one that did it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pipelines
from pipelines.source.schema import COLUMNS
from tests.hostile.case import Case
from tests.hostile.corpus import CASES, built

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = (
    "names/partition-not-utf-8",
    "names/record-escape",
    "links/partition-out",
    "special/index-fifo",
    "sparse/log-1TiB",
    "bombs/gzip-magic2-1GiB",
    "lengths/snapshot-count-max",
    "lies/base-offset-max",
)
SAMPLE_TABLES = ("records", "batches", "files", "producer_snapshots", "findings")
_AT_ONCE = 12
_HEALTHY_RECORDS = 63
"""The offsets of transactions-0: 0 to 62, including control records."""


def _read(spark: "SparkSession", table: str, paths: Sequence[str], **options: str) -> None:
    """All rows, to nowhere."""
    reader = spark.read.format("kafka_files").option("table", table).options(**options)
    reader.load([*paths]).write.format("noop").mode("overwrite").save()


def _error(spark: "SparkSession", table: str, paths: Sequence[str], **options: str) -> str | None:
    try:
        _read(spark, table, paths, **options)
    except Exception as error:  # noqa: BLE001  # of Java, of Spark or of ours: all of them count
        return f"{type(error).__name__}: {error}"[:3000]
    return None


def _failures(
    spark: "SparkSession", cases: Sequence[Case], tables: Sequence[str], scratch: Path
) -> Iterator[tuple[str, str, str]]:
    """Case, table and error."""
    with ExitStack() as stack:
        paths = {}
        for case in cases:
            base = stack.enter_context(built(case, scratch))
            paths[case.name] = [str(base / path) for path in case.paths]
        for table in tables:
            every = [path for each in paths.values() for path in each]
            if _error(spark, table, every) is None:
                continue
            for name, own in paths.items():
                if (error := _error(spark, table, own)) is not None:
                    yield name, table, error


def _assert_usable(spark: "SparkSession", scratch: Path) -> None:
    with built(CASES["places/healthy"], scratch) as base:
        frame = spark.read.format("kafka_files").option("includeControl", "true")
        records = frame.load(str(base / "evidence")).where("topic = 'transactions'")
        assert records.count() == _HEALTHY_RECORDS


def test_tables_of_hostile_directories_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    pipelines.register(spark)
    cases = [CASES[name] for name in SAMPLE]
    assert [*_failures(spark, cases, SAMPLE_TABLES, tmp_path)] == []
    _assert_usable(spark, tmp_path)


def _readable(group: str) -> list[Case]:
    """Those that hold something of Kafka's, and need no option."""
    return [
        case
        for case in CASES.values()
        if case.group == group and case.has_healthy and not case.options and not case.is_large
    ]


@pytest.mark.soak
@pytest.mark.parametrize("group", sorted({case.group for case in CASES.values()}))
def test_every_table_of_every_hostile_directory_is_read(
    spark: "SparkSession", tmp_path: Path, group: str
) -> None:
    pipelines.register(spark)
    cases = _readable(group)
    failures: list[tuple[str, str, str]] = []
    for start in range(0, len(cases), _AT_ONCE):
        failures += _failures(spark, cases[start : start + _AT_ONCE], [*COLUMNS], tmp_path)
    assert failures == []
    _assert_usable(spark, tmp_path)


_OPTIONS = {
    ("--follow-links",): {"followLinks": "true"},
    ("--max-decompressed-bytes", "1048576"): {"maxDecompressedBytes": "1048576"},
}


@pytest.mark.soak
@pytest.mark.parametrize("name", [each.name for each in CASES.values() if each.options])
def test_every_table_is_read_with_the_options_of_a_case(
    spark: "SparkSession", tmp_path: Path, name: str
) -> None:
    pipelines.register(spark)
    case = CASES[name]
    with built(case, tmp_path) as base:
        paths = [str(base / path) for path in case.paths]
        errors = {table: _error(spark, table, paths, **_OPTIONS[case.options]) for table in COLUMNS}
    assert errors == dict.fromkeys(COLUMNS)
    _assert_usable(spark, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", [case.name for case in CASES.values() if not case.has_healthy])
def test_a_place_without_anything_of_kafka_is_an_error_of_one_line(
    spark: "SparkSession", tmp_path: Path, name: str
) -> None:
    pipelines.register(spark)
    (path,) = CASES[name].paths
    with built(CASES[name], tmp_path) as base:
        error = _error(spark, "records", [str(base / path)])
    assert error is not None
    message, sql_state = error.strip().splitlines()[-2:]  # Spark puts its own line after ours
    assert sql_state == " SQLSTATE: 38000"
    reason = "No such file or directory" if name == "places/gone" else "no Kafka files found"
    assert message.startswith(f"pipelines.source.storage.StorageError: {base / path}: {reason}")
    _assert_usable(spark, tmp_path)
