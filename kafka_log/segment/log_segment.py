"""A segment of a log: a `.log`, its `.index` and `.timeindex`, perhaps a `.txnindex`.

Mirrors org.apache.kafka.storage.internals.log.LogSegment: the same bytes in the same files after
the same calls. An index file is made when the index is first asked for, at its full size; an entry
of both indexes is due at the first batch behind more than `index.interval.bytes` since the last
entry. Counted since the segment was opened: what an earlier process wrote is forgotten.
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
from kafka_log.indexes.kernels import ALL_DONE, is_entry_due
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


class RollParams(NamedTuple):
    """What decides, beside the segment itself, whether the next append needs a new one."""

    max_segment_ms: int
    max_segment_bytes: int
    max_timestamp_in_messages: int
    max_offset_in_messages: int
    messages_size: int
    now: int


class LogSegment:
    """One segment, open. Not for several threads."""

    def __init__(
        self,
        files: Files,
        log: FileRecords,
        offset_index: LazyIndex[OffsetIndex],
        time_index: LazyIndex[TimeIndex],
        transaction_index: TransactionIndex,
        *,
        base_offset: int,
        index_interval_bytes: int,
        roll_jitter_ms: int,
        clock: Clock,
    ) -> None:
        self.log = log
        self.transaction_index = transaction_index
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = roll_jitter_ms
        self.recovery_error: FormatError | None = None
        """What the last recovery found wrong with the first batch that it cut off."""
        self._files = files
        self._lazy_offset_index = offset_index
        self._lazy_time_index = time_index
        self._clock = clock
        self._created_ms = clock()
        self._rolling_based_timestamp: int | None = None
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self.bytes_since_last_index_entry = 0
        """Where the next index entry is due; a segment that another process wrote is given it."""

    @classmethod
    def open(
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
        """Made if it is not there. `suffix` is `.swap`, `.cleaned` or the like."""
        names = [f"{segment_file_name(base_offset, kind)}{suffix}" for kind in SEGMENT_KINDS]
        size = config.segment_index_bytes
        return cls(
            files,
            FileRecords(
                files,
                names[0],
                file_already_exists=file_already_exists,
                init_file_size=init_file_size,
                preallocate=preallocate,
            ),
            LazyIndex(OffsetIndex, files, names[1], base_offset, size),
            LazyIndex(TimeIndex, files, names[2], base_offset, size),
            TransactionIndex(files, names[3], base_offset),
            base_offset=base_offset,
            index_interval_bytes=config.index_interval_bytes,
            roll_jitter_ms=config.random_segment_jitter(rng or random.Random()),  # noqa: S311
            clock=clock,
        )

    @staticmethod
    def delete_files_if_exist(files: Files, base_offset: int, suffix: str = "") -> None:
        """The files of a segment that is not open."""
        for kind in (*SEGMENT_INDEX_KINDS, FileKind.LOG):
            files.delete_if_exists(f"{segment_file_name(base_offset, kind)}{suffix}")

    def __repr__(self) -> str:
        return f"LogSegment({self.log.path}, {self.size} bytes)"

    @property
    def name(self) -> str:
        """Of the `.log`, with its suffix."""
        return self.log.name

    @property
    def names(self) -> list[str]:
        """Of its four files, whether they are there or not."""
        return [part.name for part in self._parts]

    @property
    def size(self) -> int:
        return self.log.size

    @property
    def offset_index(self) -> OffsetIndex:
        return self._lazy_offset_index.get()

    @property
    def time_index(self) -> TimeIndex:
        return self._lazy_time_index.get()

    @property
    def _parts(
        self,
    ) -> tuple[FileRecords, LazyIndex[OffsetIndex], LazyIndex[TimeIndex], TransactionIndex]:
        return self.log, self._lazy_offset_index, self._lazy_time_index, self.transaction_index

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
        """Whole batches behind the last one; `largest_offset` is the last of theirs."""
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
        """As `append`, with the batches told (indexes.kernels) by their positions in `records`.

        False, and nothing was done, if one of them would be refused: `append` says which.
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
        if selected.why != ALL_DONE:
            return False
        self.log.append(records)
        append_entries(self.offset_index, self.time_index, selected.entries)
        self._max_timestamp_and_offset = selection.max_timestamp_and_offset
        self.bytes_since_last_index_entry = self.size - selection.last_index_position
        return True

    def append_from_file(self, source: FileRecords, start: int) -> int:
        """Batches of another file for as long as their offsets fit; how many bytes that are."""
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
        """Since the first batch by its timestamp; without one, since the segment was opened."""
        first = self._load_first_batch_timestamp()
        if first is not None and first >= 0:
            return message_timestamp - first
        return now - self._created_ms

    def get_first_batch_timestamp(self) -> int:
        """2**63 - 1 if there is none."""
        first = self._load_first_batch_timestamp()
        return first if first is not None and first >= 0 else LONG_MAX

    def _load_first_batch_timestamp(self) -> int | None:
        if self._rolling_based_timestamp is None:
            for batch in self.log.batches():
                self._rolling_based_timestamp = batch.max_timestamp
                break
        return self._rolling_based_timestamp

    def on_become_inactive_segment(self) -> None:
        """Note the largest timestamp, and cut what was preallocated."""
        self.time_index.maybe_append(*self._read_max_timestamp_and_offset(), skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        self.log.trim()

    # ---------------------------------------------------------------------------------- reading

    def translate_offset(
        self, offset: int, starting_file_position: int = 0
    ) -> LogOffsetPosition | None:
        """The first batch whose last offset is this one or more."""
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
        """At most `max_size` bytes from the batch of `start_offset` on, up to `max_position`.

        The first batch is given whole, however large, if `min_one_message`. None if all offsets are
        smaller. `max_position` None (Kafka's empty Optional): no bytes, only where they are.
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
        """The offset behind the last batch: the walk begins at the last index entry."""
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
        """The first record of this time or later, from `starting_offset` (the base) on."""
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
        """The last offset of the batch that has it."""
        return self._read_max_timestamp_and_offset().offset

    def largest_record_timestamp(self) -> int | None:
        largest = self.max_timestamp_so_far()
        return largest if largest >= 0 else None

    def largest_timestamp(self) -> int:
        """Where no record has one, when the file was last modified."""
        largest = self.max_timestamp_so_far()
        return largest if largest >= 0 else self.last_modified

    def _read_max_timestamp_and_offset(self) -> TimestampOffset:
        """What was appended since the segment was opened, or else the last entry of the index."""
        if self._max_timestamp_and_offset is None:
            self._max_timestamp_and_offset = self.time_index.last_entry
        return self._max_timestamp_and_offset

    # ---------------------------------------------------------------------- recovery, truncation

    def sanity_check(self, *, time_index_newly_created: bool) -> None:
        """FileNotFoundError without an offset index, CorruptIndexError for a bad transaction index.

        The other two are not looked at: whatever is not flushed is recovered anyway.
        """
        if not self._files.exists(self._lazy_offset_index.name):
            path = self._files.path(self._lazy_offset_index.name)
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
        """Check every batch, make the indexes anew, cut from the first unsound batch on.

        How many bytes were cut; `recovery_error` says why. See SegmentRecovery for what it raises.
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
        """Drop batches that end at `offset` or later; how many bytes. Indexes become full size."""
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
        """Note the largest timestamp, if it was ever asked for, trim and close the files."""
        if self._max_timestamp_and_offset is not None:
            with contextlib.suppress(LogError, OSError):
                self.time_index.maybe_append(*self._max_timestamp_and_offset, skip_full_check=True)
        with contextlib.ExitStack() as stack:  # the last one first
            stack.callback(self.transaction_index.close)
            stack.callback(self.log.close)
            stack.callback(self._lazy_time_index.close)
            stack.callback(self._lazy_offset_index.close)

    def close_handlers(self) -> None:
        """Let go of the files as they are: after a failed disk, or to play a crash."""
        for close in (
            self._lazy_offset_index.close_handler,
            self._lazy_time_index.close_handler,
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
        """All of its files, even if one of them cannot be deleted."""
        with contextlib.ExitStack() as stack:
            for part in reversed(self._parts):
                stack.callback(part.delete_if_exists)

    def deleted(self) -> bool:
        return not any(self._files.exists(part.name) for part in self._parts)

    @property
    def last_modified(self) -> int:
        """Of the `.log`, epoch milliseconds; 0 if it is not there."""
        try:
            return self._files.modified_ms(self.name)
        except FileNotFoundError:
            return 0

    def set_last_modified(self, modified_ms: int) -> None:
        for part in self._parts[:3]:
            self._files.set_modified_ms(part.name, modified_ms)
