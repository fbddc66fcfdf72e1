"""Remove records from a log: truncate it, delete or replace segments, or delete all of it.

Files are renamed to `.deleted` immediately and unlinked after `file.delete.delay.ms`. Producers,
epochs and snapshots are brought to the state of the remaining log.

Mirrors truncateTo, truncateFullyAndStartAt, deleteOldSegments, replaceSegments and delete of
UnifiedLog. retention/breaches.py decides which segments retention deletes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.errors import IllegalArgumentError
from kafka_log.loading.rebuild_state import rebuild_producer_state
from kafka_log.retention.breaches import LogPosition, breaches, iter_verdicts
from kafka_log.segment.segment_files import delete_producer_snapshots
from kafka_log.segment.segment_files import replace_segments as replace_segment_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.retention.breaches import Breach, Verdict
    from kafka_log.segment.log_segment import LogSegment

    OnDelete = Callable[[Breach, Sequence[LogSegment]], None]
    OnVerdict = Callable[[Breach, Verdict[LogSegment]], None]


def truncate_to(log: PartitionLog, target_offset: int) -> bool:
    if target_offset < 0:
        raise IllegalArgumentError(
            f"{log.files.directory}: truncate to {target_offset}, expected 0 or more"
        )
    if target_offset >= log.log_end_offset:
        # Epochs may have been assigned for records that were never appended.
        log.leader_epoch_cache.truncate_from_end_async_flush(log.log_end_offset)
        return False
    log.local_log.ensure_open()
    first_base = log.segments.first_segment_base_offset()
    if first_base is not None and first_base > target_offset:
        truncate_fully_and_start_at(log, target_offset, log_start_offset=None)
        return True
    deleted = log.local_log.truncate_to(target_offset)
    _delete_producer_snapshots(log, deleted)
    log.leader_epoch_cache.truncate_from_end_async_flush(target_offset)
    log.offsets.log_start_offset = min(target_offset, log.log_start_offset)
    _rebuild_producer_state(log, target_offset)
    if log.high_watermark >= log.log_end_offset:
        log.offsets.update_high_watermark(log.local_log.log_end_offset_metadata)
    return True


def truncate_fully_and_start_at(
    log: PartitionLog, new_offset: int, *, log_start_offset: int | None
) -> None:
    log.local_log.truncate_fully_and_start_at(new_offset)
    log.leader_epoch_cache.clear_and_flush()
    log.producer_state_manager.truncate_fully_and_start_at(new_offset)
    start = new_offset if log_start_offset is None else log_start_offset
    log.offsets.log_start_offset = start
    _rebuild_producer_state(log, new_offset)
    log.offsets.update_high_watermark(log.local_log.log_end_offset_metadata)


def _rebuild_producer_state(log: PartitionLog, last_offset: int) -> None:
    log.local_log.ensure_open()
    log.offsets.forget_transactions()
    rebuild_producer_state(
        log.producer_state_manager,
        log.segments,
        log_start_offset=log.log_start_offset,
        last_offset=last_offset,
        clock=log.clock,
        reload_from_clean_shutdown=False,
    )


def delete_old_segments(
    log: PartitionLog, on_delete: OnDelete | None = None, on_verdict: OnVerdict | None = None
) -> int:
    """Apply the retention rules one after the other; return how many segments were deleted.

    `on_delete` is called with a rule and its segments before they are deleted; `on_verdict` with
    every segment that a rule examines, deleted or not.
    """
    deleted = 0
    for breach in breaches(log.config):
        position = LogPosition(log.log_start_offset, log.high_watermark, log.log_end_offset)
        chosen = []
        for verdict in iter_verdicts(
            breach,
            log.log_segments,
            config=log.config,
            now_ms=log.clock(),
            position=position,
        ):
            if on_verdict is not None:
                on_verdict(breach, verdict)
            if verdict.is_deleted:
                chosen.append(verdict.segment)
        if chosen and on_delete is not None:
            on_delete(breach, chosen)
        deleted += _delete_segments(log, chosen)
    return deleted


def _delete_segments(log: PartitionLog, deletable: list[LogSegment]) -> int:
    if not deletable:
        return 0
    chosen = list(deletable)
    if log.segments.number_of_segments() == len(chosen):
        # A log always has a segment.
        segment = log.roll()
        if chosen[-1].base_offset == segment.base_offset:
            chosen.pop()  # it was empty, and the roll replaced it under the same name
    log.local_log.ensure_open()
    if chosen:
        following = log.segments.higher_segment(chosen[-1].base_offset)
        if following is not None:
            log.maybe_increment_log_start_offset(following.base_offset)
        log.local_log.remove_and_delete_segments(chosen)
    _delete_producer_snapshots(log, chosen)
    return len(deletable)


def replace_segments(
    log: PartitionLog, new: Sequence[LogSegment], old: Sequence[LogSegment]
) -> None:
    log.local_log.ensure_open()
    deleted = replace_segment_files(log.files, log.segments, new, old, log.config, log.scheduler)
    _delete_producer_snapshots(log, deleted)


def delete_log(log: PartitionLog) -> None:
    log.local_log.ensure_open()
    log.leader_epoch_cache.clear()
    deleted = log.local_log.delete_all_segments()
    _delete_producer_snapshots(log, deleted, async_delete=False)


def _delete_producer_snapshots(
    log: PartitionLog, segments: Sequence[LogSegment], *, async_delete: bool = True
) -> None:
    delete_producer_snapshots(
        log.files,
        segments,
        log.producer_state_manager,
        log.config,
        log.scheduler,
        async_delete=async_delete,
    )
