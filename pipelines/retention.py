"""Retention of partitions as tasks and rows: a row a segment, then one for its partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_log.clock import FixedClock, Scheduler
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import check_in_place
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.names import DirectoryKind, FileKind
from kafka_log.retention_plan import RetentionPlan, apply_retention, plan_on_overlay
from pipelines.partition_tasks import END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.retention_plan import SegmentVerdict
    from pipelines.partition_tasks import CheckpointChanges, PartitionTask

Row = dict[str, Any]

_NOTES = {
    DirectoryKind.DELETE: "the replica was deleted: a broker removes the whole directory",
    DirectoryKind.STRAY: "not a replica of this broker: a broker does not touch it",
}
_NO_WATERMARK = "no high watermark is known, so nothing can be deleted (set --high-watermark)"
_METADATA = "the metadata log is trimmed by snapshots, not by retention"


def retain_partition(task: PartitionTask) -> Iterator[Row]:
    """Plan, and write what the task asks for. Raises LogError, FormatError or OSError."""
    note = _METADATA if task.is_metadata_log else _NOTES.get(task.kind)
    files = OverlayFiles(task.path, FixedClock(task.now_ms))
    if note is not None:
        if task.target is not None and task.kind is not DirectoryKind.DELETE:
            _copy(files, task)
        yield _identity(task) | {"kind": "partition", "note": note}
        return
    plan = plan_on_overlay(
        files,
        task.config,
        FixedClock(task.now_ms),
        high_watermark=2**63 - 1 if task.high_watermark == END else task.high_watermark,
        log_start_offset=task.log_start_offset,
    )
    if task.target is not None:
        _copy(files, task)
    elif task.in_place:
        _apply(plan, task)
    for verdict in plan.verdicts:
        yield _segment_row(task, verdict)
    yield _partition_row(task, plan)


def _copy(files: OverlayFiles, task: PartitionTask) -> None:
    with task.result() as directory:
        files.write_to(directory)


def _apply(plan: RetentionPlan, task: PartitionTask) -> None:
    """By way of `.deleted`, but without the wait: no reader holds a file open."""
    check_in_place(task.path)
    task.unmark_clean()
    scheduler = Scheduler(FixedClock(task.now_ms))
    files = DiskFiles(task.path)
    apply_retention(plan, files, task.config, scheduler)
    files.sync_directory()
    scheduler.run_all()


def _identity(task: PartitionTask) -> Row:
    return {"topic": task.topic, "partition": task.partition, "path": task.path}


def _segment_row(task: PartitionTask, verdict: SegmentVerdict) -> Row:
    facts = verdict.facts
    return {
        "kind": "segment",
        **_identity(task),
        "base_offset": facts.base_offset,
        "end_offset": verdict.end_offset,
        "size_in_bytes": facts.size,
        "largest_timestamp": facts.largest_timestamp(),
        "timestamp_source": facts.timestamp_source,
        "is_deleted": verdict.is_deleted,
        "rule": None if verdict.breach is None else verdict.breach.value,
        "reason": verdict.reason,
    }


def _partition_row(task: PartitionTask, plan: RetentionPlan) -> Row:
    kept = [verdict.facts for verdict in plan.verdicts if not verdict.is_deleted]
    return {
        "kind": "partition",
        **_identity(task),
        "cleanup_policy": sorted(task.config.cleanup_policy),
        "retention_ms": task.config.retention_ms,
        "retention_bytes": task.config.retention_bytes,
        "now": plan.now_ms,
        "high_watermark": plan.before.high_watermark,
        "log_end_offset": plan.before.log_end_offset,
        "log_start_offset": plan.before.log_start_offset,
        "new_log_start_offset": plan.new_log_start_offset,
        "first_base_offset": plan.first_base_offset,
        "roll_offset": plan.roll_offset,
        "deleted_segments": len(plan.deleted),
        "deleted_bytes": sum(facts.size for facts in plan.deleted),
        "kept_segments": len(kept),
        "kept_bytes": sum(facts.size for facts in kept),
        "leader_epochs": [entry._asdict() for entry in plan.leader_epochs],
        "snapshots": list(plan.snapshots),
        "note": _NO_WATERMARK if task.high_watermark is None else None,
    }


def checkpoint_changes(task: PartitionTask, row: Row) -> CheckpointChanges:
    """What the checkpoints hold of a partition after it was retained.

    A log start is noted only where no segment begins there; recovery points and high watermarks
    are never below it.
    """
    if "new_log_start_offset" not in row:
        return {}
    place, start = (task.topic, task.partition), row["new_log_start_offset"]
    changes: CheckpointChanges = {
        FileKind.LOG_START_OFFSET_CHECKPOINT: {
            place: start if start > row["first_base_offset"] else None
        }
    }
    flushed = row["roll_offset"] or 0  # a roll flushes all before it
    if task.recovery_point is not None:
        recovery_point = max(task.recovery_point, start, flushed)
        changes[FileKind.RECOVERY_POINT_CHECKPOINT] = {place: recovery_point}
    if task.high_watermark is not None and task.high_watermark != END:
        high_watermark = max(task.high_watermark, start)
        changes[FileKind.REPLICATION_OFFSET_CHECKPOINT] = {place: high_watermark}
    return changes
