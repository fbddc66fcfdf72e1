"""The map of a round without one map: scan parts, then reduce their keys by ranges of hashes.

1  scan the parts, each by itself (if a transaction was aborted, after a walk over headers, so
that each part knows the transactions before it)
2  if Kafka's map would have been full: find where, and scan that part again up to there
3  reduce: write which offsets are superseded, one file per range of hashes
"""

from __future__ import annotations

import itertools
import os
import pickle
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.cleaner.parallel.capacity import MapEnd, last_key, map_end, offset_of
from kafka_log.cleaner.parallel.parts import NO_OFFSET, NotParallelError, ScanSettings, split
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
    walk_part,
)
from kafka_log.cleaner.parallel.trace import Trace, replay
from kafka_log.cleaner.transactions import CleanedTransactionMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_log.cleaner.parallel.cleaner import ParallelSettings
    from kafka_log.cleaner.parallel.parts import LogPart
    from kafka_log.cleaner.parallel.runner import Runner
    from kafka_log.log.unified_log import PartitionLog
    from kafka_log.segment.log_segment import LogSegment

_ROW_MEMORY = 4
"""How many times the bytes of its rows a reduction may need."""
_PART_MEMORY = 8
"""How many times the bytes of its part a scan may need."""
_MAPS_AHEAD = 4
"""How many times the keys that the map has room for are scanned before it is looked at."""


class RoundPlan(NamedTuple):
    """What a round may read; how much of it depends on the room in the map."""

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


class MapResult(NamedTuple):
    """What is known once all keys are."""

    parts: list[LogPart]
    scanned: list[ScanResult]
    cut: Cut | None
    end: MapEnd | None
    ranges: int
    keys: int


class MapScan:
    """Finds the superseded records of a round, and where Kafka's map would have been full."""

    def __init__(
        self,
        plan: RoundPlan,
        runner: Runner,
        settings: ParallelSettings,
        *,
        capacity: int,
        secret: tuple[int, int],
    ) -> None:
        """`capacity` is the number of keys that the map has room for."""
        self._plan = plan
        self._runner = runner
        self._settings = settings
        self._capacity = capacity
        self._secret = secret

    def run(self) -> MapResult:
        """Scan as many dirty segments as the map may have room for; more if it still has room."""
        plan = self._plan
        offsets_ahead = _MAPS_AHEAD * self._capacity
        while True:
            count = sum(each.base_offset - plan.start < offsets_ahead for each in plan.dirty)
            if 2 * count > len(plan.dirty):
                count = len(plan.dirty)  # little more, and no second scan
            mapped = self._scan(plan.dirty[:count])
            if mapped is not None:
                return mapped
            offsets_ahead *= _MAPS_AHEAD

    def _scan(self, dirty: list[LogSegment]) -> MapResult | None:
        """Return the map; None if more segments must be scanned."""
        plan = self._plan
        is_all = len(dirty) == len(plan.dirty)
        most = self._capacity
        parts = self._parts(dirty)
        span = (plan.end if is_all else plan.dirty[len(dirty)].base_offset) - plan.start
        rows = min(span, sum(part.end - part.start for part in parts) // 16)
        memory = rows * ROW_BYTES * _ROW_MEMORY
        ranges = max(self._runner.parallelism, -(-memory // self._settings.task_memory))
        settings = ScanSettings(
            plan.start, self._secret, ranges, plan.work, self._settings.verifies
        )
        tasks = [
            ScanTask(part, settings, state)
            for part, state in zip(parts, self._states(parts), strict=True)
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
        return MapResult(parts, scanned, cut, end, ranges, min(keys, most))

    def check_rest(self, mapped: MapResult) -> None:
        """Check what was not scanned, before anything is written: later rounds read it."""
        plan = self._plan
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

    @property
    def _part_bytes(self) -> int:
        return max(1, self._settings.task_memory // _PART_MEMORY)

    def _parts(self, dirty: list[LogSegment]) -> list[LogPart]:
        plan = self._plan
        numbers = itertools.count()
        parts: list[LogPart] = []
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

    def _states(self, parts: list[LogPart]) -> list[bytes | None]:
        """Return the state of transactions before each part; None if none was aborted."""
        aborted = self._plan.log.collect_aborted_transactions(self._plan.start, self._plan.end)
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
