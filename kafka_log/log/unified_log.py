"""One partition's log: what a broker appends to, reads from, cuts, and forgets.

    log start offset     the first offset that anybody may read
    last stable offset   the first one that a read_committed consumer may not read yet: of the first
                         open transaction (first unstable offset), or the high watermark
    high watermark       below it everything is replicated
    log end offset       the next record's

    log = PartitionLog.open(DiskFiles(directory), LogConfig(), clock, scheduler)
    log.append_as_leader(batch, leader_epoch=0)
    log.close()

Mirrors org.apache.kafka.storage.internals.log.UnifiedLog (4.3.1) without tiered storage, which is
refused. Segments, rolling and reading are in local_log.py, an append in log_append.py, cutting and
deleting in log_removal.py, the offsets above in log_offsets.py, those by time in offset_lookup.py.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

from kafka_format.errors import FormatError
from kafka_log.appends.origin import AppendOrigin
from kafka_log.errors import LogLoadError, OffsetOutOfRangeError
from kafka_log.loading.log_loader import LogLoader
from kafka_log.log import log_removal
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from kafka_log.log.local_log import LocalLog
from kafka_log.log.log_append import Append, append_records
from kafka_log.log.log_offsets import LogOffsets
from kafka_log.log.offset_lookup import fetch_offset_by_timestamp
from kafka_log.log.topic_id import TopicIdFile
from kafka_log.producers.append import TV_UNKNOWN
from kafka_log.producers.producer_state import SENTINEL, ProducerStateManager, VerificationGuard
from kafka_log.retention.breaches import ensure_local
from kafka_log.segment.log_segments import LogSegments

if TYPE_CHECKING:
    import random
    import uuid
    from collections.abc import Sequence

    from kafka_format.primitives import Buffer
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.appends.info import LogAppendInfo
    from kafka_log.clock import Clock, Scheduler
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.loading.journal import Journal
    from kafka_log.log.fetch_data import FetchDataInfo, LogOffsetMetadata
    from kafka_log.log.leader_epochs import EpochEndOffset
    from kafka_log.log.log_removal import OnDelete, OnVerdict
    from kafka_log.segment.file_records import TimestampAndOffset
    from kafka_log.segment.log_segment import LogSegment

_CURRENT_MAGIC = 2
_NO_OFFSET = -1


class FetchIsolation(Enum):
    """How far a read may go, and so who reads."""

    LOG_END = "log end"  # a replica
    HIGH_WATERMARK = "high watermark"  # a consumer
    TXN_COMMITTED = "committed"  # a consumer with isolation.level=read_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """Where a log stands."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    first_unstable_offset: int | None
    recovery_point: int
    size_in_bytes: int
    topic_id: uuid.UUID | None


