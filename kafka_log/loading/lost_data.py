"""Which bytes of a log a restart drops: which files, from which position on, and why.

losses.py counts what is in those bytes. A file that the cleaner or a split replaced is not lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_log.disk.files import DiskFiles, opened
from kafka_log.loading.journal import Action
from kafka_log.loading.losses import Losses
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.disk.overlay_files import Change
    from kafka_log.loading.partition_recovery import RecoveryPlan


class LogCut(NamedTuple):
    """The first place where a restart drops data, and why."""

    file: str
    position: int
    reason: str


def losses_of(plan: RecoveryPlan) -> Losses:
    """Count what is in the logs before the restart and missing afterwards."""
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
    """Yield the logs that are cut or deleted, each with the start of the lost part."""
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
    """Whether a `.swap` file becomes a live one and is then truncated."""
    if change.renamed_to is None:
        return False
    before, after = parse_file_name(change.name), parse_file_name(change.renamed_to)
    is_swapped = before.state is FileState.SWAP and after.state is FileState.LIVE
    is_log = after.kind is FileKind.LOG
    return is_swapped and is_log and (change.size_after or 0) < (change.size_before or 0)


def _removed_segments(plan: RecoveryPlan) -> set[str]:
    """Return the logs that the loader deletes without replacing them."""
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
    """Return the first offset that a log can lose if no header says it."""
    base = parse_file_name(name).offset or 0
    end = 0 if plan.loaded is None else plan.loaded.log_end_offset
    first = None if plan.loaded is None else plan.loaded.segments.first_segment()
    is_kept = first is not None and first.base_offset <= base < end
    return end if is_kept else base


def first_cut(plan: RecoveryPlan) -> LogCut | None:
    """Return where the first data is lost, with the loader's reason."""
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
    return LogCut(name, start, reasons[0] if reasons else "")
