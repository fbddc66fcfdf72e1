"""Recovery of partitions as tasks and rows: a row a changed file, then one for its partition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.errors import FormatError
from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.disk.output import check_in_place
from kafka_log.loading.journal import Action
from kafka_log.loading.losses import Losses
from kafka_log.loading.partition_recovery import load_directory
from kafka_log.loading.rebuilt_files import write_rebuilt
from kafka_log.names import FileKind, FileState, parse_directory_name, parse_file_name
from kafka_log.recovery import Assignments, Fate, LogDirPlan, PartitionPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka_format.errors import Location
    from kafka_log.disk.overlay_files import Change
    from kafka_log.loading.partition_recovery import LoadedPartition, RecoveryPlan, RecoveryRow
    from pipelines.partition_tasks import CheckpointChanges, PartitionTask

Row = dict[str, Any]

MISSING = "missing"
"""The fate of a partition that only the checkpoints know."""


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
        losses, cut = losses_of(plan), first_cut(plan)
        rows = plan.rows()  # before files are changed in place, with which they are compared
        if planned.fate is not Fate.DELETE:  # nobody needs a directory that is to be deleted
            _write(task, planned)
        for row in rows:
            yield _file_row(task, row)
        yield _partition_row(task, planned, len(rows), losses, cut)


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
    files = DiskFiles(task.path)
    task.unmark_clean()
    write_rebuilt(planned.plan.files, planned.plan.journal, files)
    loaded = load_directory(
        files,
        task.config,
        clean_shutdown=planned.clean_shutdown,
        log_start_offset=planned.log_start_offset,
        recovery_point=planned.recovery_point,
        clock=FixedClock(task.now_ms),
    )
    _close(loaded)
    loaded.files.sync_directory()


# ------------------------------------------------------------------------------- what is lost


class Cut(NamedTuple):
    """The first place where a start drops data, and why."""

    file: str
    position: int
    reason: str


def losses_of(plan: RecoveryPlan) -> Losses:
    """Return what is in the logs before the start and not in them afterwards.

    Files that the cleaner or a split replaced are not lost.
    """
    losses = Losses()
    for name, start in _lost_parts(plan):
        with opened(DiskFiles(plan.directory), name) as file:
            losses.add(
                file,
                start,
                base_offset=parse_file_name(name).offset or 0,
                fallback_offset=_fallback_offset(plan, name),
            )
    return losses


def _lost_parts(plan: RecoveryPlan) -> Iterator[tuple[str, int]]:
    """Yield the logs that are cut or deleted, each with where the lost part begins."""
    if plan.loaded is None:
        return
    first = plan.loaded.segments.first_segment()
    first_base = 0 if first is None else first.base_offset
    removed = _removed_segments(plan)
    for change in plan.files.changes():
        name = parse_file_name(change.name)
        if name.kind is not FileKind.LOG or name.state is not FileState.LIVE:
            if _is_cut_after_swap(change):
                yield change.name, change.size_after or 0
            continue
        if change.action in ("deleted", "renamed"):
            is_replaced = first_base <= (name.offset or 0) < plan.loaded.log_end_offset
            if change.name in removed or not is_replaced:
                yield change.name, 0
        elif change.action == "truncated":
            yield change.name, change.size_after or 0


def _is_cut_after_swap(change: Change) -> bool:
    """Whether a `.swap` file takes its place and then loses its end."""
    if change.renamed_to is None:
        return False
    before, after = parse_file_name(change.name), parse_file_name(change.renamed_to)
    is_swapped = before.state is FileState.SWAP and after.state is FileState.LIVE
    is_log = after.kind is FileKind.LOG
    return is_swapped and is_log and (change.size_after or 0) < (change.size_before or 0)


def _removed_segments(plan: RecoveryPlan) -> set[str]:
    """Return the logs that the loader deletes without anything in their place."""
    split = {entry.file for entry in plan.steps if entry.action is Action.SPLIT}
    deleted = FileState.DELETED.value
    return {
        entry.file
        for entry in plan.steps
        if entry.action is Action.DELETE
        and entry.renamed_to == entry.file + deleted
        and entry.file not in split
    }


def _fallback_offset(plan: RecoveryPlan, name: str) -> int:
    """Return the first offset that can be lost of a log whose headers do not say it."""
    base = parse_file_name(name).offset or 0
    end = 0 if plan.loaded is None else plan.loaded.log_end_offset
    first = None if plan.loaded is None else plan.loaded.segments.first_segment()
    is_kept = first is not None and first.base_offset <= base < end
    return end if is_kept else base


def first_cut(plan: RecoveryPlan) -> Cut | None:
    """Return where the first data is lost, in the words of the loader."""
    parts = sorted(_lost_parts(plan), key=lambda part: parse_file_name(part[0]).offset or 0)
    if not parts:
        return None
    name, start = parts[0]
    names = (name, name.removesuffix(FileState.SWAP.value))
    reasons = [
        entry.why
        for entry in plan.steps
        if entry.file in names and entry.action in (Action.CUT, Action.EMPTY, Action.DELETE)
    ]
    return Cut(name, start, reasons[0] if reasons else "")


# ------------------------------------------------------------------------------------- rows


def _identity(task: PartitionTask) -> Row:
    return {"topic": task.topic, "partition": task.partition, "path": task.path}


def _file_row(task: PartitionTask, row: RecoveryRow) -> Row:
    told = row._asdict()
    reason = told.pop("why")
    return {"kind": "file", **_identity(task), **told, "reason": reason}


def _partition_row(
    task: PartitionTask,
    planned: PartitionPlan,
    changed: int,
    losses: Losses,
    cut: Cut | None,
) -> Row:
    plan, loaded = planned.plan, planned.plan.loaded
    first = None if loaded is None else loaded.segments.first_segment()
    end = None if loaded is None else loaded.log_end_offset
    return {
        "kind": "partition",
        **_identity(task),
        "fate": planned.fate.value,
        "clean_shutdown": planned.clean_shutdown,
        "log_start_offset": None if loaded is None else loaded.log_start_offset,
        "recovery_point": planned.recovery_point,
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
        **_promise_fields(end, task.high_watermark, task.recovery_point),
        "bytes_read": plan.bytes_read,
        "estimated_seconds": round(plan.estimated_seconds(), 3),
        "error": None if plan.error is None else str(plan.error),
        "note": planned.why or None,
    }


def _place_fields(task: PartitionTask, plan: RecoveryPlan, losses: Losses, cut: Cut | None) -> Row:
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


def _promise_fields(end: int | None, high_watermark: int | None, recovery_point: int | None) -> Row:
    """Return the offset up to which the checkpoints say there is data, if the log ends before it.

    A high watermark or a recovery point beyond the log end means that records are missing.
    """
    promises = {
        FileKind.REPLICATION_OFFSET_CHECKPOINT: high_watermark or 0,
        FileKind.RECOVERY_POINT_CHECKPOINT: recovery_point or 0,
    }
    kind = max(promises, key=lambda each: promises[each])  # the high watermark, if they are equal
    is_missing = end is not None and promises[kind] > end
    return {
        "promised_offset": promises[kind] if is_missing else None,
        "promised_by": kind.value if is_missing else None,
    }


def missing_partition_row(
    log_dir: str, topic: str, partition: int, checkpointed: Mapping[FileKind, int]
) -> Row:
    """Return the row of a partition that the checkpoints know and that has no directory."""
    high_watermark = checkpointed.get(FileKind.REPLICATION_OFFSET_CHECKPOINT)
    recovery_point = checkpointed.get(FileKind.RECOVERY_POINT_CHECKPOINT)
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
        "recovery_point": recovery_point,
        "changed_files": 0,
        "lost_bytes": 0,
        "lost_records": 0,
        "lost_from_offset": None,
        "lost_to_offset": None,
        "lost_file": None,
        "lost_position": None,
        "lost_reason": None,
        "high_watermark": high_watermark,
        **_promise_fields(0, high_watermark, recovery_point),
        "bytes_read": 0,
        "estimated_seconds": 0.0,
        "error": None,
        "note": "no directory",
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
