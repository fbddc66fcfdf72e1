"""Records as columns: where each key and value lies, millions of records a second.

A segment is read in pieces. Within a piece, batches that need no decompression are decoded where
they lie; if any needs it, the payloads of its neighbours move with it into one arena, so that the
positions of a piece point into one array. Memory is bounded by a chunk of the file and of the
arena, or by the largest batch, whichever is more, and by the rows of a piece: seven bytes may be a
record, and its row has 44. A batch of more records than that comes in several pieces.

Null has length -1, empty has length 0. A batch that is not sound has no rows here; its FormatError,
with position, is in `damage`, worded by the row decoder.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from kafka_format.batch_layout import KEY_LENGTH_AT
from kafka_format.columnar import kernels as k
from kafka_format.columnar import legacy_kernels
from kafka_format.columnar.ahead import Ahead, can_read_ahead
from kafka_format.columnar.headers import BatchColumns, BatchScan, Piece, kernel_bytes
from kafka_format.columnar.native_codecs import zstd_contexts
from kafka_format.columnar.window import CHUNK_BYTES, Field, Scratch, readonly
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

_INT32_MAX = 2**31 - 1

ARENA_BYTES = 2 * 1024 * 1024
PIECE_ROWS = 256 * 1024
# That a thread takes: handing on costs as much as decoding a tenth of a chunk.
_CHUNKS_AT_ONCE = 2


class Damage(NamedTuple):
    """A batch, by its place among the piece's batches, and what is wrong with it."""

    batch: int
    error: FormatError


class HeaderColumns(NamedTuple):
    """Headers of records, in order: `record` is the row of the record that has it."""

    record: Int32s
    key_position: Int64s
    key_length: Int32s
    value_position: Int64s
    value_length: Int32s  # -1 is null


class RecordColumns:
    """Records of consecutive batches. `data` and the columns are good until the next are asked.

    Most pieces hold whole batches. One of more rows than a piece may have comes alone, in pieces
    that each name it as their only batch; `is_continuation` tells all but the first of them.

    What a scan parses is there; what follows from it (`batch`, `sequence`, the places of records
    and headers) is worked out when it is first asked for.
    """

    def __init__(
        self,
        data: Uint8s,
        batches: BatchColumns,
        fields: tuple[Int64s, Int32s],
        places: tuple[Int64s, Int64s],
        damage: list[Damage],
        *,
        compiled: bool,
        is_continuation: bool = False,
    ) -> None:
        self.is_continuation = is_continuation
        self.data = data
        self.batches = batches
        self.damage = damage
        self.longs, self.ints = fields
        self._starts, self._counts = places
        self._compiled = compiled
        self._kernels = k.load(compiled=compiled)

    def __len__(self) -> int:
        return int(self.longs.shape[1])

    def __repr__(self) -> str:
        damaged = len(self.damage)
        return f"RecordColumns({len(self)} records, {damaged} damaged, of {self.batches!r})"

    offset = Field[np.int64]("longs", k.OFFSET)
    timestamp = Field[np.int64]("longs", k.TIMESTAMP)
    key_position = Field[np.int64]("longs", k.KEY_POSITION)
    value_position = Field[np.int64]("longs", k.VALUE_POSITION)
    key_length = Field[np.int32]("ints", k.KEY_LENGTH)
    value_length = Field[np.int32]("ints", k.VALUE_LENGTH)
    headers_count = Field[np.int32]("ints", k.HEADERS_COUNT)

    @cached_property
    def batch(self) -> Int64s:
        """The place of each record's batch among `batches`."""
        return np.repeat(np.arange(len(self.batches)), np.maximum(self._counts, 0))

    @cached_property
    def sequence(self) -> Int64s:
        """As DefaultRecordBatch counts: its ints run over where a damaged delta goes back."""
        base = self.batches.base_sequence[self.batch]
        delta = self.offset - self.batches.base_offset[self.batch]
        sequence = base + delta
        sequence -= np.where((sequence > _INT32_MAX) | (delta < 0), _INT32_MAX + 1, 0)
        sequence += np.where(sequence < -_INT32_MAX - 1, 2 * (_INT32_MAX + 1), 0)
        return np.where(base < 0, -1, sequence)

    @cached_property
    def record_position(self) -> Int64s:
        positions = np.empty(len(self), np.int64)
        table = self.batches.table
        self._kernels.record_positions(self._bytes, table, self._starts, self._counts, positions)
        return positions

    @cached_property
    def attributes(self) -> Int64s:
        """Of the records themselves: 0, by every writer."""
        attributes = np.empty(len(self), np.int64)
        legacy = bool(self.batches.is_legacy[0])
        self._kernels.record_attributes(self._bytes, self.record_position, legacy, attributes)
        return attributes

    @cached_property
    def stored_timestamp(self) -> Int64s:
        """As it stands in the record. Under LogAppendTime that counts for nothing: `timestamp`."""
        if not (self.batches.attributes & k.LOG_APPEND_TIME).any():
            return self.timestamp
        timestamps = np.empty(len(self), np.int64)
        places = (self.record_position, self.counts)
        self._kernels.stored_timestamps(self._bytes, self.batches.table, *places, timestamps)
        return timestamps

    @cached_property
    def headers_position(self) -> Int64s:
        """Where the first header begins, if there is one."""
        if self.batches.is_legacy[0]:
            return self.value_position + np.maximum(self.value_length, 0)
        positions = np.empty(len(self), np.int64)
        self._kernels.headers_positions(self._bytes, self.longs, self.ints, positions)
        return positions

    @property
    def starts(self) -> Int64s:
        """Where the plain payload of each batch begins in `data`; below 0 where there is none."""
        return self._starts

    @property
    def counts(self) -> Int64s:
        """How many records of each batch are here."""
        return np.maximum(self._counts, 0)

    def first(self, count: int) -> RecordColumns:
        """Of the first batches alone."""
        rows = int(np.maximum(self._counts[:count], 0).sum())
        return RecordColumns(
            self.data,
            self.batches[:count],
            (self.longs[:, :rows], self.ints[:, :rows]),
            (self._starts[:count], self._counts[:count]),
            [damage for damage in self.damage if damage.batch < count],
            compiled=self._compiled,
        )

    @property
    def _bytes(self) -> Any:
        return kernel_bytes(readonly(self.data), compiled=self._compiled)

    def headers(self) -> HeaderColumns:
        count = int(self.headers_count.sum())
        longs = np.empty((k.HEADER_LONG_FIELDS, count), np.int64)
        ints = np.empty((k.HEADER_INT_FIELDS, count), np.int32)
        if count:
            self._kernels.decode_headers(self._bytes, self.longs, self.ints, longs, ints)
        return HeaderColumns(
            ints[k.HEADER_RECORD],
            longs[k.HEADER_KEY_POSITION],
            ints[k.HEADER_KEY_LENGTH],
            longs[k.HEADER_VALUE_POSITION],
            ints[k.HEADER_VALUE_LENGTH],
        )

    def key(self, row: int) -> bytes | None:
        return self._slice(int(self.key_position[row]), int(self.key_length[row]))

    def value(self, row: int) -> bytes | None:
        return self._slice(int(self.value_position[row]), int(self.value_length[row]))

    def _slice(self, position: int, length: int) -> bytes | None:
        return None if length < 0 else self.data[position : position + length].tobytes()


