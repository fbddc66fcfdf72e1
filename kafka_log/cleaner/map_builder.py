"""The first step of a round: put the latest offset of every dirty key into the offset map.

Segments are read from the first dirty offset on, until one is uncleanable or the map is full.

Mirrors Cleaner.buildOffsetMap and buildOffsetMapForSegment.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafka_format.batch import RecordBatch
from kafka_log.appends.broken_streams import iter_until_damage
from kafka_log.cleaner.columns.key_table import KeyTable
from kafka_log.cleaner.columns.lanes import Steps
from kafka_log.cleaner.columns.map_columns import map_piece
from kafka_log.cleaner.transactions import CleanedTransactionMetadata

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kafka_format.log_file import AnyBatch
    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.columns.blocks import Block, BlockPiece
    from kafka_log.cleaner.columns.lanes import Lane, Lanes
    from kafka_log.cleaner.offset_map import OffsetMap
    from kafka_log.cleaner.segment_reader import SegmentReader
    from kafka_log.cleaner.stats import CleanerStats
    from kafka_log.segment.log_segment import LogSegment

    Int64s = npt.NDArray[np.int64]
    HashedPiece = tuple[BlockPiece, Int64s]


class MapBuilder:
    """Fills the offset map of one round."""

    def __init__(
        self,
        offset_map: OffsetMap | KeyTable,
        reader: SegmentReader,
        lanes: Lanes,
        stats: CleanerStats,
    ) -> None:
        self._map = offset_map
        self._reader = reader
        self._lanes = lanes
        self._stats = stats
        self._start = 0
        self._transactions = CleanedTransactionMetadata()

    def build(self, cleanable: LogToClean) -> None:
        """Map the dirty segments of a log; the map is empty before."""
        log, self._start = cleanable.log, cleanable.first_dirty_offset
        end = cleanable.first_uncleanable_offset
        self._map.clear()
        dirty = log.segments.values(self._start, end)
        ends = [*(segment.base_offset for segment in dirty[1:]), end]
        aborted = log.collect_aborted_transactions(self._start, end)
        self._transactions.add_aborted_transactions(aborted)
        for segment, next_start in zip(dirty, ends, strict=False):
            self._reader.check_done()
            if self._map_segment(segment):
                return
            # Offsets may have a gap up to the next segment.
            self._map.latest_offset = next_start - 1

    def _map_segment(self, segment: LogSegment) -> bool:
        """Return whether the map was full before the end of the segment."""
        position = segment.offset_index.lookup(self._start).position
        if isinstance(self._map, KeyTable):
            is_full = self._map_blocks(self._map, segment, position)
        else:
            is_full = self._map_chunks(segment, position)
        if not is_full:
            self._reader.restore()
        return is_full

    # ---------------------------------------------------------------------------------- by rows

    def _map_chunks(self, segment: LogSegment, position: int) -> bool:
        while position < segment.size:
            chunk = self._reader.read_chunk(segment, position)
            if self._map_batches(chunk.batches) < len(chunk.batches):
                return True
            position += chunk.size_in_bytes
            self._stats.map_bytes_read += chunk.size_in_bytes
        return False

    def _map_batches(self, batches: list[AnyBatch]) -> int:
        """Return how many batches were mapped before the map was full."""
        for i, batch in enumerate(batches):
            if self._map_batch(batch):
                return i
            if batch.header.last_offset >= self._start:
                self._map.latest_offset = batch.header.last_offset
        return len(batches)

    def _map_batch(self, batch: AnyBatch) -> bool:
        """Return whether the map was full before the end of the batch."""
        transactions, stats = self._transactions, self._stats
        if isinstance(batch, RecordBatch) and batch.header.is_control:
            transactions.on_control_batch_read(batch)
            stats.map_messages_read += 1
            return False
        if transactions.on_batch_read(batch) and isinstance(batch, RecordBatch):
            stats.map_messages_read += batch.header.record_count
            return False
        offset_map = self._map
        # The map may be full before damage is reached; then the damage is not noticed.
        records = iter_until_damage(batch) if isinstance(batch, RecordBatch) else batch.records()
        for record in records:
            if record.key is not None and record.offset >= self._start:
                if offset_map.is_full:  # even if the key is in it already
                    return True
                offset_map.put(record.key, record.offset)
            stats.map_messages_read += 1
        return False

    # -------------------------------------------------------------------------------- by columns

    def _map_blocks(self, table: KeyTable, segment: LogSegment, position: int) -> bool:
        blocks = self._reader.blocks(segment, position)
        is_full = False

        def hash_keys(lane: Lane, block: Block) -> tuple[Block, list[HashedPiece]]:
            pieces = []
            for piece in block.pieces(lane.scan):
                hashes = table.hash(piece)
                is_all = len(piece) == len(block.batches)  # else the next piece overwrites it
                pieces.append((piece if is_all else piece.detached(), hashes))
            return block, pieces

        def put_keys(hashed: tuple[Block, list[HashedPiece]]) -> bool:
            nonlocal is_full
            block, pieces = hashed
            full_at = self._map_pieces(table, pieces)
            is_full = full_at < len(block.batches)
            end = block.chunk_start(full_at) if is_full else block.end_of(full_at)
            self._stats.map_bytes_read += end - block.base
            return not is_full

        steps = Steps(
            fetch=lambda lane, number: blocks.fetch(lane.buffer, number),
            draw=partial(self._reader.read_block, blocks),
            work=hash_keys,
            finish=put_keys,
        )
        self._lanes.run(steps, segment.size - position)
        return is_full

    def _map_pieces(self, table: KeyTable, pieces: list[HashedPiece]) -> int:
        """Return how many batches were mapped before the map was full."""
        mapped = 0
        for piece, hashes in pieces:
            if piece.records.damage:
                count = self._map_batches(piece.batches)
            else:
                count = map_piece(
                    table, piece, hashes, self._start, self._transactions, self._stats
                )
            mapped += count
            if count < len(piece):
                break
        return mapped
