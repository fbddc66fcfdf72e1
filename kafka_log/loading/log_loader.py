"""Load the segments of a partition as a starting broker does, in six passes.

    1  delete .deleted files; a .cleaned file invalidates every .swap from its offset on; both are
       deleted
    2  delete the live files that the remaining .swap segments replace
    3  rename the .swap files to live ones
    4  delete indexes without a log; rebuild the indexes of segments without a usable one
    5  after an unclean shutdown: read and check every segment from the recovery point on, truncate
       the log at the first invalid batch, and delete the segments after it
    6  trim the leader epochs to the log, delete stray snapshots, restore the producer state

Mirrors org.apache.kafka.storage.internals.log.LogLoader (4.3.1). Every decision is added to the
journal.
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
from kafka_log.loading.rebuild_state import (
    journaled_snapshots,
    rebuild_producer_state,
    take_snapshot,
)
from kafka_log.log.fetch_data import LogOffsetMetadata
from kafka_log.names import DirectoryKind, FileKind, FileState, segment_file_name
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.producers.snapshots import ProducerSnapshots
from kafka_log.segment.log_segment import LogSegment
from kafka_log.segment.log_segments import LogSegments
from kafka_log.segment.segment_files import (
    delete_producer_snapshots,
    delete_segment_files,
    split_overflowed_segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_log.checkpoints import LastRun
    from kafka_log.clock import Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.log.leader_epochs import LeaderEpochFileCache

_T = TypeVar("_T")
_LONG_MAX = 2**63 - 1
_DELETED = FileState.DELETED.value
_INDEX_ENDINGS = tuple(kind.value for kind in SEGMENT_INDEX_KINDS)


class LoadedLogOffsets(NamedTuple):
    """Where a loaded log begins and ends."""

    log_start_offset: int
    recovery_point: int
    next_offset_metadata: LogOffsetMetadata


class _RecoveryOffsets(NamedTuple):
    new_recovery_point: int
    next_offset: int


class LogLoader:
    """Loads one partition directory into `segments`, the epoch cache and the producer state."""

    def __init__(
        self,
        files: Files,
        config: LogConfig,
        scheduler: Scheduler,
        last_run: LastRun,
        *,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        journal: Journal | None = None,
    ) -> None:
        self.segments = LogSegments()
        self._files = files
        self._config = config
        self._clock = scheduler.clock
        self._scheduler = scheduler
        self._last_run = last_run
        self._leader_epoch_cache = leader_epoch_cache
        self._producer_state_manager = producer_state_manager
        self._snapshots: ProducerSnapshots | None = None
        """The snapshots that segment recoveries share; None after a change by the loader itself."""
        self.journal = Journal() if journal is None else journal

    def load(self) -> LoadedLogOffsets:
        """Load the directory. Raises LogLoadError if Kafka cannot load it, or OSError.

        OverLimitError does not mean that Kafka fails: it would decode the batch that our limits
        refuse.
        """
        try:
            return self._load()
        except (LogLoadError, OverLimitError, OSError):
            self.segments.close_handlers()
            raise
        except (LogError, ValueError) as error:  # a FormatError is a ValueError too
            self.segments.close_handlers()
            raise LogLoadError(f"{self._files.directory}: Kafka cannot load it: {error}") from error

    def _load(self) -> LoadedLogOffsets:
        settle_left_overs(self._files, self._config, self._clock, self.journal)
        self._retry_on_offset_overflow(self._load_segment_files)
        if self._files.directory.endswith(DirectoryKind.DELETE.value):
            offsets = self._prepare_for_deletion()
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
            self._files, segment, self.segments, self._config, self._clock, self._scheduler
        )
        for name, renamed in zip(names, segment.names, strict=True):
            if name != renamed:
                self.journal.add(name, Action.DELETE, f"split: {why}", renamed_to=renamed)
        for new in result.new_segments:
            for name in new.names:
                self.journal.add(name, Action.WRITE, f"part of {names[0]}: {why}")
        self._delete_producer_snapshots(result.deleted_segments)
        if not self.segments.contains(segment.base_offset):
            segment.close_handlers()

    def _load_segment_files(self) -> None:
        self.segments.close()
        self.segments.clear()
        for name in self._files.names():
            if name.endswith(_INDEX_ENDINGS):
                log = segment_file_name(offset_of(self._files, name), FileKind.LOG)
                if not self._files.exists(str(log)):
                    self._files.delete_if_exists(name)
                    self.journal.add(name, Action.DELETE, "index without a .log file")
            elif name.endswith(FileKind.LOG.value):
                self.segments.add(self._load_segment(offset_of(self._files, name)))

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
        """Check every batch and rebuild the indexes; return how many bytes were cut off."""
        size = segment.size
        producer_state_manager = ProducerStateManager(
            self._files,
            self._producer_state_manager.config,
            self._clock,
            topic_partition=self._producer_state_manager.topic_partition,
            snapshots=self._snapshots_on_disk(),
        )
        rebuild_producer_state(
            producer_state_manager,
            self.segments,
            log_start_offset=self._last_run.log_start_offset,
            last_offset=segment.base_offset,
            clock=self._clock,
            reload_from_clean_shutdown=False,
            journal=self.journal,
        )
        try:
            truncated = self._journal_epochs(
                lambda: segment.recover(producer_state_manager, self._leader_epoch_cache),
                "epochs found in the log",
            )
        except SegmentOffsetOverflowError as error:
            self._journal_rebuilt(segment, str(error))
            raise
        take_snapshot(
            producer_state_manager,
            self.journal,
            f"producer state after {segment.name}, which was checked",
        )
        self.journal.add(segment.name, Action.READ, f"checked: {why}", bytes_read=size)
        self._journal_rebuilt(segment, why)
        if truncated:
            self._journal_cut(segment, size)
        return truncated

    def _snapshots_on_disk(self) -> ProducerSnapshots:
        """Return the snapshots in the directory. Kafka lists them again for every segment."""
        if self._snapshots is None or not self._snapshots.is_current:
            self._snapshots = ProducerSnapshots(self._files)
        return self._snapshots

    # ------------------------------------------------------------------ pass 5: recovery

    def _recover_log(self) -> _RecoveryOffsets:
        if not self._last_run.clean_shutdown:
            self._recover_unflushed_segments()
        log_end_offset = self._log_end_offset_unless_below_start()
        if self.segments.is_empty():
            self._add_first_segment(self._last_run.log_start_offset)
        # Only a clean shutdown advances the recovery point here: what was checked may still not be
        # on disk, and must be checked again after another crash.
        if self._last_run.clean_shutdown and log_end_offset is not None:
            return _RecoveryOffsets(log_end_offset, log_end_offset)
        if log_end_offset is None:
            log_end_offset = self._last_segment().read_next_offset()
        return _RecoveryOffsets(min(self._last_run.recovery_point, log_end_offset), log_end_offset)

    def _recover_unflushed_segments(self) -> None:
        recovery_point = self._last_run.recovery_point
        unflushed = list(self.segments.values(recovery_point, _LONG_MAX))
        why = f"unclean shutdown, recovery point {recovery_point}"
        for place, segment in enumerate(unflushed):
            try:
                truncated = self._recover_segment(segment, why)
            except InvalidOffsetError as error:
                # Kafka does the same after any IOException. We do not: a full disk or a transient
                # read error is no reason to empty a segment.
                truncated = segment.truncate_to(segment.base_offset)
                self.journal.add(segment.name, Action.EMPTY, str(error), position=0)
                self._journal_rebuilt(segment, str(error))
            if truncated > 0:
                self._remove_and_delete_segments(
                    unflushed[place + 1 :], f"follows the cut in {segment.name}"
                )
                return

    def _log_end_offset_unless_below_start(self) -> int | None:
        """Return the log end, or None without segments.

        The segments of a log that ends before its start are deleted.
        """
        if self.segments.is_empty():
            return None
        log_end_offset = self._last_segment().read_next_offset()
        start = self._last_run.log_start_offset
        if log_end_offset >= start:
            return log_end_offset
        why = f"the log ends at {log_end_offset}, before the checkpointed log start {start}"
        self._remove_and_delete_segments(list(self.segments.values()), why, delete_snapshots=False)
        self._leader_epoch_cache.clear_and_flush()
        self.journal.add(FileKind.LEADER_EPOCH_CHECKPOINT.value, Action.WRITE, why)
        with journaled_snapshots(self._producer_state_manager, self.journal, why):
            self._producer_state_manager.truncate_fully_and_start_at(start)
        self._snapshots = None
        return None

    def _remove_and_delete_segments(
        self, segments: list[LogSegment], why: str, *, delete_snapshots: bool = True
    ) -> None:
        if not segments:
            return
        for segment in segments:
            self.segments.remove(segment.base_offset)
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

    def _prepare_for_deletion(self) -> _RecoveryOffsets:
        """Give a directory that will be deleted a segment. It is not recovered."""
        if self.segments.is_empty():
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
        self.segments.add(segment)
        self.journal.add(segment.name, Action.WRITE, "no segment is left: a new empty one")

    def _resize_active_indexes(self) -> None:
        segment = self._last_segment()
        segment.resize_indexes(self._config.segment_index_bytes)
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            name = str(segment_file_name(segment.base_offset, kind))
            self.journal.add(name, Action.RESIZE, "preallocated for the active segment")

    # ------------------------------------------------------------------ pass 6: state

    def _finish(self, offsets: _RecoveryOffsets) -> LoadedLogOffsets:
        checkpoint = self._last_run.log_start_offset
        cache, manager = self._leader_epoch_cache, self._producer_state_manager
        self._journal_epochs(
            lambda: cache.truncate_from_end_async_flush(offsets.next_offset),
            f"drops epochs that start at or after the log end {offsets.next_offset}",
        )
        first_base = self._first_segment().base_offset
        log_start_offset = max(checkpoint, first_base)
        # Not to the new log start: epochs of segments that are gone stay until the checkpoint
        # passes them.
        self._journal_epochs(
            lambda: cache.truncate_from_start_async_flush(checkpoint),
            f"drops epochs that ended before the log start {checkpoint}",
        )
        if not manager.is_empty:
            raise LogLoadError(
                f"{self._files.directory}: found producers before any was loaded, expected none"
            )
        # The manager listed its snapshots before files were deleted: some no longer exist.
        present = [each for each in manager.snapshots if self._files.exists(each.name)]
        with journaled_snapshots(
            manager, self.journal, "no segment starts at this offset", present
        ):
            manager.remove_stray_snapshots(self.segments.base_offsets())
        rebuild_producer_state(
            manager,
            self.segments,
            log_start_offset=log_start_offset,
            last_offset=offsets.next_offset,
            clock=self._clock,
            reload_from_clean_shutdown=self._last_run.clean_shutdown,
            journal=self.journal,
        )
        active = self._last_segment()
        return LoadedLogOffsets(
            log_start_offset,
            offsets.new_recovery_point,
            LogOffsetMetadata(offsets.next_offset, active.base_offset, active.size),
        )

    # ------------------------------------------------------------------ journal and helpers

    def _journal_rebuilt(self, segment: LogSegment, why: str) -> None:
        for name in self._names_of(segment):
            if name != segment.name:
                self.journal.add(name, Action.REBUILD, why)

    def _journal_cut(self, segment: LogSegment, size: int) -> None:
        error = segment.recovery_error
        found = f"{segment.log.path}@{segment.size}: end of the valid batches"
        cut = size - segment.size
        self.journal.add(
            segment.name,
            Action.CUT,
            f"{error or found}; {cut} byte{'' if cut == 1 else 's'} cut off",
            position=segment.size,
        )

    def _journal_epochs(self, change: Callable[[], _T], why: str) -> _T:
        """Run a change, and add a journal entry if the epoch file is different afterwards."""
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
        return self._found(self.segments.last_segment())

    def _first_segment(self) -> LogSegment:
        return self._found(self.segments.first_segment())

    def _found(self, segment: LogSegment | None) -> LogSegment:
        if segment is None:
            raise LogLoadError(f"{self._files.directory}: found no segment, expected one at least")
        return segment
