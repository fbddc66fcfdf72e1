"""The segments of a partition as a starting broker loads them, pass by pass.

    1  .deleted files go; a .cleaned file voids every .swap from its offset on, then goes too
    2  live files that the remaining .swap segments replace go
    3  .swap files take their place
    4  indexes without a log go; segments without a sound index are rebuilt
    5  after an unclean stop: every segment from the recovery point on is read and checked, and cut
       at the first batch that is not sound; segments behind a cut one go
    6  leader epochs are trimmed to the log, stray snapshots go, producer state is brought up

Mirrors org.apache.kafka.storage.internals.log.LogLoader (4.3.1). A journal, if given, is told of
every decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_format.errors import OverLimitError
from kafka_format.file_kinds import SEGMENT_INDEX_KINDS, SEGMENT_KINDS
from kafka_log.errors import (
    CorruptIndexError,
    InvalidOffsetError,
    LogError,
    LogLoadError,
    SegmentOffsetOverflowError,
)
from kafka_log.inventory.file_limits import largest_size
from kafka_log.loading.journal import Action, Journal
from kafka_log.loading.left_overs import offset_of, settle_left_overs
from kafka_log.loading.rebuild_state import rebuild_producer_state, take_snapshot, told_snapshots
from kafka_log.names import DirectoryKind, FileKind, FileState, segment_file_name
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.producers.snapshots import ProducerSnapshots
from kafka_log.segment.log_segment import LogSegment
from kafka_log.segment.segment_files import (
    delete_producer_snapshots,
    delete_segment_files,
    split_overflowed_segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_log.clock import Clock, Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.log.leader_epochs import LeaderEpochFileCache
    from kafka_log.segment.log_segments import LogSegments

_T = TypeVar("_T")
_LONG_MAX = 2**63 - 1
_DELETED = FileState.DELETED.value
_INDEX_ENDINGS = tuple(kind.value for kind in SEGMENT_INDEX_KINDS)


class LoadedLogOffsets(NamedTuple):
    """Where a loaded log begins and ends; the last three are the metadata of its next offset."""

    log_start_offset: int
    recovery_point: int
    next_offset: int
    segment_base_offset: int
    relative_position_in_segment: int


class _RecoveryOffsets(NamedTuple):
    new_recovery_point: int
    next_offset: int


class LogLoader:
    """Loads one partition directory into `segments`, the epoch cache and the producer state."""

    def __init__(
        self,
        files: Files,
        config: LogConfig,
        clock: Clock,
        scheduler: Scheduler,
        *,
        had_clean_shutdown: bool,
        segments: LogSegments,
        log_start_offset_checkpoint: int,
        recovery_point_checkpoint: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        journal: Journal | None = None,
    ) -> None:
        self._files = files
        self._config = config
        self._clock = clock
        self._scheduler = scheduler
        self._had_clean_shutdown = had_clean_shutdown
        self._segments = segments
        self._log_start_offset_checkpoint = log_start_offset_checkpoint
        self._recovery_point_checkpoint = recovery_point_checkpoint
        self._leader_epoch_cache = leader_epoch_cache
        self._producer_state_manager = producer_state_manager
        self._snapshots: ProducerSnapshots | None = None
        """Of the managers that segments are recovered with; None where others changed the files."""
        self.journal = Journal() if journal is None else journal

    def load(self) -> LoadedLogOffsets:
        """Raises LogLoadError where Kafka gives the log up; OSError is what the disk says.

        OverLimitError says nothing of Kafka: it would decode the batch, and we may not.
        """
        try:
            return self._load()
        except (LogLoadError, OverLimitError, OSError):
            self._segments.close_handlers()
            raise
        except (LogError, ValueError) as error:  # a FormatError is a ValueError too
            self._segments.close_handlers()
            raise LogLoadError(f"{self._files.directory}: Kafka cannot load it: {error}") from error

    def _load(self) -> LoadedLogOffsets:
        settle_left_overs(self._files, self._config, self._clock, self.journal)
        self._retry_on_offset_overflow(self._load_segment_files_afresh)
        if self._files.directory.endswith(DirectoryKind.DELETE.value):
            offsets = self._settle_for_deletion()
        else:
            offsets = self._retry_on_offset_overflow(self._recover_log)
            self._resize_active_indexes()
        return self._finish(offsets)

    # ------------------------------------------------------------------ pass 4: segments

    def _retry_on_offset_overflow(self, function: Callable[[], _T]) -> _T:
        while True:
            try:
                return function()
            except SegmentOffsetOverflowError as error:
                self._split(error.segment, str(error))

    def _split(self, segment: LogSegment, why: str) -> None:
        names = segment.names
        self.journal.add(segment.name, Action.SPLIT, why, bytes_read=segment.size)
        result = split_overflowed_segment(
            self._files, segment, self._segments, self._config, self._clock, self._scheduler
        )
        for name, renamed in zip(names, segment.names, strict=True):
            if name != renamed:
                self.journal.add(name, Action.DELETE, f"split: {why}", renamed_to=renamed)
        for new in result.new_segments:
            for name in new.names:
                self.journal.add(name, Action.WRITE, f"part of {names[0]}: {why}")
        self._delete_producer_snapshots(result.deleted_segments)
        if not self._segments.contains(segment.base_offset):
            segment.close_handlers()

    def _load_segment_files_afresh(self) -> None:
        self._segments.close()
        self._segments.clear()
        for name in self._files.names():
            if name.endswith(_INDEX_ENDINGS):
                log = segment_file_name(offset_of(self._files, name), FileKind.LOG)
                if not self._files.exists(str(log)):
                    self._files.delete_if_exists(name)
                    self.journal.add(name, Action.DELETE, "index without a .log file")
            elif name.endswith(FileKind.LOG.value):
                self._segments.add(self._load_segment(offset_of(self._files, name)))

    def _load_segment(self, base_offset: int) -> LogSegment:
        time_index = str(segment_file_name(base_offset, FileKind.TIME_INDEX))
        newly_created = not self._files.exists(time_index)
        segment = LogSegment.open(
            self._files, base_offset, self._config, self._clock, file_already_exists=True
        )
        try:
            self._check_segment(segment, time_index_newly_created=newly_created)
        except SegmentOffsetOverflowError:
            raise  # with the segment, to be split
        except BaseException:
            segment.close_handlers()
            raise
        return segment

    def _check_segment(self, segment: LogSegment, *, time_index_newly_created: bool) -> None:
        try:
            segment.sanity_check(time_index_newly_created=time_index_newly_created)
        except FileNotFoundError:
            self._recover_segment(segment, "the offset index is missing")
        except CorruptIndexError as error:
            self._recover_segment(segment, f"the transaction index is corrupt: {error}")
        else:
            if time_index_newly_created:
                name = str(segment_file_name(segment.base_offset, FileKind.TIME_INDEX))
                self.journal.add(name, Action.WRITE, "missing: created empty, not rebuilt")

    def _recover_segment(self, segment: LogSegment, why: str) -> int:
        """Check every batch, rebuild the indexes; the bytes that were cut."""
        size = segment.size
        producer_state_manager = ProducerStateManager(
            self._files,
            self._producer_state_manager.config,
            self._clock,
            topic_partition=self._producer_state_manager.topic_partition,
            snapshots=self._snapshots_as_listed_anew(),
        )
        rebuild_producer_state(
            producer_state_manager,
            self._segments,
            log_start_offset=self._log_start_offset_checkpoint,
            last_offset=segment.base_offset,
            clock=self._clock,
            reload_from_clean_shutdown=False,
            journal=self.journal,
        )
        try:
            truncated = self._tell_epochs(
                lambda: segment.recover(producer_state_manager, self._leader_epoch_cache),
                "epochs found in the log",
            )
        except SegmentOffsetOverflowError as error:
            self._tell_rebuilt(segment, str(error))
            raise
        take_snapshot(
            producer_state_manager,
            self.journal,
            f"producer state after {segment.name}, which was checked",
        )
        self.journal.add(segment.name, Action.READ, f"checked: {why}", bytes_read=size)
        self._tell_rebuilt(segment, why)
        if truncated:
            self._tell_cut(segment, size)
        return truncated

    def _snapshots_as_listed_anew(self) -> ProducerSnapshots:
        """What Kafka lists for each segment that it recovers: one listing serves many segments."""
        if self._snapshots is None or not self._snapshots.is_as_listed_anew:
            self._snapshots = ProducerSnapshots(self._files)
        return self._snapshots

    # ------------------------------------------------------------------ pass 5: recovery

    def _recover_log(self) -> _RecoveryOffsets:
        if not self._had_clean_shutdown:
            self._recover_unflushed_segments()
        log_end_offset = self._log_end_offset_unless_below_start()
        if self._segments.is_empty():
            self._add_first_segment(self._log_start_offset_checkpoint)
        # The recovery point is never advanced here but after a clean stop: what was checked may
        # still not be on disk, and another crash must check it again.
        if self._had_clean_shutdown and log_end_offset is not None:
            return _RecoveryOffsets(log_end_offset, log_end_offset)
        if log_end_offset is None:
            log_end_offset = self._last_segment().read_next_offset()
        return _RecoveryOffsets(
            min(self._recovery_point_checkpoint, log_end_offset), log_end_offset
        )

    def _recover_unflushed_segments(self) -> None:
        recovery_point = self._recovery_point_checkpoint
        unflushed = list(self._segments.values(recovery_point, _LONG_MAX))
        why = f"unclean shutdown, recovery point {recovery_point}"
        for place, segment in enumerate(unflushed):
            try:
                truncated = self._recover_segment(segment, why)
            except InvalidOffsetError as error:
                # Kafka does the same after any IOException. Not here: a disk that is full, or that
                # cannot be read for a moment, is no reason to empty a segment.
                truncated = segment.truncate_to(segment.base_offset)
                self.journal.add(segment.name, Action.EMPTY, str(error), position=0)
                self._tell_rebuilt(segment, str(error))
            if truncated > 0:
                self._remove_and_delete_segments(
                    unflushed[place + 1 :], f"follows the cut in {segment.name}"
                )
                return

    def _log_end_offset_unless_below_start(self) -> int | None:
        """None too if there is no segment; those of a log that ends before its start go."""
        if self._segments.is_empty():
            return None
        log_end_offset = self._last_segment().read_next_offset()
        start = self._log_start_offset_checkpoint
        if log_end_offset >= start:
            return log_end_offset
        why = f"the log ends at {log_end_offset}, before the checkpointed log start {start}"
        self._remove_and_delete_segments(list(self._segments.values()), why, delete_snapshots=False)
        self._leader_epoch_cache.clear_and_flush()
        self.journal.add(FileKind.LEADER_EPOCH_CHECKPOINT.value, Action.WRITE, why)
        with told_snapshots(self._producer_state_manager, self.journal, why):
            self._producer_state_manager.truncate_fully_and_start_at(start)
        self._snapshots = None
        return None

    def _remove_and_delete_segments(
        self, segments: list[LogSegment], why: str, *, delete_snapshots: bool = True
    ) -> None:
        if not segments:
            return
        for segment in segments:
            self._segments.remove(segment.base_offset)
            for name in self._names_of(segment):
                self.journal.add(name, Action.DELETE, why, renamed_to=name + _DELETED)
        delete_segment_files(segments, self._config, self._scheduler)
        if delete_snapshots:
            self._delete_producer_snapshots(segments, why)

    def _delete_producer_snapshots(
        self, segments: Iterable[LogSegment], why: str = "its segment was deleted"
    ) -> None:
        manager = self._producer_state_manager
        before = manager.snapshots
        delete_producer_snapshots(self._files, segments, manager, self._config, self._scheduler)
        self._snapshots = None
        after = set(manager.snapshots)
        for snapshot in before:
            if snapshot not in after:
                name = snapshot.name
                self.journal.add(name, Action.DELETE, why, renamed_to=name + _DELETED)

    def _settle_for_deletion(self) -> _RecoveryOffsets:
        """A directory that is to be deleted is not recovered; it only must have a segment."""
        if self._segments.is_empty():
            self._add_first_segment(0, preallocate=False)
        return _RecoveryOffsets(0, 0)

    def _add_first_segment(self, base_offset: int, *, preallocate: bool | None = None) -> None:
        segment = LogSegment.open(
            self._files,
            base_offset,
            self._config,
            self._clock,
            init_file_size=self._config.init_file_size,
            preallocate=self._config.preallocate if preallocate is None else preallocate,
        )
        self._segments.add(segment)
        self.journal.add(segment.name, Action.WRITE, "no segment is left: a new empty one")

    def _resize_active_indexes(self) -> None:
        segment = self._last_segment()
        segment.resize_indexes(self._config.segment_index_bytes)
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            name = str(segment_file_name(segment.base_offset, kind))
            self.journal.add(name, Action.RESIZE, "preallocated for the active segment")

    # ------------------------------------------------------------------ pass 6: state

    def _finish(self, offsets: _RecoveryOffsets) -> LoadedLogOffsets:
        checkpoint = self._log_start_offset_checkpoint
        cache, manager = self._leader_epoch_cache, self._producer_state_manager
        self._tell_epochs(
            lambda: cache.truncate_from_end_async_flush(offsets.next_offset),
            f"drops epochs that start at or after the log end {offsets.next_offset}",
        )
        first_base = self._first_segment().base_offset
        log_start_offset = max(checkpoint, first_base)
        # Not the new log start: the epoch of a segment that is gone stays until its checkpoint.
        self._tell_epochs(
            lambda: cache.truncate_from_start_async_flush(checkpoint),
            f"drops epochs that ended before the log start {checkpoint}",
        )
        if not manager.is_empty:
            raise LogLoadError(
                f"{self._files.directory}: found producers before any was loaded, expected none"
            )
        # The manager has looked before any file was deleted: some of its snapshots are gone.
        present = [each for each in manager.snapshots if self._files.exists(each.name)]
        with told_snapshots(manager, self.journal, "no segment starts at this offset", present):
            manager.remove_stray_snapshots(self._segments.base_offsets())
        rebuild_producer_state(
            manager,
            self._segments,
            log_start_offset=log_start_offset,
            last_offset=offsets.next_offset,
            clock=self._clock,
            reload_from_clean_shutdown=self._had_clean_shutdown,
            journal=self.journal,
        )
        active = self._last_segment()
        return LoadedLogOffsets(
            log_start_offset,
            offsets.new_recovery_point,
            offsets.next_offset,
            active.base_offset,
            active.size,
        )

    # ------------------------------------------------------------------ journal and small things

    def _tell_rebuilt(self, segment: LogSegment, why: str) -> None:
        for name in self._names_of(segment):
            if name != segment.name:
                self.journal.add(name, Action.REBUILD, why)

    def _tell_cut(self, segment: LogSegment, size: int) -> None:
        error = segment.recovery_error
        found = f"{segment.log.path}@{segment.size}: end of the valid batches"
        cut = size - segment.size
        self.journal.add(
            segment.name,
            Action.CUT,
            f"{error or found}; {cut} byte{'' if cut == 1 else 's'} cut off",
            position=segment.size,
        )

    def _tell_epochs(self, change: Callable[[], _T], why: str) -> _T:
        """Run a change, and tell if it made the file of the epochs another."""
        before = self._epoch_file()
        try:
            return change()
        finally:
            if self._epoch_file() != before:
                was = " ".join(before.decode(errors="replace").split()[2:]) or "none"
                name = FileKind.LEADER_EPOCH_CHECKPOINT.value
                self.journal.add(name, Action.WRITE, f"{why}; before: {was}")

    def _epoch_file(self) -> bytes:
        kind = FileKind.LEADER_EPOCH_CHECKPOINT
        return self._files.read(kind.value, limit=largest_size(kind))

    def _names_of(self, segment: LogSegment) -> list[str]:
        names = [str(segment_file_name(segment.base_offset, kind)) for kind in SEGMENT_KINDS]
        return [name for name in names if self._files.exists(name)]

    def _last_segment(self) -> LogSegment:
        return self._found(self._segments.last_segment())

    def _first_segment(self) -> LogSegment:
        return self._found(self._segments.first_segment())

    def _found(self, segment: LogSegment | None) -> LogSegment:
        if segment is None:
            raise LogLoadError(f"{self._files.directory}: found no segment, expected one at least")
        return segment
