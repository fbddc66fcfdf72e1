"""Recovery of partitions as tasks and rows: a row a changed file, then one for its partition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.disk.output import check_in_place
from kafka_log.loading.partition_recovery import load_directory
from kafka_log.names import FileKind, FileState, parse_directory_name, parse_file_name
from kafka_log.recovery import Assignments, Fate, LogDirPlan, PartitionPlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.loading.partition_recovery import LoadedPartition, RecoveryPlan, RecoveryRow
    from pipelines.partition_tasks import CheckpointChanges, PartitionTask

Row = dict[str, Any]

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecoverPartition:
    """A function over tasks that can go to another process, with what is the same for all."""

    assignments: Assignments | None = None

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Plan, and write what the task asks for. Raises LogError, FormatError or OSError."""
        planned = _planned(task, self.assignments)
        plan = planned.plan
        if isinstance(plan.error, OSError) or (plan.error and (task.target or task.in_place)):
            raise plan.error
        if plan.loaded is not None:
            _close(plan.loaded)
        lost = lost_bytes(plan)
        if planned.fate is not Fate.DELETE:  # nobody needs a directory that is to be deleted
            _write(task, planned)
        rows = plan.rows()
        for row in rows:
            yield _file_row(task, row)
        yield _partition_row(task, planned, changed=len(rows), lost_bytes=lost)


def _write(task: PartitionTask, planned: PartitionPlan) -> None:
    if task.target is not None:
        with task.result() as directory:
            planned.plan.write_to(directory)
    elif task.in_place:
        _recover_in_place(task, planned)


def _planned(task: PartitionTask, assignments: Assignments | None) -> PartitionPlan:
    """As a broker that starts plans it, of this one directory alone."""
    key = (task.topic, task.partition)
    log_dir = LogDirPlan(
        path=os.path.dirname(os.path.abspath(task.path)),  # noqa: PTH100, PTH120
        had_clean_shutdown=task.is_clean,
        config=lambda _: task.config,
        clock=FixedClock(task.now_ms),
        recovery_points={key: task.recovery_point or 0},
        log_start_offsets={key: task.log_start_offset or 0},
        directories=[],
        rows=[],
        assignments=assignments,
    )
    return log_dir.partition(parse_directory_name(task.name))


def _close(loaded: LoadedPartition) -> None:
    """As a broker that stops after its start: all flushed, indexes trimmed, what goes unlinked."""
    loaded.scheduler.run_all()
    loaded.log.flush()
    loaded.log.close()


def _recover_in_place(task: PartitionTask, planned: PartitionPlan) -> None:
    check_in_place(task.path)
    loaded = load_directory(
        DiskFiles(task.path),
        task.config,
        clean_shutdown=planned.clean_shutdown,
        log_start_offset=planned.log_start_offset,
        recovery_point=planned.recovery_point,
        clock=FixedClock(task.now_ms),
    )
    _close(loaded)
    loaded.files.sync_directory()


# ------------------------------------------------------------------------------- what is lost


def lost_bytes(plan: RecoveryPlan) -> int:
    """Bytes of logs that were there and are not afterwards; padding and replaced files aside."""
    if plan.loaded is None:
        return 0
    first = plan.loaded.segments.first_segment()
    first_base = 0 if first is None else first.base_offset
    lost = 0
    for change in plan.files.changes():
        name = parse_file_name(change.name)
        if name.kind is not FileKind.LOG or name.state is not FileState.LIVE:
            continue
        before, after = change.size_before or 0, change.size_after or 0
        if change.action in ("deleted", "renamed"):
            base = name.offset or 0
            # What the cleaner or a split replaced has its offsets in other files now.
            if not first_base <= base < plan.loaded.log_end_offset:
                lost += before
        elif change.action == "truncated":
            lost += _data_bytes(plan.directory, change.name, after)
    return lost


def _data_bytes(directory: str, name: str, start: int) -> int:
    """How many bytes from `start` on were written: up to the last that is not zero."""
    with opened(DiskFiles(directory), name) as file:
        end = file.size
        while end > start:
            begin = max(start, end - _CHUNK)
            data = file.read_at(begin, end - begin).rstrip(b"\0")
            if data:
                return begin + len(data) - start
            end = begin
    return 0


# ------------------------------------------------------------------------------------- rows


def _identity(task: PartitionTask) -> Row:
    return {"topic": task.topic, "partition": task.partition, "path": task.path}


def _file_row(task: PartitionTask, row: RecoveryRow) -> Row:
    told = row._asdict()
    reason = told.pop("why")
    return {"kind": "file", **_identity(task), **told, "reason": reason}


def _partition_row(
    task: PartitionTask, planned: PartitionPlan, *, changed: int, lost_bytes: int
) -> Row:
    plan, loaded = planned.plan, planned.plan.loaded
    first = None if loaded is None else loaded.segments.first_segment()
    return {
        "kind": "partition",
        **_identity(task),
        "fate": planned.fate.value,
        "clean_shutdown": planned.clean_shutdown,
        "log_start_offset": None if loaded is None else loaded.log_start_offset,
        "recovery_point": planned.recovery_point,
        "new_recovery_point": None if loaded is None else loaded.recovery_point,
        "log_end_offset": None if loaded is None else loaded.log_end_offset,
        "first_base_offset": None if first is None else first.base_offset,
        "changed_files": changed,
        "lost_bytes": lost_bytes,
        "bytes_read": plan.bytes_read,
        "estimated_seconds": round(plan.estimated_seconds(), 3),
        "error": None if plan.error is None else str(plan.error),
        "note": planned.why or None,
    }


def checkpoint_changes(task: PartitionTask, row: Row) -> CheckpointChanges:
    """What a broker writes that starts and stops: all is flushed, so nothing needs checking again.

    Nothing of directories that it does not serve.
    """
    served = (Fate.CURRENT.value, Fate.FUTURE.value, Fate.PROMOTED.value)
    if row["fate"] not in served or row["log_end_offset"] is None:
        return {}
    place, start, end = (task.topic, task.partition), row["log_start_offset"], row["log_end_offset"]
    changes: CheckpointChanges = {
        FileKind.RECOVERY_POINT_CHECKPOINT: {place: end},
        FileKind.LOG_START_OFFSET_CHECKPOINT: {
            place: start if start > row["first_base_offset"] else None
        },
    }
    if task.high_watermark is not None:
        # A high watermark beyond the end of what was recovered counts as that end.
        high_watermark = max(start, min(end, task.high_watermark))
        changes[FileKind.REPLICATION_OFFSET_CHECKPOINT] = {place: high_watermark}
    return changes
