"""The producers that a broker has after loading a directory, and those that it drops.

They come from the newest snapshot that a starting broker would use, and from the batch headers
after it. A load drops the producers of that snapshot that have expired. After a crash, segments
from the recovery point on are replayed first, and the result goes through a snapshot: then every
expired producer is dropped. What a restart would truncate is not left out here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.inventory.log_end import read_log_end
from kafka_log.loading.rebuild_state import rebuild_producer_state
from kafka_log.names import FileKind, segment_file_name
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.producers.snapshots import ProducerSnapshots
from kafka_log.segment.log_segment import LogSegment
from kafka_log.segment.log_segments import LogSegments, find_base_offsets

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.producers.entry import ProducerStateEntry

_NEVER = 2**65  # more than the difference of two timestamps


class LoadedProducer(NamedTuple):
    """A producer, and whether a load drops it."""

    entry: ProducerStateEntry
    is_expired: bool


def read_producers(
    directory: str | os.PathLike[str],
    config: LogConfig,
    clock: Clock,
    *,
    log_start_offset: int | None = None,
    recovery_point: int | None = None,
    is_clean: bool = True,
) -> list[LoadedProducer]:
    """Return every producer of snapshot and log, by producer id.

    The offsets are the checkpoints' rows, None without one. Raises LogError, FormatError for damage
    in the headers, and OSError.
    """
    unlimited = replace(config, producer_id_expiration_ms=_NEVER)
    every, loaded = (
        _after_load(
            OverlayFiles(directory, clock),  # the producer state manager writes snapshots
            each,
            clock,
            log_start_offset=log_start_offset or 0,
            flushed=None if is_clean else recovery_point or 0,
        )
        for each in (unlimited, config)
    )
    return [
        LoadedProducer(loaded.get(producer_id, entry), producer_id not in loaded)
        for producer_id, entry in sorted(every.items())
    ]


def _after_load(
    files: Files,
    config: LogConfig,
    clock: Clock,
    *,
    log_start_offset: int,
    flushed: int | None,
) -> dict[int, ProducerStateEntry]:
    """Return the producers after a load; `flushed` is the recovery point after a crash."""
    bases = find_base_offsets(files)
    end = log_end_offset(files, bases[-1])
    start = max(bases[0], log_start_offset)
    if start > end:
        return {}  # a broker would empty the log
    if flushed is not None:
        _drop_snapshots_of_recovered(files, bases, flushed)
    producers = load_producers(files, bases, config, clock, start=start, end=end)
    if flushed is not None:
        producers.remove_expired_producers(clock())
    return dict(producers.active_producers)


def _drop_snapshots_of_recovered(files: Files, bases: Sequence[int], flushed: int) -> None:
    """Delete the snapshots after the start of the first segment that a restart recovers."""
    first = max((base for base in bases if base <= flushed), default=bases[0])
    snapshots = ProducerSnapshots(files)
    for snapshot in snapshots:
        if snapshot.offset > first:
            snapshots.delete(snapshot.offset)


def load_producers(
    files: Files, bases: Sequence[int], config: LogConfig, clock: Clock, *, start: int, end: int
) -> ProducerStateManager:
    """Load the producers as a starting broker does, from the newest snapshot."""
    segments = LogSegments()
    for base in bases:
        segments.add(LogSegment.open(files, base, config, clock, file_already_exists=True))
    producers = ProducerStateManager(files, config, clock)
    rebuild_producer_state(
        producers,
        segments,
        log_start_offset=start,
        last_offset=end,
        clock=clock,
        reload_from_clean_shutdown=False,
    )
    return producers


def log_end_offset(files: Files, base_offset: int) -> int:
    """Return the offset after the last batch of the segment, by headers."""
    log, index = (
        files.path(str(segment_file_name(base_offset, kind)))
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX)
    )
    return read_log_end(log, base_offset, index=index).offset
