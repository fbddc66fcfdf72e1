"""Tables into a lake: Delta, or Parquet; again and again, and each time only what is new.

A row is new unless its key is there already (`KEYS`): a record is known by its offset, and by what
differs if another took its place (the topic was made anew, or the log cut and written again); a
batch by where it lies and what it says of itself; a finding by its rule and place; anything else by
all of its columns. Nothing is ever changed or removed, so a segment that has grown has two rows;
`exported_at` tells which is older. Where a partition is there more than once (replicas), each of
its records is still one row.

    OUT/records/…               one directory a table, by topic where there is much to hold
    OUT/manifests/TIME.json     what went in and what came out, a file a run (manifest.py)

Delta adds in one step, by a merge that only inserts. Parquet adds files beside those that are
there, and must not be written by two at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, StructField, StructType, TimestampType

from kafka_log.disk.output import OutputError
from pipelines.manifest import changed, input_files, iso_time, manifest_text, with_digests
from pipelines.options import parse_options
from pipelines.output_place import (
    ensure_absent,
    ensure_outside,
    ensure_writable,
    exists,
    hadoop_path,
)
from pipelines.schema import COLUMNS, WHAT_IF, column_names, spark_schema
from pipelines.session import DELTA_SETTINGS, settings
from pipelines.source import has_class
from pipelines.storage import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafka_log.evidence.inventory import Inventory
    from pipelines.log_directory import LogDirectory
    from pipelines.manifest import InputFile

FORMATS = ("delta", "parquet")
EXPORTED_AT = StructField(
    "exported_at", TimestampType(), metadata={"comment": "when the row was first exported"}
)

_BY_OFFSET = ("log_partition", "log_offset", "log_leader_epoch", "log_timestamp_ms")
KEYS: dict[str, tuple[str, ...]] = {
    "records": ("topic", "partition", "offset", "topic_id", "leader_epoch", "timestamp_ms"),
    "batches": ("path", "position", "base_offset", "crc", "is_valid"),
    "consumer_offsets": _BY_OFFSET,
    "group_metadata": _BY_OFFSET,
    "transaction_state": _BY_OFFSET,
    "share_group_state": _BY_OFFSET,
    "findings": ("id", "path", "position", "offset"),
}
"""What makes a row another; all columns, of tables that are not named.

Compaction keeps all of a record's; the words about damage change as the file grows."""
_WHERE_KNOWN = frozenset({"topic_id"})
"""Of a key: what counts only if both rows have it. Before Kafka 2.8 no partition had one."""
_ON_REQUEST: dict[str, tuple[str, ...]] = {"records": ("topic_id",)}
"""Columns that a table has only here: to tell two logs of one name apart."""
BY_TOPIC = frozenset({"records", "batches", "compaction"})
"""Tables with a directory a topic; the others are small, and would be all directories."""
COMMENTS = {
    "records": "a row a record, as Spark's Kafka source has them",
    "batches": "a row a batch header",
    "segments": "a row a segment",
    "partitions": "a row a partition directory",
    "log_dirs": "a row a log directory",
    "files": "a row a file",
    "offset_index": "a row an entry of an offset index",
    "time_index": "a row an entry of a time index",
    "transaction_index": "a row an aborted transaction",
    "producer_snapshots": "a row a producer in a snapshot",
    "leader_epochs": "a row a leader epoch",
    "checkpoints": "a row a partition in a checkpoint file",
    "consumer_offsets": "a row a committed offset, tombstones too",
    "group_metadata": "a row a record about a group or its members",
    "transaction_state": "a row a state of a transactional id",
    "share_group_state": "a row a state of a share group",
    "cluster_metadata": "a row a record of the KRaft metadata",
    "findings": "a row something that is wrong",
    "compaction": "a row a record that the cleaner would keep or remove, and why",
}
EVERYTHING = tuple(table for table in COLUMNS if table not in WHAT_IF)
"""What is exported if nothing is named."""


class DeltaUnavailableError(Exception):
    """Delta tables need jars that are not here; says what brings them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of one table."""

    table: str
    location: str
    format: str
    rows_added: int
    version: int | None = None
    """Of a Delta table, to travel back to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    tables: tuple[Written, ...]
    manifest: str
    """Where it is."""
    inputs: tuple[InputFile, ...]
    changed: tuple[str, ...]
    """Files that were written to meanwhile: of them, the manifest proves nothing."""


def export(
    log: LogDirectory,
    output: str,
    *,
    now_ms: int,
    tables: Sequence[str] = EVERYTHING,
    form: str = "delta",
    options: dict[str, str] | None = None,
    digests: bool = True,
    on_written: Callable[[Written], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Add what is new of these tables. `options` are those of `kafka_files`, for every table.

    Raises OptionsError, StorageError, OutputError, DeltaUnavailableError, and what Spark raises.
    """
    given = options or {}
    wanted = parse_options({**given, "path": log.paths[0]}).includes
    if form == "delta":
        ensure_delta(log.spark)
    inventory = log.inventory()
    ensure_outside(output, [*log.paths, *(each.path for each in inventory.log_dirs)])
    ensure_writable(log.spark, output)
    listed = input_files(inventory, wanted)
    has_replicas = _has_replicas(inventory)
    inputs = with_digests(listed, log.storage, on_progress) if digests else listed
    written = []
    for table in tables:
        found = log.read(table, given | {"columns": ",".join(_columns(table))})
        frame = _with_time(_once(found, table) if has_replicas else found, table, now_ms)
        location = f"{output.rstrip('/')}/{table}"
        written.append(_WRITERS[form](log.spark, frame, table, location))
        if on_written is not None:
            on_written(written[-1])
    moved = changed(listed, input_files(log.inventory(), wanted))
    text = manifest_text(
        started_ms=now_ms,
        options={"paths": list(map(shown, log.paths)), "format": form, **given},
        inputs=inputs,
        changed_files=moved,
        outputs=[asdict(each) for each in written],
    )
    place = _write_manifest(log.spark, output, now_ms, text)
    return Exported(
        tables=tuple(written), manifest=place, inputs=tuple(inputs), changed=tuple(moved)
    )


