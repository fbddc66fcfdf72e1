"""The tables of Kafka's own topics: the rows of `records`, with key and value decoded.

The options for offsets and times refer to the internal topic's log. `topics` and `partitions`
select commits by the partition they are for; they do not apply to the other tables, whose rows are
about groups, transactions or the cluster. Metadata snapshots are read as well as the log.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from kafka_format.coordinator_records import CoordinatorTopic
from kafka_log.names import CLUSTER_METADATA_TOPIC, FileKind, FileState
from pipelines.source.log_ranges import LogRange
from pipelines.source.options import Bounds, ReadMode
from pipelines.source.schema import CORRUPT_RECORD
from pipelines.source.splits import pack, plan_splits, selected_partitions
from pipelines.source.storage import Storage
from pipelines.source.tables import decoded
from pipelines.source.tables.rows import batch_of_columns, source_columns
from pipelines.source.tables.side_files import DamageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from pipelines.source.options import Options
    from pipelines.source.splits import Split
    from pipelines.source.tables.rows import Row

_TOPICS = {
    "consumer_offsets": CoordinatorTopic.CONSUMER_OFFSETS.value,
    "group_metadata": CoordinatorTopic.CONSUMER_OFFSETS.value,
    "transaction_state": CoordinatorTopic.TRANSACTION_STATE.value,
    "share_group_state": CoordinatorTopic.SHARE_GROUP_STATE.value,
    "cluster_metadata": CLUSTER_METADATA_TOPIC,
}
_LOG_COLUMNS = {
    "partition": "log_partition",
    "offset": "log_offset",
    "timestamp_ms": "log_timestamp_ms",
    "leader_epoch": "log_leader_epoch",
    "producer_id": "log_producer_id",
    "is_transactional": "is_transactional",
    "segment": "segment",
    "position": "position",
    "key": "key",
    "value": "value",
    "control_type": "record_control_type",
    "path": "path",
    "path_base64": "path_base64",
    CORRUPT_RECORD: "corrupt_record",
}
"""Columns of `records`, and their names here: `offset` and others belong to the content."""


class _InternalTopic:
    def plan(self, options: Options, storage: Storage) -> list[Split]:
        query = _records_query(options)
        splits = plan_splits(query, storage, as_consumer=True)
        if options.table == "cluster_metadata":
            splits += pack(_snapshots(query, storage), options.max_split_bytes)
        return splits

    def read(self, split: Split, options: Options) -> Iterator[pa.RecordBatch]:
        from pipelines.source.arrow import merged

        return merged(_batches(split, options))


READER = _InternalTopic()


def _records_query(options: Options) -> Options:
    """Return the query for the records that the rows are made of."""
    return dataclasses.replace(
        options,
        table="records",
        topics=(_TOPICS[options.table],),
        subscribed=(),
        subscribed_pattern=None,
        assigned=None,
        partitions=None,
        columns=tuple(_LOG_COLUMNS),
        include_control=options.table == "cluster_metadata",
        bounds=Bounds(segments=options.bounds.segments),
    )


def _snapshots(options: Options, storage: Storage) -> Iterator[LogRange]:
    for partition in selected_partitions(options, storage):
        for file in partition.files:
            name = file.name
            if name.kind is FileKind.METADATA_SNAPSHOT and name.state is FileState.LIVE:
                yield LogRange(
                    path=file.path,
                    topic=partition.topic,
                    partition=partition.partition,
                    segment=name.offset or 0,
                    start=0,
                    end=file.size_in_bytes,
                    is_segment=False,
                )


def _batches(split: Split, options: Options) -> Iterator[pa.RecordBatch]:
    """Decode keys and values one by one; the other columns stay in Arrow."""
    from pipelines.source.tables.records import read_records

    for batch in read_records(split, _records_query(options), Storage(options.paths)):
        rows = list(_decoded_rows(batch, options))
        if not rows:
            continue
        kept = batch if len(rows) == batch.num_rows else batch.take([row for row, _ in rows])
        columns: dict[str, Any] = {own: kept.column(name) for name, own in _LOG_COLUMNS.items()}
        for name in source_columns(options):
            if name not in columns:
                columns[name] = [content.get(name) for _, content in rows]
        yield batch_of_columns(columns, options)


def _decoded_rows(batch: pa.RecordBatch, options: Options) -> Iterator[tuple[int, Row]]:
    """Yield the rows that belong to this table, each with its place in the batch."""
    decode = _DECODERS[options.table]
    names = _INPUTS[options.table]
    inputs = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    corrupt = batch.column(CORRUPT_RECORD).to_pylist()
    for row, values in enumerate(inputs):
        if corrupt[row] is not None:  # a row for damage, not a record
            yield row, {"damage": corrupt[row]}
            continue
        content = decode(*values)
        if content is None or not _is_selected(content, batch, row, options):
            continue
        yield row, content


def _is_selected(content: Row, batch: pa.RecordBatch, row: int, options: Options) -> bool:
    if content.get("damage") is not None and options.mode is not ReadMode.PERMISSIVE:
        if options.mode is ReadMode.FAILFAST:
            path, position, offset = (
                batch.column(name)[row] for name in ("path", "position", "offset")
            )
            raise DamageError(f"{path}@{position}, offset {offset}: {content['damage']}")
        return False
    if options.table != "consumer_offsets":
        return True
    return options.includes(content.get("topic") or "", content.get("partition"))


def _metadata(
    key: bytes | None, value: bytes | None, control_type: str | None, path: str
) -> dict[str, Any]:
    is_snapshot = {"is_snapshot": path.endswith(FileKind.METADATA_SNAPSHOT.value)}
    if control_type is not None:
        return is_snapshot | decoded.control_record(key, value)
    return is_snapshot | decoded.metadata_record(value)


_DECODERS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "consumer_offsets": decoded.consumer_offset,
    "group_metadata": decoded.group_metadata,
    "transaction_state": decoded.transaction_state,
    "share_group_state": decoded.share_group_state,
    "cluster_metadata": _metadata,
}
_INPUTS = dict.fromkeys(_DECODERS, ("key", "value")) | {
    "cluster_metadata": ("key", "value", "control_type", "path")
}
"""The columns of a record that its decoder takes."""
