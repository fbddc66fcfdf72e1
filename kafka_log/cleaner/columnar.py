"""The offset map and the judgement of records over columns, a kernel call for many batches.

Decides as offset_map.py, verdict.py and rewrite.py do, and leaves to them what is rare: control
batches, old magics, damage, gzip and snappy. Needs numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    assemble,
    attributes_of,
)
from kafka_format.columnar.native_codecs import linked, zstd_contexts
from kafka_format.columnar.rewrite import encode_kept_records
from kafka_format.columnar.window import Scratch, readonly
from kafka_format.compression import CODEC_MASK, Codec, codec_of, compress
from kafka_format.errors import FormatError
from kafka_log.cleaner import map_kernels
from kafka_log.cleaner import write_kernels as w
from kafka_log.cleaner.key_table import KeyTable
from kafka_log.cleaner.pieces import Piece
from kafka_log.cleaner.read_buffer import chunk_ends
from kafka_log.cleaner.rewrite import FilterResult, Kept, emptied, filter_batch
from kafka_log.cleaner.verdict import BatchRetention, BatchVerdict
from kafka_log.file_records import iter_memory_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.records import RecordColumns, RecordScan
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.offset_map import LatestOffsets
    from kafka_log.cleaner.pieces import Block
    from kafka_log.cleaner.stats import CleanerStats
    from kafka_log.cleaner.transactions import CleanedTransactionMetadata
    from kafka_log.cleaner.verdict import Verdicts
    from kafka_log.cleaner.witness import Witness

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

__all__ = ["BlockWriter", "Judgement", "KeyTable", "Piece", "judge", "map_piece"]

_TRANSACTIONAL = 0x10
_VERDICTS = {
    (fate, discards): BatchVerdict(retention, bool(discards), False)
    for fate, retention in (
        (w.DELETE_EMPTY, BatchRetention.DELETE_EMPTY),
        (w.RETAIN_EMPTY, BatchRetention.RETAIN_EMPTY),
        (w.DELETE, BatchRetention.DELETE),
    )
    for discards in (0, 1)
}
_PACKED_HERE = (Codec.GZIP, Codec.SNAPPY)
_MARGIN = 256 * 1024


# ------------------------------------------------------------------------------------ the map


def map_piece(
    table: KeyTable,
    piece: Piece,
    start: int,
    transactions: CleanedTransactionMetadata,
    stats: CleanerStats,
) -> int:
    """All keys of some sound batches into the map; how many batches are in it before it is full."""
    is_left_out = np.zeros(len(piece), np.uint8)
    read = piece.records.counts
    problem = None
    try:
        _follow(piece, transactions, is_left_out, read)
    except FormatError as error:  # if it comes to that
        problem = error
        broken = int(np.flatnonzero(is_left_out == _BROKEN)[0])
        piece, is_left_out, read = piece.first(broken), is_left_out[:broken], read[:broken]
    full_at, row, latest = table.put_piece(piece, is_left_out, start)
    reached = piece.records.batches.last_offset[:full_at]
    behind = np.flatnonzero(reached >= start)
    if len(behind):
        table.latest_offset = int(reached[behind[-1]])
    stats.map_messages_read += int(read[:full_at].sum())
    if full_at < len(piece):
        if latest >= 0:
            table.latest_offset = latest
        stats.map_messages_read += row - int(piece.edges[full_at])
    elif problem is not None:
        raise problem
    return full_at


_BROKEN = 2


def _follow(
    piece: Piece, transactions: CleanedTransactionMetadata, is_left_out: Uint8s, read: Int64s
) -> None:
    """Transactions over a piece: what is left out of the map, and how much of it counts as read."""
    batches = piece.records.batches
    last_offset = np.maximum.accumulate(batches.last_offset)
    is_data = ~batches.is_legacy
    is_special = is_data & (batches.attributes & (_TRANSACTIONAL | 0x20) != 0)
    for i in np.flatnonzero(is_special).tolist():
        transactions.consume_up_to(int(last_offset[i]))
        if int(batches.attributes[i]) & 0x20:
            is_left_out[i] = _BROKEN
            transactions.on_control_batch_read(piece.batch(i))  # type: ignore[arg-type]
            is_left_out[i], read[i] = 1, 1
        elif transactions.on_transactional_batch_read(int(batches.producer_id[i])):
            is_left_out[i], read[i] = 1, batches.record_count[i]
    if len(batches):
        transactions.consume_up_to(int(last_offset[-1]))


# ----------------------------------------------------------------------------------- judgement


class Judgement(NamedTuple):
    """Of the rows of a piece."""

    latest_of: Int64s
    retains_deletes: Uint8s
    """Of each batch."""
    is_kept: Uint8s
    counts: Int64s
    """Of each batch: how many stay, how many of those are tombstones, how many lack a key."""


def judge(piece: Piece, verdicts: Verdicts, latest: LatestOffsets, scratch: Scratch) -> Judgement:
    retains = verdicts.which_retain_deletes(piece.records.batches)
    latest_of = latest.latest_of(piece)
    is_kept = scratch.shaped(1, len(piece.records))[0]
    counts = np.zeros((len(piece), 3), np.int64)
    map_kernels.load(compiled=True).judge_rows(
        piece.records.longs,
        piece.records.ints,
        piece.edges,
        latest_of,
        retains,
        latest.latest_offset,
        is_kept,
        counts,
    )
    return Judgement(latest_of, retains, is_kept, counts)


class Filtered(NamedTuple):
    """What stays of a block, chunk by chunk; good until the next block."""

    data: memoryview
    chunks: Int64s
    """Of each chunk where it ends in the data, and its largest offset."""
    batches: Int64s
    """As kafka_log.indexes.kernels takes them, with positions in the data."""
    aborted: list[tuple[int, AbortedTransaction]]
    """Transactions for the index, each with the number of the chunk that its marker is in."""


class BlockWriter:
    """What stays of block after block, in memory that is used again."""

    def __init__(self, *, new_horizon: int, witness: Witness | None) -> None:
        self._new_horizon = new_horizon
        self._witness = witness
        self._kernels = w.load()
        self._is_kept = Scratch(np.uint8)
        self._out = np.empty(0, np.uint8)
        self._scratch = np.empty(0, np.uint8)
        self._codecs = np.array([zstd_contexts().compressing, 0, 0], np.int64)
        self._packs = 1 << Codec.NONE
        self._packs |= (1 << Codec.LZ4) if "lz4_pack" in linked() else 0
        self._packs |= (1 << Codec.ZSTD) if "zstd_pack" in linked() else 0

    def filter(
        self,
        block: Block,
        scan: RecordScan,
        verdicts: Verdicts,
        latest: LatestOffsets,
        stats: CleanerStats,
        *,
        capacity: int,
    ) -> Iterator[Filtered]:
        """Once; but before an error what was complete until then."""
        self._begin(block, capacity)
        transactions = verdicts.transactions
        transactions.held = []
        try:
            for piece in block.pieces(scan):
                judged = judge(piece, verdicts, latest, self._is_kept)
                told = self._write_piece(piece, judged, verdicts)
                if self._witness is not None:
                    self._witness.on_piece(
                        piece, told, judged.is_kept, judged.latest_of, judged.retains_deletes
                    )
        except BaseException:
            self._take_held(transactions)
            yield self._filtered()
            raise
        finally:
            transactions.held = None
        self._kernels.end_chunks(self._state, self._chunks, len(block.batches), self._to)
        stats.messages_read += int(self._state[w.MESSAGES_READ])
        stats.messages_written += int(self._state[w.MESSAGES_RETAINED])
        stats.invalid_messages_read += int(self._state[w.WITHOUT_KEY])
        stats.bytes_read += block.size_in_bytes
        stats.bytes_written += self._to
        yield self._filtered()

    def _begin(self, block: Block, capacity: int) -> None:
        self._block = block
        self._aborted: list[tuple[int, AbortedTransaction]] = []
        self._capacity = capacity
        self._to = 0
        self._state = np.zeros(w.STATE_FIELDS, np.int64)
        self._state[w.CHUNK_MAX_OFFSET] = -1
        self._chunks = _chunks(block.chunk_ends)
        self._written = np.empty((w.WRITTEN_FIELDS, len(block.batches)), np.int64)
        self._make_room(block.size_in_bytes)

    def _filtered(self) -> Filtered:
        """Of the chunks that are complete."""
        chunks = self._chunks[1:, : int(self._state[w.CHUNK])]
        end = int(chunks[0, -1]) if chunks.shape[1] else 0
        written = self._written[:, : int(self._state[w.WRITTEN])]
        count = int(np.searchsorted(written[w.WRITTEN_POSITION], end, side="left"))
        return Filtered(self._out[:end].data, chunks, written[:, :count], self._aborted)

    def _take_held(self, transactions: CleanedTransactionMetadata) -> None:
        if transactions.held:
            self._aborted += [(int(self._state[w.CHUNK]), each) for each in transactions.held]
            transactions.held.clear()

    def _make_room(self, size: int) -> None:
        if self._to + size + _MARGIN > len(self._out):
            larger = np.empty(self._to + 2 * (size + _MARGIN), np.uint8)
            larger[: self._to] = self._out[: self._to]
            self._out = larger

    def _write_piece(
        self, piece: Piece, judged: Judgement, verdicts: Verdicts
    ) -> list[BatchVerdict]:
        """The verdicts, if anybody wants them told."""
        told: list[BatchVerdict] = []
        first = 0
        for stop in [*np.flatnonzero(piece.by_rows).tolist(), len(piece)]:
            if stop > first:
                fates, discards = verdicts.on_data_batches(piece.records.batches, first, stop)
                self._write_span(piece, judged, verdicts, first, stop, fates, discards)
                if self._witness is not None:
                    pairs = zip(fates.tolist(), discards.tolist(), strict=True)
                    told += map(_VERDICTS.__getitem__, pairs)
            if stop < len(piece):
                self._reach(piece.first_batch + stop)
                verdict = verdicts.on_batch(piece.batch(stop))
                self._take_held(verdicts.transactions)
                told.append(verdict)
                self._write_row_batch(piece, stop, verdict, verdicts, judged, self._witness)
            first = stop + 1
        return told

    def _write_span(
        self,
        piece: Piece,
        judged: Judgement,
        verdicts: Verdicts,
        begin: int,
        stop: int,
        fates: Uint8s,
        discards: Uint8s,
    ) -> None:
        """Batches of magic 2 with data, all sound."""
        first = begin
        while True:
            begin, why = self._run_kernel(piece, judged, first, begin, stop, fates, discards)
            if why == w.ALL_WRITTEN:
                return
            if why == w.NO_ROOM:
                self._grow(piece, begin)
            elif why == w.CHUNK_FULL:
                self._begin_chunk(piece.first_batch + begin)
            else:
                verdict = _VERDICTS[int(fates[begin - first]), int(discards[begin - first])]
                if why == w.TO_BE_EMPTIED:
                    self._write_empty(piece, begin, verdict, judged)
                elif not self._write_packed(piece, begin, judged):
                    self._write_row_batch(piece, begin, verdict, verdicts, judged, None)
                begin += 1

    def _run_kernel(
        self,
        piece: Piece,
        judged: Judgement,
        first: int,
        begin: int,
        stop: int,
        fates: Uint8s,
        discards: Uint8s,
    ) -> tuple[int, int]:
        """`first` is where the fates begin."""
        records = piece.records
        begin, to, why = self._kernels.write_batches(
            self._block.data,
            self._block.base,
            records.batches.table,
            readonly(records.data),
            records.starts,
            records.longs,
            records.ints,
            piece.edges,
            judged.is_kept,
            judged.counts,
            fates,
            discards,
            first,
            piece.first_batch,
            begin,
            stop,
            self._new_horizon,
            self._packs,
            self._capacity,
            self._codecs,
            self._chunks,
            self._state,
            self._written,
            self._scratch,
            self._out,
            self._to,
        )
        self._to = int(to)
        return int(begin), int(why)

    def _grow(self, piece: Piece, batch: int) -> None:
        first, last = int(piece.edges[batch]), int(piece.edges[batch + 1])
        records = piece.records
        start = int(records.starts[batch])
        size = int(records.batches.size_in_bytes[batch])
        if last > first:
            data = readonly(records.data)
            rows = (records.longs, records.ints, first, last, start)
            size = max(size, int(self._kernels.largest_size(data, *rows)))
        if size > len(self._scratch):
            self._scratch = np.empty(2 * size, np.uint8)
        self._make_room(size)

    def _reach(self, batch: int) -> None:
        """A batch of the block comes next."""
        self._kernels.end_chunks(self._state, self._chunks, batch, self._to)
        if self._to - int(self._state[w.CHUNK_START]) > self._capacity:
            self._begin_chunk(batch)

    def _begin_chunk(self, batch: int) -> None:
        """Where more was written than a chunk holds, Kafka reads the next one behind that."""
        state, block = self._state, self._block
        done = int(state[w.CHUNK])
        table = np.ascontiguousarray(block.batches.table[:, batch:])
        start = int(block.batches.position[batch])
        ends, _ = chunk_ends(table, table.shape[1], start, self._capacity)
        rest = _chunks(np.array([batch, *(batch + end for end in ends), len(block.batches)]))
        self._chunks = np.concatenate([self._chunks[:, :done], rest], axis=1)
        self._kernels.end_chunks(state, self._chunks, batch, self._to)

    # ---------------------------------------------------------------------------- batch by batch

    def _write_empty(self, piece: Piece, i: int, verdict: BatchVerdict, judged: Judgement) -> None:
        kept = emptied(piece.batch(i))
        self._append(kept.data, kept.max_offset)
        self._state[w.MESSAGES_READ] += int(piece.edges[i + 1] - piece.edges[i])
        if not verdict.discards_records:
            self._state[w.WITHOUT_KEY] += judged.counts[i, 2]

    def _write_packed(self, piece: Piece, i: int, judged: Judgement) -> bool:
        """A batch of gzip or snappy; False if its rows must be asked."""
        header, state = BatchHeader.unpack(piece.batch(i).raw), self._state
        if header.attributes & CODEC_MASK not in _PACKED_HERE:
            return False
        first, last = int(piece.edges[i]), int(piece.edges[i + 1])
        kept = rebuilt(
            piece.records,
            (first, last),
            header,
            judged.is_kept,
            new_horizon=self._new_horizon if judged.counts[i, 1] else None,
        )
        if kept is None:
            return False
        self._append(kept.data, kept.max_offset)
        state[w.MESSAGES_READ] += last - first
        state[w.MESSAGES_RETAINED] += kept.messages
        state[w.WITHOUT_KEY] += judged.counts[i, 2]
        return True

    def _write_row_batch(
        self,
        piece: Piece,
        i: int,
        verdict: BatchVerdict,
        verdicts: Verdicts,
        judged: Judgement,
        witness: Witness | None,
    ) -> None:
        state, batch = self._state, piece.batch(i)
        if verdict.retention is BatchRetention.DELETE:
            if witness is not None:
                witness.on_batch(batch, verdict, (), ())
            return
        result = FilterResult()
        latest_of = judged.latest_of[piece.edges[i] : piece.edges[i + 1]].tolist()
        filter_batch(
            batch,
            verdict,
            verdicts,
            self._new_horizon,
            result,
            latest_of=latest_of,
            witness=witness,
        )
        state[w.MESSAGES_READ] += result.messages_read
        state[w.MESSAGES_RETAINED] += result.messages_retained
        if result.data:
            self._append(result.data, result.max_offset)

    def _append(self, data: bytes | bytearray | memoryview, max_offset: int) -> None:
        """A batch that was made elsewhere."""
        self._make_room(len(data))
        ((_, last_offset, max_timestamp),) = iter_memory_batches(data)
        self._kernels.note_written(
            self._state, self._written, self._to, last_offset, max_timestamp, max_offset
        )
        self._out[self._to : self._to + len(data)] = np.frombuffer(data, np.uint8)
        self._to += len(data)


def rebuilt(
    records: RecordColumns,
    rows: tuple[int, int],
    header: BatchHeader,
    is_kept: Uint8s,
    *,
    new_horizon: int | None,
) -> Kept | None:
    """A batch of its kept rows, by columns; `new_horizon` is for one that has none yet."""
    some = slice(*rows)
    chosen = is_kept[some].astype(np.bool_)
    timestamps = records.timestamp[some][chosen]
    horizon = new_horizon if header.delete_horizon_ms is None else header.delete_horizon_ms
    has_horizon = horizon is not None and horizon >= 0
    base_timestamp = horizon if horizon is not None and has_horizon else int(timestamps[0])
    if not _is_writable(header):
        return None
    payload = encode_kept_records(
        records,
        is_kept,
        rows,
        base_offset=header.base_offset,
        base_timestamp=base_timestamp,
        compiled=True,
    )
    if payload is None:
        return None
    codec = codec_of(header.attributes)
    is_append_time = bool(header.timestamp_type)
    new = header._replace(
        attributes=attributes_of(
            codec,
            header.timestamp_type,
            is_transactional=header.is_transactional,
            has_delete_horizon=has_horizon,
        ),
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if is_append_time else int(timestamps.max()),
        record_count=int(chosen.sum()),
    )
    largest = int(records.offset[some][chosen].max())
    return Kept(assemble(new, compress(codec, payload)), largest, new.record_count)


def _is_writable(header: BatchHeader) -> bool:
    """Whether Kafka's builder takes these fields; what it says otherwise the row encoder knows."""
    if header.producer_id == NO_PRODUCER_ID:
        return not header.is_transactional
    return header.producer_epoch != NO_PRODUCER_EPOCH and header.base_sequence >= 0


def _chunks(ends: Int64s) -> Int64s:
    chunks = np.zeros((w.CHUNK_FIELDS, len(ends)), np.int64)
    chunks[w.LAST_BATCH] = ends
    return chunks
