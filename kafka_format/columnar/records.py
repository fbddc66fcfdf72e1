"""Decode records into columns: positions of keys and values, millions of records per second.

A segment is read in pieces. Uncompressed batches of a piece are decoded in place. If any batch is
compressed, the payloads of all are moved into one arena, so that the positions of a piece point
into one array. Memory is bounded by a chunk of the file and the arena, or by the largest batch,
whichever is larger, and by the rows of a piece: a record of seven bytes becomes a row of 44. A
batch of more records than a piece has rows is split into several pieces.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from kafka_format.batch_layout import KEY_LENGTH_AT
from kafka_format.columnar import kernels as k
from kafka_format.columnar import legacy_kernels
from kafka_format.columnar.ahead import Ahead, can_read_ahead
from kafka_format.columnar.headers import BatchColumns, BatchScan, Piece, kernel_bytes
from kafka_format.columnar.native_codecs import zstd_contexts
from kafka_format.columnar.record_columns import DamagedBatch, RecordColumns
from kafka_format.columnar.window import CHUNK_BYTES, Scratch, readonly
from kafka_format.compression import Codec, decompress, default_limit
from kafka_format.errors import MEMORY, FormatError, Location
from kafka_format.log_file import LogFile, SegmentEnd

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.primitives import Buffer

    Int64s = npt.NDArray[np.int64]
    Int32s = npt.NDArray[np.int32]
    Uint8s = npt.NDArray[np.uint8]

ARENA_BYTES = 2 * 1024 * 1024
PIECE_ROWS = 256 * 1024
# Per thread: passing on a result costs as much as decoding a tenth of a chunk.
_CHUNKS_PER_TASK = 2


class _Payloads(NamedTuple):
    """Decompressed payloads in `data`, of a slice of a run's batches."""

    data: Uint8s
    selection: slice
    starts: Int64s
    ends: Int64s

    def part(self, batch_slice: slice) -> _Payloads:
        first = self.selection.start
        selection = slice(first + batch_slice.start, first + batch_slice.stop)
        return _Payloads(self.data, selection, self.starts[batch_slice], self.ends[batch_slice])


