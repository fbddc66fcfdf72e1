"""Exports tables to Delta or Parquet; each run adds only what is new.

A row is new unless its key is in the table already (`KEYS`). A record is identified by its offset,
and by what differs if another took its place (the topic was created again, or the log was cut and
written again); a batch by its place and its header; a finding by its rule and place; any other row
by all its columns. Rows are never changed or removed, so a segment that has grown has two rows;
`exported_at` says which is older. Where there are several directories of a partition (replicas),
each of its records is still one row.

    OUT/records/…               one directory per table, by topic for large tables
    OUT/manifests/TIME.json     inputs and outputs, one file per run (manifest.py)

Tables are written concurrently. If a manifest proves that a table already has every row
(export_history.py), no job runs for it. Delta adds rows in one commit: it creates a table with its
rows, and later merges with inserts only. Parquet adds files beside the existing ones, so two
exports must not run at once.
"""

from __future__ import annotations

import contextlib
import uuid
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, StructField, StructType, TimestampType

from kafka_format.coordinator_records import CoordinatorTopic
from kafka_format.shown_text import name_text
from kafka_log.disk.output import OutputError
from kafka_log.names import CLUSTER_METADATA_TOPIC
from pipelines.engine.output_place import (
    ensure_absent,
    ensure_outside,
    ensure_utf8,
    ensure_writable,
    exists,
    hadoop_path,
    remove,
    write_text,
)
from pipelines.export.export_history import (
    MANIFESTS,
    History,
    delta_commit,
    parquet_state,
    source_id,
)
from pipelines.manifest import changes, input_files, manifest_text, with_digests
from pipelines.report.text import iso_time
from pipelines.session import DELTA_SETTINGS, settings
from pipelines.source.data_source import has_class
from pipelines.source.options import ReadMode, parse_options
from pipelines.source.schema import COLUMNS, CORRUPT_RECORD, WHAT_IF, column_names, spark_schema
from pipelines.source.storage import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from kafka_log.inventory.inventory import Inventory
    from pipelines.log_directory import LogDirectory
    from pipelines.manifest import Changes, InputFile

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
"""The columns that identify a row; all columns for tables that are not listed.

Compaction does not change those of a record; the text of a damage changes as the file grows, so it
is not one of them."""
_OPTIONAL_KEYS = frozenset({"topic_id"})
"""Key columns that only count if both rows have a value. Before Kafka 2.8 no partition had one."""
_ON_REQUEST: dict[str, tuple[str, ...]] = {"records": ("topic_id",)}
"""Columns that a table only has here: to distinguish two logs of the same name."""
BY_TOPIC = frozenset({"records", "batches", "compaction"})
"""Tables with a directory per topic; the others are small and would be mostly directories."""
COMMENTS = {
    "records": "one row per record, as in Spark's Kafka source",
    "batches": "one row per batch header",
    "segments": "one row per segment",
    "partitions": "one row per partition directory",
    "log_dirs": "one row per log directory",
    "files": "one row per file",
    "offset_index": "one row per entry of an offset index",
    "time_index": "one row per entry of a time index",
    "transaction_index": "one row per aborted transaction",
    "producer_snapshots": "one row per producer in a snapshot",
    "leader_epochs": "one row per leader epoch",
    "checkpoints": "one row per partition in a checkpoint file",
    "consumer_offsets": "one row per committed offset, including tombstones",
    "group_metadata": "one row per record about a group or its members",
    "transaction_state": "one row per state of a transactional id",
    "share_group_state": "one row per state of a share group",
    "cluster_metadata": "one row per record of the KRaft metadata",
    "findings": "one row per problem",
    "compaction": "one row per record that the cleaner would keep or remove, and why",
}
_LISTINGS = frozenset({"log_dirs", "partitions", "segments", "files"})
"""Tables of names and sizes: an export of only these does not look for damage in files."""
_INTERNAL_TOPICS = {
    "consumer_offsets": CoordinatorTopic.CONSUMER_OFFSETS.value,
    "group_metadata": CoordinatorTopic.CONSUMER_OFFSETS.value,
    "transaction_state": CoordinatorTopic.TRANSACTION_STATE.value,
    "share_group_state": CoordinatorTopic.SHARE_GROUP_STATE.value,
    "cluster_metadata": CLUSTER_METADATA_TOPIC,
}
"""The topics that these tables read, whichever topics are selected."""
_FINDINGS = "findings"
_CONCURRENT_TABLES = 4
"""Tables that are written at once: jobs are short, and mostly wait for their driver."""
_SMALL_INPUT = 1024 * 1024 * 1024
_SMALL_SETTINGS = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions")
"""Tasks of a shuffle (200) and of reading a Delta log (50); each costs milliseconds."""
EVERYTHING = tuple(table for table in COLUMNS if table not in WHAT_IF)
"""The tables to export by default."""


