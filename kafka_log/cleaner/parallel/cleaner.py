"""One round done by many tasks; what they wrote is swapped in.

    1  the parts of the log are scanned, each by itself (if any transaction was aborted, after a
       walk over the headers, so that each knows what came before)
    2  keys are reduced, a range of hashes at a time: which records are superseded
    3  if Kafka's map would have been full: where, and the reduction only up to there; what lies
       follows is looked through for damage before the first round
    4  groups of segments are rewritten, each by itself
    5  what they became is swapped in, in the order of the log

Until the last step nothing of the log is touched. Whatever a task stumbles over (damage, a batch
too large, a segment to be split) has all of it thrown away, and a Cleaner does the round alone,
which then says what is wrong, or does it right.
"""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

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
from kafka_log.cleaner.parallel.capacity import MapEnd, last_key, map_end, offset_of
from kafka_log.cleaner.parallel.group import (
    GroupResult,
    GroupTask,
    SourceSegment,
    group_path,
    rewrite_group,
)
from kafka_log.cleaner.parallel.parts import (
    LONG_MAX,
    NO_OFFSET,
    NotParallelError,
    ScanSettings,
    split,
)
from kafka_log.cleaner.parallel.reduction import (
    Cut,
    count_range,
    first_offsets,
    write_slices,
    write_superseded,
)
from kafka_log.cleaner.parallel.scan import (
    ROW_BYTES,
    ScanResult,
    ScanTask,
    check_part,
    scan_part,
    superseded_path,
    walk_part,
)
from kafka_log.cleaner.parallel.trace import Trace, replay
from kafka_log.cleaner.stats import CleanerStats
from kafka_log.cleaner.transactions import CleanedTransactionMetadata
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.names import FileState
from kafka_log.segment.log_segment import LogSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.cleaner import Cleaner
    from kafka_log.cleaner.decision import LastRecord
    from kafka_log.cleaner.parallel.parts import Part
    from kafka_log.cleaner.witness import Witness
    from kafka_log.disk.files import Files
    from kafka_log.log.unified_log import PartitionLog

    Reduce = Callable[[int, Iterable[tuple[int, bytes]]], Any]

T = TypeVar("T")
R = TypeVar("R")

TASK_MEMORY = 512 * 1024 * 1024
_ROW_MEMORY = 4
"""How many times the bytes of its rows a reduction may need."""
_PART_MEMORY = 8
"""How many times the bytes of its part a scan may need."""
_MAPS_AHEAD = 4
"""How many times the keys that the map has room for are scanned before it is looked at."""


class ScanShuffle(Protocol):
    """The results of scans: a summary of each, and the key rows of each range of hashes."""

    @property
    def scanned(self) -> list[ScanResult]: ...

    def reduce(self, function: Reduce) -> list[Any]:
        """Call it with each range's number and key rows by part; return the results."""
        ...


class Runner(Protocol):
    """Where tasks run. All of them see the same directories."""

    @property
    def parallelism(self) -> int: ...

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        """Return results in the order of the tasks. NotParallelError for what a task raised."""
        ...

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> ScanShuffle: ...


class InProcess:
    """Runs tasks one after another, in this process."""

    parallelism = 1

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        del size_of
        return [function(task) for task in tasks]

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> ScanShuffle:
        return _InMemory([scan_part(task) for task in tasks], ranges)


class _InMemory:
    def __init__(self, parts: list[tuple[ScanResult, list[bytes]]], ranges: int) -> None:
        self.scanned = [scanned for scanned, _ in parts]
        self._blocks = [
            [(scanned.number, blocks[number]) for scanned, blocks in parts]
            for number in range(ranges)
        ]

    def reduce(self, function: Reduce) -> list[Any]:
        return [function(number, blocks) for number, blocks in enumerate(self._blocks)]


class _Plan(NamedTuple):
    """What is read of a round, whatever the map has room for."""

    log: PartitionLog
    start: int
    end: int
    clean: list[LogSegment]
    dirty: list[LogSegment]
    paths: dict[int, str]
    """Paths of segments, by base offset."""
    work: str

    def next_starts(self) -> dict[int, int]:
        ends = [*(segment.base_offset for segment in self.dirty[1:]), self.end]
        return {segment.base_offset: end for segment, end in zip(self.dirty, ends, strict=True)}


