"""Cleans the log of one partition as a broker's cleaner thread does.

    1  first dirty offset: that of the checkpoint; if it is outside the log, the log start
    2  due? dirtier than min.cleanable.dirty.ratio, or dirty for longer than max.compaction.lag.ms
    3  one round of the cleaner, or several (passes.py): a full map leaves the rest to the next one
    4  retention, after each: below the log start, and with `compact,delete` by size and time
    5  the new offset for cleaner-offset-checkpoint

    compaction = compact_log(log, checkpoint, partial(new_cleaner, CleanerSettings()), clock)
    compaction.rounds, compaction.checkpoint

`CleanerThread` is the loop over rounds; `compact_log` counts what they do, explain/ explains it.
The caller sets the high watermark, and writes all files outside the partition.

Mirrors LogCleaner.CleanerThread.cleanFilthiestLog, for a broker that has only this log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.access import access
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.errors import FormatError
from kafka_format.legacy import decode_legacy_batch
from kafka_log.cleaner.cleanable import Eligibility, cleanable_offsets, select
from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.errors import LogCleaningAbortedError
from kafka_log.cleaner.passes import Passes, Schedule
from kafka_log.cleaner.witness import Removals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.cleaner import RoundCleaner, RoundResult
    from kafka_log.cleaner.settings import CleanerSettings
    from kafka_log.cleaner.stats import CleanerStats, Removed
    from kafka_log.cleaner.witness import Witness
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.retention.breaches import Breach
    from kafka_log.segment.log_segment import LogSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A log before a round: the range to clean, how dirty it is, and whether it is due."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    held_by: str
    """What blocks the offsets from there on."""
    clean_bytes: int
    cleanable_bytes: int
    cleanable_ratio: float | None
    """None for a log without bytes."""
    is_due: bool
    reason: str
    """Why a broker would clean it now, or not."""
    compaction_delay_ms: int
    """For how long the oldest dirty record exceeds max.compaction.lag.ms; 0 if it does not."""
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
    """Those of segments that the round has just cleaned."""
    cleaned_records: int | None


@dataclass(slots=True, kw_only=True)
class RoundReport:
    outlook: Outlook
    next_dirty_offset: int
    stats: CleanerStats
    removed: Removed
    deletions: list[Deletion] = field(default_factory=list)
    """By retention, after the round."""

    @property
    def is_map_full(self) -> bool:
        """Whether it ended before the end of the cleanable part."""
        return self.next_dirty_offset < self.outlook.first_uncleanable_offset


@dataclass(slots=True, kw_only=True)
class Compaction:
    """The result of cleaning a log."""

    outlook: Outlook
    """Before the first round."""
    rounds: list[RoundReport] = field(default_factory=list)
    checkpoint: int | None = None
    """For cleaner-offset-checkpoint; None if there is none and nothing was cleaned."""
    deletions: list[Deletion] = field(default_factory=list)
    """By retention, after all rounds."""
    split_segments: int = 0
    """Rounds that were abandoned because a segment had to be split first."""
    is_settled: bool | None = None
    """Whether the last round left every file as it was; None if that was not asked for."""

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


class CleanerThread:
    """The turns of a cleaner thread on one log.

    Iterate over `turns`; between two of them the caller may do other work, such as retention.
    """

    def __init__(
        self,
        log: PartitionLog,
        cleaner: RoundCleaner,
        passes: Passes,
        clock: Clock,
    ) -> None:
        self.checkpoint = passes.checkpoint
        """For cleaner-offset-checkpoint; None if there is none and nothing was cleaned."""
        self.cleanable: LogToClean | None = None
        """The log as it was before the last turn."""
        self._log = log
        self._cleaner = cleaner
        self._passes = passes
        self._clock = clock

    def turns(self) -> Iterator[Turn]:
        """Clean while rounds are asked for and anything is dirty."""
        log, passes = self._log, self._passes
        has_cleaned = False
        while True:
            offsets = cleanable_offsets(log, passes.start, self._clock())
            if offsets.force_update_checkpoint:
                passes.start = offsets.first_dirty_offset
                if not (has_cleaned and passes.is_repeated):  # else a round has set it
                    self.checkpoint = passes.start  # even if nothing follows
            if passes.is_over:
                return  # before the log is read again: a dry run does not keep what a round wrote
            self.cleanable = select(log, passes.start, self._clock())
            if not self.cleanable.cleanable_bytes or self.is_not_due:
                passes.finish()
                return
            before = outlook(log, passes.start, self._clock())
            try:
                cleaned = self._cleaner.do_clean(self.cleanable)
            except LogCleaningAbortedError as error:
                yield Turn(before, None, error)
                continue
            has_cleaned = True
            self.checkpoint = cleaned.next_dirty_offset
            yield Turn(before, cleaned)
            passes.count(cleaned.next_dirty_offset)

    @property
    def is_not_due(self) -> bool:
        """Whether the log is skipped because a broker would not clean it yet."""
        cleanable = self.cleanable
        return self._passes.only_when_due and cleanable is not None and not cleanable.is_eligible


class Turn(NamedTuple):
    """One turn of a cleaner thread."""

    outlook: Outlook
    """Before the round."""
    cleaned: RoundResult | None
    """None if the round was abandoned because a segment had to be split first."""
    problem: LogCleaningAbortedError | None = None

    def result(self) -> RoundResult:
        """Return what the round did. Raises LogCleaningAbortedError if it was abandoned."""
        if self.cleaned is None:
            raise self.problem or LogCleaningAbortedError("the round was abandoned")
        return self.cleaned


def compact_log(
    log: PartitionLog,
    checkpoint: int | None,
    make_cleaner: CleanerFactory,
    clock: Clock,
    schedule: Schedule = Schedule(),  # noqa: B008  # a frozen value
    *,
    after_round: Callable[[], object] | None = None,
    counts_deleted: bool = True,
) -> Compaction:
    """Clean a log by the rounds of the schedule while anything is dirty; retention after each.

    Records that retention deletes are counted if `counts_deleted`; files that keep nothing of a
    round have none to count. Raises LogError or FormatError where Kafka would mark the partition as
    uncleanable; rounds before that one were done.
    """
    removals = Removals()
    passes = Passes(schedule, log.files, checkpoint)
    compaction = Compaction(outlook=outlook(log, passes.start, clock()))
    with make_cleaner(log.config, clock, removals).released() as cleaner:
        thread = CleanerThread(log, cleaner, passes, clock)
        for turn in thread.turns():
            cleaned = turn.cleaned
            removed = removals.take()  # what an abandoned round removed does not count
            if cleaned is None:
                compaction.split_segments += 1
            else:
                compaction.rounds.append(
                    RoundReport(
                        outlook=turn.outlook,
                        next_dirty_offset=cleaned.next_dirty_offset,
                        stats=cleaned.stats,
                        removed=removed,
                    )
                )
            cleaned_to = 0 if cleaned is None else cleaned.next_dirty_offset
            deletions = _delete_old_segments(log, cleaned_to, counts=counts_deleted)
            compaction.deletions += deletions
            if cleaned is not None:
                compaction.rounds[-1].deletions += deletions
            if after_round is not None:
                after_round()
    compaction.checkpoint = thread.checkpoint
    compaction.is_settled = passes.is_settled
    if not compaction.rounds:  # a cleaner thread that finds nothing to clean still deletes
        compaction.deletions += _delete_old_segments(log, 0, counts=counts_deleted)
    return compaction


CleanerFactory = Callable[["LogConfig", "Clock", "Removals"], "RoundCleaner"]


def new_cleaner(
    settings: CleanerSettings, config: LogConfig, clock: Clock, witness: Witness | None = None
) -> Cleaner:
    """Return a cleaner by a broker's settings. Raises TooSmallMapError."""
    settings.ensure_room()
    return Cleaner(config, clock, settings, witness=witness)


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
    cleanable = select(log, checkpoint, now_ms)
    return Outlook(
        first_dirty_offset=cleanable.first_dirty_offset,
        first_uncleanable_offset=cleanable.first_uncleanable_offset,
        held_by=offsets.limit.kind.value,
        clean_bytes=cleanable.clean_bytes,
        cleanable_bytes=cleanable.cleanable_bytes,
        cleanable_ratio=cleanable.cleanable_ratio if cleanable.total_bytes else None,
        is_due=cleanable.is_eligible,
        reason=_why_due_or_not(cleanable),
        compaction_delay_ms=cleanable.compaction_delay_ms,
        checkpoint_was_invalid=offsets.force_update_checkpoint,
    )


def _why_due_or_not(cleanable: LogToClean) -> str:
    ratio = f"dirty ratio {cleanable.cleanable_ratio:.2f}"
    least = f"{cleanable.log.config.min_cleanable_dirty_ratio:g}"
    match cleanable.eligibility:
        case Eligibility.NOTHING_DIRTY:
            return f"nothing is dirty up to {cleanable.first_uncleanable_offset}"
        case Eligibility.DIRTY_RATIO:
            return f"{ratio}, above {least}"
        case Eligibility.COMPACTION_LAG:
            delay = cleanable.compaction_delay_ms
            return f"{ratio}, but dirty {delay} ms longer than max.compaction.lag.ms"
        case _:
            return f"{ratio}, not above {least}"
