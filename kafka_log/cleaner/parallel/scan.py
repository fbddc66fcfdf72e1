"""Scan a part of a log for what other tasks must know about it.

    for the reduction     for each key its hash, its last record (or those that no later record of
                          this part supersedes) and its first that Kafka's map would get: 24 bytes
    for the rewriting     which of its records are superseded within the part, as a set of offsets
    for the driver        counts, its transactions, and where a full map would have been noticed

A key is put into the map if its offset is in the dirty part, at the first dirty offset or later,
and its batch was not aborted. All other keys only ask whether they are superseded.
"""

from __future__ import annotations

import os
import pickle
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.access import open_evidence
from kafka_format.attributes import CONTROL
from kafka_format.batch import BatchHeader, RecordBatch
from kafka_format.columnar.headers import BatchScan, HeaderWalk, kernel_bytes
from kafka_format.columnar.records import RecordScan
from kafka_format.columnar.window import readonly
from kafka_log.cleaner.parallel.key_index import HashedRows, KeyIndex, grown, load
from kafka_log.cleaner.parallel.offset_set import encode_offsets
from kafka_log.cleaner.parallel.parts import LONG_MAX, NO_OFFSET, NotParallelError, write_whole
from kafka_log.cleaner.parallel.trace import (
    Trace,
    Tracer,
    kinds,
    last_offsets,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_format.log_file import SegmentEnd
    from kafka_log.cleaner.parallel.parts import LogPart, ScanSettings
    from kafka_log.cleaner.transactions import CleanedTransactionMetadata

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]
    Uint8s = npt.NDArray[np.uint8]

ROW_BYTES = 24
_INT32_MAX = 2**31 - 1


class RefusedRecord(NamedTuple):
    """The first record that a map full after `ScanTask.limit` would have refused."""

    messages_before: int
    """The messages of the part before it, as CleanerStats counts them."""
    latest_before: int
    """The last offset that the map covered then; -1 if it had read nothing of the part."""
    position: int
    """The position of its batch."""


class ScanTask(NamedTuple):
    part: LogPart
    settings: ScanSettings
    state: bytes | None = None
    """The state of transactions before the part (pickled); None if none was aborted."""
    limit: int = LONG_MAX
    """The last offset that the map took."""
    mark: int = NO_OFFSET
    """`ScanResult.refused` is the first refused record after this offset."""


class ScanResult(NamedTuple):
    number: int
    trace: Trace
    messages: int
    rows: int
    first_offset: int
    """-1 without any key."""
    last_offset: int
    latest: int
    """The last offset of the last batch at the first dirty offset or later, else -1."""
    refused: RefusedRecord | None
    emitted: int
    """Rows for the reduction."""


def walk_part(part: LogPart) -> Trace:
    """Return only the transactions of a part, by the headers of its batches."""
    with _opened(part) as file:
        walk = HeaderWalk(file, path=part.path, start=part.start, end=part.end)
        tracer = Tracer(part.path, partial(_read, file.fileno()))
        for batches in walk:
            tracer.add(batches)
        _ensure_whole(part, walk.end)
        return tracer.trace()


def scan_part(task: ScanTask) -> tuple[ScanResult, list[bytes]]:
    """Scan a part; return the result and key rows for each range of hashes."""
    part = task.part
    with _opened(part) as file:
        records = RecordScan(
            file,
            path=part.path,
            start=part.start,
            end=part.end,
            verify=task.settings.verify,
            piece_rows=_INT32_MAX,
        )
        scan = _PartScan(
            task, Tracer(part.path, partial(_read, file.fileno())), compiled=records.compiled
        )
        for piece in records:
            scan.add(piece)
        _ensure_whole(part, records.end)
        return scan.finish()


def check_part(part: LogPart) -> None:
    """Check a part that no scan reads. Raises NotParallelError for a wrong checksum."""
    with _opened(part) as file:
        scan = BatchScan(file, path=part.path, start=part.start, end=part.end)
        for batches in scan:
            if not batches.is_valid.all():
                raise NotParallelError(f"{part.path}@{part.start}: found a wrong checksum")
        _ensure_whole(part, scan.end)


def _opened(part: LogPart) -> BinaryIO:
    """Open a segment: of the evidence, or a cleaned one."""
    return cast("BinaryIO", open_evidence(part.path))


def _read(fd: int, position: int, size: int) -> bytes:
    """Read bytes without moving the position of the file's other reader."""
    return os.pread(fd, size, position)


