"""One round done by many tasks, whose segments are swapped in.

    1  find the superseded records and the end of the map (map_scan)
    2  before the first round, check what the map does not reach for damage
    3  rewrite the groups of segments, each by itself (group)
    4  swap the new segments in, in the order of the log

The log is not touched before the last step. If a task fails (damage, a batch too large, a segment
to be split), all results are thrown away and one Cleaner does the round: it reports what is wrong,
or succeeds.
"""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka_format.errors import FormatError
from kafka_log.cleaner.cleaner import (
    RoundResult,
    cleanable_from,
    legacy_delete_horizon_ms,
    swap_in,
)
from kafka_log.cleaner.columns.read_buffer import ReadBuffer
from kafka_log.cleaner.decision import last_records_of_active_producers
from kafka_log.cleaner.grouping import group_segments_by_size
from kafka_log.cleaner.parallel.files import adopt, path_of
from kafka_log.cleaner.parallel.group import (
    GroupResult,
    GroupTask,
    SourceSegment,
    group_path,
    rewrite_group,
)
from kafka_log.cleaner.parallel.map_scan import MapScan, RoundPlan
from kafka_log.cleaner.parallel.parts import LONG_MAX, NotParallelError
from kafka_log.cleaner.parallel.scan import superseded_path
from kafka_log.cleaner.parallel.trace import replay
from kafka_log.cleaner.stats import CleanerStats
from kafka_log.cleaner.transactions import CleanedTransactionMetadata
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.names import FileState
from kafka_log.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.cleaner import Cleaner
    from kafka_log.cleaner.decision import LastRecord
    from kafka_log.cleaner.parallel.map_scan import MapResult
    from kafka_log.cleaner.parallel.parts import LogPart
    from kafka_log.cleaner.parallel.runner import Runner
    from kafka_log.cleaner.witness import Witness
    from kafka_log.log.unified_log import PartitionLog


TASK_MEMORY = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSettings:
    """How a round is divided into tasks."""

    work: str | os.PathLike[str]
    """A directory that all tasks see, on the file system that the log is written to."""
    task_memory: int = TASK_MEMORY
    """About how many bytes of memory one task may take."""
    above: int = 0
    """A log of at most this many bytes is cleaned by one cleaner."""
    verifies: bool = False
    """Whether a wrong checksum anywhere in the cleanable part makes one Cleaner do the round."""


