"""One group of segments, rewritten by a task that knows nothing of the rest of the log.

It reads what is there and writes into a directory of its own, which gets its name when it is whole.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import numpy as np

from kafka_log.cleaner.cleaner import Cleaner, Round
from kafka_log.cleaner.parallel.offset_set import OffsetSet
from kafka_log.cleaner.parallel.parts import LONG_MAX, NO_OFFSET, NotParallelError
from kafka_log.cleaner.parallel.reduction import range_path, read_slice
from kafka_log.cleaner.stats import CleanerStats
from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles, File
from kafka_log.disk.output import whole_partition
from kafka_log.file_records import FileRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.decision import LastRecord
    from kafka_log.cleaner.pieces import Piece
    from kafka_log.cleaner.releases import CleanerRules
    from kafka_log.cleaner.witness import Witness
    from kafka_log.config import LogConfig
    from kafka_log.log import PartitionLog
    from kafka_log.segment import LogSegment


class Sizes(NamedTuple):
    """What a broker sets for its cleaner, but for the map (`log.cleaner.*`)."""

    io_buffer_size: int
    message_max_bytes: int
    threads: int


class Source(NamedTuple):
    """A segment to be read."""

    path: str
    base_offset: int
    next_offset: int
    size: int
    modified_ms: int
    aborted: list[AbortedTransaction]


class GroupTask(NamedTuple):
    sources: list[Source]
    config: LogConfig
    sizes: Sizes
    rules: CleanerRules
    current_time: int
    upper_bound_offset: int
    legacy_delete_horizon_ms: int
    transactions: bytes
    """What they were before the group, pickled."""
    last_records: dict[int, LastRecord]
    latest_offset: int
    """Up to where the map covers."""
    superseded: list[str]
    """Files of sets that scans have left."""
    parts: list[int]
    """Whose slices are to be taken of the ranges' files."""
    ranges: int
    work: str
    witness: Callable[[], Witness] | None = None

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def size_in_bytes(self) -> int:
        return sum(source.size for source in self.sources)


class Rewritten(NamedTuple):
    stats: CleanerStats
    witness: Witness | None
    """As it is afterwards."""
    bytes_since_last_index_entry: int
    """Of the new segment: who appends to it again goes on counting."""


def rewrite_group(task: GroupTask) -> Rewritten:
    """Raises what the cleaner raises; then nothing is left."""
    witness = None if task.witness is None else task.witness()
    stats = CleanerStats()
    latest = Superseded(_offsets(task), task.latest_offset)
    with whole_partition(group_path(task.work, task.base_offset), task.work) as attempt:
        clock = FixedClock(task.current_time)
        sizes = task.sizes._asdict()
        cleaner = Cleaner(task.config, clock, **sizes, witness=witness, rules=task.rules)
        this_round = Round(
            log=cast("PartitionLog", _SourceLog(task, attempt)),
            current_time=task.current_time,
            upper_bound_offset=task.upper_bound_offset,
            legacy_delete_horizon_ms=task.legacy_delete_horizon_ms,
            transactions=pickle.loads(task.transactions),  # noqa: S301  # our own driver's
            stats=stats,
            latest=latest,
        )
        segments = [_SourceSegment(source) for source in task.sources]
        try:
            cleaned = cleaner.clean_group(this_round, cast("list[LogSegment]", segments))
            unindexed = cleaned._bytes_since_last_index_entry  # noqa: SLF001  # passed on
            cleaned.close_handlers()
        finally:
            for segment in segments:
                segment.log.close_handlers()
    return Rewritten(stats, witness, unindexed)


def group_path(work: str, base_offset: int) -> Path:
    return Path(work) / f"group-{base_offset:020d}"


def _offsets(task: GroupTask) -> OffsetSet:
    found = OffsetSet(Path(path).read_bytes() for path in task.superseded)
    for number in range(task.ranges):
        for part in task.parts:
            found.add(read_slice(range_path(task.work, number), part))
    return found


class Superseded:
    """LatestOffsets of which only this is known: whether a record is the latest of its key."""

    utilization = 0.0  # the driver's to tell

    def __init__(self, offsets: OffsetSet, latest_offset: int) -> None:
        self.latest_offset = latest_offset
        self._offsets = offsets

    def latest_of(self, piece: Piece) -> npt.NDArray[np.int64]:
        is_superseded = self._offsets.holds(piece.records.offset)
        return np.where(is_superseded, LONG_MAX, NO_OFFSET)


# ------------------------------------------------------------- what a cleaner asks of a log


class _ReadOnlyFiles(DiskFiles):
    def open(self, name: str, *, create: bool = False, write: bool = True) -> File:  # noqa: ARG002
        return super().open(name, write=False)


class _SourceSegment:
    def __init__(self, source: Source) -> None:
        path = Path(source.path)
        self.base_offset = source.base_offset
        self.last_modified = source.modified_ms
        self.size = source.size
        self.log = FileRecords(
            _ReadOnlyFiles(os.fspath(path.parent)), path.name, file_already_exists=True
        )
        self.log.size = source.size
        self._next_offset = source.next_offset

    @property
    def name(self) -> str:
        return self.log.name

    def read_next_offset(self) -> int:
        return self._next_offset


class _SourceLog:
    def __init__(self, task: GroupTask, attempt: Path) -> None:
        self.files = DiskFiles(attempt)
        self._aborted = {source.base_offset: source.aborted for source in task.sources}
        self.producer_state_manager: Any = SimpleNamespace(
            active_producers={
                producer_id: SimpleNamespace(
                    last_data_offset=NO_OFFSET
                    if last.last_data_offset is None
                    else last.last_data_offset,
                    producer_epoch=last.producer_epoch,
                )
                for producer_id, last in task.last_records.items()
            }
        )

    def collect_aborted_transactions(self, start: int, _: int) -> list[AbortedTransaction]:
        return self._aborted[start]

    @property
    def segments(self) -> NoReturn:
        """Asked for where one has to be split, which is the log's own business."""
        raise NotParallelError(f"{self.files.directory}: a segment has to be split first")
