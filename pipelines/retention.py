"""The job `retain`: one row per segment, then one for its partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_log.checkpoints import LogBounds, after_retention
from kafka_log.clock import FixedClock
from kafka_log.disk.output import check_in_place
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.names import DirectoryKind
from kafka_log.retention.breaches import why_exempt
from kafka_log.retention.plan import plan_on_overlay, retain_in_place
from pipelines.engine.partition_tasks import END

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.checkpoints import CheckpointChanges
    from kafka_log.retention.plan import RetentionPlan, SegmentVerdict
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

_NO_WATERMARK = "no high watermark is known, so nothing can be deleted (set --high-watermark)"


def retain_partition(task: PartitionTask) -> Iterator[Row]:
    """Plan, and write what the task asks for. Raises LogError, FormatError or OSError."""
    note = why_exempt(task.kind, task.topic)
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
        check_in_place(task.path)
        task.unmark_clean()
        retain_in_place(plan, task.config)
    for verdict in plan.verdicts:
        yield _segment_row(task, verdict)
    yield _partition_row(task, plan)


def _copy(files: OverlayFiles, task: PartitionTask) -> None:
    with task.result() as directory:
        files.write_to(directory)


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
    if "new_log_start_offset" not in row:
        return {}
    start, end = row["new_log_start_offset"], row["log_end_offset"]
    log = LogBounds(row["first_base_offset"], start, end)
    return after_retention(task.checkpointed, log, roll_offset=row["roll_offset"])