class DeltaUnavailableError(Exception):
    """Delta tables need jars that are missing; the message says how to get them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTable:
    """The result of one table."""

    table: str
    location: str
    format: str
    rows_added: int
    version: int | None = None
    """The version of a Delta table, for time travel."""
    state_before: str | None = None
    """None if there was no table."""
    state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    tables: tuple[WrittenTable, ...]
    manifest: str
    """Its path."""
    inputs: tuple[InputFile, ...]
    changes: Changes
    """Files that changed meanwhile: the manifest proves nothing about them."""
    findings: Mapping[str, int] | None
    """Findings in the evidence by rule, new or not; None if there was no check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What to export, and how."""

    tables: Sequence[str] = EVERYTHING
    form: str = "delta"
    source: Mapping[str, str] = field(default_factory=dict)
    """Options of `kafka_files`, for every table."""
    digests: bool = True
    """Whether the manifest has the SHA-256 of every input."""


def export(
    log: LogDirectory,
    output: str,
    options: ExportOptions,
    *,
    now_ms: int,
    on_written: Callable[[WrittenTable], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Add to each table the rows that are new.

    Raises OptionsError, StorageError, OutputError, DeltaUnavailableError, and what Spark raises.
    """
    tables, form, given = options.tables, options.form, options.source
    is_input = _input_filter(parse_options({**given, "path": log.paths[0]}).includes, tables)
    if form == "delta":
        ensure_delta(log.spark)
    ensure_utf8(output)
    inventory = log.inventory()
    ensure_outside(output, [*log.paths, *(each.path for each in inventory.log_dirs)])
    ensure_writable(log.spark, output)
    listed = input_files(inventory, is_input)
    inputs = with_digests(listed, log.storage, on_progress) if options.digests else listed
    source = source_id(inventory, inputs, given)
    history = History.of(log.spark, output) if source is not None else History(())
    work = _Export(
        log=log,
        output=output.rstrip("/"),
        form=form,
        options=given,
        now_ms=now_ms,
        has_replicas=_has_replicas(inventory),
        source=source,
        history=history,
    )
    with _settings_for(log.spark, sum(each.size_in_bytes for each in listed)):
        written, findings = work.write(tables, on_written)
    moved = changes(listed, input_files(log.inventory(), is_input))
    text = manifest_text(
        started_ms=now_ms,
        options={"paths": [name_text(shown(each)) for each in log.paths], "format": form, **given},
        inputs=inputs,
        moved=moved,
        outputs=[asdict(each) for each in written],
        findings=findings,
        source=None if any(moved) else source,
    )
    place = _write_manifest(log.spark, output, now_ms, text)
    return ExportResult(
        tables=tuple(written),
        manifest=place,
        inputs=tuple(inputs),
        changes=moved,
        findings=findings,
    )


def _input_filter(
    includes: Callable[[str, int | None], bool], tables: Sequence[str]
) -> Callable[[str, int | None], bool]:
    """Return which partitions are read for these tables."""
    topics = {_INTERNAL_TOPICS[table] for table in tables if table in _INTERNAL_TOPICS}
    return lambda topic, partition: topic in topics or includes(topic, partition)


