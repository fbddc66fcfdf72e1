"""One partition's log, cleaned as a broker's cleaner thread would: whether, from where, how often.

    1  first dirty offset: the checkpoint's; one outside of the log begins at the log start again
    2  due? dirtier than min.cleanable.dirty.ratio, or dirty for longer than max.compaction.lag.ms
    3  a round of the cleaner, or several (passes.py): a full map leaves something for the next one
    4  retention, after each: below the log start, and with `compact,delete` by size and time
    5  what belongs into cleaner-offset-checkpoint

    compaction = compact_log(log, checkpoint, BrokerSettings(), clock)
    compaction.rounds, compaction.checkpoint

The high watermark is the caller's, and so are all files beside the partition.

Mirrors LogCleaner.CleanerThread.cleanFilthiestLog, for a broker that has this log alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

import numpy as np

from kafka_format.access import access
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.errors import FormatError
from kafka_format.legacy import decode_legacy_batch
from kafka_log.cleaner.cleanable import cleanable_offsets, max_compaction_delay, select
from kafka_log.cleaner.cleaner import (
    DEDUPE_BUFFER_SIZE,
    IO_BUFFER_SIZE,
    LOAD_FACTOR,
    MAX_MESSAGE_BYTES,
    Cleaner,
)
from kafka_log.cleaner.errors import LogCleaningAbortedError
from kafka_log.cleaner.offset_map import BYTES_PER_ENTRY, Keys
from kafka_log.cleaner.passes import Passes
from kafka_log.cleaner.releases import KAFKA_4_3
from kafka_log.cleaner.witness import Removals
from kafka_log.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.passes import Wanted
    from kafka_log.cleaner.releases import CleanerRules
    from kafka_log.cleaner.stats import CleanerStats, Removed
    from kafka_log.cleaner.witness import Witness
    from kafka_log.clock import Clock
    from kafka_log.config import LogConfig
    from kafka_log.log import PartitionLog
    from kafka_log.retention import Breach
    from kafka_log.segment import LogSegment
    from kafka_log.settings import Settings


class TooSmallMapError(LogError):
    """A dedupe buffer in which not two keys have room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What a broker sets for all of its cleaner threads (`log.cleaner.*`), as a plain value."""

    dedupe_buffer_size: int = DEDUPE_BUFFER_SIZE
    io_buffer_size: int = IO_BUFFER_SIZE
    load_factor: float = LOAD_FACTOR
    message_max_bytes: int = MAX_MESSAGE_BYTES
    threads: int = 1
    keys: Keys = Keys.HASHED
    rules: CleanerRules = KAFKA_4_3
    """Of the broker's release."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        broker: dict[str, Any] = dict(settings.broker)
        return cls(
            dedupe_buffer_size=broker["log.cleaner.dedupe.buffer.size"],
            io_buffer_size=broker["log.cleaner.io.buffer.size"],
            load_factor=broker["log.cleaner.io.buffer.load.factor"],
            message_max_bytes=broker["message.max.bytes"],
            threads=broker["log.cleaner.threads"],
        )

    def cleaner(
        self,
        config: LogConfig,
        clock: Clock,
        witness: Witness | None = None,
        *,
        cores: int = 1,
        verifies: bool = False,
    ) -> Cleaner:
        self.ensure_room()
        return Cleaner(
            config,
            clock,
            dedupe_buffer_size=self.dedupe_buffer_size,
            io_buffer_size=self.io_buffer_size,
            load_factor=self.load_factor,
            message_max_bytes=self.message_max_bytes,
            threads=self.threads,
            keys=self.keys,
            cores=cores,
            witness=witness,
            verifies=verifies,
            rules=self.rules,
        )

    def ensure_room(self) -> None:
        """Refuse, before anything is opened, what no round could work with."""
        if self.threads < 1:
            raise TooSmallMapError(
                f"log.cleaner.threads={self.threads}: nobody would clean, expected 1 or more"
            )
        if not 0 < self.load_factor <= 1:  # above 1 Kafka's map fails once it has no slot left
            raise TooSmallMapError(
                f"log.cleaner.io.buffer.load.factor={self.load_factor:g}: expected more than 0, at"
                " most 1"
            )
        memory = self.dedupe_buffer_size // self.threads
        if memory // BYTES_PER_ENTRY * self.load_factor <= 1:
            raise TooSmallMapError(
                f"{memory} bytes for the offset map: found no room for a key of {BYTES_PER_ENTRY}"
                f" bytes at a load factor of {self.load_factor:g}, expected more"
                f" ({self.dedupe_buffer_size} bytes by log.cleaner.dedupe.buffer.size, shared by"
                f" {self.threads} of log.cleaner.threads)"
            )
        if self.io_buffer_size // self.threads // 2 < 1:
            raise TooSmallMapError(
                f"log.cleaner.io.buffer.size={self.io_buffer_size}: nothing could be read,"
                " expected 2 bytes or more for each thread"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the cleaner thinks of a log before a round: the range, how dirty, and what is due."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    held_by: str
    """What keeps the cleaner from going on behind that."""
    clean_bytes: int
    cleanable_bytes: int
    cleanable_ratio: float | None
    """None for a log without bytes."""
    is_due: bool
    reason: str
    """Why a broker would clean it now, or would not."""
    compaction_delay_ms: int
    """How long ago max.compaction.lag.ms was over for what is dirty; 0 if it is not."""
    checkpoint_was_invalid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What one rule of retention deletes after a round."""

    rule: Breach
    segments: int
    size_in_bytes: int
    records: int | None
    """None if they cannot be counted."""
    cleaned_bytes: int
    """The part of it that the round has just cleaned."""
    cleaned_records: int | None


@dataclass(slots=True, kw_only=True)
class Round:
    outlook: Outlook
    next_dirty_offset: int
    stats: CleanerStats
    removed: Removed
    deletions: list[Deletion] = field(default_factory=list)
    """By retention, after it."""

    @property
    def is_map_full(self) -> bool:
        """Whether it ended before all that may be cleaned was."""
        return self.next_dirty_offset < self.outlook.first_uncleanable_offset


@dataclass(slots=True, kw_only=True)
class Compaction:
    """What became of a log."""

    outlook: Outlook
    """Before the first round."""
    rounds: list[Round] = field(default_factory=list)
    checkpoint: int | None = None
    """For cleaner-offset-checkpoint; None if there is none and nothing was cleaned."""
    deletions: list[Deletion] = field(default_factory=list)
    """By retention, after all rounds."""
    split_segments: int = 0
    """Rounds that were given up because a segment had to be split first."""
    is_settled: bool | None = None
    """Whether the last round left every file as it was; None if passes did not go by that."""

    @property
    def deleted_segments(self) -> int:
        """How many segments retention deletes."""
        return sum(each.segments for each in self.deletions)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left that could be cleaned now."""
        last = self.rounds[-1] if self.rounds else None
        if last is None:
            return self.outlook.cleanable_bytes == 0
        return not last.is_map_full


def compact_log(
    log: PartitionLog,
    checkpoint: int | None,
    settings: BrokerSettings,
    clock: Clock,
    *,
    first_dirty_offset: int | None = None,
    passes: Wanted = 1,
    only_when_due: bool = False,
    witness: Witness | None = None,
    after_round: Callable[[], object] | None = None,
    make_cleaner: Callable[[LogConfig, Clock, Removals], Cleaner] | None = None,
    counts_deleted: bool = True,
) -> Compaction:
    """As many rounds as are wanted at most, while anything is dirty, each followed by retention.

    `first_dirty_offset` stands in for the checkpoint, before each of them. Records that retention
    deletes are counted if `counts_deleted`; files that keep nothing of a round have none to count.
    Raises LogError or FormatError where Kafka would mark the partition as uncleanable; rounds
    before that one were done.
    """
    removals = Removals(witness)
    going = Passes(passes, log.files, checkpoint, first_dirty_offset)
    done = Compaction(outlook=outlook(log, going.start, clock()), checkpoint=checkpoint)
    make = make_cleaner or settings.cleaner
    with make(log.config, clock, removals).released() as cleaner:
        _clean(
            log,
            cleaner,
            removals,
            going,
            done,
            clock,
            only_when_due=only_when_due,
            after_round=after_round,
            counts_deleted=counts_deleted,
        )
    done.is_settled = going.is_settled
    if not done.rounds:  # a cleaner thread that finds nothing to clean still deletes
        done.deletions += _delete_old_segments(log, 0, counts=counts_deleted)
    return done


def _clean(
    log: PartitionLog,
    cleaner: Cleaner,
    removals: Removals,
    going: Passes,
    done: Compaction,
    clock: Clock,
    *,
    only_when_due: bool,
    after_round: Callable[[], object] | None,
    counts_deleted: bool,
) -> None:
    """Round after round, into `done`."""
    while True:
        offsets = cleanable_offsets(log, going.start, clock())
        if offsets.force_update_checkpoint:
            going.start = offsets.first_dirty_offset
            if not (done.rounds and going.is_repeated):  # by then it is another one's
                done.checkpoint = going.start  # even if nothing follows
        if going.is_over:
            break  # before the log is looked at: a dry run does not keep what a round wrote
        seen = outlook(log, going.start, clock())
        if not seen.cleanable_bytes or (only_when_due and not seen.is_due):
            going.rest()
            break
        chosen = select(log, going.start, clock())
        cleaned = None
        try:
            cleaned = cleaner.do_clean(chosen)
        except LogCleaningAbortedError:
            done.split_segments += 1
            removals.take()  # it was all for nothing
        else:
            done.rounds.append(
                Round(
                    outlook=seen,
                    next_dirty_offset=cleaned.next_dirty_offset,
                    stats=cleaned.stats,
                    removed=removals.take(),
                )
            )
            done.checkpoint = cleaned.next_dirty_offset
        cleaned_to = 0 if cleaned is None else cleaned.next_dirty_offset
        deletions = _delete_old_segments(log, cleaned_to, counts=counts_deleted)
        done.deletions += deletions
        if cleaned is not None:
            done.rounds[-1].deletions += deletions
        if after_round is not None:
            after_round()
        if cleaned is not None:
            going.done(cleaned.next_dirty_offset)


def _delete_old_segments(log: PartitionLog, cleaned_to: int, *, counts: bool) -> list[Deletion]:
    """Apply retention; segments below `cleaned_to` are those that a round has cleaned."""
    deletions: list[Deletion] = []

    def note(rule: Breach, segments: Sequence[LogSegment]) -> None:
        records = [_record_count(each) if counts else None for each in segments]
        is_cleaned = [each.base_offset < cleaned_to for each in segments]
        cleaned = [count for count, cleaned in zip(records, is_cleaned, strict=True) if cleaned]
        deletions.append(
            Deletion(
                rule=rule,
                segments=len(segments),
                size_in_bytes=sum(each.size for each in segments),
                records=_sum(records),
                cleaned_bytes=sum(each.size for each in segments if each.base_offset < cleaned_to),
                cleaned_records=_sum(cleaned),
            )
        )

    log.delete_old_segments(note)
    return deletions


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _record_count(segment: LogSegment) -> int | None:
    """Count by the headers of batches; only compressed messages of old formats are decoded."""
    log, count = segment.log, 0
    reader = cast("BinaryIO", log.reader())
    for batches in HeaderWalk(reader, path=log.path, end=log.size):
        is_wrapper = batches.is_legacy & (batches.codec != 0)
        count += int(batches.record_count[~batches.is_legacy].sum())
        count += int((batches.is_legacy & ~is_wrapper).sum())
        for index in np.flatnonzero(is_wrapper).tolist():
            place = int(batches.position[index]), int(batches.size_in_bytes[index])
            try:
                batch = decode_legacy_batch(log.read_exactly(*place))
                count += sum(1 for _ in batch.iter_records(limit=access().max_decompressed_bytes))
            except FormatError:
                return None
    return count


def outlook(log: PartitionLog, checkpoint: int | None, now_ms: int) -> Outlook:
    offsets = cleanable_offsets(log, checkpoint, now_ms)
    chosen = select(log, checkpoint, now_ms)
    is_due, reason = _due(chosen, now_ms)
    return Outlook(
        first_dirty_offset=chosen.first_dirty_offset,
        first_uncleanable_offset=chosen.first_uncleanable_offset,
        held_by=_holder(log, offsets.first_uncleanable_dirty_offset),
        clean_bytes=chosen.clean_bytes,
        cleanable_bytes=chosen.cleanable_bytes,
        cleanable_ratio=chosen.cleanable_ratio if chosen.total_bytes else None,
        is_due=is_due,
        reason=reason,
        compaction_delay_ms=max_compaction_delay(log, chosen.first_dirty_offset, now_ms),
        checkpoint_was_invalid=offsets.force_update_checkpoint,
    )


def _due(chosen: LogToClean, now_ms: int) -> tuple[bool, str]:
    """In LogCleanerManager's order: a log that is dirty for too long need not be very dirty."""
    config = chosen.log.config
    if not chosen.cleanable_bytes:
        return False, f"nothing is dirty up to {chosen.first_uncleanable_offset}"
    ratio, least = chosen.cleanable_ratio, config.min_cleanable_dirty_ratio
    shown = f"dirty ratio {ratio:.2f}"
    if ratio > least:
        return True, f"{shown}, above {least:g}"
    if chosen.need_compaction_now:
        delay = max_compaction_delay(chosen.log, chosen.first_dirty_offset, now_ms)
        return True, f"{shown}, but dirty {delay} ms longer than max.compaction.lag.ms"
    return False, f"{shown}, not above {least:g}"


def _holder(log: PartitionLog, first_uncleanable: int) -> str:
    """Which of the limits is the lowest; the active segment, where several are."""
    if first_uncleanable >= log.active_segment.base_offset:
        return "active segment"
    if first_uncleanable >= log.last_stable_offset:
        unstable = log.first_unstable_offset
        if unstable is not None and log.last_stable_offset == unstable < log.high_watermark:
            return "open transaction"
        return "high watermark"
    return "min.compaction.lag.ms"
