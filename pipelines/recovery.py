"""The job `recover`: one row per changed file, then one for its partition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_format.errors import FormatError
from kafka_log.checkpoints import LogBounds, after_clean_stop
from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import check_in_place
from kafka_log.loading.log_dir_recovery import (
    Assignments,
    Fate,
    PartitionPlan,
    plan_replica,
    recover_replica,
)
from kafka_log.loading.lost_data import first_cut, losses_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.errors import Location
    from kafka_log.checkpoints import CheckpointChanges, Checkpointed
    from kafka_log.loading.losses import Losses
    from kafka_log.loading.lost_data import LogCut
    from kafka_log.loading.partition_recovery import RecoveryPlan, RecoveryRow
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

MISSING = "missing"
"""The fate of a partition that only the checkpoints know."""


@dataclass(frozen=True, slots=True)
class RecoverPartition:
    """A function over tasks, with the options that all share. Picklable."""

    assignments: Assignments | None = None

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Plan, and write what the task asks for. Raises LogError, FormatError or OSError."""
        planned = plan_replica(
            task.path,
            task.config,
            task.checkpointed,
            clean_shutdown=task.is_clean,
            clock=FixedClock(task.now_ms),
            assignments=self.assignments,
        )
        plan = planned.plan
        if isinstance(plan.error, OSError) or (plan.error and (task.target or task.in_place)):
            raise plan.error
        if plan.loaded is not None:
            plan.loaded.close()
        losses, cut = losses_of(plan), first_cut(plan)
        rows = plan.rows()  # compared with the files, so before they change
        if planned.fate is not Fate.DELETE:  # a directory to be deleted is not written
            _write(task, planned)
        for row in rows:
            yield _file_row(task, row)
        yield _partition_row(task, planned, len(rows), losses, cut)


def _write(task: PartitionTask, planned: PartitionPlan) -> None:
    if task.target is not None:
        with task.result() as directory:
            planned.plan.write_to(directory)
    elif task.in_place:
        check_in_place(task.path)
        task.unmark_clean()
        recover_replica(planned, DiskFiles(task.path), task.config, FixedClock(task.now_ms))


# ------------------------------------------------------------------------------------- rows


def _identity(task: PartitionTask) -> Row:
    return {"topic": task.topic, "partition": task.partition, "path": task.path}


def _file_row(task: PartitionTask, row: RecoveryRow) -> Row:
    fields = row._asdict()
    reason = fields.pop("why")
    return {"kind": "file", **_identity(task), **fields, "reason": reason}


def _partition_row(
    task: PartitionTask,
    planned: PartitionPlan,
    changed: int,
    losses: Losses,
    cut: LogCut | None,
) -> Row:
    plan, loaded = planned.plan, planned.plan.loaded
    first = None if loaded is None else loaded.segments.first_segment()
    end = None if loaded is None else loaded.log_end_offset
    return {
        "kind": "partition",
        **_identity(task),
        "fate": planned.fate.value,
        "clean_shutdown": planned.last_run.clean_shutdown,
        "log_start_offset": None if loaded is None else loaded.log_start_offset,
        "recovery_point": planned.last_run.recovery_point,
        "new_recovery_point": None if loaded is None else loaded.recovery_point,
        "log_end_offset": end,
        "first_base_offset": None if first is None else first.base_offset,
        "changed_files": changed,
        "lost_bytes": losses.bytes,
        "lost_records": losses.records,
        "lost_from_offset": losses.first_offset,
        "lost_to_offset": losses.last_offset,
        **_place_fields(task, plan, losses, cut),
        "high_watermark": task.high_watermark,
        **task.checkpointed.missing_data_fields(end),
        "bytes_read": plan.bytes_read,
        "estimated_seconds": round(plan.estimated_seconds(), 3),
        "error": None if plan.error is None else str(plan.error),
        "note": planned.why or None,
    }


def _place_fields(
    task: PartitionTask, plan: RecoveryPlan, losses: Losses, cut: LogCut | None
) -> Row:
    """Return where the loss, or what keeps the partition from loading, is found."""
    name = position = reason = None
    if plan.error is not None:
        location = _location_of(plan.error)
        if location is not None:
            name, position = os.path.basename(location.path), location.position  # noqa: PTH119
        reason = str(plan.error)
    elif cut is not None and losses.bytes:
        name, position, reason = cut
    return {
        "lost_file": None if name is None else os.path.join(task.path, name),  # noqa: PTH118
        "lost_position": position,
        "lost_reason": None if reason is None else reason.replace(plan.directory, task.path),
    }


def _location_of(error: BaseException) -> Location | None:
    """Return the place that an error, or one that caused it, names."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FormatError):
            return cause.location
        cause = cause.__cause__
    return None


def missing_partition_row(log_dir: str, checkpointed: Checkpointed) -> Row:
    """Return the row of a partition that the checkpoints know and that has no directory."""
    topic, partition = checkpointed.place
    nothing = dict.fromkeys(
        (
            "clean_shutdown",
            "log_start_offset",
            "recovery_point",
            "new_recovery_point",
            "log_end_offset",
            "first_base_offset",
        )
    )
    return {
        "kind": "partition",
        "topic": topic,
        "partition": partition,
        "path": os.path.join(log_dir, f"{topic}-{partition}"),  # noqa: PTH118
        "fate": MISSING,
        **nothing,
        "recovery_point": checkpointed.recovery_point,
        "changed_files": 0,
        "lost_bytes": 0,
        "lost_records": 0,
        "lost_from_offset": None,
        "lost_to_offset": None,
        "lost_file": None,
        "lost_position": None,
        "lost_reason": None,
        "high_watermark": checkpointed.high_watermark,
        **checkpointed.missing_data_fields(0),
        "bytes_read": 0,
        "estimated_seconds": 0.0,
        "error": None,
        "note": "no directory",
    }


def checkpoint_changes(task: PartitionTask, row: Row) -> CheckpointChanges:
    """Return no changes for directories that a broker does not serve."""
    if row["log_end_offset"] is None or not Fate(row["fate"]).is_served:
        return {}
    log = LogBounds(row["first_base_offset"], row["log_start_offset"], row["log_end_offset"])
    return after_clean_stop(task.checkpointed, log)
