"""Rows of the tables log_dirs, partitions, segments and files, from an inventory.

A row is a dict of plain values; `kind` names its table. `partition_rows` is what an engine runs
over many partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format import java_text
from kafka_format.errors import FormatError
from kafka_log.inventory.file_limits import largest_size
from kafka_log.inventory.inventory import Problem, Trouble
from kafka_log.inventory.log_end import open_unbuffered, read_log_end
from kafka_log.inventory.strays import describe
from kafka_log.names import DirectoryKind, FileKind

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

    from kafka_log.inventory.inventory import InventoryFile, LogDir, Partition, Segment
    from kafka_log.inventory.log_end import LogEnd, OpenFile

Row = dict[str, Any]

DIRECTORY_STATES = {
    DirectoryKind.PARTITION: "live",
    DirectoryKind.DELETE: "delete",
    DirectoryKind.FUTURE: "future",
    DirectoryKind.STRAY: "stray",
    DirectoryKind.UNKNOWN: "unknown",
}
_AROUND_LAST_ENTRY = 64 * 1024


def log_dir_row(log_dir: LogDir) -> Row:
    meta, metadata = log_dir.meta, log_dir.metadata
    return {
        "kind": "log_dir",
        "path": log_dir.path,
        "node_id": meta and meta.node_id,
        "cluster_id": meta and meta.cluster_id,
        "directory_id": _id(meta.directory_id) if meta else None,
        "meta_properties_version": meta and meta.version,
        "is_clean": log_dir.is_clean,
        "broker_epoch": log_dir.broker_epoch,
        "has_lock": log_dir.has_lock,
        "is_running": log_dir.is_running,
        "checkpoints": {
            kind.value: str(checkpoint.state) for kind, checkpoint in log_dir.checkpoints.items()
        },
        "metadata_end_offset": metadata and metadata.end_offset,
        "topics": len({partition.topic for partition in log_dir.partitions}),
        "partitions": len(log_dir.partitions),
        "size_in_bytes": log_dir.size_in_bytes,
        "strays": len(log_dir.strays) + sum(len(each.strays) for each in log_dir.partitions),
    }


class ListingTask(NamedTuple):
    """A partition to list, and whether to list its segments and files."""

    log_dir: str
    partition: Partition
    segments: bool = False
    files: bool = False


def bytes_to_read(task: ListingTask) -> int:
    """Estimate: from the last index entry on, or the whole last segment if it has no index."""
    if not task.partition.segments:
        return 0
    last = task.partition.segments[-1]
    if last.size_in_bytes > largest_size(FileKind.LOG):
        return 0
    has_index = FileKind.OFFSET_INDEX in last.files
    return min(last.size_in_bytes, _AROUND_LAST_ENTRY) if has_index else last.size_in_bytes


def placed_rows(task: ListingTask) -> Iterator[tuple[str, Row]]:
    """Yield each row with its log dir, for tasks of several log dirs."""
    for row in partition_rows(task):
        yield task.log_dir, row


def partition_rows(
    task: ListingTask, *, open_file: OpenFile = open_unbuffered, log_end: bool = True
) -> Iterator[Row]:
    """Yield the rows; without `log_end` no file is opened and the end of the log is unknown."""
    partition = task.partition
    end, problem = _log_end(partition, open_file) if log_end else (None, None)
    yield _partition_row(task.log_dir, partition, end)
    if problem is not None:
        yield problem_row(problem)
    if task.segments:
        for segment in (*partition.segments, *partition.leftovers):
            yield _segment_row(partition, segment)
    if task.files:
        for file in partition.files:
            yield file_row(file, partition)


def _log_end(partition: Partition, open_file: OpenFile) -> tuple[LogEnd | None, Problem | None]:
    if not partition.segments or (log := partition.segments[-1].log) is None:
        return None, None
    last = partition.segments[-1]
    index = last.files.get(FileKind.OFFSET_INDEX)
    try:
        path = index.path if index else None
        return read_log_end(log.path, last.base_offset, index=path, open_file=open_file), None
    except FormatError:  # not a regular file, or too large: the inventory reports it
        return None, None
    except OSError as error:
        path = error.filename or log.path  # the index may be what cannot be read
        return None, Problem(path, Trouble.UNREADABLE, error.strerror or str(error))


def _partition_row(log_dir: str, partition: Partition, end: LogEnd | None) -> Row:
    return {
        "kind": "partition",
        "log_dir": log_dir,
        "path": partition.path,
        "topic": partition.topic if partition.partition is not None else None,
        "partition": partition.partition,
        "state": DIRECTORY_STATES[partition.state],
        "topic_id": _id(partition.topic_id),
        "metadata_topic_id": _id(partition.metadata_topic_id),
        "log_start_offset": partition.log_start_offset,
        "recovery_point": partition.recovery_point,
        "high_watermark": partition.high_watermark,
        "log_end_offset": end and end.offset,
        "log_end_reason": end and end.reason,
        "cleaner_offset": partition.cleaner_offset,
        "segments": len(partition.segments),
        "size_in_bytes": partition.size_in_bytes,
        "log_size_in_bytes": sum(each.size_in_bytes for each in partition.segments),
        "modified_ms": max((each.modified_ms or 0 for each in partition.segments), default=None),
        "strays": len(partition.strays),
    }


def _segment_row(partition: Partition, segment: Segment) -> Row:
    return {
        "kind": "segment",
        "path": partition.path,
        "topic": partition.topic,
        "partition": partition.partition,
        "base_offset": segment.base_offset,
        "state": segment.state.name.lower(),
        "size_in_bytes": segment.log and segment.log.size_in_bytes,
        "offset_index_size": _size(segment.files.get(FileKind.OFFSET_INDEX)),
        "time_index_size": _size(segment.files.get(FileKind.TIME_INDEX)),
        "transaction_index_size": _size(segment.files.get(FileKind.TRANSACTION_INDEX)),
        "producer_snapshot_size": _size(segment.producer_snapshot),
        "modified_ms": segment.modified_ms,
        "missing": [kind.value for kind in segment.missing],
    }


def file_row(file: InventoryFile, partition: Partition | None = None) -> Row:
    return {
        "kind": "file",
        "path": file.path,
        "topic": partition.topic if partition else None,
        "partition": partition.partition if partition else None,
        "file_kind": file.name.kind.name.lower(),
        "state": file.name.state.name.lower(),
        "offset": file.offset,
        "size_in_bytes": file.size_in_bytes,
        "modified_ms": file.modified_ms,
        "what": describe(file.name),
        "stray": file.stray,
    }


def problem_row(problem: Problem) -> Row:
    return {
        "kind": "problem",
        "path": problem.path,
        "trouble": str(problem.trouble),
        "message": problem.message,
    }


def _size(file: InventoryFile | None) -> int | None:
    return None if file is None else file.size_in_bytes


def _id(value: uuid.UUID | None) -> str | None:
    return None if value is None else java_text.uuid_text(value)