class RecordScan:
    """All records of a segment, in pieces, in file order; then `end` says how the segment ends.

    With `verify`, a batch with a wrong checksum is damage. With `decode_invalid` as well, its
    records are still decoded, as kafka-dump-log does, and `batches.is_valid` is false for it.

    With `threads`, that many threads read and decode ahead, if the kernels are compiled and the
    source is a regular file of several chunks. The records are the same, but split into other
    pieces; every thread takes more memory than a scan without threads.
    """

    def __init__(  # noqa: PLR0913 - the options of a public call
        self,
        source: BinaryIO | Buffer,
        *,
        path: str = MEMORY,
        start: int = 0,
        end: int | None = None,
        verify: bool = True,
        decode_invalid: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        arena_bytes: int = ARENA_BYTES,
        piece_rows: int = PIECE_ROWS,
        decompressed_limit: int | None = None,
        compiled: bool | None = None,
        threads: int = 1,
    ) -> None:
        self.end: SegmentEnd | None = None
        self._source = source
        self._start = start
        self._threads = threads
        self._chunk_bytes = chunk_bytes
        self._scan = BatchScan(
            source,
            path=path,
            start=start,
            end=end,
            verify=False,  # done by this class, together with the decoding where possible
            chunk_bytes=chunk_bytes,
            compiled=compiled,
        )
        self.path = path
        self.compiled = self._scan.compiled
        self._verify = verify
        self._refuse_invalid = verify and not decode_invalid
        self._limit = decompressed_limit
        self._arena_bytes = max(arena_bytes, 2 * k.LZ4_BLOCK)
        self._piece_rows = piece_rows
        self._arena = Scratch(np.uint8)
        self._longs = Scratch(np.int64)
        self._ints = Scratch(np.int32)
        self._kernels = k.load(compiled=self.compiled)
        self._legacy = legacy_kernels.load(compiled=self.compiled)

    def __iter__(self) -> Iterator[RecordColumns]:
        ahead = self._ahead()
        if ahead is not None:
            yield from ahead
            self.end = ahead.end
            return
        for piece in self._scan.pieces():
            yield from self._decode_piece(piece)
        self.end = self._scan.end

    def _ahead(self) -> Ahead[RecordColumns] | None:
        """Return a scan with threads, if they are requested and useful."""
        size, chunk = self._scan.limit - self._start, _CHUNKS_PER_TASK * self._chunk_bytes
        if self._threads < 2 or not self.compiled or not can_read_ahead(self._source, size, chunk):
            return None
        decoders = [
            RecordScan(
                b"",
                path=self.path,
                verify=self._verify,
                decode_invalid=not self._refuse_invalid,
                arena_bytes=max(self._arena_bytes, 4 * chunk),
                piece_rows=self._piece_rows,
                decompressed_limit=self._limit,
                compiled=True,
            ).columns
            for _ in range(self._threads + 1)
        ]
        return Ahead(
            self._source,
            decoders,
            path=self.path,
            start=self._start,
            end=self._scan.limit,
            chunk_bytes=chunk,
        )

    def columns(self, piece: Piece) -> Iterator[RecordColumns]:
        """Decode whole batches that the caller has read; memory is reused as in a scan."""
        return self._decode_piece(piece)

    def _decode_piece(self, piece: Piece) -> Iterator[RecordColumns]:
        batches = piece.batches
        total = len(batches)
        starts, ends = np.empty(total, np.int64), np.empty(total, np.int64)
        survey = self._kernels.survey
        damaged, legacy, packed, capacity = survey(
            batches.table, piece.base, starts, False, starts, ends
        )
        if 0 < legacy < total:
            for run in _runs(piece):
                yield from self._decode_piece(run)
            return
        if self._verify and (legacy or packed):
            crc = batches.computed_crc = piece.checksums(self._kernels, compiled=self.compiled)
            damaged, _, packed, _ = survey(
                batches.table, piece.base, crc, self._refuse_invalid, starts, ends
            )
        damage: dict[int, FormatError] = {}
        if damaged:
            for batch in np.flatnonzero(starts == -2).tolist():
                damage[batch] = self._ask_row_decoder(piece, batch)
        if packed:
            yield from self._decode_packed(piece, starts >= 0, damage)
        else:
            payloads = _Payloads(piece.data, slice(0, total), starts, ends)
            yield from self._iter_columns(piece, batches, payloads, damage, int(capacity))

    def _decode_packed(
        self, run: Piece, sound: npt.NDArray[np.bool_], damage: dict[int, FormatError]
    ) -> Iterator[RecordColumns]:
        """Decode compressed batches through the arena, which is refilled when it is used up."""
        first = 0
        while first < len(run.batches):
            payloads = self._fill_arena(run, first, sound, damage)
            batches = run.batches[payloads.selection]
            capacity = int(_possible_records(batches.table, payloads).sum())
            yield from self._iter_columns(run, batches, payloads, damage, capacity)
            first = payloads.selection.stop

    def _fill_arena(
        self,
        run: Piece,
        first: int,
        sound: npt.NDArray[np.bool_],
        damage: dict[int, FormatError],
    ) -> _Payloads:
        """Decompress payloads from batch `first` on, as many as there is room for."""
        total = len(run.batches)
        arena = self._arena.shaped(1, self._arena_bytes)[0]
        starts = np.full(total, -1, np.int64)
        ends = np.zeros(total, np.int64)
        reached, at = first, 0
        while reached < total:
            reached, at, full = self._unpack(run, reached, sound, arena, at, starts, ends)
            if reached == total or (full and at > 0):
                break  # all are decompressed, or the arena is full and must be decoded first
            plain = self._decompress(run, reached, damage)
            if plain is None:
                sound[reached] = False
            elif at + len(plain) <= len(arena):
                arena[at : at + len(plain)] = plain
                starts[reached], ends[reached] = at, at + len(plain)
                at += len(plain)
            elif at > 0:
                break  # the arena is full; this batch is the first of the next one
            else:
                arena = plain  # this batch alone is larger than the arena
                starts[reached], ends[reached] = 0, len(plain)
                reached += 1
                break
            reached += 1
        selection = slice(first, reached)
        return _Payloads(arena, selection, starts[selection], ends[selection])

    def _unpack(
        self,
        run: Piece,
        first: int,
        sound: npt.NDArray[np.bool_],
        arena: Uint8s,
        at: int,
        starts: Int64s,
        ends: Int64s,
    ) -> tuple[int, int, bool]:
        """Decompress what a kernel can; it leaves legacy wrappers to the caller.

        The kernel has no limit other than the arena's size.
        """
        limit = default_limit() if self._limit is None else self._limit
        if run.batches.is_legacy[0] or limit < len(arena):
            return first, at, False
        data = kernel_bytes(run.data, compiled=self.compiled)
        arguments = (arena, at, starts, ends, zstd_contexts().decompressing if self.compiled else 0)
        reached, at, full = self._kernels.unpack_batches(
            data, run.batches.table, run.base, first, len(sound), sound, *arguments
        )
        return int(reached), int(at), bool(full)

    def _decompress(self, run: Piece, batch: int, damage: dict[int, FormatError]) -> Uint8s | None:
        """Decompress one batch with the row codecs; a plain legacy message is its own payload."""
        if batch in damage:
            return None
        table = run.batches.table
        start = int(table[k.POSITION, batch]) - run.base
        end = start + int(table[k.SIZE_IN_BYTES, batch])
        codec = Codec(int(table[k.ATTRIBUTES, batch]) & k.CODEC_MASK)
        magic = int(table[k.MAGIC, batch])
        if magic >= 2:
            start += k.RECORD_BATCH_OVERHEAD
        elif codec is not Codec.NONE:
            start, end = _wrapper_value(run.data, start, end, magic)
        if codec is Codec.NONE:
            return run.data[start:end]
        try:
            plain = decompress(codec, run.data[start:end].data, magic=magic, limit=self._limit)
        except FormatError:
            damage[batch] = self._ask_row_decoder(run, batch)
            return None
        return np.frombuffer(plain, np.uint8)

    def _iter_columns(
        self,
        run: Piece,
        batches: BatchColumns,
        payloads: _Payloads,
        damage: dict[int, FormatError],
        capacity: int,
    ) -> Iterator[RecordColumns]:
        """Decode batches of a run in pieces of bounded size; `capacity` counts all magic-2 rows."""
        counts = np.zeros(len(batches), np.int64)
        if batches.is_legacy[0]:
            source = kernel_bytes(readonly(payloads.data), compiled=self.compiled)
            capacity = int(
                self._legacy.count_messages(
                    source, batches.table, payloads.starts, payloads.ends, counts
                )
            )
        if capacity <= self._piece_rows:
            yield self._columns(run, batches, payloads, damage, counts, capacity)
            return
        rows = np.maximum(counts, 0)
        if not batches.is_legacy[0]:
            rows = _possible_records(batches.table, payloads)
        for batch_slice in _cuts(rows, self._piece_rows):
            part, capacity = payloads.part(batch_slice), int(rows[batch_slice].sum())
            if capacity > self._piece_rows:
                yield from self._iter_one_batch(run, batches[batch_slice], part, damage, capacity)
            else:
                yield self._columns(
                    run, batches[batch_slice], part, damage, counts[batch_slice], capacity
                )

    def _columns(
        self,
        run: Piece,
        batches: BatchColumns,
        payloads: _Payloads,
        damage: dict[int, FormatError],
        counts: Int64s,
        capacity: int,
    ) -> RecordColumns:
        """Decode whole batches; for legacy ones `counts` is already set."""
        table, (data, selection, starts, ends) = batches.table, payloads
        source = kernel_bytes(readonly(data), compiled=self.compiled)
        longs = self._longs.shaped(k.LONG_FIELDS, capacity)
        ints = self._ints.shaped(k.INT_FIELDS, capacity)
        if batches.is_legacy[0]:
            rows, damaged = self._legacy.decode_messages(source, table, starts, longs, ints, counts)
        else:
            verify = self._verify and batches.computed_crc is None
            crc = np.empty(len(batches), np.int64) if verify else counts
            checks = (crc, verify, self._refuse_invalid)
            rows, damaged = self._kernels.decode_records(
                source, run.base, table, starts, ends, *checks, longs, ints, counts
            )
            batches.computed_crc = crc if verify else batches.computed_crc
        if damaged:
            for batch in np.flatnonzero(counts < 0).tolist():
                damage[selection.start + batch] = self._ask_row_decoder(
                    run, selection.start + batch
                )
        found = [
            DamagedBatch(batch - selection.start, damage[batch])
            for batch in sorted(damage)
            if selection.start <= batch < selection.stop
        ]
        # Kernels need contiguous memory; the rows are contiguous unless a batch is damaged.
        fields = (np.ascontiguousarray(longs[:, :rows]), np.ascontiguousarray(ints[:, :rows]))
        return RecordColumns(data, batches, fields, (starts, counts), found, compiled=self.compiled)

    def _iter_one_batch(
        self,
        run: Piece,
        batches: BatchColumns,
        payloads: _Payloads,
        damage: dict[int, FormatError],
        count: int,
    ) -> Iterator[RecordColumns]:
        """Decode a batch of more rows than a piece: once to check it, then to yield its rows."""
        number = payloads.selection.start
        if self._verify and batches.computed_crc is None:
            only = run._replace(batches=batches)
            batches.computed_crc = only.checksums(self._kernels, compiled=self.compiled)
        last = None
        if not self._refuse_invalid or batches.is_valid[0]:
            last = self._last_offset(batches, payloads, count)
        if last is None:
            damage[number] = self._ask_row_decoder(run, number)
            found, none = [DamagedBatch(0, damage[number])], np.full(1, -1, np.int64)
            fields = (self._longs.shaped(k.LONG_FIELDS, 0), self._ints.shaped(k.INT_FIELDS, 0))
            yield RecordColumns(
                payloads.data, batches, fields, (none, none), found, compiled=self.compiled
            )
            return
        for start, _, longs, ints in self._iter_rows(batches, payloads, count):
            rows = longs.shape[1]
            if batches.is_legacy[0]:
                self._legacy.shift_offsets(batches.table, 0, last, longs, 0, rows)
            yield RecordColumns(
                payloads.data,
                batches,
                (longs, ints),
                (np.full(1, start, np.int64), np.full(1, rows, np.int64)),
                [],
                compiled=self.compiled,
                is_continuation=start != payloads.starts[0],
            )

    def _iter_rows(
        self, batches: BatchColumns, payloads: _Payloads, count: int
    ) -> Iterator[tuple[int, int, Int64s, Int32s]]:
        """Yield rows of one batch, a piece at a time, with the positions where they begin and end.

        Legacy offsets are as stored. The end is -1 if the batch is not sound.
        """
        source = kernel_bytes(readonly(payloads.data), compiled=self.compiled)
        at, end = int(payloads.starts[0]), int(payloads.ends[0])
        while count > 0 and at >= 0:
            rows = min(count, self._piece_rows)
            count -= rows
            longs = self._longs.shaped(k.LONG_FIELDS, rows)
            ints = self._ints.shaped(k.INT_FIELDS, rows)
            start, table = at, batches.table
            if batches.is_legacy[0]:
                at = self._legacy.decode_entries(source, table, at, rows, 0, longs, ints, 0)
            else:
                at = self._kernels.decode_next_records(
                    source, table, at, end, rows, 0, longs, ints, 0
                )
            yield start, int(at), longs, ints

    def _last_offset(self, batches: BatchColumns, payloads: _Payloads, count: int) -> int | None:
        """Return the offset that a batch's last record stores; None if the batch is not sound."""
        reached, last = -1, 0
        for _, end, longs, _ in self._iter_rows(batches, payloads, count):
            reached, last = end, int(longs[k.OFFSET, -1])
        if batches.is_legacy[0]:
            none = self._longs.shaped(k.LONG_FIELDS, 0)
            is_sound = self._legacy.shift_offsets(batches.table, 0, last, none, 0, 0)
            return last if reached >= 0 and is_sound else None
        return last if reached == payloads.ends[0] else None

    def _ask_row_decoder(self, run: Piece, batch: int) -> FormatError:
        """Return the row decoder's error for a batch that a kernel rejected."""
        position = int(run.batches.position[batch])
        start = position - run.base
        raw = run.data[start : start + int(run.batches.size_in_bytes[batch])].tobytes()
        try:
            for decoded in LogFile(raw).batches():
                if self._refuse_invalid:
                    decoded.ensure_valid()
                decoded.iter_records(limit=self._limit)  # checks all records
        except FormatError as error:
            return error.moved(self.path, position)
        raise AssertionError(f"{Location(self.path, position)}: the row decoder finds no damage")