class _Where(NamedTuple):
    """Batches of a run, by their places in it, and where their plain payloads lie in `data`."""

    data: Uint8s
    which: slice
    starts: Int64s
    ends: Int64s

    def of(self, some: slice) -> _Where:
        first = self.which.start
        which = slice(first + some.start, first + some.stop)
        return _Where(self.data, which, self.starts[some], self.ends[some])


class RecordScan:
    """All records of a segment, in pieces, in file order; `end` tells afterwards how it ends.

    With `verify`, a batch whose checksum is wrong is damage; with `decode_invalid` too, its records
    are decoded all the same, as kafka-dump-log does, and `batches.is_valid` tells it apart.

    With `threads`, so many read and decode ahead, if the kernels are compiled and the source is a
    regular file of some chunks. The same comes, cut into other pieces; every thread takes memory as
    the scan itself would, and more of it.
    """

    def __init__(
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
            verify=False,  # done here, together with the decoding where that can be
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
        """By threads, if they are asked for and of use."""
        size, chunk = self._scan.limit - self._start, _CHUNKS_AT_ONCE * self._chunk_bytes
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
        """Of whole batches that the caller has read; memory is used again as in a scan."""
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
            where = _Where(piece.data, slice(0, total), starts, ends)
            yield from self._iter_columns(piece, batches, where, damage, int(capacity))

    def _decode_packed(
        self, run: Piece, sound: npt.NDArray[np.bool_], damage: dict[int, FormatError]
    ) -> Iterator[RecordColumns]:
        """Through the arena, which is handed on and begun anew whenever it is full."""
        first = 0
        while first < len(run.batches):
            where = self._fill_arena(run, first, sound, damage)
            batches = run.batches[where.which]
            capacity = int(_possible_records(batches.table, where).sum())
            yield from self._iter_columns(run, batches, where, damage, capacity)
            first = where.which.stop

    def _fill_arena(
        self,
        run: Piece,
        first: int,
        sound: npt.NDArray[np.bool_],
        damage: dict[int, FormatError],
    ) -> _Where:
        """Plain payloads from batch `first` on, as many as there is room for."""
        total = len(run.batches)
        arena = self._arena.shaped(1, self._arena_bytes)[0]
        starts = np.full(total, -1, np.int64)
        ends = np.zeros(total, np.int64)
        reached, at = first, 0
        while reached < total:
            reached, at, full = self._unpack(run, reached, sound, arena, at, starts, ends)
            if reached == total or (full and at > 0):
                break  # all is unpacked, or the arena is handed on and begun anew
            plain = self._decompress(run, reached, damage)
            if plain is None:
                sound[reached] = False
            elif at + len(plain) <= len(arena):
                arena[at : at + len(plain)] = plain
                starts[reached], ends[reached] = at, at + len(plain)
                at += len(plain)
            elif at > 0:
                break  # as above; this batch comes first then
            else:
                arena = plain  # larger than the arena by itself
                starts[reached], ends[reached] = 0, len(plain)
                reached += 1
                break
            reached += 1
        which = slice(first, reached)
        return _Where(arena, which, starts[which], ends[which])

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
        """What a kernel can unpack without asking us; legacy wrappers it leaves to us.

        It knows no limit but the arena's size.
        """
        limit = default_limit() if self._limit is None else self._limit
        if run.batches.is_legacy[0] or limit < len(arena):
            return first, at, False
        data = kernel_bytes(run.data, compiled=self.compiled)
        places = (arena, at, starts, ends, zstd_contexts().decompressing if self.compiled else 0)
        reached, at, full = self._kernels.unpack_batches(
            data, run.batches.table, run.base, first, len(sound), sound, *places
        )
        return int(reached), int(at), bool(full)

    def _decompress(self, run: Piece, batch: int, damage: dict[int, FormatError]) -> Uint8s | None:
        """The payload of one batch (of a plain legacy message: the message) by the row codecs."""
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
        where: _Where,
        damage: dict[int, FormatError],
        capacity: int,
    ) -> Iterator[RecordColumns]:
        """Decode batches of a run, in pieces of bounded size; `capacity` is of all magic-2 rows."""
        counts = np.zeros(len(batches), np.int64)
        if batches.is_legacy[0]:
            source = kernel_bytes(readonly(where.data), compiled=self.compiled)
            capacity = int(
                self._legacy.count_messages(source, batches.table, where.starts, where.ends, counts)
            )
        if capacity <= self._piece_rows:
            yield self._columns(run, batches, where, damage, counts, capacity)
            return
        rows = np.maximum(counts, 0)
        if not batches.is_legacy[0]:
            rows = _possible_records(batches.table, where)
        for some in _cuts(rows, self._piece_rows):
            few, of_few, capacity = batches[some], where.of(some), int(rows[some].sum())
            if capacity > self._piece_rows:
                yield from self._iter_one_batch(run, few, of_few, damage, capacity)
            else:
                yield self._columns(run, few, of_few, damage, counts[some], capacity)

    def _columns(
        self,
        run: Piece,
        batches: BatchColumns,
        where: _Where,
        damage: dict[int, FormatError],
        counts: Int64s,
        capacity: int,
    ) -> RecordColumns:
        """Batches as a whole; `counts` of legacy ones are known."""
        table, (data, which, starts, ends) = batches.table, where
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
                damage[which.start + batch] = self._ask_row_decoder(run, which.start + batch)
        found = [
            Damage(batch - which.start, damage[batch])
            for batch in sorted(damage)
            if which.start <= batch < which.stop
        ]
        # In one piece, as kernels want it; where nothing is damaged, it is.
        fields = (np.ascontiguousarray(longs[:, :rows]), np.ascontiguousarray(ints[:, :rows]))
        return RecordColumns(data, batches, fields, (starts, counts), found, compiled=self.compiled)

    def _iter_one_batch(
        self,
        run: Piece,
        batches: BatchColumns,
        where: _Where,
        damage: dict[int, FormatError],
        count: int,
    ) -> Iterator[RecordColumns]:
        """A batch of more rows than a piece: gone through once, and given if all of it is sound."""
        number = where.which.start
        if self._verify and batches.computed_crc is None:
            only = run._replace(batches=batches)
            batches.computed_crc = only.checksums(self._kernels, compiled=self.compiled)
        last = None
        if not self._refuse_invalid or batches.is_valid[0]:
            last = self._last_offset(batches, where, count)
        if last is None:
            damage[number] = self._ask_row_decoder(run, number)
            found, none = [Damage(0, damage[number])], np.full(1, -1, np.int64)
            fields = (self._longs.shaped(k.LONG_FIELDS, 0), self._ints.shaped(k.INT_FIELDS, 0))
            yield RecordColumns(
                where.data, batches, fields, (none, none), found, compiled=self.compiled
            )
            return
        for start, _, longs, ints in self._iter_rows(batches, where, count):
            rows = longs.shape[1]
            if batches.is_legacy[0]:
                self._legacy.shift_offsets(batches.table, 0, last, longs, 0, rows)
            yield RecordColumns(
                where.data,
                batches,
                (longs, ints),
                (np.full(1, start, np.int64), np.full(1, rows, np.int64)),
                [],
                compiled=self.compiled,
                is_continuation=start != where.starts[0],
            )

    def _iter_rows(
        self, batches: BatchColumns, where: _Where, count: int
    ) -> Iterator[tuple[int, int, Int64s, Int32s]]:
        """The rows of one batch, some at a time: where those begin and end, and they themselves.

        Legacy offsets are as stored. The end is -1 where the batch is found not to be sound.
        """
        source = kernel_bytes(readonly(where.data), compiled=self.compiled)
        at, end = int(where.starts[0]), int(where.ends[0])
        while count > 0 and at >= 0:
            rows = min(count, self._piece_rows)
            count -= rows
            longs = self._longs.shaped(k.LONG_FIELDS, rows)
            ints = self._ints.shaped(k.INT_FIELDS, rows)
            start, table = at, batches.table
            if batches.is_legacy[0]:
                at = self._legacy.decode_entries(source, table, at, rows, 0, longs, ints, 0)
            else:
                at = self._kernels.decode_some_records(
                    source, table, at, end, rows, 0, longs, ints, 0
                )
            yield start, int(at), longs, ints

    def _last_offset(self, batches: BatchColumns, where: _Where, count: int) -> int | None:
        """Of one batch, as stored in its last record; None if the batch is not sound."""
        reached, last = -1, 0
        for _, end, longs, _ in self._iter_rows(batches, where, count):
            reached, last = end, int(longs[k.OFFSET, -1])
        if batches.is_legacy[0]:
            none = self._longs.shaped(k.LONG_FIELDS, 0)
            is_sound = self._legacy.shift_offsets(batches.table, 0, last, none, 0, 0)
            return last if reached >= 0 and is_sound else None
        return last if reached == where.ends[0] else None

    def _ask_row_decoder(self, run: Piece, batch: int) -> FormatError:
        """What the row decoder says about a batch that a kernel refused."""
        position = int(run.batches.position[batch])
        start = position - run.base
        raw = run.data[start : start + int(run.batches.size_in_bytes[batch])].tobytes()
        try:
            for decoded in LogFile(raw).batches():
                if self._refuse_invalid:
                    decoded.ensure_valid()
                decoded.iter_records(limit=self._limit)  # which finds all there is to find
        except FormatError as error:
            return error.moved(self.path, position)
        raise AssertionError(f"{Location(self.path, position)}: the row decoder finds no damage")


