"""Check every batch of a segment, rebuild its indexes, find where to truncate (LogSegment.recover).

The segment is read in pieces. Compiled code computes the checksums and index entries of a piece,
and producers are replayed over its columns. Kafka works batch by batch; here a step is applied to
the whole piece, or to the batches before the one that stops it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.batch_layout import CRC_AT, MESSAGE_CRC_AT
from kafka_format.columnar.compilation import can_compile
from kafka_format.columnar.headers import BatchColumns, BatchScan, Piece
from kafka_format.errors import CrcMismatchError, FormatError, Location
from kafka_log.errors import IndexFullError, InvalidOffsetError, SegmentOffsetOverflowError
from kafka_log.indexes import kernels as k
from kafka_log.indexes.bulk import EntrySelection, append_entries
from kafka_log.indexes.mapped_index import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import DamagedBatch
    from kafka_log.indexes.bulk import SelectedEntries
    from kafka_log.indexes.index_files import TimestampOffset
    from kafka_log.log.leader_epochs import LeaderEpochFileCache
    from kafka_log.producers.producer_state import ProducerStateManager
    from kafka_log.producers.replay import BatchReader
    from kafka_log.segment.log_segment import LogSegment

    Int64s = npt.NDArray[np.int64]

_MANY_BATCHES = 512

# Loading numba takes as long as reading this much without it, if batches are small.
_LARGE_ENOUGH_TO_LOAD = 4 * 1024 * 1024


class RecoveryResult(NamedTuple):
    """How many bytes of a segment are valid, and what is wrong with the batch that follows."""

    valid_bytes: int
    error: FormatError | None


class SegmentRecovery:
    """One recovery of a segment whose indexes have been reset."""

    def __init__(
        self,
        segment: LogSegment,
        producer_state_manager: ProducerStateManager,
        leader_epoch_cache: LeaderEpochFileCache,
    ) -> None:
        self._segment = segment
        self._producers = producer_state_manager
        self._epochs = leader_epoch_cache
        self._compiled = _prefers_compiled(segment.size)
        self._offset_index = segment.offset_index
        self._time_index = segment.time_index
        self._selection = EntrySelection(
            self._offset_index,
            self._time_index,
            interval=segment.index_interval_bytes,
            compiled=self._compiled,
        )
        self._valid_bytes = 0

    @property
    def max_timestamp_and_offset(self) -> TimestampOffset:
        return self._selection.max_timestamp_and_offset

    def run(self) -> RecoveryResult:
        """Check the segment and rebuild its indexes.

        Raises SegmentOffsetOverflowError, InvalidOffsetError and the errors of the replay. What was
        done for the batches before stays, as in Kafka.
        """
        log = self._segment.log
        reader = cast("BinaryIO", log.reader())
        scan = BatchScan(reader, path=log.path, end=log.size, compiled=self._compiled)
        for batches, read_batch in self._runs(scan):
            error = self._recover_run(batches, read_batch)
            if error is not None:
                return RecoveryResult(self._valid_bytes, error)
        return RecoveryResult(self._valid_bytes, scan.end.error if scan.end else None)

    def _runs(self, scan: BatchScan) -> Iterator[tuple[BatchColumns, BatchReader]]:
        """Yield runs of many batches: pieces with few large batches are joined.

        A run ends after a piece with an invalid batch. Apart from the checksums, a run of a
        thousand batches costs as much as one of ten.
        """
        waiting: list[BatchColumns] = []
        for piece in scan.pieces():
            if not waiting and len(piece.batches) >= _MANY_BATCHES:
                yield piece.batches, _batch_reader(piece)
                continue
            waiting.append(piece.batches)
            if sum(map(len, waiting)) >= _MANY_BATCHES or not piece.batches.is_valid.all():
                yield _joined(waiting), self._segment.log.read_exactly
                waiting = []
        if waiting:
            yield _joined(waiting), self._segment.log.read_exactly

    def _recover_run(self, batches: BatchColumns, read_batch: BatchReader) -> FormatError | None:
        """Apply the valid batches of a run; return what is wrong with the next, if anything."""
        before = self._selection.state.copy()
        count, entries, why = self._select(batches)
        damage = self._replay(batches, count, read_batch)
        if damage is not None:
            # A malformed control batch. Kafka has already counted its bytes, so it stays.
            self._selection.state = before
            count, entries, why = self._select(batches[: damage.batch + 1])
        append_entries(self._offset_index, self._time_index, entries)
        if count:
            self._assign_epochs(batches, count)
            self._valid_bytes = int(batches.position[count - 1] + batches.size_in_bytes[count - 1])
        if damage is not None:
            return damage.error
        return None if why == k.NOT_STOPPED else self._problem(batches, count, why)

    def _select(self, batches: BatchColumns) -> SelectedEntries:
        table = np.empty((4, len(batches)), np.int64)
        table[0] = batches.position
        table[1] = batches.last_offset
        table[2] = batches.max_timestamp
        table[3] = batches.is_valid
        return self._selection.select(table)

    def _assign_epochs(self, batches: BatchColumns, count: int) -> None:
        epochs = np.where(batches.is_legacy, -1, batches.partition_leader_epoch)[:count]
        latest = self._epochs.latest_epoch
        latest = -1 if latest is None else latest
        if int(epochs.max()) <= latest:
            return
        before = np.maximum.accumulate(np.concatenate(([latest], epochs[:-1])))
        for batch in np.flatnonzero(epochs > before).tolist():
            self._epochs.assign(int(epochs[batch]), int(batches.base_offset[batch]))

    def _replay(
        self, batches: BatchColumns, count: int, read_batch: BatchReader
    ) -> DamagedBatch | None:
        if not count:
            return None
        return self._producers.replay_batches(
            batches if count == len(batches) else batches[:count],
            read_batch,
            on_completed=self._segment.update_txn_index,
        )

    def _problem(self, batches: BatchColumns, batch: int, why: int) -> FormatError:
        """Return the error of the batch that truncates the log, or raise a more serious one."""
        path, position = batches.path, int(batches.position[batch])
        if why == k.INVALID_BATCH:
            crc = MESSAGE_CRC_AT if batches.is_legacy[batch] else CRC_AT
            computed = 0 if batches.computed_crc is None else int(batches.computed_crc[batch])
            return CrcMismatchError(
                Location(path, position + crc),
                f"stored crc {int(batches.crc[batch]):#010x}",
                f"computed crc {computed:#010x}",
            )
        last_offset = int(batches.last_offset[batch])
        where = f"{Location(path, position)}: found last offset {last_offset}"
        if why == k.OFFSET_OVERFLOW:
            raise SegmentOffsetOverflowError(
                f"{where}, expected {self._segment.base_offset} and at most {INT32_MAX} more",
                self._segment,
            )
        if why in {k.OFFSET_INDEX_FULL, k.TIME_INDEX_FULL}:
            raise IndexFullError(f"{where} and a full index, expected room for an entry")
        raise InvalidOffsetError(f"{where}, expected more than {self._offset_index.last_offset}")


class _RecoveredBytes:
    """Bytes that this process has recovered: many small segments are worth compiling for, too."""

    total = 0


def _prefers_compiled(size: int) -> bool:
    _RecoveredBytes.total += size
    if "numba" not in sys.modules and _RecoveredBytes.total < _LARGE_ENOUGH_TO_LOAD:
        return False
    return can_compile()


def _joined(runs: list[BatchColumns]) -> BatchColumns:
    if len(runs) == 1:
        return runs[0]
    crc = np.concatenate([run.computed_crc for run in runs if run.computed_crc is not None])
    table = np.concatenate([run.table for run in runs], axis=1)
    return BatchColumns(table, path=runs[0].path, computed_crc=crc)


def _batch_reader(piece: Piece) -> BatchReader:
    data, base = piece.data, piece.base
    return lambda position, size: data[position - base : position - base + size].data
