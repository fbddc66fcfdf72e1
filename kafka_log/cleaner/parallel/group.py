"""Rewrites one group of segments, without access to the rest of the log.

The task writes into a temporary directory, which is renamed when it is complete.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from kafka_log.cleaner.cleaner import Cleaner, Round
from kafka_log.cleaner.parallel.offset_set import OffsetSet
from kafka_log.cleaner.parallel.parts import LONG_MAX, NO_OFFSET, NotParallelError
from kafka_log.cleaner.parallel.reduction import range_path, read_slice
from kafka_log.cleaner.stats import CleanerStats
from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles, File
from kafka_log.disk.output import whole_partition
from kafka_log.segment.file_records import FileRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.cleaner import CleanableSegment
    from kafka_log.cleaner.columns.blocks import BlockPiece
    from kafka_log.cleaner.decision import LastRecord
    from kafka_log.cleaner.settings import CleanerSettings
    from kafka_log.cleaner.witness import Witness
    from kafka_log.config.log_config import LogConfig


class SourceSegment(NamedTuple):
    """A segment to read, as a task needs it."""

    path: str
    base_offset: int
    next_offset: int
    size: int
    modified_ms: int
    aborted: list[AbortedTransaction]


class GroupTask(NamedTuple):
    sources: list[SourceSegment]
    config: LogConfig
    settings: CleanerSettings
    current_time: int
    round_end_offset: int
    legacy_delete_horizon_ms: int
    transactions: bytes
    """The state of transactions before the group, pickled."""
    last_records: dict[int, LastRecord]
    latest_offset: int
    """The last offset that the map covers."""
    superseded: list[str]
    """Files with sets of offsets, written by scans."""
    parts: list[int]
    """The parts whose slices to read from the files of ranges."""
    ranges: int
    work: str
    witness: Callable[[], Witness] | None = None

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def size_in_bytes(self) -> int:
        return sum(source.size for source in self.sources)


class GroupResult(NamedTuple):
    stats: CleanerStats
    witness: Witness | None
    """The task's witness, after the group."""
    bytes_since_last_index_entry: int
    """For the new segment: the next append continues the count."""


def rewrite_group(task: GroupTask) -> GroupResult:
    """Rewrite a group. Raises what the cleaner raises, and then leaves no files."""
    witness = None if task.witness is None else task.witness()
    stats = CleanerStats()
    latest = SupersededOffsets(_offsets(task), task.latest_offset)
    with whole_partition(group_path(task.work, task.base_offset), task.work) as attempt:
        clock = FixedClock(task.current_time)
        cleaner = Cleaner(task.config, clock, task.settings, witness=witness)
        this_round = Round(
            log=_TaskLog(task, attempt),
            current_time=task.current_time,
            end_offset=task.round_end_offset,
            legacy_delete_horizon_ms=task.legacy_delete_horizon_ms,
            transactions=pickle.loads(task.transactions),  # noqa: S301  # our own driver's
            stats=stats,
            latest=latest,
        )
        segments = [_TaskSegment(source) for source in task.sources]
        try:
            cleaned = cleaner.clean_group(this_round, segments)
            unindexed = cleaned.bytes_since_last_index_entry
            cleaned.close_handlers()
        finally:
            for segment in segments:
                segment.log.close_handlers()
    return GroupResult(stats, witness, unindexed)


def group_path(work: str, base_offset: int) -> Path:
    return Path(work) / f"group-{base_offset:020d}"


def _offsets(task: GroupTask) -> OffsetSet:
    found = OffsetSet(Path(path).read_bytes() for path in task.superseded)
    for number in range(task.ranges):
        for part in task.parts:
            found.add(read_slice(range_path(task.work, number), part))
    return found


class SupersededOffsets:
    """LatestOffsets that know only whether a record is superseded."""

    utilization = 0.0  # the driver computes it

    def __init__(self, offsets: OffsetSet, latest_offset: int) -> None:
        self.latest_offset = latest_offset
        self._offsets = offsets

    def latest_of(self, piece: BlockPiece) -> npt.NDArray[np.int64]:
        is_superseded = self._offsets.holds(piece.records.offset)
        return np.where(is_superseded, LONG_MAX, NO_OFFSET)


# --------------------------------------------------------- the log of a group, as a round needs it


class _SourceFiles(DiskFiles):
    """The files of a segment, opened only to read."""

    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:  # noqa: ARG002
        return super().open(name, write=False)


class _TaskSegment:
    """A CleanableSegment whose file is only read."""

    def __init__(self, source: SourceSegment) -> None:
        path = Path(source.path)
        self.base_offset = source.base_offset
        self.last_modified = source.modified_ms
        self.size = source.size
        self.log = FileRecords(
            _SourceFiles(os.fspath(path.parent)), path.name, file_already_exists=True
        )
        self.log.size = source.size
        self._next_offset = source.next_offset

    def read_next_offset(self) -> int:
        return self._next_offset


class _TaskLog:
    """A CleanableLog of one group, which writes into the task's own directory."""

    def __init__(self, task: GroupTask, attempt: Path) -> None:
        self.files = DiskFiles(attempt)
        self._aborted = {source.base_offset: source.aborted for source in task.sources}
        self._last_records = task.last_records

    def collect_aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        del end  # each segment has its own transactions
        return self._aborted[start]

    def last_records(self) -> dict[int, LastRecord]:
        return self._last_records

    def split(self, segment: CleanableSegment) -> NoReturn:
        """Refuse: only the driver can split a segment."""
        del segment
        raise NotParallelError(f"{self.files.directory}: a segment has to be split first")