def _runs(piece: Piece) -> Iterator[Piece]:
    """A piece cut where legacy and magic-2 batches meet."""
    legacy = piece.batches.is_legacy
    cuts = [0, *(np.flatnonzero(legacy[1:] != legacy[:-1]) + 1).tolist(), len(legacy)]
    for first, last in pairwise(cuts):
        yield piece._replace(batches=piece.batches[first:last])


def _possible_records(table: Int64s, where: _Where) -> Int64s:
    """Rows that each batch can fill: what it claims, where its bytes could hold as many."""
    count = np.where(where.starts < 0, 0, table[k.RECORD_COUNT])
    possible = (count >= 0) & (count <= (where.ends - where.starts) // k.SMALLEST_RECORD)
    return np.where(possible, count, 0)


def _cuts(rows: Int64s, most: int) -> Iterator[slice]:
    """Runs of batches of at most so many rows together, or of one that has more by itself."""
    edges = np.concatenate([[0], np.cumsum(rows)])
    first = 0
    while first < len(rows):
        fit = int(np.searchsorted(edges, edges[first] + most, side="right")) - 1
        last = max(fit, first + 1)
        yield slice(first, last)
        first = last


def _wrapper_value(data: Uint8s, start: int, end: int, magic: int) -> tuple[int, int]:
    """Where the compressed value of a legacy wrapper lies; nowhere if its lengths do not fit."""
    view = data.data
    at = start + KEY_LENGTH_AT[magic]
    for _ in ("key", "value"):
        if at + 4 > end:
            return end, end
        length = max(k.int32(view, at), 0)
        start, at = at + 4, at + 4 + length
    return (start, at) if at <= end else (end, end)
