"""A segment of a log: a `.log`, its `.index` and `.timeindex`, perhaps a `.txnindex`.

Mirrors org.apache.kafka.storage.internals.log.LogSegment: the same calls write the same bytes to
the same files. An index file is created at its full size when the index is first accessed. A batch
gets an entry in both indexes if more than `index.interval.bytes` were appended since the last
entry, counted since the segment was opened: bytes of an earlier process do not count.
"""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka_format.columnar.compilation import can_compile
from kafka_format.file_kinds import SEGMENT_INDEX_KINDS, SEGMENT_KINDS
from kafka_format.transaction_index import VERSION, AbortedTransaction
from kafka_log.errors import IllegalArgumentError, LogError, SegmentOffsetOverflowError
from kafka_log.indexes.aborted_transactions import TransactionIndex, TxnIndexSearchResult
from kafka_log.indexes.bulk import EntrySelection, append_entries
from kafka_log.indexes.index_files import (
    LazyIndex,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)
from kafka_log.indexes.kernels import NOT_STOPPED, is_entry_due
from kafka_log.loading.segment_recovery import SegmentRecovery
from kafka_log.log.fetch_data import EMPTY, FetchDataInfo, LogOffsetMetadata
from kafka_log.names import FileKind, segment_file_name
from kafka_log.segment.file_records import (
    FileRecords,
    LogOffsetPosition,
    TimestampAndOffset,
    iter_memory_batches,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafka_format.errors import FormatError
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.log.leader_epochs import LeaderEpochFileCache
    from kafka_log.producers.entry import CompletedTxn
    from kafka_log.producers.producer_state import ProducerStateManager

    Int64s = npt.NDArray[np.int64]

LONG_MAX = 2**63 - 1
TO_THE_END = LONG_MAX
_COPY_BYTES = 1024 * 1024


_JITTER = random.Random()  # noqa: S311  # seeding one per segment takes as long as opening it


class RollParams(NamedTuple):
    """What decides, besides the segment itself, whether the next append needs a new segment."""

    max_segment_ms: int
    max_segment_bytes: int
    max_timestamp_in_messages: int
    max_offset_in_messages: int
    messages_size: int
    now: int


class SegmentFiles(NamedTuple):
    """The four files of a segment."""

    log: FileRecords
    offset_index: LazyIndex[OffsetIndex]
    time_index: LazyIndex[TimeIndex]
    transaction_index: TransactionIndex


class LogSegment:
    """One open segment. Not thread-safe."""

    def __init__(
        self,
        files: Files,
        parts: SegmentFiles,
        *,
        base_offset: int,
        index_interval_bytes: int,
        roll_jitter_ms: int,
        clock: Clock,
    ) -> None:
        self.log = parts.log
        self.transaction_index = parts.transaction_index
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = roll_jitter_ms
        self.recovery_error: FormatError | None = None
        """The error in the first batch that the last recovery removed."""
        self._files = files
        self._parts = parts
        self._clock = clock
        self._created_ms = clock()
        self._rolling_based_timestamp: int | None = None
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self.bytes_since_last_index_entry = 0
        """When the next index entry is due; set for a segment that another process wrote."""

    @classmethod
    def open(  # noqa: PLR0913 - the parameters of Kafka's LogSegment.open
        cls,
        files: Files,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        *,
        file_already_exists: bool = False,
        init_file_size: int = 0,
        preallocate: bool = False,
        suffix: str = "",
        rng: random.Random | None = None,
    ) -> Self:
        """Open a segment, and create it if it does not exist. `suffix` is `.swap` or the like."""
        stem = segment_file_name(base_offset, FileKind.LOG).stem
        names = [f"{stem}{kind.ending}{suffix}" for kind in SEGMENT_KINDS]
        size = config.segment_index_bytes
        log = FileRecords(
            files,
            names[0],
            file_already_exists=file_already_exists,
            init_file_size=init_file_size,
            preallocate=preallocate,
        )
        parts = SegmentFiles(
            log,
            LazyIndex(OffsetIndex, files, names[1], base_offset, size),
            LazyIndex(TimeIndex, files, names[2], base_offset, size),
            TransactionIndex(files, names[3], base_offset),
        )
        return cls(
            files,
            parts,
            base_offset=base_offset,
            index_interval_bytes=config.index_interval_bytes,
            roll_jitter_ms=config.random_segment_jitter(rng or _JITTER),
            clock=clock,
        )

    @staticmethod
    def delete_files_if_exist(files: Files, base_offset: int, suffix: str = "") -> None:
        """Delete the files of a segment that is not open."""
        for kind in (*SEGMENT_INDEX_KINDS, FileKind.LOG):
            files.delete_if_exists(f"{segment_file_name(base_offset, kind)}{suffix}")

    def __repr__(self) -> str:
        return f"LogSegment({self.log.path}, {self.size} bytes)"

    @property
    def name(self) -> str:
        """The name of the `.log`, with its suffix."""
        return self.log.name

    @property
    def names(self) -> list[str]:
        """The names of its four files, whether or not they exist."""
        return [part.name for part in self._parts]

    @property
    def size(self) -> int:
        return self.log.size

    @property
    def offset_index(self) -> OffsetIndex:
        return self._parts.offset_index.get()

    @property
    def time_index(self) -> TimeIndex:
        return self._parts.time_index.get()

    # -------------------------------------------------------------------------------- appending

    def should_roll(self, params: RollParams) -> bool:
        waited = self.time_waited_for_roll(params.now, params.max_timestamp_in_messages)
        reached_roll_ms = waited > params.max_segment_ms - self.roll_jitter_ms
        return (
            self.size > params.max_segment_bytes - params.messages_size
            or (self.size > 0 and reached_roll_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or not self.offset_index.can_append_offset(params.max_offset_in_messages)
        )

    def append(self, largest_offset: int, records: bytes | bytearray | memoryview) -> None:
        """Append whole batches; `largest_offset` is their last offset."""
        if not len(records):
            return
        position = self.size
        self._ensure_offset_in_range(largest_offset)
        self.log.append(records)
        for size, last_offset, max_timestamp in iter_memory_batches(records):
            if max_timestamp > self.max_timestamp_so_far():
                self._max_timestamp_and_offset = TimestampOffset(max_timestamp, last_offset)
            if is_entry_due(self.bytes_since_last_index_entry, self.index_interval_bytes):
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(*self._read_max_timestamp_and_offset())
                self.bytes_since_last_index_entry = 0
            position += size
            self.bytes_since_last_index_entry += size

    def append_batches(self, largest_offset: int, records: memoryview, batches: Int64s) -> bool:
        """Append batches given by their positions in `records`, as in indexes.kernels.

        Returns False, and appends nothing, if `append` would reject one of them.
        """
        if not self.offset_index.can_append_offset(largest_offset):
            return False
        placed = batches.copy()
        placed[0] += self.size
        selection = EntrySelection(
            self.offset_index,
            self.time_index,
            interval=self.index_interval_bytes,
            compiled=can_compile(),
            last_index_position=self.size - self.bytes_since_last_index_entry,
            max_timestamp_and_offset=self._read_max_timestamp_and_offset(),
        )
        selected = selection.select(placed)
        if selected.reason != NOT_STOPPED:
            return False
        self.log.append(records)
        append_entries(self.offset_index, self.time_index, selected.entries)
        self._max_timestamp_and_offset = selection.max_timestamp_and_offset
        self.bytes_since_last_index_entry = self.size - selection.last_index_position
        return True

    def append_from_file(self, source: FileRecords, start: int) -> int:
        """Append batches of another file as long as their offsets fit; return how many bytes."""
        position = start
        while position < source.size:
            size, largest_offset = self._next_chunk(source, position)
            if not size:
                break
            self.append(largest_offset, source.read_exactly(position, size))
            position += size
        return position - start

    def _next_chunk(self, source: FileRecords, position: int) -> tuple[int, int]:
        size = largest_offset = 0
        for batch in source.batches_from(position):
            fits = self.offset_index.can_append_offset(batch.last_offset)
            if not fits or (size and size + batch.size_in_bytes >= _COPY_BYTES):
                break
            size += batch.size_in_bytes
            largest_offset = batch.last_offset
        return size, largest_offset

    def _ensure_offset_in_range(self, offset: int) -> None:
        if not self.offset_index.can_append_offset(offset):
            raise SegmentOffsetOverflowError(
                f"{self.log.path}: found offset {offset}, too far from {self.base_offset}, "
                f"expected a new segment for it",
                self,
            )

    def update_txn_index(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        if completed.is_aborted:
            aborted = AbortedTransaction(
                VERSION,
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                last_stable_offset,
            )
            self.transaction_index.append(aborted)

    def time_waited_for_roll(self, now: int, message_timestamp: int) -> int:
        """Return the time since the first batch's timestamp, or else since the opening."""
        first = self._load_first_batch_timestamp()
        if first is not None and first >= 0:
            return message_timestamp - first
        return now - self._created_ms

    def get_first_batch_timestamp(self) -> int:
        """Return the timestamp of the first batch; 2**63 - 1 if it has none."""
        first = self._load_first_batch_timestamp()
        return first if first is not None and first >= 0 else LONG_MAX

    def _load_first_batch_timestamp(self) -> int | None:
        if self._rolling_based_timestamp is None:
            for batch in self.log.batches():
                self._rolling_based_timestamp = batch.max_timestamp
                break
        return self._rolling_based_timestamp

    def on_become_inactive_segment(self) -> None:
        """Append the largest timestamp to the time index, and trim the preallocated files."""
        self.time_index.maybe_append(*self._read_max_timestamp_and_offset(), skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        self.log.trim()

    # ---------------------------------------------------------------------------------- reading

    def translate_offset(
        self, offset: int, starting_file_position: int = 0
    ) -> LogOffsetPosition | None:
        """Find the first batch whose last offset is at least this one."""
        position = self.offset_index.lookup(offset).position
        return self.log.search_for_offset_from_position(
            offset, max(position, starting_file_position)
        )

    def read(
        self,
        start_offset: int,
        max_size: int,
        max_position: int | None = TO_THE_END,
        *,
        min_one_message: bool = False,
    ) -> FetchDataInfo | None:
        """Read at most `max_size` bytes from the batch of `start_offset` on, up to `max_position`.

        With `min_one_message`, the first batch is returned whole, however large. Returns None if
        all offsets are smaller. `max_position` None (Kafka's empty Optional): only the position.
        """
        if max_size < 0:
            raise IllegalArgumentError(
                f"{self.log.path}: found max size {max_size}, expected 0 or more"
            )
        start = self.translate_offset(start_offset)
        if start is None:
            return None
        metadata = LogOffsetMetadata(start.offset, self.base_offset, start.position)
        adjusted = max(max_size, start.size) if min_one_message else max_size
        if adjusted == 0 or max_position is None:
            return FetchDataInfo(metadata, EMPTY)
        fetch_size = min(max_position - start.position, adjusted)
        return FetchDataInfo(
            metadata,
            self.log.slice(start.position, fetch_size),
            first_entry_incomplete=adjusted < start.size,
        )

    def fetch_upper_bound_offset(self, start: OffsetPosition, fetch_size: int) -> int | None:
        found = self.offset_index.fetch_upper_bound_offset(start, fetch_size)
        return None if found is None else found.offset

    def read_next_offset(self) -> int:
        """Return the offset after the last batch, walking from the last index entry."""
        found = self.read(self.offset_index.last_offset, self.size)
        last = None if found is None else found.records.last_batch()
        return self.base_offset if last is None else last.next_offset

    def has_overflow(self) -> bool:
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.offset_index.can_append_offset(
            next_offset - 1
        )

    def find_offset_by_timestamp(
        self, timestamp: int, starting_offset: int | None = None
    ) -> TimestampAndOffset | None:
        """Find the first record with at least this timestamp, from `starting_offset` on."""
        starting_offset = self.base_offset if starting_offset is None else starting_offset
        found = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(found.offset, starting_offset)).position
        return self.log.search_for_timestamp(timestamp, position, starting_offset)

    def collect_aborted_txns(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> TxnIndexSearchResult:
        return self.transaction_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

    def max_timestamp_so_far(self) -> int:
        return self._read_max_timestamp_and_offset().timestamp

    def offset_of_max_timestamp_so_far(self) -> int:
        """Return the last offset of the batch with the largest timestamp."""
        return self._read_max_timestamp_and_offset().offset

    def largest_record_timestamp(self) -> int | None:
        largest = self.max_timestamp_so_far()
        return largest if largest >= 0 else None

    def largest_timestamp(self) -> int:
        """Return the largest timestamp; if no record has one, the file's time of modification."""
        largest = self.max_timestamp_so_far()
        return largest if largest >= 0 else self.last_modified

    def _read_max_timestamp_and_offset(self) -> TimestampOffset:
        """Return the largest timestamp of what was appended, or else the index's last entry."""
        if self._max_timestamp_and_offset is None:
            self._max_timestamp_and_offset = self.time_index.last_entry
        return self._max_timestamp_and_offset

    # ---------------------------------------------------------------------- recovery, truncation

    def sanity_check(self, *, time_index_newly_created: bool) -> None:
        """Raise FileNotFoundError without an offset index, CorruptIndexError for a bad `.txnindex`.

        The content of the other two is not checked: a segment that was not flushed is recovered
        anyway.
        """
        if not self._files.exists(self._parts.offset_index.name):
            path = self._files.path(self._parts.offset_index.name)
            raise FileNotFoundError(2, "no offset index", path)
        if time_index_newly_created:
            self.time_index.resize(0)
        self.transaction_index.sanity_check()

    def resize_indexes(self, size: int) -> None:
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def recover(
        self,
        producer_state_manager: ProducerStateManager,
        leader_epoch_cache: LeaderEpochFileCache,
    ) -> int:
        """Check every batch, rebuild the indexes, truncate from the first bad batch on.

        Returns how many bytes were truncated; `recovery_error` says why. See SegmentRecovery for
        the errors it raises.
        """
        self.offset_index.reset()
        self.time_index.reset()
        self.transaction_index.reset()
        recovery = SegmentRecovery(self, producer_state_manager, leader_epoch_cache)
        try:
            recovered = recovery.run()
        finally:
            self._max_timestamp_and_offset = recovery.max_timestamp_and_offset
        self.recovery_error = recovered.error
        truncated = self.log.truncate_to(recovered.valid_bytes)
        self.offset_index.trim_to_valid_size()
        self.time_index.maybe_append(*recovery.max_timestamp_and_offset, skip_full_check=True)
        self.time_index.trim_to_valid_size()
        return truncated

    def truncate_to(self, offset: int) -> int:
        """Remove batches that end at `offset` or later; return how many bytes.

        The indexes are extended to their full size.
        """
        mapping = self.translate_offset(offset)
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        offset_index.resize(offset_index.max_index_size)
        time_index.resize(time_index.max_index_size)
        truncated = 0 if mapping is None else self.log.truncate_to(mapping.position)
        if self.size == 0:
            self._created_ms = self._clock()
            self._rolling_based_timestamp = None
        self.bytes_since_last_index_entry = 0
        if self.max_timestamp_so_far() >= 0:
            self._max_timestamp_and_offset = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        last = self.time_index.last_entry
        position = self.offset_index.lookup(last.offset).position
        after = self.log.largest_timestamp_after(position)
        if after.timestamp > last.timestamp:
            return TimestampOffset(after.timestamp, after.offset)
        return last

    # ------------------------------------------------------------------------------------ files

    def flush(self) -> None:
        self.log.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.transaction_index.flush()

    def close(self) -> None:
        """Append the largest timestamp to the time index if it is known; trim and close files."""
        if self._max_timestamp_and_offset is not None:
            with contextlib.suppress(LogError, OSError):
                self.time_index.maybe_append(*self._max_timestamp_and_offset, skip_full_check=True)
        with contextlib.ExitStack() as stack:  # runs the last callback first
            stack.callback(self.transaction_index.close)
            stack.callback(self.log.close)
            stack.callback(self._parts.time_index.close)
            stack.callback(self._parts.offset_index.close)

    def close_handlers(self) -> None:
        """Close the files without trimming them: after a disk failure, or to simulate a crash."""
        for close in (
            self._parts.offset_index.close_handler,
            self._parts.time_index.close_handler,
            self.log.close_handlers,
            self.transaction_index.close,
        ):
            with contextlib.suppress(OSError):
                close()

    def change_file_suffixes(self, old_suffix: str, new_suffix: str) -> None:
        for part in self._parts:
            if not part.name.endswith(old_suffix):
                raise IllegalArgumentError(
                    f"{part.name}: expected a name that ends in {old_suffix!r}"
                )
            part.rename_to(part.name.removesuffix(old_suffix) + new_suffix)

    def has_suffix(self, suffix: str) -> bool:
        return all(part.name.endswith(suffix) for part in self._parts)

    def delete_if_exists(self) -> None:
        """Delete all of its files, even if one of them cannot be deleted."""
        with contextlib.ExitStack() as stack:
            for part in reversed(self._parts):
                stack.callback(part.delete_if_exists)

    def deleted(self) -> bool:
        return not any(self._files.exists(part.name) for part in self._parts)

    @property
    def last_modified(self) -> int:
        """When the `.log` was modified, in epoch milliseconds; 0 if it does not exist."""
        try:
            return self._files.modified_ms(self.name)
        except FileNotFoundError:
            return 0

    def set_last_modified(self, modified_ms: int) -> None:
        for part in self._parts[:3]:
            self._files.set_modified_ms(part.name, modified_ms)
