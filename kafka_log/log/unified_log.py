"""One partition's log: append, read, truncate, delete.

    log start offset     the first offset that can be read
    last stable offset   the first one that a read_committed consumer cannot read yet: where the
                         first open transaction starts (first unstable offset), or the high
                         watermark
    high watermark       everything below it is replicated
    log end offset       the offset of the next record

    log = PartitionLog.open(DiskFiles(directory), LogConfig(), Scheduler(system_clock))
    log.append_as_leader(batch, leader_epoch=0)
    log.close()

Mirrors org.apache.kafka.storage.internals.log.UnifiedLog (4.3.1) without tiered storage, which is
refused. Segments, rolling and reading are in local_log.py, appends in log_append.py, truncation and
deletion in log_removal.py, the offsets above in log_offsets.py, lookup by time in offset_lookup.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

from kafka_format.errors import FormatError
from kafka_log.appends.origin import AppendOptions, AppendOrigin
from kafka_log.checkpoints import NEW_LOG
from kafka_log.errors import LogLoadError, OffsetOutOfRangeError
from kafka_log.loading.log_loader import LogLoader
from kafka_log.log import log_removal
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from kafka_log.log.local_log import LocalLog
from kafka_log.log.log_append import TransactionCheck, append_records
from kafka_log.log.log_offsets import LogOffsets
from kafka_log.log.offset_lookup import fetch_offset_by_timestamp
from kafka_log.log.topic_id import TopicIdFile
from kafka_log.producers.append import TV_UNKNOWN
from kafka_log.producers.producer_state import SENTINEL, ProducerStateManager, VerificationGuard
from kafka_log.retention.breaches import ensure_local

if TYPE_CHECKING:
    import random
    import uuid
    from collections.abc import Sequence

    from kafka_format.primitives import Buffer
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.appends.info import LogAppendInfo
    from kafka_log.checkpoints import LastRun
    from kafka_log.clock import Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.loading.journal import Journal
    from kafka_log.log.fetch_data import FetchDataInfo, LogOffsetMetadata
    from kafka_log.log.leader_epochs import EpochEndOffset
    from kafka_log.log.log_removal import OnDelete, OnVerdict
    from kafka_log.segment.file_records import TimestampAndOffset
    from kafka_log.segment.log_segment import LogSegment
    from kafka_log.segment.log_segments import LogSegments

_CURRENT_MAGIC = 2
_NO_OFFSET = -1


class FetchIsolation(Enum):
    """How far a read may go, which depends on the reader."""

    LOG_END = "log end"  # a replica
    HIGH_WATERMARK = "high watermark"  # a consumer
    TXN_COMMITTED = "committed"  # a consumer with isolation.level=read_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The offsets and the size of a log."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    first_unstable_offset: int | None
    recovery_point: int
    size_in_bytes: int
    topic_id: uuid.UUID | None


class PartitionLog:
    """The open log of one partition directory. Not thread-safe."""

    def __init__(
        self,
        local_log: LocalLog,
        *,
        log_start_offset: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        scheduler: Scheduler,
        topic_id_file: TopicIdFile,
    ) -> None:
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.offsets = LogOffsets(
            local_log, producer_state_manager, log_start_offset=log_start_offset
        )
        self.scheduler = scheduler
        self.clock = scheduler.clock
        self._topic_id_file = topic_id_file

    @classmethod
    def open(
        cls,
        files: Files,
        config: LogConfig,
        scheduler: Scheduler,
        last_run: LastRun = NEW_LOG,
        *,
        topic_id: uuid.UUID | None = None,
        rng: random.Random | None = None,
        journal: Journal | None = None,
    ) -> Self:
        """Load a directory as a starting broker does, which may write to it and cut off damage.

        `rng` draws the jitter of rolls; `journal` records what the load does. Raises LogLoadError
        if Kafka cannot load the directory.
        """
        ensure_local(config)
        try:
            epochs = LeaderEpochFileCache(files, scheduler)
            name = os.path.basename(files.directory)  # noqa: PTH119  # it need not be a path
            producers = ProducerStateManager(files, config, scheduler.clock, topic_partition=name)
            loader = LogLoader(
                files,
                config,
                scheduler,
                last_run,
                leader_epoch_cache=epochs,
                producer_state_manager=producers,
                journal=journal,
            )
            try:
                loaded = loader.load()
                topic_id_file = TopicIdFile(files, scheduler)
                topic_id_file.initialize(topic_id)
                return cls(
                    LocalLog(
                        files,
                        config,
                        loader.segments,
                        recovery_point=loaded.recovery_point,
                        next_offset=loaded.next_offset_metadata,
                        scheduler=scheduler,
                        rng=rng,
                    ),
                    log_start_offset=loaded.log_start_offset,
                    leader_epoch_cache=epochs,
                    producer_state_manager=producers,
                    scheduler=scheduler,
                    topic_id_file=topic_id_file,
                )
            except BaseException:
                loader.segments.close_handlers()
                raise
        except FormatError as error:
            raise LogLoadError(f"{files.directory}: Kafka cannot load it: {error}") from error

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.files.directory}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}, high watermark {self.high_watermark})"
        )

    # ----------------------------------------------------------------------------------- state

    @property
    def files(self) -> Files:
        return self.local_log.files

    @property
    def config(self) -> LogConfig:
        return self.local_log.config

    @property
    def segments(self) -> LogSegments:
        return self.local_log.segments

    @property
    def log_segments(self) -> list[LogSegment]:
        return self.segments.values()

    @property
    def active_segment(self) -> LogSegment:
        return self.segments.active_segment()

    @property
    def size(self) -> int:
        """Return the size of the `.log` files in bytes."""
        return self.segments.size_in_bytes()

    @property
    def log_end_offset(self) -> int:
        return self.local_log.log_end_offset

    @property
    def recovery_point(self) -> int:
        return self.local_log.recovery_point

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self.offsets.high_watermark

    @property
    def first_unstable_offset(self) -> int | None:
        return self.offsets.first_unstable_offset

    @property
    def last_stable_offset(self) -> int:
        return self.offsets.last_stable_offset

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self._topic_id_file.topic_id

    @property
    def latest_epoch(self) -> int | None:
        return self.leader_epoch_cache.latest_epoch

    @property
    def state(self) -> LogState:
        return LogState(
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            first_unstable_offset=self.first_unstable_offset,
            recovery_point=self.recovery_point,
            size_in_bytes=self.size,
            topic_id=self.topic_id,
        )

    def update_config(self, config: LogConfig) -> None:
        """Replace the settings, including those of the producers."""
        ensure_local(config)
        self.local_log.config = config
        self.producer_state_manager.config = config

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        self._topic_id_file.assign(topic_id)

    # --------------------------------------------------------------------------------- appends

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: VerificationGuard = SENTINEL,
        transaction_version: int = TV_UNKNOWN,
        record_version: int = _CURRENT_MAGIC,
    ) -> LogAppendInfo:
        """Check the records of a client or coordinator, assign offsets and the epoch, append them.

        A batch that its producer has sent before is not written again: the result has the offsets
        it got then. `record_version` is the magic that the log is kept in.
        """
        options = AppendOptions(
            origin,
            leader_epoch,
            assigns_offsets=origin is not AppendOrigin.RAFT_LEADER,
            magic=record_version,
        )
        check = TransactionCheck(verification_guard, transaction_version)
        return append_records(self, records, options, check)

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> LogAppendInfo:
        """Append the leader's batches unchanged, up to the first one of a newer epoch."""
        options = AppendOptions(
            AppendOrigin.REPLICATION, leader_epoch, assigns_offsets=False, ignores_record_size=True
        )
        return append_records(self, records, options)

    def maybe_flush_metadata_file(self) -> None:
        self._topic_id_file.maybe_flush()

    def after_append(self, *, last_offset: int) -> None:
        """Update the first unstable offset after the producers, and flush if it is time."""
        self.producer_state_manager.update_map_end_offset(last_offset + 1)
        self.offsets.maybe_increment_first_unstable_offset()
        if self.local_log.unflushed_messages >= self.config.flush_messages:
            self.flush(force_flush_active_segment=False)

    def maybe_start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """Return the guard that a transaction's first append must present; SENTINEL if none."""
        return self.producer_state_manager.maybe_start_transaction_verification(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
        )

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """Record the offset at which a new leader's epoch starts."""
        self.leader_epoch_cache.assign(leader_epoch, start_offset)

    def remove_expired_producers(self, now_ms: int) -> None:
        self.producer_state_manager.remove_expired_producers(now_ms)

    def has_late_transaction(self, now_ms: int) -> bool:
        return self.producer_state_manager.has_late_transaction(now_ms)

    # ----------------------------------------------------------------------- offsets that move

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set the high watermark, clamped to the log; return it. It may move back."""
        return self.offsets.update_high_watermark(high_watermark)

    def maybe_update_high_watermark(self, high_watermark: int) -> int | None:
        """Set the high watermark like `update_high_watermark`; return None if it did not move."""
        before = self.high_watermark
        after = self.offsets.update_high_watermark(high_watermark)
        return None if after == before else after

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Advance the high watermark as a leader does; return the old one if it moved."""
        return self.offsets.maybe_increment_high_watermark(new)

    def maybe_increment_log_start_offset(self, new_log_start_offset: int) -> bool:
        """Raise the log start (DeleteRecords, retention); return whether it moved.

        The segments below it stay until `delete_old_segments`.
        """
        if new_log_start_offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.files.directory}: log start {new_log_start_offset}, expected at most the"
                f" high watermark {self.high_watermark}"
            )
        self.local_log.ensure_open()
        if new_log_start_offset <= self.log_start_offset:
            return False
        self.offsets.raise_log_start_offset(new_log_start_offset)
        self.leader_epoch_cache.truncate_from_start_async_flush(new_log_start_offset)
        self.producer_state_manager.on_log_start_offset_incremented(new_log_start_offset)
        self.offsets.maybe_increment_first_unstable_offset()
        return True

    # ----------------------------------------------------------------------------------- reads

    def read(
        self,
        start_offset: int,
        max_length: int,
        *,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        min_one_message: bool = True,
    ) -> FetchDataInfo:
        """Read at most `max_length` bytes of one segment, from the batch of `start_offset` on.

        With `min_one_message` that batch is always included. TXN_COMMITTED reads up to the last
        stable offset, and returns the aborted transactions whose records a consumer must drop.
        """
        if start_offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                f"{self.files.directory}: offset {start_offset}, expected the log start"
                f" {self.log_start_offset} or more"
            )
        if isolation is FetchIsolation.LOG_END:
            max_offset = self.local_log.log_end_offset_metadata
        elif isolation is FetchIsolation.HIGH_WATERMARK:
            max_offset = self.offsets.fetch_high_watermark()
        else:
            max_offset = self.offsets.fetch_last_stable_offset()
        return self.local_log.read(
            start_offset,
            max_length,
            max_offset=max_offset,
            min_one_message=min_one_message,
            include_aborted=isolation is FetchIsolation.TXN_COMMITTED,
        )

    def collect_aborted_transactions(
        self, start_offset: int, upper_bound_offset: int
    ) -> list[AbortedTransaction]:
        return self.local_log.collect_aborted_transactions(
            self.log_start_offset, start_offset, upper_bound_offset
        )

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Find the first record at or after a time. For negative times see offset_lookup.py."""
        return fetch_offset_by_timestamp(self, timestamp)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        """Return the end offset of a leader's epoch, which a follower truncates its log to."""
        found = self.leader_epoch_cache.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found.end_offset == _NO_OFFSET else found

    # ----------------------------------------------------------------------- roll, flush, close

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Start a new active segment, and flush the log before it and a producer snapshot."""
        segment = self.local_log.roll(expected_next_offset)
        self.producer_state_manager.update_map_end_offset(segment.base_offset)
        snapshot = self.producer_state_manager.take_snapshot(sync=False)
        self.offsets.update_high_watermark_with_log_end_offset()

        def flush() -> None:
            if snapshot is not None:
                self._flush_producer_state_snapshot(snapshot)
            self.flush_up_to_offset_exclusive(segment.base_offset)

        self.scheduler.schedule("flush-log", flush)
        return segment

    def flush(self, *, force_flush_active_segment: bool = True) -> None:
        self._flush(self.log_end_offset, is_inclusive=force_flush_active_segment)

    def flush_up_to_offset_exclusive(self, offset: int) -> None:
        self._flush(offset, is_inclusive=False)

    def _flush(self, offset: int, *, is_inclusive: bool) -> None:
        # An empty active segment begins at the log end: only an inclusive flush covers it.
        flush_offset = offset + 1 if is_inclusive else offset
        if flush_offset > self.recovery_point:
            self.local_log.flush(flush_offset)
            self.local_log.mark_flushed(offset)

    def _flush_producer_state_snapshot(self, name: str) -> None:
        if self.files.exists(name):
            file = self.files.open(name)
            try:
                file.sync()
            finally:
                file.close()

    def take_producer_snapshot(self) -> None:
        self.local_log.ensure_open()
        self.producer_state_manager.take_snapshot()

    def close(self) -> None:
        """Write a producer snapshot, trim the indexes and close the files.

        This does not flush. A broker flushes first; after the close it writes the checkpoints and
        `.kafka_cleanshutdown`, and the next load then trusts the files.
        """
        self.maybe_flush_metadata_file()
        self.local_log.ensure_open()
        self.producer_state_manager.take_snapshot()
        self.local_log.close()

    def close_handlers(self) -> None:
        """Close the files as they are, as a crash does."""
        self.local_log.close_handlers()

    # --------------------------------------------------------------------- truncate and delete

    def truncate_to(self, target_offset: int) -> bool:
        """Remove everything from an offset on, as a follower does; return whether anything was.

        A batch that contains the offset is removed completely, so the log then ends with a gap.
        """
        return log_removal.truncate_to(self, target_offset)

    def truncate_fully_and_start_at(
        self, new_offset: int, log_start_offset: int | None = None
    ) -> None:
        """Remove all records; the next one gets `new_offset`."""
        log_removal.truncate_fully_and_start_at(self, new_offset, log_start_offset=log_start_offset)

    def delete_old_segments(
        self, on_delete: OnDelete | None = None, on_verdict: OnVerdict | None = None
    ) -> int:
        """Delete the segments that retention gives up, and return how many.

        They are renamed now and unlinked later.
        """
        return log_removal.delete_old_segments(self, on_delete, on_verdict)

    def replace_segments(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        """Replace the segments that a cleaner read by those it wrote (`.cleaned`)."""
        log_removal.replace_segments(self, new, old)

    def delete(self) -> None:
        """Delete all segments and producer snapshots; the caller deletes the directory."""
        log_removal.delete_log(self)