def _runs(piece: Piece) -> Iterator[Piece]:
    """Split a piece where legacy and magic-2 batches meet."""
    legacy = piece.batches.is_legacy
    cuts = [0, *(np.flatnonzero(legacy[1:] != legacy[:-1]) + 1).tolist(), len(legacy)]
    for first, last in pairwise(cuts):
        yield piece._replace(batches=piece.batches[first:last])


def _possible_records(table: Int64s, payloads: _Payloads) -> Int64s:
    """Return the record count of each batch, or 0 if its bytes cannot hold so many."""
    count = np.where(payloads.starts < 0, 0, table[k.RECORD_COUNT])
    possible = (count >= 0) & (count <= (payloads.ends - payloads.starts) // k.SMALLEST_RECORD)
    return np.where(possible, count, 0)


def _cuts(rows: Int64s, max_rows: int) -> Iterator[slice]:
    """Yield runs of batches with at most `max_rows` rows, or of one batch that has more."""
    edges = np.concatenate([[0], np.cumsum(rows)])
    first = 0
    while first < len(rows):
        fit = int(np.searchsorted(edges, edges[first] + max_rows, side="right")) - 1
        last = max(fit, first + 1)
        yield slice(first, last)
        first = last


def _wrapper_value(data: Uint8s, start: int, end: int, magic: int) -> tuple[int, int]:
    """Return the range of a legacy wrapper's compressed value; empty if its lengths do not fit."""
    view = data.data
    at = start + KEY_LENGTH_AT[magic]
    for _ in ("key", "value"):
        if at + 4 > end:
            return end, end
        length = max(k.int32(view, at), 0)
        start, at = at + 4, at + 4 + length
    return (start, at) if at <= end else (end, end)