class ParallelCleaner:
    """Does rounds by many tasks; `single` cleans logs that are small or cannot be divided.

    `witnesses` makes a witness for each group, in its task, and `on_seen` gets them back in the
    order of the log. `before_single` is called before a round that could not be divided.
    """

    def __init__(
        self,
        single: Cleaner,
        runner: Runner,
        settings: ParallelSettings,
        *,
        witnesses: Callable[[], Witness] | None = None,
        on_seen: Callable[[Any], None] | None = None,
        before_single: Callable[[], None] | None = None,
    ) -> None:
        self.why_not: str | None = None
        """Why the last round was not done in parallel."""
        self.config = single.config
        self._single = single
        self._runner = runner
        self._settings = settings
        self._witnesses = witnesses
        self._on_seen = on_seen
        self._before_single = before_single
        self._is_checked = not settings.verifies
        """Whether the whole cleanable part was checked."""
        drawn = os.urandom(16)
        self._hash_secret = (
            int.from_bytes(drawn[:8], "little", signed=True),
            int.from_bytes(drawn[8:], "little", signed=True),
        )

    def clean(self, log: PartitionLog, first_dirty_offset: int | None) -> RoundResult:
        """Do one round from a checkpoint on, however clean the log is."""
        return self.do_clean(cleanable_from(log, first_dirty_offset, self._single.clock()))

    @contextmanager
    def released(self) -> Iterator[Self]:
        with self._single.released():
            yield self

    def do_clean(self, cleanable: LogToClean) -> RoundResult:
        self.why_not = None
        above = self._settings.above
        if cleanable.total_bytes <= above:
            self.why_not = f"{cleanable.total_bytes} bytes are not above {above}"
            return self._clean_by_one(cleanable)
        work = tempfile.mkdtemp(prefix="round-", dir=self._settings.work)
        try:
            try:
                rewritten = self._rewrite(cleanable, work)
            except (LogError, FormatError) as error:
                self.why_not = str(error)
                self._is_checked = False
                return self._clean_by_one(cleanable)
            return self._swap(cleanable, rewritten, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _clean_by_one(self, cleanable: LogToClean) -> RoundResult:
        if self._before_single is not None and not self._is_checked:
            self._before_single()
        self._is_checked = True
        return self._single.do_clean(cleanable)

    # -------------------------------------------------------------------------------- the plan

    def _rewrite(self, cleanable: LogToClean, work: str) -> _RewrittenRound:
        log, start = cleanable.log, cleanable.first_dirty_offset
        end = cleanable.first_uncleanable_offset
        stats = CleanerStats(start_time=self._single.stats_clock())
        current_time = self._single.clock()
        dirty = log.segments.values(start, end)
        if not dirty:
            raise NotParallelError(f"{log.files.directory}: nothing is dirty")
        clean = [
            each for each in log.segments.values(0, end) if each.base_offset < dirty[0].base_offset
        ]
        paths = {each.base_offset: path_of(log.files, each, work) for each in [*clean, *dirty]}
        plan = RoundPlan(log, start, end, clean, dirty, paths, work)
        scan = MapScan(
            plan,
            self._runner,
            self._settings,
            capacity=self._single.offset_map.max_desired_size,
            secret=self._hash_secret,
        )
        mapped = scan.run()
        if not self._is_checked:
            scan.check_rest(mapped)
            self._is_checked = True
        end_offset = self._note_map(plan, mapped, stats)
        horizon = legacy_delete_horizon_ms(log, start, self.config.delete_retention_ms)
        groups = group_segments_by_size(
            log.segments.values(0, end_offset),
            max_size=self.config.segment_bytes,
            max_index_size=self.config.segment_index_bytes,
            first_uncleanable_offset=end,
        )
        if end_offset > end:  # the last batch of a segment reaches over the next: it is read too
            raise NotParallelError(f"{log.files.directory}: found a batch that ends beyond {end}")
        tasks = self._group_tasks(plan, mapped, groups, end_offset - 1, horizon, current_time)
        results = self._runner.map(rewrite_group, tasks, lambda task: task.size_in_bytes)
        return _RewrittenRound(end_offset, groups, results, stats)

    # --------------------------------------------------------------------------------- the map

    def _note_map(self, plan: RoundPlan, mapped: MapResult, stats: CleanerStats) -> int:
        """Set the statistics of the map; return the offset after the last that it covers."""
        stats.map_complete_time = self._single.stats_clock()
        stats.buffer_utilization = mapped.keys / self._single.offset_map.slots
        dirty = [part for part in mapped.parts if part.is_dirty]
        if mapped.end is None:
            stats.map_bytes_read = sum(part.end - part.start for part in dirty)
            stats.map_messages_read = sum(each.messages for each in mapped.scanned)
            return plan.end
        refused = mapped.end.refused
        where = mapped.parts[mapped.end.part]
        stats.map_messages_read = refused.messages_before + sum(
            each.messages for each in mapped.scanned if each.number < where.number
        )
        stats.map_bytes_read = sum(
            part.end - part.start for part in dirty if part.base_offset < where.base_offset
        ) + self._chunks_before(plan, where, refused.position)
        return mapped.end.latest_offset + 1

    def _chunks_before(self, plan: RoundPlan, where: LogPart, position: int) -> int:
        """Return the bytes of a segment's chunks that were read before the map was full."""
        segment = next(each for each in plan.dirty if each.base_offset == where.base_offset)
        begin = at = segment.offset_index.lookup(plan.start).position
        settings = self._single.settings
        buffer = ReadBuffer(settings.read_buffer_size, settings.message_max_bytes)
        while True:
            chunk = buffer.read(segment.log, at, max_message_bytes=self.config.max_message_bytes)
            if at + chunk.size_in_bytes > position:
                return at - begin
            at += chunk.size_in_bytes

    # ------------------------------------------------------------------------------ the groups

    def _group_tasks(
        self,
        plan: RoundPlan,
        mapped: MapResult,
        groups: list[list[LogSegment]],
        latest_offset: int,
        horizon: int,
        current_time: int,
    ) -> list[GroupTask]:
        transactions = CleanedTransactionMetadata()
        last_records = last_records_of_active_producers(plan.log)
        parts_of = {
            base: [*parts]
            for base, parts in itertools.groupby(mapped.parts, lambda part: part.base_offset)
        }
        tasks = []
        for group in groups:
            state = pickle.dumps(transactions)
            sources = [
                self._source(plan, segment, following)
                for segment, following in itertools.zip_longest(group, group[1:])
            ]
            numbers = [
                part.number for source in sources for part in parts_of.get(source.base_offset, [])
            ]
            for source in sources:
                transactions.add_aborted_transactions(source.aborted)
                for part in parts_of.get(source.base_offset, []):
                    replay(transactions, mapped.scanned[part.number].trace)
            tasks.append(
                GroupTask(
                    sources=sources,
                    config=self.config,
                    settings=replace(self._single.settings, cores=1, verifies=False),
                    current_time=current_time,
                    round_end_offset=plan.end,
                    legacy_delete_horizon_ms=horizon,
                    transactions=state,
                    last_records=_within(last_records, sources),
                    latest_offset=latest_offset,
                    superseded=_set_paths(plan, mapped, numbers),
                    parts=numbers,
                    ranges=mapped.ranges,
                    work=plan.work,
                    witness=self._witnesses,
                )
            )
        return tasks

    def _source(
        self, plan: RoundPlan, segment: LogSegment, following: LogSegment | None
    ) -> SourceSegment:
        next_offset = segment.read_next_offset()
        end = next_offset if following is None else following.base_offset
        return SourceSegment(
            path=plan.paths[segment.base_offset],
            base_offset=segment.base_offset,
            next_offset=next_offset,
            size=segment.size,
            modified_ms=segment.last_modified,
            aborted=plan.log.collect_aborted_transactions(segment.base_offset, end),
        )

    def _swap(self, cleanable: LogToClean, rewritten: _RewrittenRound, work: str) -> RoundResult:
        log, stats = cleanable.log, rewritten.stats
        for group, result in zip(rewritten.groups, rewritten.results, strict=True):
            _add(stats, result.stats)
            cleaned = self._adopted(log, group[0].base_offset, work)
            cleaned.bytes_since_last_index_entry = result.bytes_since_last_index_entry
            swap_in(log, cleaned, group)
        if self._on_seen is not None:
            for result in rewritten.results:
                self._on_seen(result.witness)
        stats.end_time = self._single.stats_clock()
        return RoundResult(rewritten.end_offset, stats)

    def _adopted(self, log: PartitionLog, base_offset: int, work: str) -> LogSegment:
        suffix = FileState.CLEANED.value
        LogSegment.delete_files_if_exist(log.files, base_offset, suffix=suffix)
        written = DiskFiles(group_path(work, base_offset))
        for name in written.names():
            adopt(log.files, name, written)
        cleaned = LogSegment.open(
            log.files,
            base_offset,
            self.config,
            self._single.clock,
            file_already_exists=True,
            suffix=suffix,
        )
        cleaned.max_timestamp_so_far()  # a cleaner that writes it has read it; truncation uses it
        return cleaned


class _RewrittenRound(NamedTuple):
    """All groups rewritten, none of them swapped in."""

    end_offset: int
    groups: list[list[LogSegment]]
    results: list[GroupResult]
    stats: CleanerStats


def _set_paths(plan: RoundPlan, mapped: MapResult, numbers: Sequence[int]) -> list[str]:
    """Return the files of superseded offsets; after a full map there are none."""
    cut = LONG_MAX if mapped.cut is None else mapped.cut.part
    cut_work = os.fspath(Path(plan.work) / "cut")
    return [
        os.fspath(superseded_path(cut_work if number == cut else plan.work, number))
        for number in numbers
        if number <= cut
    ]


def _within(
    last_records: dict[int, LastRecord], sources: Sequence[SourceSegment]
) -> dict[int, LastRecord]:
    """Return the last records that may be in the group."""
    start, end = sources[0].base_offset, sources[-1].next_offset
    return {
        producer_id: last
        for producer_id, last in last_records.items()
        if last.last_data_offset is None or start <= last.last_data_offset < end
    }


def _add(stats: CleanerStats, more: CleanerStats) -> None:
    counted = ("bytes_read", "messages_read", "invalid_messages_read")
    for name in (*counted, "bytes_written", "messages_written"):
        setattr(stats, name, getattr(stats, name) + getattr(more, name))