class PartitionLog:
    """The log of one partition directory, open. One caller at a time."""

    def __init__(
        self,
        local_log: LocalLog,
        *,
        log_start_offset: int,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        scheduler: Scheduler,
        clock: Clock,
        topic_id_file: TopicIdFile,
    ) -> None:
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state_manager = producer_state_manager
        self.offsets = LogOffsets(
            local_log, producer_state_manager, log_start_offset=log_start_offset
        )
        self.scheduler = scheduler
        self.clock = clock
        self._topic_id_file = topic_id_file

    @classmethod
    def open(
        cls,
        files: Files,
        config: LogConfig,
        clock: Clock,
        scheduler: Scheduler,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean_shutdown: bool = True,
        topic_id: uuid.UUID | None = None,
        rng: random.Random | None = None,
        journal: Journal | None = None,
    ) -> Self:
        """Load a directory as a starting broker does: that may write to it, and cut damage off.

        The offsets are those of the log dir's checkpoints; `clean_shutdown` says whether its marker
        was there; `rng` draws the jitter of rolls. Raises LogLoadError where Kafka gives it up.
        """
        ensure_local(config)
        segments = LogSegments()
        try:
            epochs = LeaderEpochFileCache(files, scheduler)
            name = os.path.basename(files.directory)  # noqa: PTH119  # it need not be a path
            producers = ProducerStateManager(files, config, clock, topic_partition=name)
            loaded = LogLoader(
                files,
                config,
                clock,
                scheduler,
                had_clean_shutdown=clean_shutdown,
                segments=segments,
                log_start_offset_checkpoint=log_start_offset,
                recovery_point_checkpoint=recovery_point,
                leader_epoch_cache=epochs,
                producer_state_manager=producers,
                journal=journal,
            ).load()
            topic_id_file = TopicIdFile(files, scheduler)
            topic_id_file.initialize(topic_id)
            return cls(
                LocalLog.of(
                    files, config, segments, loaded, scheduler=scheduler, clock=clock, rng=rng
                ),
                log_start_offset=loaded.log_start_offset,
                leader_epoch_cache=epochs,
                producer_state_manager=producers,
                scheduler=scheduler,
                clock=clock,
                topic_id_file=topic_id_file,
            )
        except BaseException as error:
            segments.close_handlers()
            if isinstance(error, FormatError):
                raise LogLoadError(f"{files.directory}: Kafka cannot load it: {error}") from error
            raise

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.files.directory}, offsets {self.log_start_offset} to"
            f" {self.log_end_offset}, high watermark {self.high_watermark})"
        )

    # --------------------------------------------------------------------------- what there is

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
        """Bytes of the `.log` files."""
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
        """Other settings from now on, those of producers too."""
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
        """Records of a client or coordinator: checked, and given offsets and this leader's epoch.

        A batch that its producer sent before is not written again: the answer has the offsets that
        it got then. `record_version` is the magic that the log is kept in.
        """
        append = Append(
            origin=origin,
            leader_epoch=leader_epoch,
            assigns_offsets=origin is not AppendOrigin.RAFT_LEADER,
            ignores_record_size=False,
            magic=record_version,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        return append_records(self, records, append)

    def append_as_follower(self, records: Buffer, leader_epoch: int) -> LogAppendInfo:
        """Batches of the leader of this epoch, as they are; those of a newer one are left out."""
        append = Append(
            origin=AppendOrigin.REPLICATION,
            leader_epoch=leader_epoch,
            assigns_offsets=False,
            ignores_record_size=True,
            magic=_CURRENT_MAGIC,
            verification_guard=SENTINEL,
            transaction_version=TV_UNKNOWN,
        )
        return append_records(self, records, append)

    def maybe_flush_metadata_file(self) -> None:
        self._topic_id_file.maybe_flush()

    def after_append(self, *, last_offset: int) -> None:
        """Producers know of the append: so may readers of committed records, and the disk."""
        self.producer_state_manager.update_map_end_offset(last_offset + 1)
        self.offsets.maybe_increment_first_unstable_offset()
        if self.local_log.unflushed_messages >= self.config.flush_messages:
            self.flush(force_flush_active_segment=False)

    def maybe_start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """What the first append of a transaction must show; SENTINEL if it need not."""
        return self.producer_state_manager.maybe_start_transaction_verification(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
        )

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """A new leader begins here."""
        self.leader_epoch_cache.assign(leader_epoch, start_offset)

    def remove_expired_producers(self, now_ms: int) -> None:
        self.producer_state_manager.remove_expired_producers(now_ms)

    def has_late_transaction(self, now_ms: int) -> bool:
        return self.producer_state_manager.has_late_transaction(now_ms)

    # ----------------------------------------------------------------------- offsets that move

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> int:
        """Set it, kept between log start and log end; where it then is. It may go back."""
        return self.offsets.update_high_watermark(high_watermark)

    def maybe_update_high_watermark(self, high_watermark: int) -> int | None:
        """The same; None if it stays where it was."""
        before = self.high_watermark
        after = self.offsets.update_high_watermark(high_watermark)
        return None if after == before else after

    def maybe_increment_high_watermark(self, new: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Forward only, as a leader moves it; what it was before, if it moved."""
        return self.offsets.maybe_increment_high_watermark(new)

    def maybe_increment_log_start_offset(self, new_log_start_offset: int) -> bool:
        """Give records up (DeleteRecords, retention); whether that gave up any more.

        Segments stay until `delete_old_segments`.
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
        """At most `max_length` bytes from the batch of `start_offset` on, of one segment.

        With `min_one_message` never less than that batch. TXN_COMMITTED: up to the last stable
        offset, and with the aborted transactions whose records a consumer must drop.
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
        """The first record of a time or later; negative ones have names (offset_lookup.py)."""
        return fetch_offset_by_timestamp(self, timestamp)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        """Where the log of a leader ended: a follower cuts its own there."""
        found = self.leader_epoch_cache.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found.end_offset == _NO_OFFSET else found

    # ----------------------------------------------------------------------- roll, flush, close

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """A new active segment; what lies before it is flushed, producers included."""
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
        # An active segment that is empty begins at the log end: inclusive means that one too.
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
        """With a snapshot of the producers and trimmed indexes; the next load trusts all of it.

        That is not a flush: a broker flushes first, and then writes checkpoints and its marker.
        """
        self.maybe_flush_metadata_file()
        self.local_log.ensure_open()
        self.producer_state_manager.take_snapshot()
        self.local_log.close()

    def close_handlers(self) -> None:
        """Let go of the files as they are, as a crash does."""
        self.local_log.close_handlers()

    # --------------------------------------------------------------------- truncate and delete

    def truncate_to(self, target_offset: int) -> bool:
        """Cut everything from an offset on, as a follower does; whether there was anything.

        A batch with that offset inside goes whole, and the log then ends with a gap.
        """
        return log_removal.truncate_to(self, target_offset)

    def truncate_fully_and_start_at(
        self, new_offset: int, log_start_offset: int | None = None
    ) -> None:
        """Nothing is left; the next record gets `new_offset`."""
        log_removal.truncate_fully_and_start_at(self, new_offset, log_start_offset=log_start_offset)

    def delete_old_segments(
        self, on_delete: OnDelete | None = None, on_verdict: OnVerdict | None = None
    ) -> int:
        """Delete what retention lets go (renamed now, unlinked later); return how many segments."""
        return log_removal.delete_old_segments(self, on_delete, on_verdict)

    def replace_segments(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        """What a cleaner wrote (`.cleaned`) in the place of what it read."""
        log_removal.replace_segments(self, new, old)

    def delete(self) -> None:
        """All files of all segments and their snapshots; the directory is its caller's."""
        log_removal.delete_log(self)