def _ensure_whole(part: LogPart, end: SegmentEnd | None) -> None:
    if end is None or end.reason != "end_of_file" or end.position != part.end:
        found = "no end" if end is None else end.reason
        raise NotParallelError(f"{part.path}@{part.start}: found {found}, expected whole batches")


class _PartScan:
    def __init__(self, task: ScanTask, tracer: Tracer, *, compiled: bool) -> None:
        self._task = task
        self._tracer = tracer
        self._compiled = compiled
        self._kernels = load()
        self._transactions: CleanedTransactionMetadata | None = None
        if task.state is not None:
            self._transactions = pickle.loads(task.state)  # noqa: S301  # our own driver's
        self._keys = KeyIndex()
        self._first = np.zeros(1, np.int32)
        self._last = np.zeros(1, np.int32)
        self._numbers: list[Int32s] = []
        self._relative: list[Int32s] = []
        self._messages = 0
        self._latest = NO_OFFSET
        self._previous = NO_OFFSET
        self._first_offset = NO_OFFSET
        self._refused: RefusedRecord | None = None

    def add(self, records: RecordColumns) -> None:
        if records.damage:
            raise NotParallelError(str(records.damage[0].error))
        batches = records.batches
        self._tracer.add(batches)
        count = len(batches)
        edges = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(records.batch, minlength=count), out=edges[1:])
        is_control = (kinds(batches) & CONTROL) != 0
        is_aborted = self._is_aborted(batches, is_control)
        hashes, offsets, batch_of = self._hash(records, edges, ~is_control)
        relative = self._relative_offsets(offsets)
        is_put = np.zeros(len(offsets), np.bool_)
        if self._task.part.is_dirty:
            read = np.diff(edges)
            read[is_control] = 1
            read[is_aborted] = batches.record_count[is_aborted]
            is_dirty = (offsets >= self._task.settings.start_offset) & ~is_aborted[batch_of]
            is_put = is_dirty & (offsets <= self._task.limit)
            self._look_for_refused(records, (edges, read), (is_dirty, is_put), (offsets, batch_of))
            self._messages += int(read.sum())
            dirty = np.flatnonzero(last_offsets(batches) >= self._task.settings.start_offset)
            if len(dirty):
                self._latest = int(last_offsets(batches)[dirty[-1]])
        self._note(hashes, relative, is_put)

    def _is_aborted(
        self, batches: BatchColumns, is_control: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return which batches belong to aborted transactions."""
        is_aborted = np.zeros(len(batches), np.bool_)
        if self._transactions is None or not self._task.part.is_dirty:
            return is_aborted
        last = np.maximum.accumulate(last_offsets(batches))
        for i in np.flatnonzero(kinds(batches)).tolist():
            if i:
                self._transactions.consume_up_to(int(last[i - 1]))
            position, size = int(batches.position[i]), int(batches.size_in_bytes[i])
            raw = memoryview(self._tracer.read(position, size))
            batch = RecordBatch(BatchHeader.unpack(raw), batches.path, position, raw)
            if is_control[i]:
                self._transactions.on_control_batch_read(batch)
            else:
                is_aborted[i] = self._transactions.on_batch_read(batch)
        self._transactions.consume_up_to(int(last[-1]))
        return is_aborted

    def _hash(
        self, records: RecordColumns, edges: Int64s, is_data: npt.NDArray[np.bool_]
    ) -> HashedRows:
        rows = len(records)
        hashed = HashedRows(
            np.empty((rows, 2), np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
        )
        count = self._kernels.hash_rows(
            kernel_bytes(readonly(records.data), compiled=self._compiled),
            records.longs,
            records.ints,
            edges,
            is_data.astype(np.uint8),
            self._task.settings.secret,
            hashed,
        )
        return HashedRows(*(column[:count] for column in hashed))

    def _relative_offsets(self, offsets: Int64s) -> Int32s:
        if not len(offsets):
            return np.empty(0, np.int32)
        if self._previous >= offsets[0] or np.any(offsets[1:] <= offsets[:-1]):
            raise NotParallelError(f"{self._task.part.path}: found offsets that do not rise")
        base = self._task.part.base_offset
        if offsets[0] < base or offsets[-1] - base >= _INT32_MAX:
            raise NotParallelError(f"{self._task.part.path}: found offsets far from {base}")
        if self._first_offset == NO_OFFSET:
            self._first_offset = int(offsets[0])
        self._previous = int(offsets[-1])
        return (offsets - base).astype(np.int32)

    def _look_for_refused(
        self,
        records: RecordColumns,
        read: tuple[Int64s, Int64s],
        chosen: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
        rows: tuple[Int64s, Int64s],
    ) -> None:
        """Find the refused record as the map would: by records; batches count when they end."""
        (edges, counts), (is_dirty, is_put), (offsets, batch_of) = read, chosen, rows
        late = np.flatnonzero(is_dirty & (offsets > self._task.mark))
        if self._refused is not None or not len(late):
            return
        row = int(late[0])
        batch = int(batch_of[row])
        latest = self._latest
        ended = last_offsets(records.batches)[:batch]
        dirty = np.flatnonzero(ended >= self._task.settings.start_offset)
        if len(dirty):
            latest = int(ended[dirty[-1]])
        put = np.flatnonzero(is_put[:row] & (batch_of[:row] == batch))
        if len(put):
            latest = int(offsets[put[-1]])
        within = int(np.searchsorted(records.offset[edges[batch] : edges[batch + 1]], offsets[row]))
        self._refused = RefusedRecord(
            self._messages + int(counts[:batch].sum()) + within,
            latest,
            int(records.batches.position[batch]),
        )

    def _note(self, hashes: Int64s, relative: Int32s, is_put: npt.NDArray[np.bool_]) -> None:
        numbers = self._keys.numbers(hashes)
        self._first = grown(self._first, self._keys.count)
        self._last = grown(self._last, self._keys.count)
        self._kernels.note_puts(numbers, relative, is_put.astype(np.uint8), self._first, self._last)
        self._numbers.append(numbers)
        self._relative.append(relative)

    def finish(self) -> tuple[ScanResult, list[bytes]]:
        part, settings = self._task.part, self._task.settings
        numbers = np.concatenate(self._numbers) if self._numbers else np.empty(0, np.int32)
        relative = np.concatenate(self._relative) if self._relative else np.empty(0, np.int32)
        last = self._last[numbers]
        is_superseded = relative + 1 < last
        superseded = part.base_offset + relative[is_superseded].astype(np.int64)
        write_whole(superseded_path(settings.work, part.number), encode_offsets(superseded))
        chosen = ~is_superseded
        numbers, relative = numbers[chosen], relative[chosen]
        first = np.where(relative + 1 == last[chosen], self._first[numbers], 0).astype(np.int32)
        scanned = ScanResult(
            part.number,
            self._tracer.trace(),
            self._messages,
            len(last),
            self._first_offset,
            self._previous,
            self._latest,
            self._refused,
            len(numbers),
        )
        return scanned, _blocks(self._keys.hashes[numbers], relative, first, settings.ranges)


def superseded_path(work: str, number: int) -> Path:
    return Path(work) / f"part-{number:06d}.superseded"


def _blocks(hashes: Int64s, relative: Int32s, first: Int32s, ranges: int) -> list[bytes]:
    """Return rows by the range of their hash, each range in the order of the log."""
    range_of = ranges_of(hashes, ranges)
    order = np.argsort(range_of, kind="stable")
    ends = np.cumsum(np.bincount(range_of, minlength=ranges))
    blocks, begin = [], 0
    for end in ends.tolist():
        rows = order[begin:end]
        blocks.append(hashes[rows].tobytes() + relative[rows].tobytes() + first[rows].tobytes())
        begin = end
    return blocks


def ranges_of(hashes: Int64s, ranges: int) -> Int64s:
    """Return the range of each hash, by its upper half; slots of an index use the lower."""
    upper = (hashes[:, 1] >> 32) & 0xFFFF_FFFF
    found: Int64s = (upper * ranges) >> 32
    return found


class KeyRows(NamedTuple):
    """Rows of one part and range."""

    hashes: Int64s
    relative: Int32s
    first: Int32s
    """The first put record of the key in the part, plus one; 0 is none."""

    @classmethod
    def decode(cls, data: bytes) -> KeyRows:
        rows = len(data) // ROW_BYTES
        return cls(
            np.frombuffer(data, np.int64, 2 * rows).reshape(rows, 2),
            np.frombuffer(data, np.int32, rows, 16 * rows),
            np.frombuffer(data, np.int32, rows, 20 * rows),
        )
