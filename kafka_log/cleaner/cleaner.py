"""One round of Kafka's cleaner: a log in, a smaller log out.

    1  read the dirty segments: the latest offset of every key, until the map is full (map_builder)
    2  group all segments up to there (grouping)
    3  write each group into one `.cleaned` segment, then swap it in

    cleaner = Cleaner(log.config, clock)
    next_dirty_offset, stats = cleaner.clean(log, first_dirty_offset)

On OverlayFiles this is a dry run. The caller sets the high watermark before (cleanable.py), and
writes the returned offset into `cleaner-offset-checkpoint`.

Mirrors org.apache.kafka.storage.internals.log.Cleaner (4.3.1).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from kafka_format.columnar.compilation import can_compile
from kafka_log.cleaner.cleanable import cleanable_offsets, log_to_clean
from kafka_log.cleaner.columns.key_table import KeyTable
from kafka_log.cleaner.columns.lanes import Lanes, Steps
from kafka_log.cleaner.decision import RecordFilter, last_records_of_active_producers
from kafka_log.cleaner.errors import LogCleaningAbortedError
from kafka_log.cleaner.grouping import group_segments_by_size
from kafka_log.cleaner.map_builder import MapBuilder
from kafka_log.cleaner.offset_map import Keys, OffsetMap
from kafka_log.cleaner.rewrite import filter_to
from kafka_log.cleaner.segment_reader import SegmentReader
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.cleaner.stats import CleanerStats
from kafka_log.cleaner.transactions import CleanedTransactionMetadata
from kafka_log.clock import system_clock
from kafka_log.errors import SegmentOffsetOverflowError
from kafka_log.segment.log_segment import LogSegment
from kafka_log.segment.segment_files import (
    create_new_cleaned_segment,
    delete_producer_snapshots,
    split_overflowed_segment,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.columns.block_writer import FilteredBlock
    from kafka_log.cleaner.columns.blocks import Block
    from kafka_log.cleaner.columns.lanes import Lane
    from kafka_log.cleaner.decision import BlockDecisions, LastRecord
    from kafka_log.cleaner.offset_map import LatestOffsets
    from kafka_log.cleaner.witness import Witness
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.file_records import FileRecords


class RoundResult(NamedTuple):
    """The first offset that is still dirty, and what the round read and wrote."""

    next_dirty_offset: int
    stats: CleanerStats


class RoundCleaner(Protocol):
    """Cleans a log, one round at a time: a Cleaner, or a ParallelCleaner."""

    def do_clean(self, cleanable: LogToClean) -> RoundResult: ...

    def released(self) -> AbstractContextManager[Self]: ...


class CleanableSegment(Protocol):
    """A segment as a round needs it, to rewrite it."""

    @property
    def base_offset(self) -> int: ...

    @property
    def last_modified(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def log(self) -> FileRecords: ...

    def read_next_offset(self) -> int: ...


class CleanableLog(Protocol):
    """A log as the rewriting of groups needs it."""

    @property
    def files(self) -> Files:
        """Where cleaned segments are written."""
        ...

    def collect_aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]: ...

    def last_records(self) -> Mapping[int, LastRecord]:
        """Return the last record of each active producer, by producer id."""
        ...

    def split(self, segment: CleanableSegment) -> None:
        """Split a segment whose offsets do not fit into one; another round cleans the parts."""
        ...


class Round(NamedTuple):
    """What the groups of a round share. A task that rewrites one group gets the state before it."""

    log: CleanableLog
    current_time: int
    end_offset: int
    """The first uncleanable offset."""
    legacy_delete_horizon_ms: int
    """Tombstones of magic 0 and 1 are removed from segments last modified then, or before."""
    transactions: CleanedTransactionMetadata
    stats: CleanerStats
    latest: OffsetMap | LatestOffsets


class Cleaner:
    """One cleaner thread of a broker."""

    def __init__(
        self,
        config: LogConfig,
        clock: Clock,
        settings: CleanerSettings = CleanerSettings(),  # noqa: B008  # a frozen value
        *,
        stats_clock: Clock = system_clock,
        witness: Witness | None = None,
        check_done: Callable[[], object] = lambda: None,
    ) -> None:
        """`config` is the topic's, `settings` are the broker's.

        `clock` is the time of the log, `stats_clock` measures rounds. `witness` sees each decision;
        if it needs the order of the log, only one core works. `check_done` is called before each
        segment and each block: what it raises ends the round.
        """
        self.config = config
        self.settings = settings
        self.clock = clock
        self.stats_clock = stats_clock
        self.offset_map = new_offset_map(settings)
        self._witness = witness
        is_ordered = witness is not None and witness.is_ordered
        cores = 1 if is_ordered else settings.cores
        self._lanes = Lanes(cores, witness, block_bytes=settings.block_bytes)
        self._reader = SegmentReader(config, settings, check_done)

    def clean(
        self,
        log: PartitionLog,
        first_dirty_offset: int | None,
        *,
        uncleanable_offset: int | None = None,
    ) -> RoundResult:
        """Do one round from a checkpoint on, however clean the log is.

        `uncleanable_offset` replaces the one that Kafka's rules give.
        """
        return self.do_clean(
            cleanable_from(log, first_dirty_offset, self.clock(), uncleanable_offset)
        )

    @contextmanager
    def released(self) -> Iterator[Self]:
        """Release the memory after the last round: it may be hundreds of megabytes.

        A witness and its cleaner may refer to each other, and Python frees such a cycle late.
        """
        try:
            yield self
        finally:
            self.offset_map.clear()
            self._lanes.clear()

    def do_clean(self, cleanable: LogToClean) -> RoundResult:
        log, first_dirty = cleanable.log, cleanable.first_dirty_offset
        current_time = self.clock()
        horizon = legacy_delete_horizon_ms(log, first_dirty, self.config.delete_retention_ms)
        stats = CleanerStats(start_time=self.stats_clock())
        upper_bound = cleanable.first_uncleanable_offset
        MapBuilder(self.offset_map, self._reader, self._lanes, stats).build(cleanable)
        end_offset = self.offset_map.latest_offset + 1
        stats.map_complete_time = self.stats_clock()
        transactions = CleanedTransactionMetadata()
        source = _PartitionLog(log, self.config, self.clock)
        this_round = Round(
            source, current_time, upper_bound, horizon, transactions, stats, self.offset_map
        )
        if self._witness is not None:
            self._witness.on_round(log)
        groups = group_segments_by_size(
            log.segments.values(0, end_offset),
            max_size=self.config.segment_bytes,
            max_index_size=self.config.segment_index_bytes,
            first_uncleanable_offset=upper_bound,
        )
        for group in groups:
            swap_in(log, self.clean_group(this_round, group), group)
        stats.buffer_utilization = self.offset_map.utilization
        stats.end_time = self.stats_clock()
        return RoundResult(end_offset, stats)

    # ---------------------------------------------------------------------------- the segments

    def clean_group(self, this_round: Round, segments: Sequence[CleanableSegment]) -> LogSegment:
        """Write a group into one `.cleaned` segment, which stays open for `swap_in`."""
        log, transactions = this_round.log, this_round.transactions
        base_offset = segments[0].base_offset
        cleaned = create_new_cleaned_segment(log.files, base_offset, self.config, self.clock)
        transactions.cleaned_index = cleaned.transaction_index
        try:
            last_records = log.last_records()
            for i, segment in enumerate(segments):
                end = segment.read_next_offset()
                if i + 1 < len(segments):
                    end = segments[i + 1].base_offset
                aborted = log.collect_aborted_transactions(segment.base_offset, end)
                transactions.add_aborted_transactions(aborted)
                self._clean_into(this_round, segment, cleaned, last_records)
            cleaned.on_become_inactive_segment()
            cleaned.flush()
            cleaned.set_last_modified(segments[-1].last_modified)
        except LogCleaningAbortedError:
            cleaned.delete_if_exists()
            raise
        except BaseException:
            cleaned.close_handlers()  # its files stay until the next round or load, as Kafka's do
            raise
        return cleaned

    def _clean_into(
        self,
        this_round: Round,
        segment: CleanableSegment,
        cleaned: LogSegment,
        last_records: Mapping[int, LastRecord],
    ) -> None:
        record_filter = RecordFilter(
            this_round,
            last_records,
            delete_retention_ms=self.config.delete_retention_ms,
            retains_legacy_deletes=segment.last_modified > this_round.legacy_delete_horizon_ms,
            rules=self.settings.rules,
        )
        if self._witness is not None:
            self._witness.on_segment(segment, record_filter)
        try:
            if isinstance(this_round.latest, OffsetMap):
                self._filter_chunks(this_round, segment, cleaned, record_filter)
            else:
                self._filter_blocks(this_round, segment, cleaned, record_filter, this_round.latest)
        except SegmentOffsetOverflowError as error:
            this_round.log.split(segment)
            raise LogCleaningAbortedError(f"{error}: it was split") from error
        self._reader.restore()

    def _filter_chunks(
        self,
        this_round: Round,
        segment: CleanableSegment,
        cleaned: LogSegment,
        record_filter: RecordFilter,
    ) -> None:
        """Filter a segment record by record."""
        stats, position = this_round.stats, 0
        while position < segment.size:
            chunk = self._reader.read_chunk(segment, position)
            if self.settings.verifies:
                for batch in chunk.batches:
                    batch.ensure_valid()
            result = filter_to(
                chunk.batches,
                record_filter,
                capacity=self._reader.capacity,
                witness=self._witness,
            )
            position += result.bytes_read
            stats.messages_read += result.messages_read
            stats.bytes_read += result.bytes_read
            stats.invalid_messages_read += result.invalid_messages_read
            stats.messages_written += result.messages_retained
            stats.bytes_written += len(result.data)
            cleaned.append(result.max_offset, result.data)

    def _filter_blocks(
        self,
        this_round: Round,
        segment: CleanableSegment,
        cleaned: LogSegment,
        record_filter: RecordFilter,
        latest: LatestOffsets,
    ) -> None:
        """Filter a segment by columns, many chunks at once."""
        blocks = self._reader.blocks(segment, 0)

        def decide(lane: Lane, number: int) -> tuple[Block, BlockDecisions, int] | None:
            block = self._reader.read_block(blocks, lane, number)
            if block is None:
                return None
            return block, record_filter.decide_block(block), self._reader.capacity

        def write(lane: Lane, task: tuple[Block, BlockDecisions, int]) -> FilteredBlock:
            block, decisions, capacity = task
            if self.settings.verifies:
                block.ensure_valid()
            return lane.writer.filter(
                block,
                lane.scan,
                record_filter,
                decisions,
                latest,
                capacity=capacity,
            )

        def append(filtered: FilteredBlock) -> bool:
            append_filtered(cleaned, filtered)
            if filtered.problem is not None:
                raise filtered.problem
            filtered.add_to(this_round.stats)
            return True

        steps = Steps(
            fetch=lambda lane, number: blocks.fetch(lane.buffer, number),
            draw=decide,
            work=write,
            finish=append,
        )
        self._lanes.run(steps, segment.size)


class _PartitionLog:
    """The log of a partition as a CleanableLog."""

    def __init__(self, log: PartitionLog, config: LogConfig, clock: Clock) -> None:
        self.files = log.files
        self._log = log
        self._config = config
        self._clock = clock

    def collect_aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        return self._log.collect_aborted_transactions(start, end)

    def last_records(self) -> Mapping[int, LastRecord]:
        return last_records_of_active_producers(self._log)

    def split(self, segment: CleanableSegment) -> None:
        log, config = self._log, self._config
        assert isinstance(segment, LogSegment)  # the log of a partition has no others
        result = split_overflowed_segment(
            log.files, segment, log.segments, config, self._clock, log.scheduler
        )
        delete_producer_snapshots(
            log.files,
            result.deleted_segments,
            log.producer_state_manager,
            config,
            log.scheduler,
        )


def cleanable_from(
    log: PartitionLog,
    first_dirty_offset: int | None,
    now_ms: int,
    uncleanable_offset: int | None = None,
) -> LogToClean:
    """Return what a round from a checkpoint on cleans, however clean the log is."""
    offsets = cleanable_offsets(log, first_dirty_offset, now_ms)
    if uncleanable_offset is None:
        uncleanable_offset = offsets.first_uncleanable_dirty_offset
    return log_to_clean(log, offsets.first_dirty_offset, uncleanable_offset)


def legacy_delete_horizon_ms(
    log: PartitionLog, first_dirty_offset: int, delete_retention_ms: int
) -> int:
    """Return the latest modification time of a segment that loses tombstones of magic 0 and 1."""
    clean = log.segments.values(0, first_dirty_offset)
    return clean[-1].last_modified - delete_retention_ms if clean else 0


def new_offset_map(settings: CleanerSettings) -> OffsetMap | KeyTable:
    """Return a map over columns if kernels can be compiled and keys are hashed."""
    memory, load_factor, secret = settings.map_memory, settings.load_factor, settings.secret
    columnar = can_compile() if settings.columnar is None else settings.columnar
    if settings.keys is Keys.HASHED and columnar:
        return KeyTable(memory, load_factor=load_factor, secret=secret)
    return OffsetMap(memory, load_factor=load_factor, keys=settings.keys, secret=secret)


def append_filtered(cleaned: LogSegment, filtered: FilteredBlock) -> None:
    """Append all chunks at once; if one is refused, append one by one up to it."""
    aborted, start = filtered.aborted, 0
    before = cleaned.size
    largest = filtered.chunks[1, np.diff(filtered.chunks[0], prepend=0) > 0]
    is_done = not len(largest) or (
        # An offset below the base is refused as well, before a time index is made.
        cleaned.offset_index.can_append_offset(int(largest.min()))
        and cleaned.append_batches(int(largest.max()), filtered.data, filtered.batches)
    )
    for number, (end, offset) in enumerate(zip(*filtered.chunks.tolist(), strict=True)):
        while aborted and aborted[0][0] == number:
            cleaned.transaction_index.append(aborted.pop(0)[1])
        if not is_done:
            cleaned.append(offset, filtered.data[start:end])
        start = end
    for _, transaction in aborted:  # those of a chunk that was not read to its end
        cleaned.transaction_index.append(transaction)
    cleaned.log.start_flush(before)  # while the next block is worked on


def swap_in(log: PartitionLog, cleaned: LogSegment, segments: list[LogSegment]) -> None:
    """Replace a group by its cleaned segment, through `.swap` and `.deleted`."""
    try:
        log.replace_segments([cleaned], segments)
    except BaseException:
        cleaned.close_handlers()  # the next load repairs what is left
        raise
