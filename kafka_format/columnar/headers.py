"""Batch headers as columns, without the records.

`HeaderWalk` skips record bytes, and does not even read them where batches are large. `BatchScan`
reads whole batches and can verify their checksums; the record decoder builds on it. Both yield
BatchColumns in file order and set `end` when they are exhausted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from kafka_format.columnar import kernels as k
from kafka_format.columnar.compilation import can_compile
from kafka_format.columnar.window import CHUNK_BYTES, TableRow, Window
from kafka_format.errors import MEMORY
from kafka_format.log_file import LogFile, SegmentEnd

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.primitives import Buffer

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

TABLE_ROWS = 32 * 1024
# For larger batches, one read per header costs less than reading the records as well.
_LARGE_BATCH = 32 * 1024
_SMALL_READ = 4 * 1024


class BatchColumns:
    """Headers of consecutive batches, one column per field, under Kafka's names.

    For a legacy message, `base_offset` is the offset in its header (of a wrapper: that of its last
    record), `max_timestamp` is its timestamp, and fields that the format lacks are -1.
    """

    def __init__(self, table: Int64s, *, path: str, computed_crc: Int64s | None = None) -> None:
        self.table = table  # all fields, in the form that the kernels take
        self.path = path
        self.computed_crc = computed_crc

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __repr__(self) -> str:
        if not len(self):
            return f"BatchColumns({self.path}: none)"
        first, last = int(self.position[0]), int(self.position[-1])
        return f"BatchColumns({self.path}@{first}..{last}: {len(self)} batches)"

    def __getitem__(self, which: slice) -> BatchColumns:
        """Return some of the batches in a new table, since kernels need contiguous memory."""
        crc = None if self.computed_crc is None else self.computed_crc[which]
        return BatchColumns(self.table[:, which].copy(), path=self.path, computed_crc=crc)

    position = TableRow[np.int64]("table", k.POSITION)
    base_offset = TableRow[np.int64]("table", k.BASE_OFFSET)
    size_in_bytes = TableRow[np.int64]("table", k.SIZE_IN_BYTES)
    partition_leader_epoch = TableRow[np.int64]("table", k.PARTITION_LEADER_EPOCH)
    magic = TableRow[np.int64]("table", k.MAGIC)
    crc = TableRow[np.int64]("table", k.CRC)
    attributes = TableRow[np.int64]("table", k.ATTRIBUTES)
    last_offset_delta = TableRow[np.int64]("table", k.LAST_OFFSET_DELTA)
    base_timestamp = TableRow[np.int64]("table", k.BASE_TIMESTAMP)
    max_timestamp = TableRow[np.int64]("table", k.MAX_TIMESTAMP)
    producer_id = TableRow[np.int64]("table", k.PRODUCER_ID)
    producer_epoch = TableRow[np.int64]("table", k.PRODUCER_EPOCH)
    base_sequence = TableRow[np.int64]("table", k.BASE_SEQUENCE)
    record_count = TableRow[np.int64]("table", k.RECORD_COUNT)

    @property
    def codec(self) -> Int64s:
        return self.attributes & k.CODEC_MASK

    @property
    def last_offset(self) -> Int64s:
        return self.base_offset + self.last_offset_delta

    @property
    def is_legacy(self) -> Bools:
        return self.magic < 2

    @property
    def is_valid(self) -> Bools:
        """Whether the stored checksum equals the computed one, as in RecordBatch.isValid."""
        if self.computed_crc is None:
            raise ValueError("these batches were read without checksum verification")
        valid: Bools = self.crc == self.computed_crc
        return valid


class Piece(NamedTuple):
    """Whole batches and their bytes. The bytes are valid until the next piece is requested."""

    data: npt.NDArray[np.uint8]
    base: int
    batches: BatchColumns

    def checksums(self, kernels: Any, *, compiled: bool) -> Int64s:
        """Compute the checksum of each batch."""
        crc = np.empty(len(self.batches), np.int64)
        data = kernel_bytes(self.data, compiled=compiled)
        kernels.checksum_batches(data, self.base, self.batches.table, crc)
        return crc


def kernels_for(*, compiled: bool | None) -> tuple[Any, bool]:
    """Return the kernels, and whether they are compiled. None: compiled if numba is available."""
    chosen = can_compile() if compiled is None else compiled
    return k.load(compiled=chosen), chosen


class BatchScan:
    """Whole batches of a segment, with headers as columns and checksums on request."""

    def __init__(
        self,
        source: BinaryIO | Buffer,
        *,
        path: str = MEMORY,
        start: int = 0,
        end: int | None = None,
        verify: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
        compiled: bool | None = None,
    ) -> None:
        self.path = path
        self.end: SegmentEnd | None = None
        self._source = source
        self._start = start
        self._verify = verify
        self._window = Window(source, start=start, end=end, chunk=chunk_bytes)
        self._kernels, self.compiled = kernels_for(compiled=compiled)

    @property
    def limit(self) -> int:
        """Where the file ends, or where the scan is to end."""
        return self._window.end

    def __iter__(self) -> Iterator[BatchColumns]:
        for piece in self.pieces():
            yield piece.batches

    def pieces(self) -> Iterator[Piece]:
        window = self._window
        position = self._start
        table = np.empty((k.HEADER_FIELDS, TABLE_ROWS), np.int64)
        while True:
            at = position - window.base
            count, reached, reason = self._kernels.read_headers(
                kernel_bytes(window.data, compiled=self.compiled),
                window.base,
                at,
                window.filled,
                window.end - window.base,
                table,
                0,
            )
            count, position, missing = self._whole(table, count, reached)
            if count:
                yield self._piece(table[:, :count].copy())
            if missing or reason == k.NEED_BYTES:
                if not window.advance(position, missing):
                    break
            elif reason != k.TABLE_FULL:
                break
        self.end = segment_end(self._source, position, path=self.path, end=window.end)

    def _whole(self, table: Int64s, count: int, reached: int) -> tuple[int, int, int]:
        """Return the count of whole batches, where the next begins, and its size if it is missing.

        The walk needs only headers, so the last batch may extend beyond the bytes in the window.
        """
        window = self._window
        if count and reached > window.filled:
            last = int(table[k.POSITION, count - 1])
            return count - 1, last, int(table[k.SIZE_IN_BYTES, count - 1])
        return count, window.base + reached, 0

    def _piece(self, table: Int64s) -> Piece:
        piece = Piece(self._window.data, self._window.base, BatchColumns(table, path=self.path))
        if self._verify:
            piece.batches.computed_crc = piece.checksums(self._kernels, compiled=self.compiled)
        return piece


class HeaderWalk:
    """The batch headers of a segment; record bytes are skipped."""

    def __init__(
        self,
        source: BinaryIO | Buffer,
        *,
        path: str = MEMORY,
        start: int = 0,
        end: int | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.path = path
        self.end: SegmentEnd | None = None
        self._source = source
        self._start = start
        self._window = Window(source, start=start, end=end, chunk=_SMALL_READ)
        self._wide = Window(source, start=start, end=end, chunk=CHUNK_BYTES)
        self._kernels, self.compiled = kernels_for(compiled=compiled)

    def __iter__(self) -> Iterator[BatchColumns]:
        position = self._start
        count = 0
        table = np.empty((k.HEADER_FIELDS, TABLE_ROWS), np.int64)
        window = self._wide
        while True:
            before, began = position, count
            count, reached, reason = self._kernels.read_headers(
                kernel_bytes(window.data, compiled=self.compiled),
                window.base,
                position - window.base,
                window.filled,
                window.end - window.base,
                table,
                count,
            )
            position = window.base + reached
            if reason == k.NEED_BYTES:
                if count > began:
                    large = (position - before) // (count - began) > _LARGE_BATCH
                    window = self._window if large else self._wide
                if not window.advance(position):
                    break
            elif reason == k.TABLE_FULL:
                yield BatchColumns(table, path=self.path)
                table = np.empty((k.HEADER_FIELDS, TABLE_ROWS), np.int64)
                count = 0
            else:
                break
        if count:
            yield BatchColumns(table[:, :count], path=self.path)
        self.end = segment_end(self._source, position, path=self.path, end=window.end)


def kernel_bytes(data: npt.NDArray[np.uint8], *, compiled: bool) -> Any:
    """Return bytes in the form that kernels need: plain Python needs the ints of a memoryview."""
    return data if compiled else data.data


def segment_end(
    source: BinaryIO | Buffer, position: int, *, path: str, end: int
) -> SegmentEnd | None:
    """Return the row reader's result for the position where a kernel found no further batch."""
    log = LogFile(source, path=path, start=position, end=end)
    for batch in log.batches():
        raise AssertionError(f"{batch.location}: the row reader finds a batch")
    return log.end
