"""Writes what a block retains, by kernels: copied, or built again. Needs numba.

decision.py decides. Rare cases are left to rewrite.py: control batches, old magics, damage, gzip
and snappy.
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
from kafka_format.columnar.window import Scratch, memory_of, readonly
from kafka_format.compression import CODEC_MASK, Codec, codec_of, compress
from kafka_log.cleaner.columns import write_kernels as w
from kafka_log.cleaner.columns.read_buffer import chunk_ends
from kafka_log.cleaner.decision import NULL_VALUES_KEPT, WITHOUT_KEY, needs_horizon
from kafka_log.cleaner.reasons import REMOVED_FROM
from kafka_log.cleaner.rewrite import FilterResult, RetainedBatch, emptied, filter_batch
from kafka_log.segment.file_records import iter_memory_batches

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_format.columnar.records import RecordScan
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.cleaner.columns.blocks import Block, BlockPiece
    from kafka_log.cleaner.decision import (
        BatchDecision,
        BlockDecisions,
        PieceDecisions,
        RecordFilter,
    )
    from kafka_log.cleaner.offset_map import LatestOffsets
    from kafka_log.cleaner.stats import CleanerStats
    from kafka_log.cleaner.witness import Witness

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

_PACKED_HERE = (Codec.GZIP, Codec.SNAPPY)
_MARGIN = 256 * 1024


class FilteredBlock(NamedTuple):
    """What a block retains, by chunks; valid until the writer begins the next block."""

    block: Block
    data: memoryview
    chunks: Int64s
    """Per chunk: its end in the data, and its largest offset."""
    batches: Int64s
    """As kafka_log.indexes.kernels takes them, with positions in the data."""
    aborted: list[tuple[int, AbortedTransaction]]
    """Transactions for the index, each with the number of the chunk that its marker is in."""
    state: Int64s
    """Counts, as write_kernels has them."""
    problem: Exception | None
    """The error that ended it; the chunks before it are complete."""

    def add_to(self, stats: CleanerStats) -> None:
        """Add the counts of a complete block."""
        stats.messages_read += int(self.state[w.MESSAGES_READ])
        stats.messages_written += int(self.state[w.MESSAGES_RETAINED])
        stats.invalid_messages_read += int(self.state[w.INVALID_MESSAGES_READ])
        stats.bytes_read += self.block.size_in_bytes
        stats.bytes_written += len(self.data)


class BlockWriter:
    """Writes what blocks retain, into memory that is reused."""

    def __init__(self, witness: Witness | None) -> None:
        self._witness = witness
        self._kernels = w.load()
        self._reasons = Scratch(np.uint8)
        self._out = np.empty(0, np.uint8)
        self._scratch = np.empty(0, np.uint8)
        self._packs = 1 << Codec.NONE
        self._packs |= (1 << Codec.LZ4) if "lz4_pack" in linked() else 0
        self._packs |= (1 << Codec.ZSTD) if "zstd_pack" in linked() else 0

    def filter(
        self,
        block: Block,
        scan: RecordScan,
        record_filter: RecordFilter,
        decisions: BlockDecisions,
        latest: LatestOffsets,
        *,
        capacity: int,
    ) -> FilteredBlock:
        """Filter a block whose batches are decided on; `capacity` is that of a chunk."""
        self._begin(block, decisions, record_filter, capacity)
        problem = None
        try:
            for piece in block.pieces(scan):
                records = record_filter.decide_piece(piece, decisions, latest, self._reasons)
                self._write_piece(piece, records)
                if self._witness is not None:
                    batches = decisions.part(piece.first_batch, len(piece))
                    self._witness.on_piece(piece, batches, records)
            self._kernels.end_chunks(self._state, self._chunks, len(block.batches), self._to)
        except Exception as error:  # noqa: BLE001  # complete chunks are written before it is raised
            problem = error
        return self._filtered(problem)

    def _begin(
        self, block: Block, decisions: BlockDecisions, record_filter: RecordFilter, capacity: int
    ) -> None:
        self._block = block
        self._decisions = decisions
        self._filter = record_filter
        self._aborted: list[tuple[int, AbortedTransaction]] = []
        self._capacity = capacity
        self._codecs = np.array([zstd_contexts().compressing, 0, 0], np.int64)  # this thread's
        self._to = 0
        self._state = np.zeros(w.STATE_FIELDS, np.int64)
        self._state[w.CHUNK_MAX_OFFSET] = -1
        self._chunks = _chunks(block.chunk_ends)
        self._written = np.empty((w.WRITTEN_FIELDS, len(block.batches)), np.int64)
        self._make_room(block.size_in_bytes)

    def _filtered(self, problem: Exception | None) -> FilteredBlock:
        """Return the complete chunks."""
        chunks = self._chunks[1:, : int(self._state[w.CHUNK])]
        end = int(chunks[0, -1]) if chunks.shape[1] else 0
        written = self._written[:, : int(self._state[w.WRITTEN])]
        count = int(np.searchsorted(written[w.WRITTEN_POSITION], end, side="left"))
        data = self._out[:end].data
        aborted, state = self._aborted, self._state
        return FilteredBlock(self._block, data, chunks, written[:, :count], aborted, state, problem)

    def _make_room(self, size: int) -> None:
        if self._to + size + _MARGIN > len(self._out):
            larger = np.frombuffer(memory_of(self._to + 2 * (size + _MARGIN)), np.uint8)
            larger[: self._to] = self._out[: self._to]
            self._out = larger

    def _write_piece(self, piece: BlockPiece, records: PieceDecisions) -> None:
        first = 0
        for stop in [*np.flatnonzero(piece.by_rows).tolist(), len(piece)]:
            if stop > first:
                self._write_span(piece, records, first, stop)
            if stop < len(piece):
                decision = self._reach(piece.first_batch + stop)
                self._write_row_batch(piece, stop, decision, records, self._witness)
            first = stop + 1

    def _reach(self, batch: int) -> BatchDecision:
        """Begin a batch that is written by rows; return its decision."""
        self._kernels.end_chunks(self._state, self._chunks, batch, self._to)
        if self._to - int(self._state[w.CHUNK_START]) > self._capacity:
            self._begin_chunk(batch)
        decisions = self._decisions
        if decisions.problem is not None and decisions.problem[0] == batch:
            raise decisions.problem[1]
        if batch in decisions.aborted:
            self._aborted.append((int(self._state[w.CHUNK]), decisions.aborted[batch]))
        return decisions.batch(batch)

    def _write_span(
        self, piece: BlockPiece, records: PieceDecisions, begin: int, stop: int
    ) -> None:
        """Write sound batches of magic 2 with data."""
        while True:
            begin, why = self._run_kernel(piece, records, begin, stop)
            if why == w.ALL_WRITTEN:
                return
            if why == w.NO_ROOM:
                self._grow(piece, begin)
            elif why == w.CHUNK_FULL:
                self._begin_chunk(piece.first_batch + begin)
            else:
                if why == w.TO_BE_EMPTIED:
                    self._write_empty(piece, begin, records)
                elif not self._write_packed(piece, begin, records):
                    decision = self._decisions.batch(piece.first_batch + begin)
                    self._write_row_batch(piece, begin, decision, records, None)
                begin += 1

    def _run_kernel(
        self, piece: BlockPiece, records: PieceDecisions, begin: int, stop: int
    ) -> tuple[int, int]:
        decisions = w.Decisions(
            records.reasons,
            records.counts,
            self._decisions.reasons,
            piece.first_batch,
            self._filter.new_delete_horizon_ms,
        )
        sink = w.Sink(
            self._packs,
            self._capacity,
            self._codecs,
            self._chunks,
            self._state,
            self._written,
            self._scratch,
            self._out,
        )
        begin, to, why = self._kernels.write_batches(
            self._source(piece), decisions, sink, begin, stop, self._to
        )
        self._to = int(to)
        return int(begin), int(why)

    def _source(self, piece: BlockPiece) -> w.BatchSource:
        records = piece.records
        return w.BatchSource(
            self._block.data,
            self._block.base,
            records.batches.table,
            readonly(records.data),
            records.starts,
            records.longs,
            records.ints,
            piece.edges,
        )

    def _grow(self, piece: BlockPiece, batch: int) -> None:
        size = int(piece.records.batches.size_in_bytes[batch])
        if piece.edges[batch + 1] > piece.edges[batch]:
            size = max(size, int(self._kernels.largest_size(self._source(piece), batch)))
        if size > len(self._scratch):
            self._scratch = np.empty(2 * size, np.uint8)
        self._make_room(size)

    def _begin_chunk(self, batch: int) -> None:
        """Begin a chunk after this batch, as Kafka does once more was written than one holds."""
        state, block = self._state, self._block
        complete = int(state[w.CHUNK])
        table = np.ascontiguousarray(block.batches.table[:, batch:])
        start = int(block.batches.position[batch])
        ends, _ = chunk_ends(table, table.shape[1], start, self._capacity)
        rest = _chunks(np.array([batch, *(batch + end for end in ends), len(block.batches)]))
        self._chunks = np.concatenate([self._chunks[:, :complete], rest], axis=1)
        self._kernels.end_chunks(state, self._chunks, batch, self._to)

    # ---------------------------------------------------------------------------- batch by batch

    def _write_empty(self, piece: BlockPiece, i: int, records: PieceDecisions) -> None:
        kept = emptied(piece.batch(i))
        self._append(kept.data, kept.max_offset)
        self._state[w.MESSAGES_READ] += int(piece.edges[i + 1] - piece.edges[i])
        self._state[w.INVALID_MESSAGES_READ] += records.counts[i, WITHOUT_KEY]

    def _write_packed(self, piece: BlockPiece, i: int, records: PieceDecisions) -> bool:
        """Write a batch of gzip or snappy; False if it must be written by rows."""
        header, state = BatchHeader.unpack(piece.batch(i).raw), self._state
        if header.attributes & CODEC_MASK not in _PACKED_HERE:
            return False
        first, last = int(piece.edges[i]), int(piece.edges[i + 1])
        gets_horizon = needs_horizon(header.has_delete_horizon, records.counts[i, NULL_VALUES_KEPT])
        kept = rebuilt(
            piece.records,
            (first, last),
            header,
            records.reasons,
            new_horizon=self._filter.new_delete_horizon_ms if gets_horizon else None,
        )
        if kept is None:
            return False
        self._append(kept.data, kept.max_offset)
        state[w.MESSAGES_READ] += last - first
        state[w.MESSAGES_RETAINED] += kept.messages
        state[w.INVALID_MESSAGES_READ] += records.counts[i, WITHOUT_KEY]
        return True

    def _write_row_batch(
        self,
        piece: BlockPiece,
        i: int,
        decision: BatchDecision,
        records: PieceDecisions,
        witness: Witness | None,
    ) -> None:
        state, batch = self._state, piece.batch(i)
        if decision.is_dropped:
            if witness is not None:
                witness.on_batch(batch, decision, (), (), ())
            return
        result = FilterResult()
        latest_of = records.latest_of[piece.edges[i] : piece.edges[i + 1]].tolist()
        filter_batch(batch, decision, self._filter, result, latest_of=latest_of, witness=witness)
        state[w.MESSAGES_READ] += result.messages_read
        state[w.MESSAGES_RETAINED] += result.messages_retained
        state[w.INVALID_MESSAGES_READ] += result.invalid_messages_read
        if result.data:
            self._append(result.data, result.max_offset)

    def _append(self, data: bytes | bytearray | memoryview, max_offset: int) -> None:
        """Append a batch that no kernel has written."""
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
    reasons: Uint8s,
    *,
    new_horizon: int | None,
) -> RetainedBatch | None:
    """Build a batch of its kept rows, by columns; `new_horizon` if it gets one."""
    batch = slice(*rows)
    chosen = reasons[batch] < REMOVED_FROM
    is_kept = np.empty(rows[1], np.uint8)  # only those of the batch are read
    is_kept[batch] = chosen
    timestamps = records.timestamp[batch][chosen]
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
    largest = int(records.offset[batch][chosen].max())
    return RetainedBatch(assemble(new, compress(codec, payload)), largest, new.record_count)


def _is_writable(header: BatchHeader) -> bool:
    """Return whether Kafka's builder accepts these fields; else the row encoder raises."""
    if header.producer_id == NO_PRODUCER_ID:
        return not header.is_transactional
    return header.producer_epoch != NO_PRODUCER_EPOCH and header.base_sequence >= 0


def _chunks(ends: Int64s) -> Int64s:
    chunks = np.zeros((w.CHUNK_FIELDS, len(ends)), np.int64)
    chunks[w.LAST_BATCH] = ends
    return chunks
