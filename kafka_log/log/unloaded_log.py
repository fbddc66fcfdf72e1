"""A log opened as it is on disk, without the loader: nothing is recovered or repaired.

    facts = read_facts(files)            base, size, largest timestamp of each segment; the log end
    log = open_unloaded(files, facts, config, scheduler, ...)
    log.delete_old_segments()            the log's own deletion
    close_unloaded(log)

The loader does more than a deletion: it finishes swaps, rebuilds indexes, cuts off damage, deletes
stray snapshots. Here only the deletion itself changes files. The log cannot be appended to, and its
records cannot be read.

The largest timestamp of a segment is the last entry of the `.timeindex`, as for a broker after its
start. Where that cannot be trusted (the active segment, an index that is missing, torn or all
zeros) the batches are read instead. A starting broker may know less; it then uses the file's
modification time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka_format.log_file import LogFile
from kafka_format.time_index import ENTRY_SIZE, decode_time_index_columns
from kafka_log.checkpoints import LastRun
from kafka_log.disk.files import opened
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError
from kafka_log.indexes.aborted_transactions import TransactionIndex
from kafka_log.indexes.index_files import LazyIndex, OffsetIndex, TimeIndex
from kafka_log.inventory.log_end import walk_log_end
from kafka_log.log.fetch_data import LogOffsetMetadata
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from kafka_log.log.local_log import LocalLog
from kafka_log.log.topic_id import TopicIdFile
from kafka_log.log.unified_log import PartitionLog
from kafka_log.names import (
    FileKind,
    FileState,
    parse_file_name,
    segment_file_name,
)
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.producers.snapshots import ProducerSnapshots
from kafka_log.segment.file_records import FileRecords
from kafka_log.segment.log_segment import LogSegment, SegmentFiles
from kafka_log.segment.log_segments import LogSegments, find_base_offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_log.clock import Clock, Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.inventory.log_end import WalkedEnd

_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
LARGE_SNAPSHOT = 1 << 30


class SegmentFacts(NamedTuple):
    """A segment as retention sees it."""

    base_offset: int
    size: int
    record_timestamp: int
    """The largest timestamp of its records; -1 if none has one."""
    modified_ms: int
    timestamp_source: str = "time index"

    def largest_timestamp(self) -> int:
        return self.modified_ms if self.record_timestamp < 0 else self.record_timestamp


class LogFacts(NamedTuple):
    segments: tuple[SegmentFacts, ...]
    log_end_offset: int


# ------------------------------------------------------------------------------------- facts


def read_facts(files: Files) -> LogFacts:
    """Read the segments of a directory by their headers only. Raises LogError if it has none."""
    bases = find_base_offsets(files)
    active, end = _read_active(files, bases[-1])
    return LogFacts((*(_read_inactive(files, base) for base in bases[:-1]), active), end)


def _read_inactive(files: Files, base_offset: int) -> SegmentFacts:
    name = _name(base_offset, FileKind.LOG)
    timestamp, source = _last_index_entry(files, base_offset), "time index"
    if timestamp is None:
        timestamp = _walk(files, base_offset).largest_timestamp
        source = "batches"
    if timestamp < 0:
        source = "modification time"
    return SegmentFacts(base_offset, files.size(name), timestamp, files.modified_ms(name), source)


def _read_active(files: Files, base_offset: int) -> tuple[SegmentFacts, int]:
    """Read the batches: the index and the file itself may be preallocated."""
    end = _walk(files, base_offset)
    timestamp = end.largest_timestamp
    source = "modification time" if timestamp < 0 else "batches"
    modified_ms = files.modified_ms(_name(base_offset, FileKind.LOG))
    return SegmentFacts(base_offset, end.position, timestamp, modified_ms, source), end.offset


def _last_index_entry(files: Files, base_offset: int) -> int | None:
    """Return the largest timestamp that the index ends with; None if it cannot be trusted."""
    name = _name(base_offset, FileKind.TIME_INDEX)
    try:
        with opened(files, name) as file:
            if not file.size or file.size % ENTRY_SIZE:
                return None
            last = decode_time_index_columns(file.read_at(file.size - ENTRY_SIZE, ENTRY_SIZE))[0]
    except FileNotFoundError:
        return None
    timestamp, relative_offset = int(last["timestamp"]), int(last["relative_offset"])
    is_entry = timestamp > 0 and relative_offset >= 0  # zeros are what a lost page looks like
    return timestamp if is_entry else None


def _walk(files: Files, base_offset: int) -> WalkedEnd:
    with opened(files, _name(base_offset, FileKind.LOG)) as file:
        return walk_log_end(file, base_offset)


def _name(offset: int, kind: FileKind) -> str:
    return str(segment_file_name(offset, kind))


# --------------------------------------------------------------------------------------- log


def open_unloaded(
    files: Files,
    facts: LogFacts,
    config: LogConfig,
    scheduler: Scheduler,
    *,
    log_start_offset: int | None,
    end_snapshot: Callable[[], bytes],
) -> PartitionLog:
    """Open a log that can be rolled and deleted from.

    `log_start_offset` is the checkpointed one. `end_snapshot` returns the producer snapshot at the
    log end, which a roll needs if the directory has none.
    """
    start = max(facts.segments[0].base_offset, log_start_offset or 0)
    end = facts.log_end_offset
    if start > end:
        raise LogError(
            f"{files.directory}: found log start {start}, expected at most its end {end}"
        )
    active = facts.segments[-1]
    clock = scheduler.clock
    segments = LogSegments(UnloadedSegment(files, each, config, clock) for each in facts.segments)
    return PartitionLog(
        LocalLog(
            files,
            config,
            segments,
            recovery_point=end,
            next_offset=LogOffsetMetadata(end, active.base_offset, active.size),
            scheduler=scheduler,
        ),
        log_start_offset=start,
        leader_epoch_cache=_open_epochs(files, scheduler, start),
        producer_state_manager=_UnloadedProducers(files, config, clock, end_snapshot),
        scheduler=scheduler,
        topic_id_file=TopicIdFile(files, scheduler),
    )


def close_unloaded(log: PartitionLog) -> None:
    """Close a new segment as a broker does, and leave the others as they are."""
    active = log.active_segment
    if not isinstance(active, UnloadedSegment):
        active.flush()  # creates its indexes
        active.close()
    log.close_handlers()


def read_end_snapshot(directory: str, facts: LogFacts, config: LogConfig) -> bytes:
    """Load a directory on an overlay, and return the producer snapshot at its end.

    Raises LogError if the log is damaged: its producers are then unknown.
    """
    from kafka_log.loading.partition_recovery import load_partition

    overlay = OverlayFiles(directory)
    last_run = LastRun(clean_shutdown=False, recovery_point=facts.segments[-1].base_offset)
    loaded = load_partition(overlay, config, last_run)
    loaded.close_handlers()
    end = facts.log_end_offset
    if loaded.log_end_offset != end:
        raise LogError(
            f"{directory}: found a log that ends at {end} but is sound only up to"
            f" {loaded.log_end_offset}; recover it first"
        )
    return overlay.read(_name(end, FileKind.PRODUCER_SNAPSHOT), limit=LARGE_SNAPSHOT)


def live_snapshot_offsets(files: Files) -> list[int]:
    """List the offsets of the producer snapshots in ascending order."""
    return sorted(
        offset
        for name in files.names()
        if (parsed := parse_file_name(name)).kind is FileKind.PRODUCER_SNAPSHOT
        and parsed.state is FileState.LIVE
        and (offset := parsed.offset) is not None
    )


def _open_epochs(files: Files, scheduler: Scheduler, log_start_offset: int) -> LeaderEpochFileCache:
    """Open the leader epochs, cut to the log start as a load cuts them."""
    if not files.exists(_EPOCHS):  # without a file there is nothing to cut, and none is made
        return LeaderEpochFileCache(OverlayFiles(files.directory), scheduler)
    epochs = LeaderEpochFileCache(files, scheduler)
    earliest = epochs.earliest_entry
    if earliest is not None and earliest.start_offset < log_start_offset:
        epochs.truncate_from_start_async_flush(log_start_offset)
    return epochs


class UnloadedSegment(LogSegment):
    """A segment whose files are renamed and deleted. Only its first batch is ever read."""

    def __init__(self, files: Files, facts: SegmentFacts, config: LogConfig, clock: Clock) -> None:
        base, size = facts.base_offset, config.segment_index_bytes
        parts = SegmentFiles(
            _UnloadedRecords(files, _name(base, FileKind.LOG), facts.size),
            LazyIndex(OffsetIndex, files, _name(base, FileKind.OFFSET_INDEX), base, size),
            LazyIndex(TimeIndex, files, _name(base, FileKind.TIME_INDEX), base, size),
            TransactionIndex(files, _name(base, FileKind.TRANSACTION_INDEX), base),
        )
        super().__init__(
            files,
            parts,
            base_offset=base,
            index_interval_bytes=config.index_interval_bytes,
            roll_jitter_ms=0,
            clock=clock,
        )
        self.facts = facts
        self._renamed: list[str] = []
        self.transaction_index.close()  # a directory may have more segments than files can be open

    def largest_timestamp(self) -> int:
        return self.facts.largest_timestamp()

    def _load_first_batch_timestamp(self) -> int | None:
        if self._rolling_based_timestamp is None:
            with opened(self._files, self.log.name) as file:
                reader = cast("BinaryIO", file.reader())
                batch = next(LogFile(reader, path=file.path).batches(), None)
                if batch is not None:
                    self._rolling_based_timestamp = batch.header.max_timestamp
        return self._rolling_based_timestamp

    def change_file_suffixes(self, old_suffix: str, new_suffix: str) -> None:
        existed = [self._files.exists(name) for name in self.names]
        super().change_file_suffixes(old_suffix, new_suffix)
        self._renamed = [name for name, was in zip(self.names, existed, strict=True) if was]

    def delete_if_exists(self) -> None:
        """Delete the renamed files. Older `.deleted` files are left for the next load."""
        for name in self._renamed:
            self._files.delete_if_exists(name)

    def on_become_inactive_segment(self) -> None:
        """Do nothing: the indexes may be preallocated or missing, and will be deleted."""


class _UnloadedRecords(FileRecords):
    """The name of a `.log` file and its valid size. The file is not opened."""

    def __init__(self, files: Files, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.is_open = False
        self._files = files


class _UnloadedProducers(ProducerStateManager):
    """The producers of a log that was not loaded, known only from the snapshot at its end."""

    def __init__(
        self, files: Files, config: LogConfig, clock: Clock, end_snapshot: Callable[[], bytes]
    ) -> None:
        super().__init__(files, config, clock, snapshots=_NamedSnapshots(files))
        self._files = files
        self._end_snapshot = end_snapshot

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write the snapshot at the log end, unless it is there."""
        name = _name(self.map_end_offset, FileKind.PRODUCER_SNAPSHOT)
        if self._files.exists(name):
            return None
        self._files.write(name, self._end_snapshot(), sync=sync)
        return name


class _NamedSnapshots(ProducerSnapshots):
    """The snapshots with a name that Kafka writes. A load refuses others; here they are ignored."""

    def load(self) -> None:
        self._offsets = live_snapshot_offsets(self.files)
        self._names = {each: _name(each, FileKind.PRODUCER_SNAPSHOT) for each in self._offsets}
