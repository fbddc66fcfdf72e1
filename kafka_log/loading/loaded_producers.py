"""The producers that a broker has after loading a directory, and those that it drops.

They come from the newest snapshot that a starting broker would use, and from the batch headers
after it. A load drops the producers of that snapshot that have expired. After a crash, recovery
replays the last segments, and the result goes through a new snapshot: then every expired producer
is dropped. What a restart would truncate is not left out here.
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
    is_clean: bool = True,
) -> list[LoadedProducer]:
    """Return every producer of snapshot and log, by producer id.

    The log start is the checkpoint's row, None without one. Raises LogError, FormatError for damage
    in the headers, and OSError.
    """
    start = log_start_offset or 0
    unlimited = replace(config, producer_id_expiration_ms=_NEVER)
    files = OverlayFiles(directory, clock)  # the producer state manager writes snapshots
    has_snapshots = bool(list(ProducerSnapshots(files)))
    every = _after_load(files, unlimited, clock, start)
    if has_snapshots:
        loaded = _after_load(OverlayFiles(directory, clock), config, clock, start)
    else:  # what comes from the log is not dropped
        loaded = dict(every)
    if not is_clean:
        loaded = {
            producer_id: entry
            for producer_id, entry in loaded.items()
            if not entry.is_expired(clock(), config.producer_id_expiration_ms)
        }
    return [
        LoadedProducer(loaded.get(producer_id, entry), producer_id not in loaded)
        for producer_id, entry in sorted(every.items())
    ]


def _after_load(
    files: Files, config: LogConfig, clock: Clock, log_start_offset: int
) -> dict[int, ProducerStateEntry]:
    bases = find_base_offsets(files)
    end = log_end_offset(files, bases[-1])
    start = max(bases[0], log_start_offset)
    if start > end:
        return {}  # a broker would empty the log
    producers = load_producers(files, bases, config, clock, start=start, end=end)
    return dict(producers.active_producers)


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