class _MapResult(NamedTuple):
    """What is known when all keys are."""

    parts: list[Part]
    scanned: list[ScanResult]
    cut: Cut | None
    end: MapEnd | None
    ranges: int
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelSettings:
    """How a round is divided into tasks."""

    work: str | os.PathLike[str]
    """A directory that all tasks see, on the file system that the log is written to."""
    task_memory: int = TASK_MEMORY
    """About as many bytes as one task may take."""
    above: int = 0
    """A log of up to so many bytes is cleaned by one cleaner."""
    verifies: bool = False
    """Whether a wrong checksum, anywhere in what may be cleaned, keeps a round from this way."""


class ParallelCleaner:
    """Has rounds done by many tasks; `alone` cleans what is small or cannot be divided.

    `witnesses` makes a witness for each group, where it is rewritten, and `on_seen` gets them back
    in the order of the log. `before_alone` is called before a round that could not be divided.
    """

    def __init__(
        self,
        alone: Cleaner,
        runner: Runner,
        settings: ParallelSettings,
        *,
        witnesses: Callable[[], Witness] | None = None,
        on_seen: Callable[[Any], None] | None = None,
        before_alone: Callable[[], None] | None = None,
    ) -> None:
        self.why_not: str | None = None
        """Why the last round was not done in parallel."""
        self.config = alone.config
        self._alone = alone
        self._runner = runner
        self._settings = settings
        self._witnesses = witnesses
        self._on_seen = on_seen
        self._before_alone = before_alone
        self._is_checked = not settings.verifies
        """Whether all that may be cleaned was looked at."""
        drawn = os.urandom(16)
        self._hash_secret = (
            int.from_bytes(drawn[:8], "little", signed=True),
            int.from_bytes(drawn[8:], "little", signed=True),
        )

    def clean(self, log: PartitionLog, first_dirty_offset: int | None) -> RoundResult:
        """Do one round from a checkpoint on, however clean the log is."""
        return self.do_clean(cleanable_from(log, first_dirty_offset, self._alone.clock()))

    @contextmanager
    def released(self) -> Iterator[Self]:
        with self._alone.released():
            yield self

    def do_clean(self, cleanable: LogToClean) -> RoundResult:
        self.why_not = None
        above = self._settings.above
        if cleanable.total_bytes <= above:
            self.why_not = f"{cleanable.total_bytes} bytes are not above {above}"
            return self._clean_alone(cleanable)
        work = tempfile.mkdtemp(prefix="round-", dir=self._settings.work)
        try:
            try:
                rewritten = self._rewrite(cleanable, work)
            except (LogError, FormatError) as error:
                self.why_not = str(error)
                self._is_checked = False
                return self._clean_alone(cleanable)
            return self._swap(cleanable, rewritten, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _clean_alone(self, cleanable: LogToClean) -> RoundResult:
        if self._before_alone is not None and not self._is_checked:
            self._before_alone()
        self._is_checked = True
        return self._alone.do_clean(cleanable)

    # -------------------------------------------------------------------------------- the plan

    def _rewrite(self, cleanable: LogToClean, work: str) -> _RewrittenRound:
        log, start = cleanable.log, cleanable.first_dirty_offset
        end = cleanable.first_uncleanable_offset
        stats = CleanerStats(start_time=self._alone.stats_clock())
        current_time = self._alone.clock()
        dirty = log.segments.values(start, end)
        if not dirty:
            raise NotParallelError(f"{log.files.directory}: nothing is dirty")
        clean = [
            each for each in log.segments.values(0, end) if each.base_offset < dirty[0].base_offset
        ]
        paths = {each.base_offset: _path_of(log.files, each, work) for each in [*clean, *dirty]}
        plan = _Plan(log, start, end, clean, dirty, paths, work)
        mapped = self._map(plan)
        self._check_rest(plan, mapped)
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

    def _map(self, plan: _Plan) -> _MapResult:
        """Scan as many dirty segments as the map may have room for; more, if it has."""
        offsets_ahead = _MAPS_AHEAD * self._alone.offset_map.max_desired_size
        while True:
            count = sum(each.base_offset - plan.start < offsets_ahead for each in plan.dirty)
            if 2 * count > len(plan.dirty):
                count = len(plan.dirty)  # little more, and it is never scanned again
            mapped = self._map_some(plan, plan.dirty[:count])
            if mapped is not None:
                return mapped
            offsets_ahead *= _MAPS_AHEAD

    def _map_some(self, plan: _Plan, dirty: list[LogSegment]) -> _MapResult | None:
        """Return the map; None if more must be scanned to know it."""
        is_all = len(dirty) == len(plan.dirty)
        most = self._alone.offset_map.max_desired_size
        parts = self._parts(plan, dirty)
        span = (plan.end if is_all else plan.dirty[len(dirty)].base_offset) - plan.start
        rows = min(span, sum(part.end - part.start for part in parts) // 16)
        memory = rows * ROW_BYTES * _ROW_MEMORY
        ranges = max(self._runner.parallelism, -(-memory // self._settings.task_memory))
        settings = ScanSettings(
            plan.start, self._hash_secret, ranges, plan.work, self._settings.verifies
        )
        tasks = [
            ScanTask(part, settings, state)
            for part, state in zip(parts, self._states(plan, parts), strict=True)
        ]
        shuffled = self._runner.scan(tasks, ranges)
        scanned = sorted(shuffled.scanned, key=lambda each: each.number)
        _ensure_order(scanned)
        cut = end = None
        if not is_all or sum(each.rows for each in scanned) >= most:
            counts = sum(shuffled.reduce(partial(count_range, parts=len(parts))))
            last = last_key(counts, most)
            if last is None and not is_all:
                return None
            if last is not None:
                found = shuffled.reduce(partial(first_offsets, part=last.part))
                limit = offset_of(last, found, parts[last.part].base_offset)
                cut, again = self._scan_again(tasks[last.part], limit)
                end = map_end(parts, scanned, again, plan.next_starts())
                if end is None and not is_all:
                    return None
        bases = [part.base_offset for part in parts]
        write = partial(write_superseded, bases=bases, cut=cut, work=plan.work)
        keys = sum(shuffled.reduce(write))
        return _MapResult(parts, scanned, cut, end, ranges, min(keys, most))

    def _check_rest(self, plan: _Plan, mapped: _MapResult) -> None:
        """Check what was not scanned before anything is written: later rounds come to it."""
        if self._is_checked:
            return
        scanned = {part.base_offset for part in mapped.parts}
        numbers = itertools.count()
        rest = [
            part
            for segment in plan.dirty
            if segment.base_offset not in scanned
            for part in split(
                segment,
                plan.paths[segment.base_offset],
                numbers,
                dirty_from=None,
                part_bytes=self._part_bytes,
            )
        ]
        self._runner.map(check_part, rest, lambda part: part.end - part.start)
        self._is_checked = True

    @property
    def _part_bytes(self) -> int:
        return max(1, self._settings.task_memory // _PART_MEMORY)

    def _parts(self, plan: _Plan, dirty: list[LogSegment]) -> list[Part]:
        numbers = itertools.count()
        parts: list[Part] = []
        for segment in [*plan.clean, *dirty]:
            is_dirty = segment.base_offset >= plan.dirty[0].base_offset
            dirty_from = segment.offset_index.lookup(plan.start).position if is_dirty else None
            parts += split(
                segment,
                plan.paths[segment.base_offset],
                numbers,
                dirty_from=dirty_from,
                part_bytes=self._part_bytes,
            )
        return parts

    def _states(self, plan: _Plan, parts: list[Part]) -> list[bytes | None]:
        """Return what is known of transactions before each part; None if none was aborted."""
        aborted = plan.log.collect_aborted_transactions(plan.start, plan.end)
        if not aborted:
            return [None] * len(parts)
        transactions = CleanedTransactionMetadata()
        transactions.add_aborted_transactions(aborted)
        dirty = [part for part in parts if part.is_dirty]
        traces: list[Trace] = self._runner.map(walk_part, dirty, lambda part: part.end - part.start)
        states: list[bytes | None] = [None] * (len(parts) - len(dirty))
        for trace in traces:
            states.append(pickle.dumps(transactions))
            replay(transactions, trace)
        return states

    def _scan_again(self, task: ScanTask, limit: int) -> tuple[Cut, ScanResult]:
        """Scan the part in which the map becomes full, as if it ended there."""
        path = Path(task.settings.work) / "cut.blocks"
        work = Path(task.settings.work) / "cut"
        work.mkdir(exist_ok=True)
        settings = task.settings._replace(work=os.fspath(work))
        limited = task._replace(settings=settings, limit=limit, mark=limit)
        again: list[ScanResult] = self._runner.map(
            partial(_scan_to_file, path=os.fspath(path)), [limited], _size_of_scan
        )
        return Cut(task.part.number, os.fspath(path)), again[0]

    def _note_map(self, plan: _Plan, mapped: _MapResult, stats: CleanerStats) -> int:
        """Set the statistics of the map; return the offset up to which it covers."""
        stats.map_complete_time = self._alone.stats_clock()
        stats.buffer_utilization = mapped.keys / self._alone.offset_map.slots
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

    def _chunks_before(self, plan: _Plan, where: Part, position: int) -> int:
        """Return the bytes of a segment's chunks that were read before the map was full."""
        segment = next(each for each in plan.dirty if each.base_offset == where.base_offset)
        begin = at = segment.offset_index.lookup(plan.start).position
        settings = self._alone.settings
        buffer = ReadBuffer(settings.read_buffer_size, settings.message_max_bytes)
        while True:
            chunk = buffer.read(segment.log, at, max_message_bytes=self.config.max_message_bytes)
            if at + chunk.size_in_bytes > position:
                return at - begin
            at += chunk.size_in_bytes

    # ------------------------------------------------------------------------------ the groups

    def _group_tasks(
        self,
        plan: _Plan,
        mapped: _MapResult,
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
                    settings=replace(self._alone.settings, cores=1, verifies=False),
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
        self, plan: _Plan, segment: LogSegment, following: LogSegment | None
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
        stats.end_time = self._alone.stats_clock()
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
            self._alone.clock,
            file_already_exists=True,
            suffix=suffix,
        )
        cleaned.max_timestamp_so_far()  # its writer knows it: it shows when it is cut later
        return cleaned


class _RewrittenRound(NamedTuple):
    """All groups rewritten, none of them swapped in."""

    end_offset: int
    groups: list[list[LogSegment]]
    results: list[GroupResult]
    stats: CleanerStats


def _scan_to_file(task: ScanTask, *, path: str) -> ScanResult:
    scanned, blocks = scan_part(task)
    write_slices(Path(path), blocks)
    return scanned


def _size_of_scan(task: ScanTask) -> int:
    return task.part.end - task.part.start


def _ensure_order(scanned: Sequence[ScanResult]) -> None:
    latest = NO_OFFSET
    for each in scanned:
        if each.rows:
            if each.first_offset <= latest:
                raise NotParallelError(f"{each.trace.path}: found offsets that do not rise")
            latest = each.last_offset


def _set_paths(plan: _Plan, mapped: _MapResult, numbers: Sequence[int]) -> list[str]:
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
    """Return those that a batch of the group may be the last of."""
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


def _path_of(files: Files, segment: LogSegment, work: str) -> str:
    """Return where tasks find a segment: on the disk, or a copy of what only this log sees."""
    if isinstance(files, DiskFiles):
        return files.path(segment.name)
    there = getattr(files, "path_on_disk", lambda _: None)(segment.name)
    if there is not None:
        return str(there)
    folder = Path(work) / "sources"
    folder.mkdir(exist_ok=True)
    copy = folder / segment.name
    with copy.open("wb") as target:
        for position in range(0, segment.size, _COPY_BYTES):
            target.write(segment.log.read_at(position, _COPY_BYTES))
    return os.fspath(copy)


def adopt(files: Files, name: str, written: DiskFiles) -> None:
    """Move a file that a task wrote into the log's directory, by a rename if possible."""
    modified_ms = written.modified_ms(name)
    if isinstance(files, DiskFiles):
        Path(written.path(name)).replace(files.path(name))
    elif hasattr(files, "adopt"):
        files.adopt(name, written.path(name))
    else:
        source, target = written.open(name, write=False), files.open(name, create=True)
        try:
            for position in range(0, source.size, _COPY_BYTES):
                target.append(source.read_at(position, _COPY_BYTES))
        finally:
            source.close()
            target.close()
        files.set_modified_ms(name, modified_ms)


_COPY_BYTES = 4 * 1024 * 1024