@contextlib.contextmanager
def _settings_for(spark: SparkSession, size: int) -> Iterator[None]:
    """Use few tasks for little data, unless the user has set their number."""
    conf = spark.sparkContext.getConf()
    chosen = (
        [] if size > _SMALL_INPUT else [each for each in _SMALL_SETTINGS if not conf.contains(each)]
    )
    before = {name: spark.conf.get(name, None) for name in chosen}
    for name in chosen:
        spark.conf.set(name, str(max(2, spark.sparkContext.defaultParallelism)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """One export: what its tables have in common."""

    log: LogDirectory
    output: str
    form: str
    options: Mapping[str, str]
    now_ms: int
    has_replicas: bool
    source: str | None
    history: History

    def write(
        self, tables: Sequence[str], on_written: Callable[[WrittenTable], None] | None
    ) -> tuple[list[WrittenTable], dict[str, int] | None]:
        """Write tables concurrently. If one fails, start no other, and raise the first error."""
        found = self.history.findings(self.source)
        needs_findings = found is None and not _LISTINGS.issuperset(tables)
        findings = self._frame(_FINDINGS) if needs_findings else None
        if findings is not None and _FINDINGS in tables:
            findings = findings.persist()  # read once, written and counted
        group = f"kafka-forensics-export-{uuid.uuid4()}"
        context = self.log.spark.sparkContext
        executor = ThreadPoolExecutor(_CONCURRENT_TABLES, initializer=_in_group(context, group))
        try:
            counted = None if findings is None else executor.submit(_count_by_rule, findings)
            writes: list[Future[WrittenTable]] = [
                executor.submit(
                    self._write_table, table, findings if table == _FINDINGS else None, on_written
                )
                for table in sorted(tables, key=_START_ORDER.index)
            ]
            futures: list[Future[Any]] = [*writes, *([] if counted is None else [counted])]
            wait(futures, return_when=FIRST_EXCEPTION)
            executor.shutdown(cancel_futures=True)
            for each in futures:
                if not each.cancelled():
                    each.result()
            by_table = {each.result().table: each.result() for each in writes}
            rows = [by_table[table] for table in tables]
            return rows, found if counted is None else counted.result()
        except BaseException:
            context.cancelJobGroup(group)
            executor.shutdown(cancel_futures=True)
            raise
        finally:
            if findings is not None:
                findings.unpersist()

    def _frame(self, table: str) -> DataFrame:
        chosen = dict(self.options)
        if table == "records":
            chosen.setdefault("mode", ReadMode.DROPMALFORMED)
        return self.log.read(table, chosen | {"columns": ",".join(_columns(table))})

    def _write_table(
        self,
        table: str,
        frame: DataFrame | None,
        on_written: Callable[[WrittenTable], None] | None,
    ) -> WrittenTable:
        location = f"{self.output}/{table}"
        written = self._unchanged(table, location)
        if written is None:
            found = self._frame(table) if frame is None else frame
            once = _without_duplicates(found, table) if self.has_replicas else found
            timed = _with_time(once, table, self.now_ms)
            written = _WRITERS[self.form](self.log.spark, timed, table, location)
        if on_written is not None:
            on_written(written)
        return written

    def _unchanged(self, table: str, location: str) -> WrittenTable | None:
        """Return the table as it is if a manifest proves that it has all rows; runs no job."""
        if table in WHAT_IF and "now" not in self.options:  # its rows depend on the clock
            return None
        if self.form == "delta":
            commit = delta_commit(self.log.spark, location)
            state, version = (commit.state, commit.version) if commit else (None, None)
        else:
            state, version = parquet_state(self.log.spark, location), None
        if not self.history.has_all_of(self.source, location, state):
            return None
        return WrittenTable(
            table=table,
            location=location,
            format=self.form,
            rows_added=0,
            version=version,
            state_before=state,
            state=state,
        )


_START_ORDER = tuple(sorted(COLUMNS, key=lambda table: table != _FINDINGS))
"""The order in which tables are started: the slowest first."""


def _in_group(context: SparkContext, group: str) -> Callable[[], None]:
    """Return an initializer for a thread, so that all jobs can be cancelled together."""
    return partial(context.setJobGroup, group, "kafka-forensics export", interruptOnCancel=True)


def _count_by_rule(findings: DataFrame) -> dict[str, int]:
    return {row["id"]: row["count"] for row in findings.groupBy("id").count().collect()}


def _has_replicas(inventory: Inventory) -> bool:
    """Return whether a partition has two directories: of two brokers, or while it is moved."""
    places = [(each.topic, each.partition) for _, each in inventory.partitions()]
    return len(places) != len(set(places))


def _without_duplicates(frame: DataFrame, table: str) -> DataFrame:
    """Return one row per key; rows with a path in their key differ anyway."""
    key = KEYS.get(table) or _columns(table)
    return frame if "path" in key else frame.dropDuplicates(list(key))


def _columns(table: str) -> tuple[str, ...]:
    columns = (*column_names(table), *_ON_REQUEST.get(table, ()))
    return tuple(name for name in columns if name != CORRUPT_RECORD)


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
    """Return SQL: whether a row of `new` is one of `old`. Nulls are equal."""
    kinds = {name: kind for name, kind, _ in COLUMNS[table]}

    def value(side: str, name: str) -> str:
        column = f"{side}.`{name}`"
        return f"to_json({column})" if isinstance(kinds[name], MapType) else column

    def same(name: str) -> str:
        if name in _OPTIONAL_KEYS:
            return f"(old.`{name}` = new.`{name}`) IS NOT FALSE"
        return f"{value('old', name)} <=> {value('new', name)}"

    return " AND ".join(map(same, KEYS.get(table) or _columns(table)))


# ------------------------------------------------------------------------------------- Delta


def ensure_delta(spark: SparkSession) -> None:
    """Raise DeltaUnavailableError if the session cannot write Delta."""
    has_jars = has_class(spark, "io.delta.tables.DeltaTable")
    extensions = spark.conf.get("spark.sql.extensions", "") or ""
    if not has_jars or "io.delta" not in extensions:
        raise DeltaUnavailableError(without_delta("this Spark session has no Delta"))


def without_delta(found: str) -> str:
    """Return a sentence that says how to get Delta."""
    packages = DELTA_SETTINGS[0]
    return (
        f"{found}: the line `{packages} {settings(delta=True)[packages]}` of"
        " conf/spark-defaults.conf brings its jars; --format parquet needs none"
    )


def _write_delta(spark: SparkSession, frame: DataFrame, table: str, location: str) -> WrittenTable:
    before = delta_commit(spark, location)
    if before is None and not exists(spark, f"{location}/_delta_log"):
        ensure_absent(spark, location)
        try:
            _create_delta(spark, frame, table, location)
        except BaseException:
            _remove_attempt(spark, location)
            raise
        added = None  # Delta has counted them: counting again costs as much as writing
    else:
        from delta.tables import DeltaTable

        old = DeltaTable.forPath(spark, location).alias("old")
        merge = old.merge(frame.alias("new"), is_known(table)).whenNotMatchedInsertAll()
        (numbers,) = merge.execute().collect()
        added = numbers["num_inserted_rows"]
    after = delta_commit(spark, location)
    if added is None:
        added = after.rows_written if after else 0
    return WrittenTable(
        table=table,
        location=location,
        format="delta",
        rows_added=added,
        version=after.version if after else None,
        state_before=before.state if before else None,
        state=after.state if after else None,
    )


def _create_delta(spark: SparkSession, frame: DataFrame, table: str, location: str) -> None:
    """Create a table and its first rows in one commit, so that there is no empty table."""
    files, path = hadoop_path(spark, location)
    place = str(files.makeQualified(path).toString()).replace("`", "``")
    by_topic = "PARTITIONED BY (topic)" if table in BY_TOPIC else ""
    comment = COMMENTS[table].replace("'", "\\'")
    head = f"CREATE TABLE delta.`{place}` USING delta {by_topic} COMMENT '{comment}'"
    escaped_head = head.replace("{", "{{").replace("}", "}}")
    spark.sql(f"{escaped_head} AS SELECT * FROM {{frame}}", frame=frame)  # noqa: S608  # quoted


def _remove_attempt(spark: SparkSession, location: str) -> None:
    """Remove the files of a new table if it was not committed."""
    if delta_commit(spark, location) is None:
        remove(spark, location)


# ----------------------------------------------------------------------------------- Parquet


def _write_parquet(
    spark: SparkSession, frame: DataFrame, table: str, location: str
) -> WrittenTable:
    # With our schema: Spark would take a topic named 2026 for a number.
    reader = spark.read.schema(export_schema(table))
    rows_before, new = 0, frame
    was_there = exists(spark, location)
    state_before = parquet_state(spark, location) if was_there else None
    if was_there:
        if exists(spark, f"{location}/_delta_log"):
            raise OutputError(f"{location}: found a Delta table, expected Parquet or nothing")
        old = reader.parquet(location)
        rows_before = old.count()
        new = frame.alias("new").join(old.alias("old"), F.expr(is_known(table)), "left_anti")
    writer = new.write.mode("append")
    try:
        (writer.partitionBy("topic") if table in BY_TOPIC else writer).parquet(location)
    except BaseException:
        if not was_there:
            remove(spark, location)
        raise
    return WrittenTable(
        table=table,
        location=location,
        format="parquet",
        rows_added=reader.parquet(location).count() - rows_before,
        state_before=state_before,
        state=parquet_state(spark, location),
    )


_WRITERS = {"delta": _write_delta, "parquet": _write_parquet}

# ---------------------------------------------------------------------------------- manifest


def _write_manifest(spark: SparkSession, output: str, now_ms: int, text: str) -> str:
    name = iso_time(now_ms).replace(":", "-")  # Hadoop does not accept colons in paths
    location = f"{output.rstrip('/')}/{MANIFESTS}/{name}.json"
    write_text(spark, location, text)
    return location
