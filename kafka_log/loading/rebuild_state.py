"""Restore the producer state at an offset: from the newest usable snapshot, then from the log.

Mirrors UnifiedLog.rebuildProducerState and loadProducersFromRecords.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, BinaryIO, cast

from kafka_format.batch import HEADER_SIZE, BatchHeader
from kafka_format.batch_layout import BATCH, LENGTH_AT, LENGTH_END
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.errors import CorruptError
from kafka_log.loading.journal import Action, Journal
from kafka_log.producers.producer_state import ProducerReplay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_log.clock import Clock
    from kafka_log.producers.producer_state import ProducerStateManager, SnapshotFile
    from kafka_log.segment.file_records import FileRecords
    from kafka_log.segment.log_segment import LogSegment
    from kafka_log.segment.log_segments import LogSegments

_LENGTH_WITHOUT_RECORDS = BATCH.field("batch_length").struct.pack(HEADER_SIZE - LENGTH_END)
"""The length of a batch without records."""


def rebuild_producer_state(
    producer_state_manager: ProducerStateManager,
    segments: LogSegments,
    *,
    log_start_offset: int,
    last_offset: int,
    clock: Clock,
    reload_from_clean_shutdown: bool,
    journal: Journal | None = None,
) -> None:
    """Bring the state to `last_offset`.

    Snapshots are written at the base offsets of the last two segments and at `last_offset`. Without
    a snapshot and after a clean shutdown, Kafka assumes an upgrade from a version without producer
    state: nothing is read, and the snapshots are empty.
    """
    manager = producer_state_manager
    journal = Journal() if journal is None else journal
    offsets_to_snapshot = _offsets_to_snapshot(segments, last_offset)
    if manager.latest_snapshot_offset is None and reload_from_clean_shutdown:
        for offset in offsets_to_snapshot:
            manager.update_map_end_offset(offset)
            why = "clean shutdown without a snapshot: a new empty one, the log is not read"
            take_snapshot(manager, journal, why)
        return
    is_empty_before = manager.is_empty and manager.map_end_offset >= last_offset
    why = f"at or below the log start {log_start_offset}, beyond offset {last_offset}, or corrupt"
    for snapshot in manager.truncate_and_reload(log_start_offset, last_offset, clock()):
        journal.add(snapshot.name, Action.DELETE, why)
    if last_offset > manager.map_end_offset and not is_empty_before:
        last_segment = segments.floor_segment(last_offset)
        for segment in list(segments.values(manager.map_end_offset, last_offset)):
            start = max(segment.base_offset, manager.map_end_offset, log_start_offset)
            manager.update_map_end_offset(start)
            if segment.base_offset in offsets_to_snapshot:
                take_snapshot(
                    manager, journal, "producer state at the start of one of the last segments"
                )
            max_position = segment.size
            if segment is last_segment and (found := segment.translate_offset(last_offset)):
                max_position = found.position
            _load_producers(manager, segment, start, max_position, journal)
    manager.update_map_end_offset(last_offset)
    take_snapshot(manager, journal, f"producer state at offset {last_offset}")


def take_snapshot(manager: ProducerStateManager, journal: Journal, why: str) -> None:
    """Write a snapshot, and add a journal entry if there was none."""
    name = manager.take_snapshot()
    if name is not None:
        journal.add(name, Action.WRITE, why)


@contextlib.contextmanager
def journaled_snapshots(
    manager: ProducerStateManager,
    journal: Journal,
    why: str,
    before: Sequence[SnapshotFile] | None = None,
) -> Iterator[None]:
    """Add the snapshots that the body deletes to the journal.

    `before` are the snapshots that existed; by default those of the manager.
    """
    before = manager.snapshots if before is None else before
    yield
    after = set(manager.snapshots)
    for snapshot in before:
        if snapshot not in after:
            journal.add(snapshot.name, Action.DELETE, why)


def _offsets_to_snapshot(segments: LogSegments, last_offset: int) -> list[int]:
    last = segments.last_segment()
    if last is None:
        return [last_offset]
    lower = segments.lower_segment(last.base_offset)
    bases = [last.base_offset] if lower is None else [lower.base_offset, last.base_offset]
    return [*bases, last_offset]


def _load_producers(
    manager: ProducerStateManager,
    segment: LogSegment,
    start_offset: int,
    max_position: int,
    journal: Journal,
) -> None:
    """Replay the batches of a segment from an offset up to a position."""
    found = segment.translate_offset(start_offset)
    if found is None or found.position >= max_position:
        return
    journal.add(
        segment.name,
        Action.READ,
        f"producer state from offset {start_offset}: no newer snapshot",
        bytes_read=max_position - found.position,
    )
    replay = ProducerReplay(manager)
    position: int | None = found.position
    while position is not None:
        position = _add_batches(replay, segment.log, position, max_position)
    replay.finish()


def _add_batches(
    replay: ProducerReplay, log: FileRecords, position: int, max_position: int
) -> int | None:
    """Replay batches up to the end, or over one that Kafka skips and we cannot read.

    Returns the position to continue from; None at the end.
    """
    reader = cast("BinaryIO", log.reader())
    walk = HeaderWalk(reader, path=log.path, start=position, end=max_position)
    for batches in walk:
        replay.add(batches, log.read_exactly)
    if walk.end is None or not isinstance(walk.end.error, CorruptError):
        return None
    # A batch shorter than its own header: Kafka reads a header that reaches into the next batch.
    batch = next(log.batches_from(walk.end.position, max_position), None)
    if batch is None:
        return None
    header = log.read_exactly(batch.position, HEADER_SIZE)
    if BatchHeader.unpack(header).producer_id >= 0:
        if BatchHeader.unpack(header).is_control:
            raise walk.end.error  # there is no marker to read
        for batches in HeaderWalk(
            header[:LENGTH_AT] + _LENGTH_WITHOUT_RECORDS + header[LENGTH_END:], path=log.path
        ):
            replay.add(batches, log.read_exactly)
    return int(batch.position + batch.size_in_bytes)