def _has_replicas(inventory: Inventory) -> bool:
    """Whether two directories are of one partition: of two brokers, or moved and not yet gone."""
    places = [(each.topic, each.partition) for _, each in inventory.partitions()]
    return len(places) != len(set(places))


def _once(frame: DataFrame, table: str) -> DataFrame:
    """One row a key; rows that tell their file are different anyway."""
    key = KEYS.get(table) or _columns(table)
    return frame if "path" in key else frame.dropDuplicates(list(key))


def _columns(table: str) -> tuple[str, ...]:
    return (*column_names(table), *_ON_REQUEST.get(table, ()))


def export_schema(table: str) -> StructType:
    return StructType([*spark_schema(table, _columns(table)).fields, EXPORTED_AT])


def _with_time(frame: DataFrame, table: str, now_ms: int) -> DataFrame:
    timed = frame.withColumn(EXPORTED_AT.name, F.timestamp_millis(F.lit(now_ms)))
    return timed.select(
        *(
            F.col(each.name).alias(each.name, metadata=each.metadata)
            for each in export_schema(table)
        )
    )


def is_known(table: str) -> str:
    """SQL: whether a row of `new` is one of `old`. Null is as good a value as another."""
    kinds = {name: kind for name, kind, _ in COLUMNS[table]}

    def value(side: str, name: str) -> str:
        column = f"{side}.`{name}`"
        return f"to_json({column})" if isinstance(kinds[name], MapType) else column

    def same(name: str) -> str:
        if name in _WHERE_KNOWN:
            return f"(old.`{name}` = new.`{name}`) IS NOT FALSE"
        return f"{value('old', name)} <=> {value('new', name)}"

    return " AND ".join(map(same, KEYS.get(table) or _columns(table)))


# ------------------------------------------------------------------------------------- Delta


def ensure_delta(spark: SparkSession) -> None:
    """Raises DeltaUnavailableError."""
    has_jars = has_class(spark, "io.delta.tables.DeltaTable")
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    if not has_jars or "io.delta" not in extensions:
        raise DeltaUnavailableError(without_delta("this Spark session has no Delta"))


def without_delta(found: str) -> str:
    """One sentence that says what brings it."""
    packages = DELTA_SETTINGS[0]
    return (
        f"{found}: the line `{packages} {settings(delta=True)[packages]}` of"
        " conf/spark-defaults.conf brings its jars; --format parquet needs none"
    )


def _write_delta(spark: SparkSession, frame: DataFrame, table: str, location: str) -> Written:
    from delta.tables import DeltaTable

    if not DeltaTable.isDeltaTable(spark, location):
        ensure_absent(spark, location)
        builder = DeltaTable.create(spark).location(location).comment(COMMENTS[table])
        builder = builder.addColumns(export_schema(table))
        (builder.partitionedBy("topic") if table in BY_TOPIC else builder).execute()
        frame.write.format("delta").mode("append").save(location)
        added = None  # Delta counted them, and tells below: to count anew costs as much as to write
    else:
        old = DeltaTable.forPath(spark, location).alias("old")
        merge = old.merge(frame.alias("new"), is_known(table)).whenNotMatchedInsertAll()
        (numbers,) = merge.execute().collect()
        added = numbers["num_inserted_rows"]
    (last,) = DeltaTable.forPath(spark, location).history(1).collect()
    if added is None:  # no rows, no write: then the last thing that happened was the creation
        added = int(last["operationMetrics"].get("numOutputRows", 0))
    return Written(
        table=table, location=location, format="delta", rows_added=added, version=last["version"]
    )


# ----------------------------------------------------------------------------------- Parquet


def _write_parquet(spark: SparkSession, frame: DataFrame, table: str, location: str) -> Written:
    # With our schema: a topic may be called 2026, which Spark would take for a number.
    reader = spark.read.schema(export_schema(table))
    before, new = 0, frame
    if exists(spark, location):
        if exists(spark, f"{location}/_delta_log"):
            raise OutputError(f"{location}: found a Delta table, expected Parquet or nothing")
        old = reader.parquet(location)
        before = old.count()
        new = frame.alias("new").join(old.alias("old"), F.expr(is_known(table)), "left_anti")
    writer = new.write.mode("append")
    (writer.partitionBy("topic") if table in BY_TOPIC else writer).parquet(location)
    added = reader.parquet(location).count() - before
    return Written(table=table, location=location, format="parquet", rows_added=added)


_WRITERS = {"delta": _write_delta, "parquet": _write_parquet}

# ---------------------------------------------------------------------------------- manifest


def _write_manifest(spark: SparkSession, output: str, now_ms: int, text: str) -> str:
    name = iso_time(now_ms).replace(":", "-")  # which Hadoop's paths do not take
    location = f"{output.rstrip('/')}/manifests/{name}.json"
    files, path = hadoop_path(spark, location)
    if files.getScheme() == "file":  # without the checksum file that Hadoop would add
        local = Path(path.toUri().getPath())
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_text(text, encoding="utf-8")
        return location
    stream = files.create(path, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    return location
