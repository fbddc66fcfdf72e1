"""Segments that leave a log or take the place of others, file by file, so that a crash between any
two steps can be repaired by the next load.

    delete     rename to .deleted, unlink later
    replace    .cleaned -> .swap, highest base first; sources -> .deleted; .swap -> live

A `.cleaned` file says that not every new segment has become `.swap`: the next load drops them all.
Without one the `.swap` files are whole, and the load finishes what was begun.

Mirrors LocalLog.deleteSegmentFiles, replaceSegments and splitOverflowedSegment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_log.errors import DamagedLogError, LogError
from kafka_log.names import FileKind, FileState
from kafka_log.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka_log.clock import Clock, Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.producers.producer_state import ProducerStateManager
    from kafka_log.segment.log_segments import LogSegments

_DELETED = FileState.DELETED.value
_CLEANED = FileState.CLEANED.value
_SWAP = FileState.SWAP.value


def delete_segment_files(
    segments: Iterable[LogSegment],
    config: LogConfig,
    scheduler: Scheduler,
    *,
    async_delete: bool = True,
) -> None:
    """Mark all files of these segments, then unlink them: after the delay, or at once."""
    chosen = list(segments)
    for segment in chosen:
        if not segment.has_suffix(_DELETED):
            segment.change_file_suffixes("", _DELETED)

    def unlink() -> None:
        for segment in chosen:
            segment.delete_if_exists()

    delay_ms = config.file_delete_delay_ms if async_delete else 0
    scheduler.schedule("delete-file", unlink, delay_ms=delay_ms)


def delete_producer_snapshots(
    files: Files,
    segments: Iterable[LogSegment],
    producer_state_manager: ProducerStateManager,
    config: LogConfig,
    scheduler: Scheduler,
    *,
    async_delete: bool = True,
) -> None:
    """The snapshots that lie at the bases of segments which are gone."""
    marked = [
        snapshot
        for segment in segments
        if (
            snapshot := producer_state_manager.remove_and_mark_snapshot_for_deletion(
                segment.base_offset
            )
        )
        is not None
    ]

    def unlink() -> None:
        for snapshot in marked:
            files.delete_if_exists(snapshot.name)

    delay_ms = config.file_delete_delay_ms if async_delete else 0
    scheduler.schedule("delete-producer-snapshot", unlink, delay_ms=delay_ms)


def replace_segments(
    files: Files,
    existing_segments: LogSegments,
    new_segments: Sequence[LogSegment],
    old_segments: Sequence[LogSegment],
    config: LogConfig,
    scheduler: Scheduler,
    *,
    is_recovered_swap_file: bool = False,
) -> list[LogSegment]:
    """New segments (`.cleaned`) in the place of old ones; which of these have no successor.

    An old segment that the log does not hold is left alone: it is replaced only by the renaming,
    if a new one has its name.
    """
    new = sorted(new_segments, key=_base_offset)
    old = sorted(
        (each for each in old_segments if existing_segments.contains(each.base_offset)),
        key=_base_offset,
    )
    for segment in reversed(new):
        if not is_recovered_swap_file:
            segment.change_file_suffixes(_CLEANED, _SWAP)
        existing_segments.add(segment)
    new_bases = {segment.base_offset for segment in new}
    not_replaced = []
    for segment in old:
        if segment.base_offset != new[0].base_offset:
            existing_segments.remove(segment.base_offset)
        delete_segment_files([segment], config, scheduler)
        if segment.base_offset not in new_bases:
            not_replaced.append(segment)
    for segment in new:
        segment.change_file_suffixes(_SWAP, "")
    files.sync_directory()
    return not_replaced


def _base_offset(segment: LogSegment) -> int:
    return segment.base_offset


def create_new_cleaned_segment(
    files: Files, base_offset: int, config: LogConfig, clock: Clock
) -> LogSegment:
    """An empty segment for a cleaner's output; what an earlier attempt left is dropped."""
    LogSegment.delete_files_if_exist(files, base_offset, suffix=_CLEANED)
    return LogSegment.open(
        files,
        base_offset,
        config,
        clock,
        init_file_size=config.init_file_size,
        preallocate=config.preallocate,
        suffix=_CLEANED,
    )


class SplitSegmentResult(NamedTuple):
    deleted_segments: list[LogSegment]
    """Those whose base is not the base of a new one."""
    new_segments: list[LogSegment]


def split_overflowed_segment(
    files: Files,
    segment: LogSegment,
    existing_segments: LogSegments,
    config: LogConfig,
    clock: Clock,
    scheduler: Scheduler,
) -> SplitSegmentResult:
    """A segment whose offsets do not fit four bytes, as several that do."""
    if not segment.name.endswith(FileKind.LOG.value):
        raise LogError(f"{files.path(segment.name)}: found a segment that is not live to be split")
    if not segment.has_overflow():
        raise DamagedLogError(
            f"{files.path(segment.name)}: found an offset too far from {segment.base_offset}, but "
            "not in the last batch: Kafka cannot split this segment"
        )
    new: list[LogSegment] = []
    try:
        _split(files, segment, new, config, clock)
        deleted = replace_segments(files, existing_segments, new, [segment], config, scheduler)
    except BaseException:
        for each in new:
            each.close()
            each.delete_if_exists()
        raise
    return SplitSegmentResult(deleted, new)


def _split(
    files: Files, segment: LogSegment, new: list[LogSegment], config: LogConfig, clock: Clock
) -> None:
    """Fill `new` (the caller's, so that it can undo) with all the batches of a segment."""
    position = 0
    while position < segment.size:
        first = next(segment.log.batches_from(position), None)
        if first is None:
            raise LogError(
                f"{files.path(segment.name)}@{position}: found part of a batch, expected whole "
                f"batches in a segment to be split"
            )
        target = create_new_cleaned_segment(files, first.base_offset, config, clock)
        new.append(target)
        appended = target.append_from_file(segment.log, position)
        if not appended:
            raise LogError(
                f"{first}: found offsets too far apart, expected a batch that fits a segment"
            )
        position += appended
    modified_ms = segment.last_modified
    for each in new:
        each.on_become_inactive_segment()
        each.flush()
        each.set_last_modified(modified_ms)
    if (total := sum(each.size for each in new)) != segment.size:
        raise LogError(
            f"{files.path(segment.name)}: found {total} bytes in its parts, expected {segment.size}"
        )
