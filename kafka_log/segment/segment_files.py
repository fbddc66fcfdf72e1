"""Delete and replace segments file by file, so that the next load can repair a crash at any step.

    delete     rename to .deleted, unlink later
    replace    .cleaned -> .swap, highest base first; sources -> .deleted; .swap -> live

If there is a `.cleaned` file, not every new segment has become `.swap`, and the next load deletes
them all. Otherwise the `.swap` files are complete, and the load finishes the replacement.

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
    """Rename all files of these segments to `.deleted`, and unlink them after the delay."""
    deleted = list(segments)
    for segment in deleted:
        if not segment.has_suffix(_DELETED):
            segment.change_file_suffixes("", _DELETED)

    def unlink() -> None:
        for segment in deleted:
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
    """Delete the snapshots at the base offsets of deleted segments."""
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
    """Replace old segments by new ones (`.cleaned`); return the old ones without a successor.

    An old segment that the log does not hold is not deleted. It is only overwritten by the
    renaming, if a new one has its name.
    """
    new = sorted(new_segments, key=_base_offset)
    old = sorted(
        (segment for segment in old_segments if existing_segments.contains(segment.base_offset)),
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
    """Create an empty segment for a cleaner's output; delete what an earlier attempt left."""
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
    """Those whose base offset no new segment has."""
    new_segments: list[LogSegment]


def split_overflowed_segment(
    files: Files,
    segment: LogSegment,
    existing_segments: LogSegments,
    config: LogConfig,
    clock: Clock,
    scheduler: Scheduler,
) -> SplitSegmentResult:
    """Split a segment whose relative offsets do not fit in four bytes."""
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
        for part in new:
            part.close()
            part.delete_if_exists()
        raise
    return SplitSegmentResult(deleted, new)


def _split(
    files: Files, segment: LogSegment, new: list[LogSegment], config: LogConfig, clock: Clock
) -> None:
    """Copy all batches into segments that are added to `new`, so that the caller can undo it."""
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
    for part in new:
        part.on_become_inactive_segment()
        part.flush()
        part.set_last_modified(modified_ms)
    if (total := sum(part.size for part in new)) != segment.size:
        raise LogError(
            f"{files.path(segment.name)}: found {total} bytes in its parts, expected {segment.size}"
        )
